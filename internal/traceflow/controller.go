package traceflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// firstTag, nextTag and lastTag are the values of DSCP that are for local use (RFC 2474) and
	// not 3, as Antrea has them: 14 of them.
	firstTag, nextTag, lastTag = 7, 4, 59
	tagCount                   = (lastTag-firstTag)/nextTag + 1
	// lookInterval is how often running Traceflows are looked after, and missingInterval how often
	// it is looked whether there is their kind.
	lookInterval    = 500 * time.Millisecond
	missingInterval = time.Minute
)

// Informers gives out informers; a cache.Cache does.
type Informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// Controller runs Traceflows. All fields are required.
type Controller struct {
	// Client reads Traceflows, from a cache, and writes their status. Reader reads Pods and
	// Services; it is no cache.
	Client    client.Client
	Reader    client.Reader
	Informers Informers
	Clock     clock.WithTicker
	Log       logr.Logger

	// given are the tags that this process has given, which a cache may not tell yet, and turn says
	// which of the tags the next search begins with.
	given map[types.UID]int8
	turn  int
	// assigned are the Nodes that this process has assigned PacketCaptures to, in the same way.
	assigned map[types.UID]string
}

// followed is a kind that the controller looks after, on its own: a cluster that has Antrea's kinds
// of a former release may lack one of them.
type followed struct {
	kind client.Object
	// look does what is to be done now, and reports whether there is more to do later.
	look          func(context.Context) bool
	follows, busy bool
	nextAttempt   time.Time
}

// Start runs Traceflows and PacketCaptures until ctx ends. It is a manager.Runnable.
func (c *Controller) Start(ctx context.Context) error {
	c.given, c.assigned = map[types.UID]int8{}, map[types.UID]string{}
	wake := make(chan struct{}, 1)
	enqueue := func(any) {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	kinds := []*followed{{kind: &v1beta1.Traceflow{}, look: c.look}, {kind: &v1alpha1.PacketCapture{}, look: c.lookCaptures}}
	tick := c.Clock.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		for _, k := range kinds {
			if !k.follows && !c.Clock.Now().Before(k.nextAttempt) {
				c.follow(ctx, k, enqueue)
			}
		}
		woken := false
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
			woken = true
		case <-tick.C():
		}
		for _, k := range kinds {
			if !k.follows || !woken && !k.busy {
				continue
			}
			k.busy = true
			if fault := recovered.Do(func() { k.busy = k.look(ctx) }); fault != nil {
				c.Log.Error(fault, "A panic was recovered while packets were looked after", "kind", fmt.Sprintf("%T", k.kind), "stack", recovered.StackOf(fault))
			}
		}
	}
}

// follow lets enqueue be called when an object of a kind changes, if the cluster has the kind.
func (c *Controller) follow(ctx context.Context, k *followed, enqueue func(any)) {
	informer, err := c.Informers.GetInformer(ctx, k.kind, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, o any) { enqueue(o) }, DeleteFunc: enqueue})
	}
	k.follows, k.nextAttempt = err == nil, c.Clock.Now().Add(missingInterval)
	if err != nil && !meta.IsNoMatchError(err) {
		c.Log.Error(err, "A kind cannot be followed, trying again", "kind", fmt.Sprintf("%T", k.kind))
	}
}

