package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/platform/recovered"
	"github.com/nephele-io/nephele/internal/policy"
)

// taskKind says what a worker is to bring up to date.
type taskKind uint8

const (
	// taskPolicy: the status of the policy whose uid is the task's name.
	taskPolicy taskKind = iota + 1
	// taskGroup: the status of a Group, or without namespace of a ClusterGroup.
	taskGroup
	// taskTiers: the system tiers.
	taskTiers
	// taskExternalNodes: the ExternalEntities of the ExternalNodes of a namespace.
	taskExternalNodes
)

// task is one thing to bring up to date. Doing it twice is harmless.
type task struct {
	kind      taskKind
	namespace string
	name      string
}

// Report takes what enforcers say about one policy, whose uid is the name of the status. A report
// about a policy that is not known is taken and forgotten: the enforcer is a little behind. It
// fails only for a status without name.
func (c *Controller) Report(_ context.Context, s *v1beta2.NetworkPolicyStatus) error {
	if s.Name == "" {
		return fmt.Errorf("status of a policy: metadata.name is empty, want the uid of the policy")
	}
	if c.book.report(types.UID(s.Name), s.Nodes) {
		c.tasks.Add(task{kind: taskPolicy, name: s.Name})
	}
	return nil
}

// Silent takes which enforcers are silent, and since when. What they have realized is not confirmed
// since. The map is not to be changed afterwards.
func (c *Controller) Silent(enforcers map[string]time.Time) {
	for _, uid := range c.book.listen(enforcers) {
		c.tasks.Add(task{kind: taskPolicy, name: string(uid)})
	}
}

// attended takes that an enforcer has begun to watch policies.
func (c *Controller) attended(key string) {
	for _, uid := range c.book.begin(key) {
		c.tasks.Add(task{kind: taskPolicy, name: string(uid)})
	}
}

// Differing is how traffic is not as a policy says, for its condition TrafficAgrees.
type Differing struct{ Reason, Message string }

// Differ takes of which policies traffic is seen that is not as they say. The map is not to be
// changed afterwards.
func (c *Controller) Differ(policies map[types.UID]Differing) {
	for _, uid := range c.book.differ(policies) {
		c.tasks.Add(task{kind: taskPolicy, name: string(uid)})
	}
}

// Reported returns what an enforcer has reported about a policy last; false if nothing, or if the
// policy does not concern it any more.
func (c *Controller) Reported(uid types.UID, enforcer string) (v1beta2.NetworkPolicyNodeStatus, bool) {
	return c.book.reported(uid, enforcer)
}

// statuses writes what was computed, and what enforcers report of it, into the objects' statuses.
type statuses struct{ c *Controller }

func (c *Controller) statuses() statuses { return statuses{c} }

// work does tasks until the queue is shut down.
func (w statuses) work(ctx context.Context) {
	for {
		t, shutdown := w.c.tasks.Get()
		if shutdown {
			return
		}
		err := recovered.Call(func() error { return w.do(ctx, t) })
		switch {
		case err == nil:
			w.c.tasks.Forget(t)
		case ctx.Err() != nil:
		default:
			// A conflict only says that the object was read before somebody wrote it.
			if !apierrors.IsConflict(err) {
				w.c.Options.Logger.Error(err, "Writing to the Kubernetes API failed, trying again", "attempt", w.c.tasks.NumRequeues(t)+1, "stack", recovered.StackOf(err))
			}
			w.c.tasks.AddRateLimited(t)
		}
		w.c.tasks.Done(t)
	}
}

func (w statuses) do(ctx context.Context, t task) error {
	switch t.kind {
	case taskPolicy:
		return w.writePolicyStatus(ctx, types.UID(t.name))
	case taskGroup:
		return w.writeGroupStatus(ctx, types.NamespacedName{Namespace: t.namespace, Name: t.name})
	case taskTiers:
		return w.c.keepTiers(ctx)
	case taskExternalNodes:
		return w.c.keepEntities(ctx, t.namespace)
	}
	return nil
}

