package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstreamv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	upstreamv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

const (
	// page is how many objects are read at a time.
	page = 500
	// maxRefusals is how many refused policies are listed.
	maxRefusals = 20
	// maxGlass is how many VMs and services with break-glass are named.
	maxGlass = 10
	// lease is where the process that works is told.
	leaseNamespace, leaseName = "kube-system", "nephele-controller"
	// controllerInfo is what the process that computes policies tells of itself.
	controllerInfo = "antrea-controller"
)

// The defaults of the clouds for quotas that an account does not state.
const (
	defaultRulesPerGroup      = 60
	defaultGroupsPerInterface = 5
	defaultGroupsPerRegion    = 2500
	// Of Azure: rules of a network security group, these groups, and application security
	// groups.
	defaultAzureRules      = 1000
	defaultAzureGroups     = 5000
	defaultAzureIdentities = 3000
)

// Collect reads a cluster and sums it up. Of the policies asked for, NAMESPACE/NAME or NAME, it
// says each one's phase. It fails if accounts, VMs or Antrea policies cannot be read; what else it
// may not read stands in NotRead.
func Collect(ctx context.Context, c client.Reader, now func() time.Time, asked ...string) (*Report, error) {
	report := &Report{At: metav1.NewTime(now()), VMs: VMs{ByMode: map[string]int{}}, Policies: Policies{ByPhase: map[Phase]int{}}, Asked: map[string]Phase{}}
	for _, name := range asked {
		report.Asked[name] = Missing
	}
	g := &gathering{Reader: c, now: now, report: report,
		onVMs: map[types.UID]*onVMs{}, most: map[string]int{}}
	for _, read := range []func(context.Context) error{g.vms, g.accounts, g.selectors, g.policies} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	g.services(ctx)
	g.agents(ctx)
	g.clusters(ctx)
	g.hub(ctx)
	g.controller(ctx)
	g.judge()
	return g.report, nil
}

// gathering is a Report that grows.
type gathering struct {
	client.Reader
	now    func() time.Time
	report *Report
	// onVMs is what VMs say of policies, by their uid.
	onVMs map[types.UID]*onVMs
	// inClusters is how far policies are in other clusters, by their names.
	inClusters map[string]*Cluster
	// most is the most groups on one interface, by account.
	most map[string]int
	// glass are VMs and services with break-glass, up to maxGlass, and broken counts them all.
	glass  []string
	broken int
	// ends are the commands that end it, of the objects that ask for it, up to maxGlass.
	ends []string
	// underWay says that something is not done yet.
	underWay bool
}

// onVMs is what VMs say of one policy.
type onVMs struct {
	kind, name                             string
	realized, realizing, failed, suspended int
	vm, message                            string
}

