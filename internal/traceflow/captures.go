package traceflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// maxCaptures is how many PacketCaptures run on a Node at once. The others wait.
	maxCaptures = 4
	// captureGrace is how much longer than its timeout an agent may take to report.
	captureGrace = 30 * time.Second
	defaultName  = "default"
)

// lookCaptures assigns PacketCaptures to Nodes, and ends those whose agent does not report. It
// reports whether there is more to do later.
func (c *Controller) lookCaptures(ctx context.Context) (busy bool) {
	var list v1alpha1.PacketCaptureList
	if err := c.Client.List(ctx, &list); err != nil {
		c.Log.Error(err, "PacketCaptures could not be read, trying again")
		return true
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.PacketCapture) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	on, there := map[string]int{}, map[types.UID]bool{}
	for i := range list.Items {
		o := &list.Items[i]
		there[o.UID] = o.Status.Assigned == nil
		if a := o.Status.Assigned; a != nil && !o.Status.Over() {
			on[a.Node]++
		}
	}
	for uid, node := range c.assigned {
		if !there[uid] { // the cache has it, or it is gone
			delete(c.assigned, uid)
			continue
		}
		on[node]++
	}
	for i := range list.Items {
		o := list.Items[i].DeepCopy()
		if o.Status.Over() {
			continue
		}
		busy = true
		changed, err := false, error(nil)
		if fault := recovered.Do(func() { changed, err = c.nextCapture(ctx, o, on) }); fault != nil {
			err = fault // the others go on
		}
		if err == nil && changed {
			err = c.Client.Status().Update(ctx, o)
		}
		if err != nil {
			delete(c.assigned, o.UID)
			if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !errors.Is(err, context.Canceled) {
				c.Log.Error(err, "A PacketCapture does not go on, trying again", "packetcapture", o.Name)
			}
		}
	}
	return busy
}

// nextCapture changes the status of a PacketCapture to what it is now. On counts those that run, by
// their Nodes.
func (c *Controller) nextCapture(ctx context.Context, o *v1alpha1.PacketCapture, on map[string]int) (changed bool, err error) {
	s, now := &o.Status, metav1.NewTime(c.Clock.Now())
	if a := s.Assigned; a != nil {
		timeout := time.Duration(v1alpha1.DefaultCaptureSeconds) * time.Second
		if t := o.Spec.Timeout; t != nil {
			timeout = time.Duration(*t) * time.Second
		}
		if now.Sub(a.Since.Time) < timeout+captureGrace {
			return false, nil
		}
		s.Set(v1alpha1.PacketCaptureComplete, metav1.ConditionFalse, "AgentSilent", fmt.Sprintf("the agent of Node %s has not reported: it does not run, or is of a former release", a.Node), now)
		return true, nil
	}
	if _, given := c.assigned[o.UID]; given {
		return false, nil
	}
	assigned, err := c.assign(ctx, &o.Spec)
	if refused := refusal(""); errors.As(err, &refused) {
		s.Set(v1alpha1.PacketCaptureStarted, metav1.ConditionFalse, "NotStarted", refused.Error(), now)
		return true, nil
	}
	if err != nil || on[assigned.Node] >= maxCaptures {
		return false, err
	}
	on[assigned.Node]++
	assigned.Since = now
	c.assigned[o.UID], s.Assigned = assigned.Node, assigned
	return true, nil
}

// assign finds out which Node captures which packets.
func (c *Controller) assign(ctx context.Context, s *v1alpha1.PacketCaptureSpec) (*v1alpha1.CaptureAssigned, error) {
	find := func(which string, e *v1alpha1.CaptureEnd) (end, error) {
		switch {
		case e.Pod != nil:
			return podOf(ctx, c.Reader, which, cmp.Or(e.Pod.Namespace, defaultName), e.Pod.Name)
		case e.IP != nil:
			a, err := netip.ParseAddr(*e.IP)
			return end{addresses: []netip.Addr{a.Unmap()}}, err
		}
		return end{}, nil
	}
	source, err1 := find("source", &s.Source)
	destination, err2 := find("destination", &s.Destination)
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	six := s.Packet != nil && s.Packet.IPFamily == "IPv6"
	out := &v1alpha1.CaptureAssigned{Node: source.node}
	if out.AtDestination = source.node == "" || s.CapturePoint == v1alpha1.CaptureAtDestination; out.AtDestination {
		out.Node = destination.node
	}
	for _, e := range []struct {
		end *end
		to  *string
	}{{&source, &out.SourceIP}, {&destination, &out.DestinationIP}} {
		if len(e.end.addresses) == 0 {
			continue
		}
		a := e.end.family(six)
		if !a.IsValid() {
			return nil, refusal("packet.ipFamily: source and destination want an address of that family (IPv4, if it is not given)")
		}
		*e.to = a.String()
	}
	return out, nil
}
