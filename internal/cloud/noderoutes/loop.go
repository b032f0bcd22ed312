package noderoutes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// interval is how often route tables are read while nothing is heard of Nodes.
	interval = time.Minute
	// settle is how long changes of Nodes are collected.
	settle = time.Second
	// accountTimeout bounds the work on one account in one round.
	accountTimeout = 2 * time.Minute
)

// Options are what the loop is made of.
type Options struct {
	// Client reads Nodes and accounts and writes the status of accounts.
	Client client.Client
	// Cluster is the id under which we claim route tables.
	Cluster string
	// Provider returns what works on an account; false while this process does not.
	Provider func(account string) (cloud.Provider, bool)
	Events   events.EventRecorder
	Clock    clock.WithTicker
	Log      logr.Logger
}

// Loop writes routes to Nodes. Make it with New.
type Loop struct {
	Options
	kick chan struct{}
}

// New returns a loop.
func New(o Options) *Loop { return &Loop{Options: o, kick: make(chan struct{}, 1)} }

// Kick has everything looked at soon.
func (l *Loop) Kick() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// Start works until ctx ends.
func (l *Loop) Start(ctx context.Context) error {
	tick := l.Clock.NewTicker(interval)
	defer tick.Stop()
	for {
		if fault := recovered.Do(func() { l.round(ctx) }); fault != nil {
			l.Log.Error(fault, "Routing to Nodes failed", "stack", recovered.StackOf(fault))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		case <-l.kick:
			select {
			case <-ctx.Done():
				return nil
			case <-l.Clock.After(settle):
			}
		}
	}
}

// round brings all accounts to what they should have.
func (l *Loop) round(ctx context.Context) {
	var accounts cloudv1.CloudProviderAccountList
	if err := l.Client.List(ctx, &accounts, client.UnsafeDisableDeepCopy); err != nil {
		l.Log.Error(err, "Accounts cannot be listed for routes to Nodes, trying again")
		return
	}
	var nodes []Node
	var misread []string
	read := false
	for i := range accounts.Items {
		if !concerned(&accounts.Items[i]) {
			continue
		}
		a := accounts.Items[i].DeepCopy()
		provider, ok := l.Provider(cloud.AccountKey(a.Namespace, a.Name))
		if !ok {
			continue // the next round finds it, or another replica works on it
		}
		if !read {
			var list corev1.NodeList
			if err := l.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
				l.Log.Error(err, "Nodes cannot be listed for their routes, trying again")
				return
			}
			nodes, misread = nodesOf(list.Items)
			read = true
		}
		attempt, cancel := context.WithTimeout(ctx, accountTimeout)
		fault := recovered.Do(func() { l.account(attempt, a, provider, nodes, misread) })
		cancel()
		if fault != nil {
			l.Log.Error(fault, "Routing to Nodes failed", "account", cloud.AccountKey(a.Namespace, a.Name), "stack", recovered.StackOf(fault))
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// concerned reports whether there is anything to do for an account or to report of it.
func concerned(a *cloudv1.CloudProviderAccount) bool {
	return a.DeletionTimestamp.IsZero() && (wishOf(a) != nil || a.Status.NodeRoutes != nil || conditionOf(a) != nil)
}

// wishOf is what an account asks for; nil if that is nothing.
func wishOf(a *cloudv1.CloudProviderAccount) *cloudv1.NodeRoutes {
	switch aws, azure := a.Spec.AWSConfig, a.Spec.AzureConfig; {
	case aws != nil:
		return aws.NodeRoutes
	case azure != nil && azure.NodeRoutes != nil:
		out := &cloudv1.NodeRoutes{ClusterCIDRs: azure.NodeRoutes.ClusterCIDRs}
		for _, id := range azure.NodeRoutes.RouteTables {
			out.RouteTables = append(out.RouteTables, strings.ToLower(id)) // ids are the same in any case
		}
		return out
	}
	return nil
}

// nodesOf reads Nodes, and says what cannot be read of them.
func nodesOf(list []corev1.Node) (out []Node, problems []string) {
	for i := range list {
		n := &list[i]
		node := Node{Name: n.Name, Created: n.CreationTimestamp.Time, VM: vmOf(n.Spec.ProviderID)}
		for _, text := range n.Spec.PodCIDRs {
			c, err := netip.ParsePrefix(text)
			if err != nil {
				problems = append(problems, fmt.Sprintf("Node %s: spec.podCIDRs: %q is no range of addresses", n.Name, text))
				continue
			}
			node.PodCIDRs = append(node.PodCIDRs, c.Masked())
		}
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
				node.Addresses = append(node.Addresses, ip)
			}
		}
		if len(node.PodCIDRs) > 0 && len(node.Addresses) > 0 {
			out = append(out, node)
		}
	}
	return out, problems
}

