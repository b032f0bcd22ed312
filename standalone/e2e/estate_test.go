package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/estate/source"
)

const vmNamespace = "vms"

// accountCase is one simulated account and the roles that its VMs play in the policies of the
// tests.
type accountCase struct {
	name string
	load func() (aws.State, source.Report, error)
	// roles maps instance ids to the value of the tag "role" that the test gives them; other VMs
	// have none.
	roles map[string]string
	// effects is how long edits take to come into force at each interface.
	effects effect.Delay
}

func fromFile(path string) func() (aws.State, source.Report, error) {
	return func() (aws.State, source.Report, error) { return estate.Load("../../testdata/aws/" + path) }
}

var (
	hybridCloud = accountCase{name: "hybrid-cloud", load: estate.HybridCloud, roles: map[string]string{
		"i-075dc46a9bc347264": "app", "i-0837c877110427f2b": "db", "i-0383fda87c012141d": "db", "i-0b26ec095feb42260": "web"}}
	// The bastion of web-tier stays a peer: a task of a managed service refers to its group (see
	// TestTakeOverThatWouldCutOthers).
	webTier = accountCase{name: "web-tier", load: fromFile("web-tier"), roles: map[string]string{
		"i-00000000000000001": "app", "i-00000000000000002": "db"}}
)

// collector gives the VMs of the largest account roles by their order.
func collector(t *testing.T) accountCase {
	t.Helper()
	c := accountCase{name: "collector", load: fromFile("collector-sg1.json"), roles: map[string]string{}}
	s, _, err := c.load()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Regions {
		for _, vm := range r.Instances {
			if vm.State != aws.Terminated {
				c.roles[vm.ID] = []string{"app", "db", "web"}[len(c.roles)%3]
			}
		}
	}
	return c
}

// imported is an account that a cluster has imported.
type imported struct {
	t      *testing.T
	c      *cluster
	server *sim.Server
	guard  *guard
	oracle oracle
	flows  []flow
	vpcs   []string
	// effects is that of the account.
	effects effect.Delay
}

// outsideAddresses lie inside and around every ipBlock of the tests' policies and of the estates'
// own rules.
var outsideAddresses = []netip.Addr{
	netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("198.51.100.0"), netip.MustParseAddr("198.51.100.255"), netip.MustParseAddr("198.51.101.0"),
	netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("38.140.26.4"), netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("10.193.0.9"),
}

var policyPorts = []int{22, 25, 443, 3306, 5432, 8000, 8010}

// importAccount starts a simulator with the account, makes the cluster import all its VMs, and
// gives them their roles.
func importAccount(t *testing.T, c *cluster, ac accountCase) *imported {
	t.Helper()
	state, _, err := ac.load()
	if err != nil {
		t.Fatal(err)
	}
	state.Effects = ac.effects
	g := &guard{}
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: state, OnCall: g.onCall})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(c.giveBack)
	im := &imported{t: t, c: c, server: server, guard: g, oracle: oracle{native: map[string][]string{}}, effects: ac.effects}
	vms := 0
	for _, r := range state.Regions {
		for _, n := range r.NetworkInterfaces {
			for _, grp := range n.Groups {
				im.oracle.native[n.ID] = append(im.oracle.native[n.ID], grp.ID)
			}
			if n.Attachment != nil && n.Attachment.InstanceID != "" && !slices.Contains(im.vpcs, n.VPCID) {
				im.vpcs = append(im.vpcs, n.VPCID)
			}
		}
		for _, vm := range r.Instances {
			if vm.State != aws.Terminated {
				vms++
			}
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			im.printStatus()
		}
	})
	im.flows = flowsOf(state, outsideAddresses, boundaryServices(policyPorts...))
	before := observe(server.World(), im.flows)
	g.mu.Lock()
	g.server = server
	g.mu.Unlock()
	g.between(im.flows, before, before)

	im.apply(accountObjects(server.URL(), regionsOf(state), im.vpcs)...)
	im.oracle.namespaces = []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: vmNamespace, Labels: map[string]string{"kubernetes.io/metadata.name": vmNamespace}}}}
	im.waitForEntities(vms)
	for vm, role := range ac.roles {
		im.setRole(vm, role)
	}
	im.waitForRoles(ac.roles)
	return im
}

func regionsOf(s aws.State) []string {
	var out []string
	for _, r := range s.Regions {
		if len(r.VPCs) > 0 && !slices.Contains(out, r.Name) {
			out = append(out, r.Name)
		}
	}
	return out
}

