package agentcmd

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/agent/egress"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/network/links"
	"github.com/nephele-io/nephele/internal/agent/nodenetwork"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// egressGroups are what is watched to know which Pods Egresses apply to.
const egressGroups enforcer.Resource = "egressgroups"

// egresses returns the part of the Node in Egresses; nil where the agent makes no network.
func (f *agentFlags) egresses(c *cluster, n *nodenetwork.Network, policies *enforcer.Client, log logr.Logger) (*egress.Manager, error) {
	if n == nil || n.Config.Mode == network.PolicyOnly {
		return nil, nil
	}
	kernel, ok := n.Links.(*links.Kernel)
	if !ok {
		return nil, errors.New("the network of the Node is not that of the kernel")
	}
	const namespace = metav1.NamespaceSystem // wherever agents and controller run
	every := func(*metav1.ListOptions) {}
	labelled := func(o *metav1.ListOptions) { o.LabelSelector = egress.LabelAddress }
	m := egress.New(egress.Options{
		Node: f.kubeNode, Nodes: n.Nodes, Except: n.Config.Except, NoSNAT: n.Config.NoSNAT, Kernel: kernel, Announce: links.Announce, Changed: n.Wake,
		Egresses:  c.Follow(v1beta1.GroupVersion().WithResource("egresses"), metav1.NamespaceAll, every),
		Pools:     c.Follow(v1beta1.GroupVersion().WithResource("externalippools"), metav1.NamespaceAll, every),
		Addresses: c.Follow(coordinationv1.SchemeGroupVersion.WithResource("leases"), namespace, labelled),
		Groups:    func(ctx context.Context) (egress.Stream, error) { return policies.Watch(ctx, egressGroups, f.kubeNode) },
		Leases:    leases{c.coordination, namespace}, Clock: clock.RealClock{}, Log: log.WithName("egress"),
	})
	n.Leave(m.Exits)
	return m, nil
}

// leases are the Leases of a Namespace.
type leases struct {
	client    *rest.RESTClient
	namespace string
}

// Get implements egress.Leases.
func (l leases) Get(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	return l.answer(ctx, l.client.Get().Name(name))
}

// Create implements egress.Leases.
func (l leases) Create(ctx context.Context, o *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return l.answer(ctx, l.client.Post().Body(o))
}

// Update implements egress.Leases.
func (l leases) Update(ctx context.Context, o *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return l.answer(ctx, l.client.Put().Name(o.Name).Body(o))
}

func (l leases) answer(ctx context.Context, r *rest.Request) (*coordinationv1.Lease, error) {
	out := &coordinationv1.Lease{}
	if err := r.Namespace(l.namespace).Resource("leases").MaxRetries(0).Do(ctx).Into(out); err != nil {
		return nil, err
	}
	return out, nil
}