func (w statuses) writePolicyStatus(ctx context.Context, uid types.UID) error {
	v, ok := w.c.book.policyVerdict(uid)
	if !ok {
		return nil
	}
	if v.kind.isUpstream() {
		return w.writeUpstreamStatus(ctx, uid, v)
	}
	var object client.Object
	var status *v1beta1.NetworkPolicyStatus
	switch v.kind {
	case kindPolicy:
		p := &v1beta1.NetworkPolicy{}
		object, status = p, &p.Status
	case kindClusterPolicy:
		p := &v1beta1.ClusterNetworkPolicy{}
		object, status = p, &p.Status
	default:
		object = &networkingv1.NetworkPolicy{}
	}
	if err := w.c.Options.Client.Get(ctx, types.NamespacedName{Namespace: v.Namespace, Name: v.Name}, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	if object.GetUID() != uid {
		return nil
	}
	if v.tell {
		w.c.event(object, corev1.EventTypeWarning, "PolicyProblem", "ComputePolicies", v.problem)
	}
	if status == nil {
		if follow := w.c.copies.Load(); follow != nil {
			(*follow)(object, v.status)
		}
		return nil
	}
	if v.status.Phase == v1beta1.NetworkPolicyIdle {
		w.explainIdle(ctx, object, &v.status)
	}
	former := *status
	next := remember(former, v.status)
	for i := range next.Conditions {
		next.Conditions[i].LastTransitionTime = w.since(next.Conditions[i], former.Conditions)
	}
	if equalStatus(former, next) {
		return nil
	}
	*status = next
	if err := w.c.Options.Client.Status().Update(ctx, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	if former.Phase != next.Phase {
		w.tellPhase(object, next)
	}
	return nil
}

// since is when a condition took its present value.
func (w statuses) since(now v1beta1.NetworkPolicyCondition, former []v1beta1.NetworkPolicyCondition) metav1.Time {
	for _, f := range former {
		if f.Type == now.Type && f.Status == now.Status && !f.LastTransitionTime.IsZero() {
			return f.LastTransitionTime
		}
	}
	return metav1.NewTime(w.c.Options.Clock.Now())
}

// equalStatus compares all but times.
func equalStatus(a, b v1beta1.NetworkPolicyStatus) bool {
	timeless := func(in []v1beta1.NetworkPolicyCondition) []v1beta1.NetworkPolicyCondition {
		out := slices.Clone(in)
		for i := range out {
			out[i].LastTransitionTime = metav1.Time{}
		}
		return out
	}
	return a.Phase == b.Phase && a.ObservedGeneration == b.ObservedGeneration && a.CurrentNodesRealized == b.CurrentNodesRealized &&
		a.DesiredNodesRealized == b.DesiredNodesRealized && a.VMs == b.VMs &&
		slices.Equal(a.Clusters, b.Clusters) && a.Message == b.Message && slices.Equal(timeless(a.Conditions), timeless(b.Conditions))
}

// tellPhase records an Event for a phase that somebody waits for, or must act on.
func (w statuses) tellPhase(o client.Object, s v1beta1.NetworkPolicyStatus) {
	switch {
	case s.Phase == v1beta1.NetworkPolicyIdle:
		w.c.event(o, corev1.EventTypeWarning, "PolicySelectsNothing", "RealizePolicies", s.Message)
	case s.Phase == v1beta1.NetworkPolicyRealized:
		w.c.event(o, corev1.EventTypeNormal, "PolicyRealized", "RealizePolicies",
			fmt.Sprintf("Generation %d is realized by all %d enforcers", s.ObservedGeneration, s.DesiredNodesRealized))
	case s.Phase == v1beta1.NetworkPolicySuspended:
		w.c.event(o, corev1.EventTypeWarning, "PolicySuspended", "RealizePolicies", s.Message)
	case s.Phase == v1beta1.NetworkPolicyNotEnforced:
		w.c.event(o, corev1.EventTypeWarning, "PolicyNotEnforced", "RealizePolicies", s.Conditions[0].Message)
	case s.Phase == v1beta1.NetworkPolicyFailed && len(s.Conditions) > 1 && s.Conditions[1].Type == v1beta1.NetworkPolicyConditionRealizationFailure:
		w.c.event(o, corev1.EventTypeWarning, "PolicyFailed", "RealizePolicies", s.Conditions[1].Message)
	}
}

func (w statuses) writeGroupStatus(ctx context.Context, name types.NamespacedName) error {
	want := w.c.book.groupCondition(policy.NamespacedName{Namespace: name.Namespace, Name: name.Name})
	var object client.Object
	var status *v1beta1.GroupStatus
	if name.Namespace == "" {
		g := &v1beta1.ClusterGroup{}
		object, status = g, &g.Status
	} else {
		g := &v1beta1.Group{}
		object, status = g, &g.Status
	}
	if err := w.c.Options.Client.Get(ctx, name, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	want.LastTransitionTime = metav1.NewTime(w.c.Options.Clock.Now())
	if len(status.Conditions) == 1 && status.Conditions[0].Type == want.Type && status.Conditions[0].Status == want.Status {
		former := status.Conditions[0]
		want.LastTransitionTime = former.LastTransitionTime
		if former == want {
			return nil
		}
	}
	status.Conditions = []v1beta1.GroupCondition{want}
	if err := w.c.Options.Client.Status().Update(ctx, object); err != nil {
		return client.IgnoreNotFound(err)
	}
	if want.Message != "" {
		w.c.event(object, corev1.EventTypeWarning, "GroupProblem", "ComputePolicies", want.Message)
	}
	return nil
}