// accountObjects are what a user applies to import all VMs of the VPCs.
func accountObjects(endpoint string, regions, vpcs []string) []client.Object {
	ns := func(name string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "keys"}, StringData: map[string]string{
		"credentials": fmt.Sprintf(`{"accessKeyId": %q, "accessKeySecret": %q}`, estate.DefaultAccessKeyID, estate.DefaultSecret)}}
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "real"}}
	account.Spec.UserTags = cloudv1.UserTagsMerge // the roles that setRole gives count like the cloud's
	account.Spec.DeletionPolicy = cloudv1.DeletionRelease
	account.Spec.AWSConfig = &cloudv1.CloudProviderAccountAWSConfig{Region: regions, Endpoint: endpoint,
		SecretRef: &cloudv1.SecretReference{Namespace: "cloud", Name: "keys", Key: "credentials"}}
	selector := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: vmNamespace, Name: "all"}}
	selector.Spec.AccountNamespace, selector.Spec.AccountName = "cloud", "real"
	for _, v := range vpcs {
		selector.Spec.VMSelector = append(selector.Spec.VMSelector, cloudv1.VirtualMachineSelector{VpcMatch: &cloudv1.EntityMatch{MatchID: v}})
	}
	return []client.Object{ns("cloud"), ns(vmNamespace), secret, account, selector}
}