// each lists a kind page by page.
func each[L client.ObjectList](ctx context.Context, r client.Reader, list L, visit func(L)) error {
	for next := ""; ; {
		if err := r.List(ctx, list, client.Limit(page), client.Continue(next)); err != nil {
			return err
		}
		visit(list)
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

func join(namespace, name string) string { return strings.TrimPrefix(namespace+"/"+name, "/") }

func (g *gathering) vms(ctx context.Context) error {
	err := each(ctx, g, &cloudv1.VirtualMachineList{}, func(l *cloudv1.VirtualMachineList) {
		for i := range l.Items {
			g.vm(&l.Items[i])
		}
	})
	if err != nil {
		return fmt.Errorf("read VirtualMachines: %w", err)
	}
	return nil
}

// left says how long a release lasts that ends by itself. One that should be over is told as well:
// then no controller has ended it.
func (g *gathering) left(until *metav1.Time) string {
	if until == nil {
		return ""
	}
	left := until.Sub(g.now())
	if left <= 0 {
		return " (to end since " + until.UTC().Format(time.RFC3339) + ")"
	}
	if left >= time.Minute {
		left = left.Truncate(time.Minute)
	}
	return fmt.Sprintf(" (until %s, %s left)", until.UTC().Format(time.RFC3339), duration.HumanDuration(left))
}

// mode notes break-glass on something imported.
func (g *gathering) mode(name, mode string, until *metav1.Time) {
	if mode != string(cloudv1.ModeBreakGlass) {
		return
	}
	if g.broken++; len(g.glass) < maxGlass {
		g.glass = append(g.glass, name+g.left(until))
	}
}

// asked notes what ends the break-glass that an object asks for.
func (g *gathering) asked(o client.Object, flags string) {
	if _, is := o.GetAnnotations()[cloudv1.AnnotationBreakGlass]; is && len(g.ends) < maxGlass {
		g.ends = append(g.ends, "nephele release "+o.GetNamespace()+"/"+o.GetName()+flags+" --end")
	}
}

// services reads what break-glass has released beside VMs.
func (g *gathering) services(ctx context.Context) {
	g.skip("CloudNativeServices", each(ctx, g, &cloudv1.CloudNativeServiceList{}, func(l *cloudv1.CloudNativeServiceList) {
		for i := range l.Items {
			o := &l.Items[i]
			g.asked(o, "")
			g.mode("cns/"+join(o.Namespace, cmp.Or(o.Status.CloudName, o.Name)), o.Status.Mode, o.Status.ModeUntil)
		}
	}))
	g.skip("NetworkInterfaces", each(ctx, g, &cloudv1.NetworkInterfaceList{}, func(l *cloudv1.NetworkInterfaceList) {
		for i := range l.Items {
			o := &l.Items[i]
			g.asked(o, "")
			g.mode("nic/"+join(o.Namespace, o.Name), o.Status.Mode, o.Status.ModeUntil)
		}
	}))
}

func (g *gathering) vm(vm *cloudv1.VirtualMachine) {
	sum, name := &g.report.VMs, join(vm.Namespace, cmp.Or(vm.Status.CloudName, vm.Name))
	sum.Total++
	sum.ByMode[cmp.Or(vm.Status.Mode, string(cloudv1.ModeEnforce))]++
	g.asked(vm, "")
	g.mode(name, vm.Status.Mode, vm.Status.ModeUntil)
	account := join(vm.Labels[cloudv1.LabelCPANamespace], vm.Labels[cloudv1.LabelCPAName])
	for _, n := range vm.Status.NetworkInterfaces {
		g.most[account] = max(g.most[account], len(n.SecurityGroupIds))
	}
	if c := meta.FindStatusCondition(vm.Status.Conditions, cloudv1.ConditionRealized); c != nil && c.Reason == cloudv1.ReasonConfirmationNeeded {
		sum.Waiting++
	}
	if c := meta.FindStatusCondition(vm.Status.Conditions, cloudv1.ConditionFormerGroupsDeleted); c != nil && c.Status == metav1.ConditionTrue {
		g.attend("VirtualMachine "+name, c.Type+"/"+c.Reason, c.Message, "")
	}
	refused, realized := false, 0
	for _, p := range vm.Status.Policies {
		on := g.onVMs[p.UID]
		if on == nil {
			on = &onVMs{kind: p.Kind, name: join(p.Namespace, p.Name)}
			g.onVMs[p.UID] = on
		}
		switch p.Phase {
		case cloudv1.PolicyPhaseRealized:
			on.realized++
			realized++
		case cloudv1.PolicyPhaseFailed:
			if on.failed++; on.message == "" {
				on.vm, on.message = name, p.Message
			}
			refused = true
		case cloudv1.PolicyPhaseSuspended:
			on.suspended++
		default:
			on.realizing++
		}
	}
	if len(vm.Status.Policies) > 0 {
		sum.Policies++
		if realized == len(vm.Status.Policies) {
			sum.Realized++
		}
	}
	if refused {
		sum.Refused++
	}
}

func (g *gathering) accounts(ctx context.Context) error {
	err := each(ctx, g, &cloudv1.CloudProviderAccountList{}, func(l *cloudv1.CloudProviderAccountList) {
		for i := range l.Items {
			g.account(&l.Items[i])
		}
	})
	if err != nil {
		return fmt.Errorf("read CloudProviderAccounts: %w", err)
	}
	return nil
}

// azureQuotas are the quotas of a subscription. A group is one of either kind there.
func azureQuotas(q *cloudv1.AzureQuotas, most int) Quotas {
	if q == nil {
		q = &cloudv1.AzureQuotas{}
	}
	groups := min(cmp.Or(q.NetworkSecurityGroups, defaultAzureGroups), cmp.Or(q.ApplicationSecurityGroups, defaultAzureIdentities))
	return Quotas{defaultAzureRules, 1, groups, most}
}

func (g *gathering) account(a *cloudv1.CloudProviderAccount) {
	name := join(a.Namespace, a.Name)
	out := Account{Name: name, Provider: cloudv1.CloudProviderAWS, CloudID: a.Status.CloudAccountID, Ready: metav1.ConditionUnknown, Reason: cloudv1.ReasonPending,
		Mode: cmp.Or(a.Spec.Mode, cloudv1.ModeEnforce), DeletionPolicy: cmp.Or(a.Spec.DeletionPolicy, a.Status.DeletionPolicy, cloudv1.DeletionProtect),
		Quotas:   Quotas{defaultRulesPerGroup, defaultGroupsPerInterface, defaultGroupsPerRegion, g.most[name]},
		Deleting: !a.DeletionTimestamp.IsZero()}
	if a.Spec.AzureConfig != nil {
		out.Provider, out.Quotas = cloudv1.CloudProviderAzure, azureQuotas(a.Spec.AzureConfig.Quotas, g.most[name])
	}
	if a.Spec.AWSConfig != nil && a.Spec.AWSConfig.Quotas != nil {
		q := a.Spec.AWSConfig.Quotas
		out.Quotas.RulesPerGroup = cmp.Or(q.RulesPerGroup, defaultRulesPerGroup)
		out.Quotas.GroupsPerInterface = cmp.Or(q.GroupsPerInterface, defaultGroupsPerInterface)
		out.Quotas.GroupsPerRegion = cmp.Or(q.GroupsPerRegion, defaultGroupsPerRegion)
	}
	if a.Status.GuardedVMs != nil {
		out.GuardedVMs = *a.Status.GuardedVMs
	}
	poll := int64(cloudv1.DefaultPollIntervalInSeconds)
	if s := a.Spec.PollIntervalInSeconds; s != nil {
		poll = int64(max(*s, cloudv1.MinPollIntervalInSeconds))
	}
	limit := 2 * poll
	if meta.IsStatusConditionTrue(a.Status.Conditions, cloudv1.ConditionEventsReceived) { // then a region may rest
		limit = poll + max(poll, min(int64(cloudv1.RestIntervals)*poll, int64(cloudv1.MaxRestInSeconds)))
	}
	out.Regions = []Region{}
	for _, r := range a.Status.Regions {
		region := Region{Name: r.Name, VMs: r.VMs, VPCs: r.Vpcs, Error: r.LastError}
		if r.LastSyncTime != nil {
			old := age(g.now(), r.LastSyncTime.Time)
			region.AgeSeconds, region.Stale = &old, old > limit+30
		}
		out.Regions = append(out.Regions, region)
	}
	g.conditions(a, &out)
	g.report.Accounts = append(g.report.Accounts, out)
}

// conditions judges what the conditions of an account say.
func (g *gathering) conditions(a *cloudv1.CloudProviderAccount, out *Account) {
	about := "CloudProviderAccount " + out.Name
	attention := func(c *metav1.Condition, do string) { g.attend(about, c.Type+"/"+c.Reason, c.Message, do) }
	for i := range a.Status.Conditions {
		c := &a.Status.Conditions[i]
		is, not := c.Status == metav1.ConditionTrue, c.Status == metav1.ConditionFalse
		switch c.Type {
		case cloudv1.ConditionReady:
			out.Ready, out.Reason = c.Status, c.Reason
			switch {
			case not && out.Deleting:
				g.underWay = true
				g.note(about, c.Type+"/"+c.Reason, c.Message)
			case not:
				attention(c, "")
			case !is:
				g.underWay = true
			}
		case cloudv1.ConditionBraked:
			if out.Waiting = is; is {
				attention(c, "")
			} else {
				g.underWay = true
			}
		case cloudv1.ConditionSoleWriter:
			if not {
				attention(c, "nephele take-over "+out.Name)
			}
		case cloudv1.ConditionFaulty:
			if is {
				attention(c, "report the fault, with the log of the controller; to go on, change or delete what the message names")
			}
		case cloudv1.ConditionBreakGlass:
			if out.BreakGlass = is; is {
				attention(c, "")
			}
		case cloudv1.ConditionDrift:
			if out.Drift = is; is {
				g.note(about, c.Type+"/"+c.Reason, c.Message)
			}
		case cloudv1.ConditionAuthorsChecked, cloudv1.ConditionPoliciesReceived:
			if not {
				attention(c, "")
			}
		case cloudv1.ConditionEventsReceived, cloudv1.ConditionDeletionProtected, cloudv1.ConditionRecordsSigned, cloudv1.ConditionFlowLogsRead, cloudv1.ConditionNodeRoutes:
			if not {
				g.note(about, c.Type+"/"+c.Reason, c.Message)
			}
		}
	}
	if out.Ready == metav1.ConditionUnknown {
		g.underWay = true
	}
	for _, r := range out.Regions {
		if r.Stale && out.Ready == metav1.ConditionTrue {
			g.attend(about, "Stale", fmt.Sprintf("what is known of region %s is %s old, longer than it may be", r.Name, time.Duration(*r.AgeSeconds)*time.Second),
				"look whether the controller runs")
		}
	}
}

func (g *gathering) attend(about, reason, message, do string) {
	g.report.Attention = append(g.report.Attention, Finding{about, reason, message, do})
}

func (g *gathering) note(about, reason, message string) {
	g.report.Notes = append(g.report.Notes, Finding{About: about, Reason: reason, Message: message})
}

func (g *gathering) selectors(ctx context.Context) error {
	err := each(ctx, g, &cloudv1.CloudEntitySelectorList{}, func(l *cloudv1.CloudEntitySelectorList) {
		for i := range l.Items {
			s := &l.Items[i]
			g.report.Selectors.Total++
			g.asked(s, " --selector")
			c := meta.FindStatusCondition(s.Status.Conditions, cloudv1.ConditionReady)
			switch {
			case c != nil && c.Status == metav1.ConditionTrue:
				g.report.Selectors.Ready++
			case c == nil || c.Status != metav1.ConditionFalse:
				g.underWay = true
			case c.Reason != cloudv1.ReasonAccountNotReady: // the account says it better
				g.attend("CloudEntitySelector "+join(s.Namespace, s.Name), c.Type+"/"+c.Reason, c.Message, "")
			}
		}
	})
	if err != nil {
		return fmt.Errorf("read CloudEntitySelectors: %w", err)
	}
	return nil
}

func (g *gathering) policies(ctx context.Context) error {
	add := func(kind string, o client.Object, s v1beta1.NetworkPolicyStatus) {
		name := join(o.GetNamespace(), o.GetName())
		phase, why := phaseOf(o.GetGeneration(), s, g.onVMs[o.GetUID()])
		if phase == Failed && g.refusals(o.GetUID()) == 0 {
			g.attend(kind+" "+name, string(phase), why, "")
		}
		if phase == NotEnforced || phase == Idle {
			g.note(kind+" "+name, string(phase), why)
		}
		for _, c := range s.Conditions {
			g.traffic(kind+" "+name, string(c.Type), c.Status, c.Reason, c.Message)
		}
		g.elsewhere(kind+" "+name, o.GetGeneration(), s.Clusters)
		g.policy(name, phase)
	}
	if err := each(ctx, g, &v1beta1.NetworkPolicyList{}, func(l *v1beta1.NetworkPolicyList) {
		for i := range l.Items {
			add("NetworkPolicy", &l.Items[i], l.Items[i].Status)
		}
	}); err != nil {
		return fmt.Errorf("read NetworkPolicies of Antrea: %w", err)
	}
	if err := each(ctx, g, &v1beta1.ClusterNetworkPolicyList{}, func(l *v1beta1.ClusterNetworkPolicyList) {
		for i := range l.Items {
			add("ClusterNetworkPolicy", &l.Items[i], l.Items[i].Status)
		}
	}); err != nil {
		return fmt.Errorf("read ClusterNetworkPolicies: %w", err)
	}
	g.skip("NetworkPolicies of Kubernetes", each(ctx, g, &networkingv1.NetworkPolicyList{}, func(l *networkingv1.NetworkPolicyList) {
		for i := range l.Items {
			g.policy(join(l.Items[i].Namespace, l.Items[i].Name), phaseOnVMs(g.onVMs[l.Items[i].UID]))
		}
	}))
	// Of the upstream kinds there is nothing but conditions.
	g.skip("AdminNetworkPolicies", each(ctx, g, &upstreamv1alpha1.AdminNetworkPolicyList{}, func(l *upstreamv1alpha1.AdminNetworkPolicyList) {
		for i := range l.Items {
			g.upstream("AdminNetworkPolicy", &l.Items[i], l.Items[i].Status.Conditions)
		}
	}))
	g.skip("BaselineAdminNetworkPolicies", each(ctx, g, &upstreamv1alpha1.BaselineAdminNetworkPolicyList{}, func(l *upstreamv1alpha1.BaselineAdminNetworkPolicyList) {
		for i := range l.Items {
			g.upstream("BaselineAdminNetworkPolicy", &l.Items[i], l.Items[i].Status.Conditions)
		}
	}))
	g.skip("ClusterNetworkPolicies of policy.networking.k8s.io", each(ctx, g, &upstreamv1alpha2.ClusterNetworkPolicyList{}, func(l *upstreamv1alpha2.ClusterNetworkPolicyList) {
		for i := range l.Items {
			g.upstream("ClusterNetworkPolicy.policy.networking.k8s.io", &l.Items[i], l.Items[i].Status.Conditions)
		}
	}))
	g.refused()
	return nil
}

func (g *gathering) refusals(uid types.UID) int {
	if on := g.onVMs[uid]; on != nil {
		return on.failed
	}
	return 0
}

// policy counts a policy. Of several policies of one name the one that is less far is told.
func (g *gathering) policy(name string, p Phase) {
	if known, asked := g.report.Asked[name]; asked && (known == Missing || known == Realized) {
		g.report.Asked[name] = p
	}
	g.report.Policies.Total++
	g.report.Policies.ByPhase[p]++
	if p == Pending || p == Realizing {
		g.underWay = true
	}
}

// upstream counts a policy of the upstream kinds, whose condition Realized has the phase as its
// reason.
func (g *gathering) upstream(kind string, o client.Object, conditions []metav1.Condition) {
	for _, c := range conditions {
		g.traffic(kind+" "+o.GetName(), c.Type, c.Status, c.Reason, c.Message)
	}
	c := meta.FindStatusCondition(conditions, "Realized")
	if c == nil {
		g.policy(o.GetName(), Pending)
		return
	}
	phase := Phase(c.Reason)
	if on := g.onVMs[o.GetUID()]; phase == Failed && on != nil && on.failed == 0 && on.suspended > 0 {
		phase = Suspended
	} else if phase == Failed && g.refusals(o.GetUID()) == 0 {
		g.attend(kind+" "+o.GetName(), c.Reason, c.Message, "")
	}
	g.policy(o.GetName(), phase)
}

// traffic tells of a condition that says that traffic is not as a policy says.
func (g *gathering) traffic(about, condition string, status metav1.ConditionStatus, reason, message string) {
	if condition == string(v1beta1.NetworkPolicyConditionTrafficAgrees) && status == metav1.ConditionFalse {
		g.attend(about, reason, message, "nephele flows --differs lists the connections")
	}
}

// phaseOf is the phase of an Antrea policy, with the reason if it has failed.
func phaseOf(generation int64, s v1beta1.NetworkPolicyStatus, on *onVMs) (Phase, string) {
	why := ""
	for _, c := range s.Conditions {
		if c.Type == v1beta1.NetworkPolicyConditionTrafficAgrees {
			continue
		}
		if c.Message != "" {
			why = c.Message
		}
		if c.Reason == string(NotEnforced) {
			return NotEnforced, c.Message
		}
		if c.Reason == string(Staged) && s.ObservedGeneration == generation {
			return Staged, ""
		}
	}
	phase := Phase(cmp.Or(s.Phase, v1beta1.NetworkPolicyPending))
	switch {
	case s.ObservedGeneration != generation:
		return Pending, ""
	case phase == Failed && on != nil && on.failed == 0 && on.suspended > 0:
		return Suspended, ""
	case phase == Realized && s.DesiredNodesRealized == 0: // an Antrea Controller has computed it
		return Idle, "nothing is selected that an enforcer is responsible for"
	}
	return phase, why
}

// phaseOnVMs is the phase of a policy of which only VMs say anything.
func phaseOnVMs(on *onVMs) Phase {
	switch {
	case on == nil:
		return NotReported
	case on.failed > 0:
		return Failed
	case on.realizing > 0:
		return Realizing
	case on.suspended > 0 && on.realized == 0:
		return Suspended
	}
	return Realized
}

// refused lists the policies that are refused on VMs.
func (g *gathering) refused() {
	all := []Refusal{}
	for _, on := range g.onVMs {
		if on.failed > 0 {
			all = append(all, Refusal{Policy: on.kind + " " + on.name, VMs: on.failed, VM: on.vm, Message: on.message})
		}
	}
	slices.SortFunc(all, func(a, b Refusal) int { return cmp.Or(cmp.Compare(b.VMs, a.VMs), cmp.Compare(a.Policy, b.Policy)) })
	g.report.Policies.RefusedTotal = len(all)
	g.report.Policies.Refused = all[:min(len(all), maxRefusals)]
	for _, r := range g.report.Policies.Refused {
		g.attend(r.Policy, "Refused", fmt.Sprintf("refused on %d VMs, for example %s: %s", r.VMs, r.VM, r.Message), "")
	}
	if more := len(all) - maxRefusals; more > 0 {
		g.attend("policies", "Refused", fmt.Sprintf("%d more policies are refused", more), "")
	}
}

// skip notes that a kind could not be read. One that is not installed tells nothing.
func (g *gathering) skip(what string, err error) {
	if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		g.report.NotRead = append(g.report.NotRead, fmt.Sprintf("%s: %v", what, err))
	}
}

// controller reads which controller works.
func (g *gathering) controller(ctx context.Context) {
	var held coordinationv1.Lease
	c := &g.report.Controller
	err := g.Get(ctx, client.ObjectKey{Namespace: leaseNamespace, Name: leaseName}, &held)
	g.skip("the lease of the controller", err)
	if s := held.Spec; err == nil && s.HolderIdentity != nil {
		c.Holder, c.Since, c.Renewed = *s.HolderIdentity, s.AcquireTime, s.RenewTime
		lasts := 15 * time.Second
		if s.LeaseDurationSeconds != nil {
			lasts = time.Duration(*s.LeaseDurationSeconds) * time.Second
		}
		c.Works = c.Holder != "" && c.Renewed != nil && g.now().Sub(c.Renewed.Time) <= lasts
	}
	if err == nil || apierrors.IsNotFound(err) {
		if !c.Works {
			g.attend("controller", "NotRunning", "no controller works on this cluster: nothing that is said here is kept up to date, and changes are not enforced",
				"start nephele controller or nephele up")
		}
	}
	var info v1beta1.AntreaControllerInfo
	err = g.Get(ctx, client.ObjectKey{Name: controllerInfo}, &info)
	g.skip("the controller's information about itself", err)
	c.Version = info.Version
}

// judge puts everything into its order and says how it is.
func (g *gathering) judge() {
	r := g.report
	if g.broken > 0 {
		names := strings.Join(g.glass, ", ")
		if more := g.broken - len(g.glass); more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		g.attend("VMs and services", "BreakGlass", fmt.Sprintf("break-glass takes %d out of all policies: %s", g.broken, names), "")
	}
	for i := range r.Attention {
		if f := &r.Attention[i]; len(g.ends) > 0 && strings.HasPrefix(f.Reason, cloudv1.ConditionBreakGlass) {
			f.Do = "when the emergency is over: " + strings.Join(g.ends, ", ")
		}
	}
	slices.SortFunc(r.Accounts, func(a, b Account) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(r.Attention, func(a, b Finding) int { return cmp.Compare(urgency(a), urgency(b)) })
	for _, l := range []*[]Finding{&r.Attention, &r.Notes} {
		if *l == nil {
			*l = []Finding{}
		}
	}
	if r.Accounts == nil {
		r.Accounts = []Account{}
	}
	if r.NotRead == nil {
		r.NotRead = []string{}
	}
	switch {
	case len(r.Attention) > 0:
		r.State = Attention
	case g.underWay:
		r.State = UnderWay
	default:
		r.State = Well
	}
}

// urgency orders findings: first what stands above all others.
func urgency(f Finding) int {
	kind, _, _ := strings.Cut(f.About, " ")
	first := []string{"controller", "CloudProviderAccount", "VirtualMachines", "CloudEntitySelector"}
	if at := slices.Index(first, kind); at >= 0 {
		return at
	}
	return len(first)
}