// vmOf is the ID of the virtual machine in a provider ID of AWS, "aws:///ZONE/INSTANCE", or of
// Azure, "azure:///subscriptions/..."; that of another cloud is one that no interface has.
func vmOf(providerID string) string {
	if id, ok := strings.CutPrefix(providerID, "azure://"); ok {
		return strings.ToLower(id)
	}
	return providerID[strings.LastIndexByte(providerID, '/')+1:]
}

// regionsOf are the regions of an account, and those where something of ours may be left.
func regionsOf(a *cloudv1.CloudProviderAccount) []string {
	var out []string
	switch {
	case a.Spec.AWSConfig != nil:
		out = slices.Clone(a.Spec.AWSConfig.Region)
	case a.Spec.AzureConfig != nil:
		out = slices.Clone(a.Spec.AzureConfig.Region)
	}
	if s := a.Status.NodeRoutes; s != nil {
		for _, t := range s.Tables {
			out = append(out, t.Region)
		}
		for _, id := range s.Interfaces {
			region, _, _ := strings.Cut(id, "/")
			out = append(out, region)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

// found is what an account has, by region.
type found struct {
	region string
	wish   Wish
	has    Found
	plan   Plan
	err    error
}

// account brings one account to what it should have.
func (l *Loop) account(ctx context.Context, a *cloudv1.CloudProviderAccount, provider cloud.Provider, nodes []Node, misread []string) {
	var router cloud.Router
	if has, ok := provider.(cloud.HasRouter); ok {
		router = has.Router()
	} else {
		l.show(ctx, a, a.Status.NodeRoutes, outcome{failed: []error{errors.New("nothing here writes route tables of this cloud")}})
		return
	}
	key, spec := cloud.AccountKey(a.Namespace, a.Name), wishOf(a)
	result := outcome{asked: spec != nil, nodes: len(nodes), problems: misread}
	var regions []found
	seen := map[string]bool{}
	for _, region := range regionsOf(a) {
		f := l.look(ctx, a, router, cloud.Scope{Account: key, Region: region}, nodes)
		for i := range f.has.Tables {
			seen[f.has.Tables[i].ID] = true
		}
		if f.err != nil {
			result.failed = append(result.failed, fmt.Errorf("region %s: %w", region, f.err))
		}
		regions = append(regions, f)
	}
	if spec != nil && len(result.failed) == 0 {
		for _, id := range spec.RouteTables {
			if !seen[id] {
				result.missing = append(result.missing, id)
			}
		}
	}
	for _, f := range regions {
		result.problems = append(result.problems, f.plan.Problems...)
		result.claimed = result.claimed || f.plan.Claimed
		result.waiting += len(f.plan.Ops)
		for _, n := range f.plan.Routed {
			result.routes += n
		}
	}
	former := conditionOf(a).DeepCopy()
	if result.frozen = frozen(a); result.frozen != "" {
		l.show(ctx, a, a.Status.NodeRoutes, result)
		l.report(a, former, result)
		return
	}
	intent := statusOf(a, regions, true)
	if !l.show(ctx, a, intent, outcome{keepCondition: true}) {
		return // what is not written down is not done
	}
	for i := range regions {
		f := &regions[i]
		l.apply(ctx, router, cloud.Scope{Account: key, Region: f.region}, f.plan.Ops, &result)
	}
	after := statusOf(a, regions, false)
	if len(result.failed) > 0 {
		after = intent // what may be there stays written down
	}
	l.show(ctx, a, after, result)
	l.report(a, former, result)
}

// frozen says why nothing is written for an account; empty if something may be.
func frozen(a *cloudv1.CloudProviderAccount) string {
	switch {
	case a.Spec.Mode != "" && a.Spec.Mode != cloudv1.ModeEnforce:
		return fmt.Sprintf("the account's mode is %s", a.Spec.Mode)
	case a.Status.OtherInstance != "":
		return "another instance of the controller works on the account"
	}
	return ""
}

// look reads what a region has, and plans.
func (l *Loop) look(ctx context.Context, a *cloudv1.CloudProviderAccount, router cloud.Router, s cloud.Scope, nodes []Node) found {
	f := found{region: s.Region, wish: Wish{Cluster: l.Cluster, Tables: map[string][]netip.Prefix{}, Former: map[string][]netip.Prefix{}, Nodes: nodes}}
	var ids []string
	if spec := wishOf(a); spec != nil {
		for _, id := range spec.RouteTables {
			f.wish.Tables[id] = ranges(spec.ClusterCIDRs)
			ids = append(ids, id)
		}
	}
	if now := a.Status.NodeRoutes; now != nil {
		for _, t := range now.Tables {
			if t.Region == s.Region {
				f.wish.Former[t.ID] = ranges(t.ClusterCIDRs)
				ids = append(ids, t.ID)
			}
		}
		for _, id := range now.Interfaces {
			if region, nic, _ := strings.Cut(id, "/"); region == s.Region {
				f.wish.TurnedOff = append(f.wish.TurnedOff, nic)
			}
		}
	}
	slices.Sort(ids)
	if f.has.Tables, f.err = router.RouteTables(ctx, s, slices.Compact(ids)); f.err != nil {
		return f
	}
	if len(f.has.Tables) == 0 && len(f.wish.TurnedOff) == 0 {
		return f
	}
	var addresses []netip.Addr
	for _, n := range nodes {
		addresses = append(addresses, n.Addresses...)
	}
	if f.has.Forwarders, f.err = router.Forwarders(ctx, s, addresses, f.wish.TurnedOff); f.err != nil {
		return f
	}
	f.plan = Compute(f.wish, f.has)
	return f
}

// ranges parses what admission has checked.
func ranges(texts []string) (out []netip.Prefix) {
	for _, text := range texts {
		if c, err := netip.ParsePrefix(text); err == nil {
			out = append(out, c.Masked())
		}
	}
	return out
}

// apply does operations in their order. After the first failure nothing is given back, a table that
// could not be claimed is left alone, and nothing more is tried that would fail in the same way.
func (l *Loop) apply(ctx context.Context, router cloud.Router, s cloud.Scope, ops []cloud.RouteOp, result *outcome) {
	failed := false
	unclaimed := map[string]bool{}
	for _, op := range ops {
		gives := op.Kind == cloud.RouteOpUnclaim || op.Kind == cloud.RouteOpForward && !op.Forwards
		if failed && gives || unclaimed[op.Table] {
			continue
		}
		err := router.Route(ctx, s, op)
		if err == nil {
			result.done++
			continue
		}
		failed = true
		result.failed = append(result.failed, fmt.Errorf("%s: %w", op, err))
		unclaimed[op.Table] = op.Kind == cloud.RouteOpClaim
		switch cloud.ClassOf(err) {
		case cloud.Auth, cloud.Throttled, cloud.Unavailable:
			return
		}
	}
}