func (im *imported) apply(objects ...client.Object) {
	im.t.Helper()
	for _, o := range objects {
		if err := im.c.client.Create(im.t.Context(), o); err != nil {
			im.t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

// waitForEntities waits until there are n ExternalEntity objects, and tells the oracle.
func (im *imported) waitForEntities(n int) {
	im.t.Helper()
	eventually(im.t, fmt.Sprintf("%d ExternalEntities", n), func(ctx context.Context) (bool, string) {
		why := im.readEntities(ctx)
		if len(im.oracle.entities) != n {
			var cpa cloudv1.CloudProviderAccount
			if err := im.c.client.Get(ctx, client.ObjectKey{Namespace: "cloud", Name: "real"}, &cpa); err != nil {
				return false, err.Error()
			}
			return false, fmt.Sprintf("there are %d; %s account status: %+v", len(im.oracle.entities), why, cpa.Status)
		}
		return true, ""
	})
}

func (im *imported) readEntities(ctx context.Context) (why string) {
	var list v1alpha2.ExternalEntityList
	if err := im.c.client.List(ctx, &list); err != nil {
		return err.Error()
	}
	im.oracle.entities = nil
	for i := range list.Items {
		im.oracle.entities = append(im.oracle.entities, &list.Items[i])
	}
	return ""
}

const roleLabel = cloudv1.LabelTagPrefix + "role"

// setRole gives a VM the tag "role", as a user does whose cloud tags are no legal labels.
func (im *imported) setRole(vm, role string) {
	im.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"tags":{"role":%q}}}`, role))
	eventually(im.t, "role of "+vm, func(ctx context.Context) (bool, string) {
		err := im.c.client.Patch(ctx, &cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: vmNamespace, Name: vm}}, patch)
		return err == nil, fmt.Sprint(err)
	})
}

// withRole returns the oracle as it will be when the VM has the role.
func (o oracle) withRole(vm, role string) oracle {
	next := o.copy()
	for i, x := range next.entities {
		if x.Name == cloudv1.EntityNamePrefix+vm {
			next.entities[i] = x.DeepCopy()
			next.entities[i].Labels[roleLabel] = role
		}
	}
	return next
}

func (im *imported) waitForRoles(roles map[string]string) {
	im.t.Helper()
	eventually(im.t, "the roles as labels", func(ctx context.Context) (bool, string) {
		if why := im.readEntities(ctx); why != "" {
			return false, why
		}
		for _, x := range im.oracle.entities {
			if want, got := roles[x.Name[len(cloudv1.EntityNamePrefix):]], x.Labels[roleLabel]; want != got {
				return false, fmt.Sprintf("%s has role %q, want %q", x.Name, got, want)
			}
		}
		return true, ""
	})
}

// step changes something and waits until every flow is as the oracle says afterwards. The guard
// watches every call in between.
func (im *imported) step(name string, next oracle, change func()) {
	im.t.Helper()
	state := im.server.World().State()
	old, err := im.oracle.expect(state, im.flows)
	if err != nil {
		im.t.Fatal(err)
	}
	want, err := next.expect(state, im.flows)
	if err != nil {
		im.t.Fatal(err)
	}
	im.guard.between(im.flows, old, want)
	im.guard.takeCalls()
	begin := time.Now()
	change()
	im.oracle = next
	im.settle(name, want)
	im.t.Logf("%s: %d of %d flows allowed, after %s and the calls %v", name, count(want), len(want), time.Since(begin).Round(time.Millisecond), im.guard.takeCalls())
}

// settle waits until the cloud gives every flow the wanted verdict. It looks after every change,
// and takes nothing from the process under test in between.
func (im *imported) settle(name string, want []bool) {
	im.t.Helper()
	changed := make(chan struct{}, 1)
	stop := im.server.World().OnMutation(func(aws.Mutation) {
		select {
		case changed <- struct{}{}:
		default: // the next look sees it as well
		}
	})
	defer stop()
	var passing <-chan time.Time // where edits come into force while nothing is called
	if bound := im.effects.Bound; bound > 0 {
		ticker := time.NewTicker(bound / 16)
		defer ticker.Stop()
		passing = ticker.C
	}
	const limit = 2 * time.Minute
	for late := time.After(limit); ; {
		n, text := differences(im.flows, want, observe(im.server.World(), im.flows))
		if n == 0 {
			break
		}
		select {
		case <-changed:
		case <-passing:
			im.guard.look("some time later")
		case <-late:
			im.t.Fatalf("%s: not after %s: %d flows differ:%s", name, limit, n, text)
		}
	}
	if n, text := im.guard.takeViolations(); n > 0 {
		im.t.Fatalf("%s: %d violations on the way:\n  %s", name, n, text)
	}
}

func count(in []bool) (n int) {
	for _, b := range in {
		if b {
			n++
		}
	}
	return n
}

// mustBeReleased checks that nothing of ours is left: every interface has its former groups, and no
// group or tag is ours.
func (im *imported) mustBeReleased() {
	im.t.Helper()
	eventually(im.t, "everything is given back", func(context.Context) (bool, string) {
		for _, r := range im.server.World().State().Regions {
			for _, n := range r.NetworkInterfaces {
				var held []string
				for _, g := range n.Groups {
					held = append(held, g.ID)
				}
				if want := im.oracle.native[n.ID]; !slices.Equal(slices.Sorted(slices.Values(held)), slices.Sorted(slices.Values(want))) {
					return false, fmt.Sprintf("%s holds %v, had %v", n.ID, held, want)
				}
				if why := ownTags(n.ID, n.Tags); why != "" {
					return false, why
				}
			}
			for _, g := range r.SecurityGroups {
				if why := ownTags(g.ID, g.Tags); why != "" {
					return false, why
				}
			}
			for _, v := range r.VPCs {
				if why := ownTags(v.ID, v.Tags); why != "" {
					return false, why
				}
			}
		}
		return true, ""
	})
}

func ownTags(id string, tags aws.Tags) string {
	for k := range tags {
		if len(k) > 8 && k[:8] == "nephele." {
			return id + " still has the tag " + k
		}
	}
	return ""
}

// readNow makes the account be read at once instead of at its next poll, by an edit of the selector
// that selects nothing more.
func (im *imported) readNow() {
	im.t.Helper()
	ces := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: vmNamespace, Name: "all"}}
	edit(im.t, im.c.client, ces, func() {
		ces.Spec.VMSelector = append(ces.Spec.VMSelector[:len(im.vpcs):len(im.vpcs)], cloudv1.VirtualMachineSelector{
			VMMatch: []cloudv1.EntityMatch{{MatchName: fmt.Sprintf("nothing-%d", ces.Generation)}}})
	})
}

// printStatus shows what the cluster says about accounts, VMs and policies in the log of a failed
// test.
func (im *imported) printStatus() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var accounts cloudv1.CloudProviderAccountList
	var vms cloudv1.VirtualMachineList
	var warnings corev1.EventList
	if err := errors.Join(im.c.client.List(ctx, &accounts), im.c.client.List(ctx, &vms), im.c.client.List(ctx, &warnings)); err != nil {
		im.t.Log(err)
		return
	}
	for _, a := range accounts.Items {
		im.t.Logf("account %s: %+v", a.Name, a.Status)
	}
	for _, vm := range vms.Items {
		im.t.Logf("VM %s version=%s role=%s state=%s: %s %+v", vm.Name, vm.ResourceVersion, vm.Spec.Tags["role"], vm.Status.State, vm.Status.PolicySummary, vm.Status.Policies)
	}
	for _, x := range im.oracle.entities {
		im.t.Logf("ExternalEntity %s version=%s labels=%v", x.Name, x.ResourceVersion, x.Labels)
	}
	for _, e := range warnings.Items {
		if e.Type == corev1.EventTypeWarning {
			im.t.Logf("warning on %s %s: %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
}
