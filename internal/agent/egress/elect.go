package egress

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nodes"
)

const (
	// LabelAddress is on Leases of addresses, with the text of the address, where : is -.
	LabelAddress = "nephele.io/egress-address"
	// AnnotationProblem on a Lease of an address says why the last Node that took it could not have
	// it.
	AnnotationProblem = "nephele.io/egress-problem"
	// leasePrefix begins the names of Leases, and nodeLeasePrefix of the Leases of Nodes.
	leasePrefix     = "nephele-egress-"
	nodeLeasePrefix = leasePrefix + "node-"

	// turnInterval is how often the Lease of the Node is renewed while it has addresses, and how
	// often others look whether it was.
	turnInterval = time.Second
	// leaseSeconds is how long others wait for a renewal, kernelSeconds for how long the kernel has
	// an address after one: it is gone before, though the answer to the renewal took renewLimit and
	// the kernel a second more.
	leaseSeconds, kernelSeconds = 7, 4
	renewLimit                  = time.Second
	// awaySeconds and awayKernelSeconds are the same of an agent that ends in order, and soon
	// begins again.
	awaySeconds, awayKernelSeconds = 18, 15
	// maxLeaseSeconds bounds what a Lease may ask for.
	maxLeaseSeconds = 60
	// standbys is how many Nodes look each turn whether the one that has an address lives; the
	// others look each idleTurns.
	standbys, idleTurns = 3, 10
	// rankDelay is how much longer each Node waits than the one that ranks before it.
	rankDelay = 2 * time.Second
	// maxAddresses bounds the addresses of a Node.
	maxAddresses = 255
	// problemPause is how soon an address is taken again that the kernel did not take.
	problemPause = 30 * time.Second
)

// LeaseOf is the name of the Lease of an address.
func LeaseOf(a netip.Addr) string { return leasePrefix + label(a) }

func label(a netip.Addr) string { return strings.ReplaceAll(a.StringExpanded(), ":", "-") }

// NodeLeaseOf is the name of the Lease that a Node renews.
func NodeLeaseOf(node string) string {
	return fmt.Sprintf("%s%016x", nodeLeasePrefix, network.Rank(node, "lease"))
}

// wish is an address that Egresses want.
type wish struct {
	// eligible tells that this Node may have it, ranked are the Nodes that may take it, the first
	// in rank first.
	eligible bool
	ranked   []string
	// own tells that the Node has it by itself: it is neither given nor taken.
	own bool
}

// wishOf says which Nodes may have an address of a pool: each that is selected and whose Pods have
// addresses of its family. Only one that is ready takes it. A selector that is wrong selects none.
func wishOf(self string, a netip.Addr, selector *metav1.LabelSelector, list []any) wish {
	selects, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return wish{}
	}
	var out wish
	for _, o := range list {
		n, ok := o.(*corev1.Node)
		if !ok || !selects.Matches(labels.Set(n.Labels)) || !hasFamily(n, a.Is6()) {
			continue
		}
		out.eligible = out.eligible || n.Name == self
		if nodes.Ready(n) {
			out.ranked = append(out.ranked, n.Name)
		}
	}
	slices.SortFunc(out.ranked, func(x, y string) int {
		return cmp.Or(cmp.Compare(network.Rank(y, a.String()), network.Rank(x, a.String())), cmp.Compare(x, y))
	})
	return out
}

// hasFamily reports whether Pods of a Node have addresses of a family.
func hasFamily(n *corev1.Node, six bool) bool {
	return slices.ContainsFunc(n.Spec.PodCIDRs, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Addr().Is6() == six
	})
}

// standing is what is known of the holder of an address.
type standing struct {
	// holder has it, by its Lease; empty for none.
	holder string
	// silent is for how long the holder has not renewed, as far as this Node has seen, or for how
	// long no Node has had the address. lasts is how long others wait.
	silent, lasts time.Duration
}

// choice is what a Node does about an address.
type choice uint8

const (
	leave choice = iota
	// keep has it further, take takes it, giveUp lets others have it.
	keep
	take
	giveUp
)

// choose says what a Node does about an address, given the Nodes that may have it. If full, the
// Node has as many addresses as it may have.
func choose(self string, w wish, s standing, full bool) choice {
	switch {
	case s.holder == self && w.eligible:
		return keep
	case s.holder == self:
		return giveUp
	case !slices.Contains(w.ranked, self) || full:
		return leave
	}
	before := 0 // those that rank before this Node, but for the one that is lost
	for _, name := range w.ranked {
		if name == self {
			break
		}
		if name != s.holder {
			before++
		}
	}
	wait := time.Duration(before) * rankDelay
	if s.holder != "" {
		wait += s.lasts
	}
	if s.silent < wait {
		return leave
	}
	return take
}

// watches reports whether a Node looks each turn whether the one that has an address lives.
func watches(self string, ranked []string) bool {
	i := slices.Index(ranked, self)
	return i >= 0 && i <= standbys
}