// look does for each Traceflow what is to be done now, and reports whether there is more to do
// later.
func (c *Controller) look(ctx context.Context) (busy bool) {
	var list v1beta1.TraceflowList
	if err := c.Client.List(ctx, &list); err != nil {
		c.Log.Error(err, "Traceflows could not be read, trying again")
		return true
	}
	slices.SortFunc(list.Items, func(a, b v1beta1.Traceflow) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	tags := c.tags(list.Items)
	for i := range list.Items {
		t := list.Items[i].DeepCopy()
		if t.Status.Phase == v1beta1.TraceflowSucceeded || t.Status.Phase == v1beta1.TraceflowFailed {
			continue
		}
		busy = true
		changed, err := false, error(nil)
		if fault := recovered.Do(func() { changed, err = c.next(ctx, t, tags) }); fault != nil {
			err = fault // the others go on
		}
		if err == nil && changed {
			err = c.Client.Status().Update(ctx, t)
		}
		if err != nil {
			delete(c.given, t.UID)
			if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !errors.Is(err, context.Canceled) {
				c.Log.Error(err, "A Traceflow does not go on, trying again", "traceflow", t.Name)
			}
		}
	}
	return busy
}

// tags are those that Traceflows have that run.
func (c *Controller) tags(list []v1beta1.Traceflow) map[int8]bool {
	out, there := map[int8]bool{}, map[types.UID]bool{}
	for i := range list {
		t := &list[i]
		switch t.Status.Phase {
		case v1beta1.TraceflowRunning:
			out[t.Status.DataplaneTag] = true
		case "":
			there[t.UID] = true
		}
	}
	for uid, tag := range c.given {
		if !there[uid] {
			delete(c.given, uid)
			continue
		}
		out[tag] = true
	}
	return out
}

// next changes the status of a Traceflow to what it is now.
func (c *Controller) next(ctx context.Context, t *v1beta1.Traceflow, tags map[int8]bool) (changed bool, err error) {
	now, s := c.Clock.Now(), &t.Status
	end := func(phase v1beta1.TraceflowPhase, reason string) (bool, error) {
		s.Phase, s.Reason, s.DataplaneTag = phase, reason, 0
		return true, nil
	}
	if s.Phase == v1beta1.TraceflowRunning {
		if over, problem := complete(s, t.Spec.DroppedOnly); over && problem != "" {
			return end(v1beta1.TraceflowFailed, problem)
		} else if over {
			return end(v1beta1.TraceflowSucceeded, "")
		}
		limit := time.Duration(cmp.Or(t.Spec.Timeout, v1beta1.DefaultTraceflowSeconds)) * time.Second
		if s.StartTime == nil || now.Sub(s.StartTime.Time) >= limit {
			return end(v1beta1.TraceflowFailed, timeout(t, limit))
		}
		return false, nil
	}
	if _, given := c.given[t.UID]; given { // the cache does not tell it yet
		return false, nil
	}
	traced, err := resolve(ctx, c.Reader, t)
	if refused := refusal(""); errors.As(err, &refused) {
		return end(v1beta1.TraceflowFailed, refused.Error())
	}
	if err != nil {
		return false, err
	}
	// Tags go round: packets of a Traceflow that has ended may be on their way with its tag.
	for i := range tagCount {
		place := (c.turn + i) % tagCount
		tag := int8(firstTag + place*nextTag)
		if tags[tag] {
			continue
		}
		tags[tag], c.given[t.UID], c.turn = true, tag, place+1
		start := metav1.NewTime(now)
		*s = v1beta1.TraceflowStatus{Phase: v1beta1.TraceflowRunning, StartTime: &start, DataplaneTag: tag, Traced: traced}
		return true, nil
	}
	const waits = "as many Traceflows run as can run at once: it waits for one to end"
	changed, s.Reason = s.Reason != waits, waits
	return changed, nil
}

// complete reports whether the Nodes have told all about a packet, and why it could not be traced.
// Of one that is to be dropped only the Node that drops it has a result.
func complete(s *v1beta1.TraceflowStatus, droppedOnly bool) (over bool, problem string) {
	if s.Traced == nil {
		return true, "it is not known any more what is traced"
	}
	last := func(r *v1beta1.TraceflowNodeResult) *v1beta1.TraceflowObservation {
		if len(r.Observations) == 0 {
			return &v1beta1.TraceflowObservation{}
		}
		return &r.Observations[len(r.Observations)-1]
	}
	var first *v1beta1.TraceflowObservation
	for i := range s.Results {
		if s.Results[i].Node == s.Traced.Node {
			first = last(&s.Results[i])
		}
	}
	dropped := func(r v1beta1.TraceflowNodeResult) bool {
		a := last(&r).Action
		return (r.Node == s.Traced.Receiver || s.Traced.Receiver == "") && (a == v1beta1.ActionDropped || a == v1beta1.ActionRejected)
	}
	switch {
	case first == nil:
		return droppedOnly && slices.ContainsFunc(s.Results, dropped), ""
	case strings.HasPrefix(first.ComponentInfo, v1beta1.TraceflowNotTraced):
		return true, fmt.Sprintf("Node %s: %s", s.Traced.Node, first.ComponentInfo)
	case first.Action != v1beta1.ActionForwarded || first.TunnelDstIP == "":
		return true, ""
	}
	for i := range s.Results {
		if r := &s.Results[i]; r.Node != s.Traced.Node && (s.Traced.Receiver == "" || r.Node == s.Traced.Receiver) {
			return true, ""
		}
	}
	return false, ""
}

// timeout says what is missing.
func timeout(t *v1beta1.Traceflow, limit time.Duration) string {
	s := &t.Status
	reported := slices.ContainsFunc(s.Results, func(r v1beta1.TraceflowNodeResult) bool { return s.Traced != nil && r.Node == s.Traced.Node })
	switch {
	case s.Traced == nil:
		return "Traceflow timeout"
	case !reported && t.Spec.LiveTraffic:
		return fmt.Sprintf("Traceflow timeout: within %s no such packet came by on Node %s", limit, s.Traced.Node)
	case !reported:
		return fmt.Sprintf("Traceflow timeout: within %s the agent of Node %s told nothing: it does not run, or no rule but the kernel itself has dropped the packet", limit, s.Traced.Node)
	}
	return fmt.Sprintf("Traceflow timeout: within %s the packet was not seen on the Node that it was sent to: it was lost between the Nodes, or the agent there does not run", limit)
}
