package noderoutes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

const (
	// mostProblems bounds the sentences of a condition, mostMessage its length: the API takes
	// 32 KiB.
	mostProblems = 20
	mostMessage  = 4000
)

// outcome is how a round went for an account.
type outcome struct {
	asked bool
	// keepCondition leaves the condition as it is.
	keepCondition bool
	// frozen is why nothing was written, and waiting how many operations that left undone.
	frozen  string
	waiting int

	nodes, routes, done int
	missing, problems   []string
	claimed             bool
	failed              []error
}

func conditionOf(a *cloudv1.CloudProviderAccount) *metav1.Condition {
	return meta.FindStatusCondition(a.Status.Conditions, cloudv1.ConditionNodeRoutes)
}

// condition says how it went; nil if nothing is asked for and nothing is left.
func (o *outcome) condition() *metav1.Condition {
	c := &metav1.Condition{Type: cloudv1.ConditionNodeRoutes, Status: metav1.ConditionFalse, Reason: cloudv1.ReasonNotRouted}
	var all []string
	for _, err := range o.failed {
		all = append(all, err.Error())
	}
	for _, id := range o.missing {
		all = append(all, fmt.Sprintf("route table %s is in none of the account's regions", id))
	}
	all = append(all, slices.Compact(slices.Sorted(slices.Values(o.problems)))...)
	switch {
	case o.frozen != "" && o.waiting > 0:
		all = append([]string{fmt.Sprintf("%s, so %d changes of routes are not made", o.frozen, o.waiting)}, all...)
	case len(o.failed) > 0:
		c.Reason = reasonOf(o.failed[0])
	case len(o.missing) > 0:
		c.Reason = cloudv1.ReasonTableNotFound
	case o.claimed:
		c.Reason = cloudv1.ReasonTableClaimed
	case len(all) == 0 && !o.asked:
		return nil
	case len(all) == 0:
		c.Status, c.Reason = metav1.ConditionTrue, cloudv1.ReasonOK
		all = []string{fmt.Sprintf("%d routes lead to Pods of the cluster's %d Nodes", o.routes, o.nodes)}
	}
	if more := len(all) - mostProblems; more > 0 {
		all = append(all[:mostProblems:mostProblems], fmt.Sprintf("and %d more", more))
	}
	if c.Message = strings.Join(all, "\n"); len(c.Message) > mostMessage {
		c.Message = strings.ToValidUTF8(c.Message[:mostMessage], "") + "..."
	}
	return c
}

func reasonOf(err error) string {
	switch cloud.ClassOf(err) {
	case cloud.Auth:
		return cloudv1.ReasonAuthFailed
	case cloud.Throttled:
		return cloudv1.ReasonThrottled
	case cloud.Unavailable:
		return cloudv1.ReasonUnreachable
	}
	return cloudv1.ReasonNotRouted
}

// statusOf is what is written down: with intent, before anything is done, all that may be there
// during and after it; without, what is there afterwards. Of a region that could not be read, what
// was written down stays.
func statusOf(a *cloudv1.CloudProviderAccount, regions []found, intent bool) *cloudv1.NodeRoutesStatus {
	tables := map[string]cloudv1.NodeRouteTable{}
	var interfaces []string
	was := a.Status.NodeRoutes
	if was == nil {
		was = &cloudv1.NodeRoutesStatus{}
	}
	for _, f := range regions {
		keep := intent || f.err != nil
		for _, t := range was.Tables {
			if keep && t.Region == f.region {
				tables[t.ID] = *t.DeepCopy()
			}
		}
		for _, id := range was.Interfaces {
			if keep && strings.HasPrefix(id, f.region+"/") {
				interfaces = append(interfaces, id)
			}
		}
		if f.err != nil {
			continue
		}
		for i := range f.has.Tables {
			id := f.has.Tables[i].ID
			wanted, asked := f.wish.Tables[id]
			by := f.has.Tables[i].Tags[cloud.TagNodeRoutes]
			if !asked || by != "" && by != f.wish.Cluster {
				continue
			}
			t := tables[id]
			t.ID, t.Region, t.Routes = id, f.region, int32(min(f.plan.Routed[id], 1<<30)) // #nosec G115 -- bounded
			for _, c := range wanted {
				t.ClusterCIDRs = append(t.ClusterCIDRs, c.String())
			}
			slices.Sort(t.ClusterCIDRs)
			t.ClusterCIDRs = slices.Compact(t.ClusterCIDRs)
			tables[id] = t
		}
		for _, id := range f.plan.Forwarders {
			interfaces = append(interfaces, f.region+"/"+id)
		}
	}
	if len(tables)+len(interfaces) == 0 {
		return nil
	}
	out := &cloudv1.NodeRoutesStatus{}
	for _, t := range tables {
		out.Tables = append(out.Tables, t)
	}
	slices.SortFunc(out.Tables, func(x, y cloudv1.NodeRouteTable) int { return strings.Compare(x.ID, y.ID) })
	slices.Sort(interfaces)
	out.Interfaces = slices.Compact(interfaces)
	return out
}

// show writes the status of an account, and reports whether it is written.
func (l *Loop) show(ctx context.Context, a *cloudv1.CloudProviderAccount, status *cloudv1.NodeRoutesStatus, o outcome) bool {
	want := conditionOf(a)
	if !o.keepCondition {
		want = o.condition()
	}
	if equality.Semantic.DeepEqual(status, a.Status.NodeRoutes) && sameCondition(want, conditionOf(a)) {
		return true
	}
	live := a.DeepCopy()
	live.Status.NodeRoutes = status
	switch {
	case want == nil:
		meta.RemoveStatusCondition(&live.Status.Conditions, cloudv1.ConditionNodeRoutes)
	case !o.keepCondition:
		c := *want
		c.ObservedGeneration, c.LastTransitionTime = a.Generation, metav1.NewTime(l.Clock.Now())
		meta.SetStatusCondition(&live.Status.Conditions, c)
	}
	// The status has other writers: the update fails, and the next round tries again, where one of
	// them was faster.
	err := l.Client.Status().Update(ctx, live)
	switch {
	case err == nil:
		live.DeepCopyInto(a)
		return true
	case apierrors.IsConflict(err):
		l.Kick()
	case !apierrors.IsNotFound(err):
		l.Log.Error(err, "What is written into route tables is not shown, trying again", "account", cloud.AccountKey(a.Namespace, a.Name))
	}
	return false
}

func sameCondition(a, b *metav1.Condition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// report logs changes, and records an event when routing begins to fail, and when it works again.
func (l *Loop) report(a *cloudv1.CloudProviderAccount, former *metav1.Condition, o outcome) {
	if o.done > 0 {
		l.Log.Info("Routes to Nodes have changed", "account", cloud.AccountKey(a.Namespace, a.Name), "changes", o.done, "routes", o.routes)
	}
	now := conditionOf(a)
	switch {
	case now == nil || former != nil && former.Status == now.Status:
	case now.Status == metav1.ConditionFalse:
		l.Events.Eventf(a, nil, corev1.EventTypeWarning, "NodesNotRouted", "RouteToNodes", "%s", short(now.Message))
	case former != nil:
		l.Events.Eventf(a, nil, corev1.EventTypeNormal, "NodesRouted", "RouteToNodes", "%s", short(now.Message))
	}
}

// short cuts a text to what the API takes for an event.
func short(text string) string {
	const most = 1000
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
