// Package claims decides what a member of the set may claim: which addresses, which Namespaces, and
// how much.
//
// It owns the bounds of one member, made from its Cluster, and judges one claim at a time.
// Everything here is pure; Bounds never change once made.
package claims

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

// Bounds are what one member may claim.
type Bounds struct {
	own map[wire.Kind][]netip.Prefix
	// foreign are addresses that another member claimed first.
	foreign    []Range
	namespaces []string
	all        bool
	// accounts are as in the Cluster; nil means all.
	accounts []string
	// visible are the Namespaces that the own policies of other members may name.
	visible []string
	// Entities and LabelSets are how many it may have, Selectors how many groups of other clusters
	// its own policies may name.
	Entities, LabelSets, Selectors int
}

// Range are addresses of a cluster.
type Range struct {
	Prefix  netip.Prefix
	Cluster string
}

// Ranges are all addresses of a Cluster. What is no CIDR is left out.
func Ranges(c *setv1alpha1.Cluster) []Range {
	var out []Range
	for _, list := range [][]string{c.Spec.Addresses.Pods, c.Spec.Addresses.Nodes, c.Spec.Addresses.Machines, c.Spec.Addresses.LoadBalancers} {
		for _, p := range prefixes(list) {
			out = append(out, Range{p, c.Name})
		}
	}
	return out
}

func prefixes(list []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range list {
		if p, err := netip.ParsePrefix(text); err == nil && !p.Addr().Is4In6() {
			out = append(out, p.Masked())
		}
	}
	return out
}

// Of returns the bounds of a member. Earlier are the Clusters that were there before it: what they
// have is not its.
func Of(c *setv1alpha1.Cluster, earlier []*setv1alpha1.Cluster) *Bounds {
	a := &c.Spec.Addresses
	b := &Bounds{
		own: map[wire.Kind][]netip.Prefix{
			wire.Pod: prefixes(a.Pods), wire.Node: prefixes(a.Nodes), wire.Machine: prefixes(a.Machines),
			wire.Service: prefixes(slices.Concat(a.Pods, a.Nodes, a.LoadBalancers)),
		},
		namespaces: c.Spec.Namespaces, all: c.Spec.Namespaces == nil, accounts: c.Spec.Accounts, visible: c.Spec.VisibleNamespaces,
		Entities: setv1alpha1.DefaultMostEntities, LabelSets: setv1alpha1.DefaultMostLabelSets, Selectors: setv1alpha1.DefaultMostSelectors,
	}
	if n := c.Spec.Limits.Entities; n != nil {
		b.Entities = int(*n)
	}
	if n := c.Spec.Limits.LabelSets; n != nil {
		b.LabelSets = int(*n)
	}
	if n := c.Spec.Limits.Selectors; n != nil {
		b.Selectors = int(*n)
	}
	for _, o := range earlier {
		b.foreign = append(b.foreign, Ranges(o)...)
	}
	return b
}

