package egress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// statusInterval is how often Egresses, and the Leases of their addresses, are looked at.
	statusInterval = time.Second
	// labelAddress and annotationProblem are on Leases that agents write
	// (internal/agent/egress).
	labelAddress      = "nephele.io/egress-address"
	annotationProblem = "nephele.io/egress-problem"
	// leasePrefix begins the names of the Leases.
	leasePrefix = "nephele-egress-"
	// maxProblem bounds what of a text of an agent is shown.
	maxProblem = 512
)

// Controller gives Egresses addresses and writes how they stand. All fields are required.
type Controller struct {
	// Client reads Egresses, ExternalIPPools and Nodes, from a cache, and writes. Reader reads
	// Leases; it is no cache.
	Client client.Client
	Reader client.Reader
	// Namespace is where the Leases of agents are.
	Namespace string
	Clock     clock.WithTicker
	Log       logr.Logger

	failed string
}

// Start works until ctx ends. It is a manager.Runnable.
func (c *Controller) Start(ctx context.Context) error {
	tick := c.Clock.NewTicker(statusInterval)
	defer tick.Stop()
	var next time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		}
		if c.Clock.Now().Before(next) {
			continue
		}
		var err error
		if fault := recovered.Do(func() { err = c.look(ctx) }); fault != nil {
			c.Log.Error(fault, "A panic was recovered while Egresses were looked after", "stack", recovered.StackOf(fault))
		}
		switch {
		case err == nil:
			c.failed = ""
		case meta.IsNoMatchError(err):
			next = c.Clock.Now().Add(missingInterval)
		case ctx.Err() == nil && err.Error() != c.failed:
			c.failed = err.Error()
			c.Log.Info("Egresses are not as they are to be, trying again", "reason", c.failed)
		}
	}
}

// look does what is to be done now.
func (c *Controller) look(ctx context.Context) error {
	var egresses v1beta1.EgressList
	var pools v1beta1.ExternalIPPoolList
	if err := c.Client.List(ctx, &egresses); err != nil {
		return fmt.Errorf("read Egresses: %w", err)
	}
	if err := c.Client.List(ctx, &pools); err != nil {
		return fmt.Errorf("read ExternalIPPools: %w", err)
	}
	if len(egresses.Items)+len(pools.Items) == 0 {
		return nil
	}
	var list corev1.NodeList
	if err := c.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	allocations, usage := Allocate(egresses.Items, pools.Items, factsOf(list.Items))
	var found coordinationv1.LeaseList
	if err := c.Reader.List(ctx, &found, client.InNamespace(c.Namespace), client.HasLabels{labelAddress}); err != nil {
		return fmt.Errorf("read the Nodes that have the addresses of Egresses: %w", err)
	}
	leases := map[string]*coordinationv1.Lease{}
	for i := range found.Items {
		leases[found.Items[i].Name] = &found.Items[i]
	}
	var errs []error
	for i := range egresses.Items {
		errs = append(errs, c.write(ctx, egresses.Items[i].DeepCopy(), allocations[egresses.Items[i].Name], leases))
	}
	for i := range pools.Items {
		p := pools.Items[i].DeepCopy()
		if u := usage[p.Name]; p.Status.Usage != u {
			p.Status.Usage = u
			errs = append(errs, c.Client.Status().Update(ctx, p))
		}
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) })...)
}

func factsOf(nodes []corev1.Node) Facts {
	out := Facts{Nodes: map[netip.Addr]string{}}
	for i := range nodes {
		for _, a := range nodes[i].Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				out.Nodes[ip.Unmap()] = nodes[i].Name
			}
		}
		for _, text := range nodes[i].Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				out.Four, out.Six = out.Four || p.Addr().Is4(), out.Six || p.Addr().Is6()
			}
		}
	}
	return out
}

// leaseName is the name of the Lease of an address.
func leaseName(a netip.Addr) string {
	return leasePrefix + strings.ReplaceAll(a.StringExpanded(), ":", "-")
}

// write makes an Egress say its addresses and how it stands.
func (c *Controller) write(ctx context.Context, e *v1beta1.Egress, a Allocation, leases map[string]*coordinationv1.Lease) error {
	before := e.DeepCopy()
	if a.Problem == "" {
		fill(&e.Spec, a.Addresses)
		if !equality.Semantic.DeepEqual(before.Spec, e.Spec) {
			if err := c.Client.Update(ctx, e); err != nil {
				return err
			}
		}
	}
	e.Status = statusOf(&before.Status, a, leases, c.Clock.Now())
	if equality.Semantic.DeepEqual(before.Status, e.Status) {
		return nil
	}
	return c.Client.Status().Update(ctx, e)
}

// fill writes addresses into a spec that has none.
func fill(spec *v1beta1.EgressSpec, addresses []netip.Addr) {
	var texts []string
	for _, a := range addresses {
		texts = append(texts, a.String())
	}
	switch {
	case spec.EgressIP != "" || len(texts) == 0:
	case spec.ExternalIPPool != "" && len(spec.EgressIPs) == 0:
		spec.EgressIP = texts[0]
	case len(spec.EgressIPs) < len(texts):
		spec.EgressIPs = texts
	}
}

// statusOf says how an Egress stands.
func statusOf(before *v1beta1.EgressStatus, a Allocation, leases map[string]*coordinationv1.Lease, now time.Time) v1beta1.EgressStatus {
	out := v1beta1.EgressStatus{}
	condition := func(t v1beta1.EgressConditionType, status metav1.ConditionStatus, reason, message string) {
		x := v1beta1.EgressCondition{Type: t, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))}
		for _, was := range before.Conditions {
			if was.Type == t && was.Status == status {
				x.LastTransitionTime = was.LastTransitionTime
			}
		}
		out.Conditions = append(out.Conditions, x)
	}
	if a.Problem != "" {
		condition(v1beta1.IPAllocated, metav1.ConditionFalse, v1beta1.ReasonAllocationError, "Cannot allocate EgressIP: "+a.Problem)
		condition(v1beta1.IPAssigned, metav1.ConditionFalse, v1beta1.ReasonAssignmentError, "There is no address to assign: what the Pods send out of the cluster is dropped")
		return out
	}
	condition(v1beta1.IPAllocated, metav1.ConditionTrue, v1beta1.ReasonAllocated, "EgressIP is successfully allocated")
	var has, missing []string
	reason := v1beta1.ReasonNoAvailableNode
	for i, x := range a.Addresses {
		l, node := leases[leaseName(x)], ""
		if l != nil && l.Spec.HolderIdentity != nil {
			node = *l.Spec.HolderIdentity
		}
		switch {
		case node != "":
			has = append(has, fmt.Sprintf("Node %s has %s", node, x))
			if i == 0 {
				out.EgressNode, out.EgressIP = node, x.String()
			}
		case l != nil && l.Annotations[annotationProblem] != "":
			reason = v1beta1.ReasonAssignmentError
			missing = append(missing, cut(l.Annotations[annotationProblem]))
		default:
			missing = append(missing, fmt.Sprintf("no Node has %s: of those that may have it none is ready with an agent that makes the network", x))
		}
	}
	if len(missing) > 0 {
		condition(v1beta1.IPAssigned, metav1.ConditionFalse, reason, strings.Join(missing, "; ")+"; what the Pods send out of the cluster is dropped")
		return out
	}
	condition(v1beta1.IPAssigned, metav1.ConditionTrue, v1beta1.ReasonAssigned, strings.Join(has, ", "))
	return out
}

func cut(text string) string {
	if len(text) > maxProblem {
		return strings.ToValidUTF8(text[:maxProblem], "") + "..."
	}
	return text
}