// Overlaps returns the members whose addresses these overlap.
func (b *Bounds) Overlaps() []string {
	var out []string
	for _, list := range b.own {
		for _, p := range list {
			for _, f := range b.foreign {
				if f.Prefix.Overlaps(p) && !slices.Contains(out, f.Cluster) {
					out = append(out, f.Cluster)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// Namespace fails unless the member may speak for a Namespace with such labels.
func (b *Bounds) Namespace(n *wire.Namespace, labels map[string]string) error {
	if err := n.Check(); err != nil {
		return err
	}
	if err := b.mayIn(n.Name); err != nil {
		return err
	}
	return unreserved(labels)
}

func (b *Bounds) mayIn(namespace string) error {
	if b.all || Matches(b.namespaces, namespace) {
		return nil
	}
	return fmt.Errorf("Namespace %s is not among its spec.namespaces", namespace)
}

// Visible reports whether the own policies of other members may name workloads of a Namespace.
func (b *Bounds) Visible(namespace string) bool { return Matches(b.visible, namespace) }

// NodesVisible reports whether they may name Nodes: where all Namespaces are visible.
func (b *Bounds) NodesVisible() bool { return slices.Contains(b.visible, "*") }

// Account fails unless the member may work on a region of a cloud account.
func (b *Bounds) Account(region string) error {
	if b.accounts == nil || Matches(b.accounts, region) {
		return nil
	}
	return fmt.Errorf("%s is not among its spec.accounts", region)
}

// RegionOf names a region of a cloud account in the set.
func RegionOf(a *cloudv1.CloudProviderAccount, region string) string {
	provider := "azure"
	if a.Spec.AWSConfig != nil {
		provider = "aws"
	}
	return provider + "/" + a.Status.CloudAccountID + "/" + region
}

// Matches reports whether a name is one of a list of names, and of beginnings of names followed by
// "*".
func Matches(list []string, name string) bool {
	return slices.ContainsFunc(list, func(pattern string) bool {
		begin, open := strings.CutSuffix(pattern, "*")
		return name == pattern || open && strings.HasPrefix(name, begin)
	})
}

func unreserved(labels map[string]string) error {
	for key := range labels {
		if peers.Reserved(key) {
			return fmt.Errorf("the label %s is not for members to set", key)
		}
	}
	return nil
}

// Entity fails unless an entity with such labels may be one of the member.
func (b *Bounds) Entity(e *wire.Entity, labels map[string]string) error {
	if err := e.Check(); err != nil {
		return err
	}
	if e.Kind != wire.Node {
		if err := b.mayIn(e.Namespace); err != nil {
			return err
		}
	}
	for _, a := range e.Addresses {
		err := b.address(e.Kind, a)
		if err != nil && e.Kind == wire.Service && strings.HasPrefix(e.Name, e.ServiceOf()+"."+wire.PartOfSlice) {
			err = b.address(wire.Machine, a) // endpoints that somebody has written down may be machines
		}
		if err != nil {
			return err
		}
	}
	return unreserved(labels)
}

// address fails unless an address may be that of an entity of the member.
func (b *Bounds) address(kind wire.Kind, a netip.Addr) error {
	switch {
	case !a.IsValid() || a.Zone() != "" || a.Is4In6():
		return errors.New("an address that is none")
	case a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("%s is no address of a workload", a)
	}
	if !slices.ContainsFunc(b.own[kind], func(p netip.Prefix) bool { return p.Contains(a) }) {
		return fmt.Errorf("%s is not among its spec.addresses.%s", a, lists[kind])
	}
	for _, f := range b.foreign {
		if f.Prefix.Contains(a) {
			return fmt.Errorf("%s is one of cluster %s, which had it first", a, f.Cluster)
		}
	}
	return nil
}

// lists say in words which addresses of a Cluster count for a kind.
var lists = map[wire.Kind]string{wire.Pod: "pods", wire.Node: "nodes", wire.Machine: "machines", wire.Service: "pods, nodes and loadBalancers"}

// Equal reports whether two bounds are the same.
func (b *Bounds) Equal(o *Bounds) bool {
	return o != nil && b.all == o.all && slices.Equal(b.namespaces, o.namespaces) &&
		(b.accounts == nil) == (o.accounts == nil) && slices.Equal(b.accounts, o.accounts) && slices.Equal(b.foreign, o.foreign) &&
		b.Entities == o.Entities && b.LabelSets == o.LabelSets && b.Selectors == o.Selectors &&
		slices.Equal(b.visible, o.visible) && slices.Equal(b.own[wire.Pod], o.own[wire.Pod]) &&
		slices.Equal(b.own[wire.Node], o.own[wire.Node]) && slices.Equal(b.own[wire.Machine], o.own[wire.Machine]) &&
		slices.Equal(b.own[wire.Service], o.own[wire.Service])
}
