package peers

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
)

// Hidden says as what the Pods of a cluster are seen in another, if there is an address there where
// it is not by their own.
func Hidden(source, viewer *setv1alpha1.Cluster) (*setv1alpha1.SeenAs, bool) {
	families := map[bool]bool{}
	for _, p := range cidrs(source.Spec.Addresses.Pods) {
		families[p.Addr().Is4()] = true
	}
	entries := entriesOf(source)
	a := viewer.Spec.Addresses
	at := cidrs(slices.Concat(a.Pods, a.Nodes, a.Machines))
	if len(at) == 0 { // it may be anywhere
		at = []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	}
	for _, place := range at {
		if !families[place.Addr().Is4()] {
			continue
		}
		if s, hidden := hiddenFrom(entries, place); hidden {
			return s, true
		}
	}
	return nil, false
}

// HiddenAt says how the Pods of a cluster appear to the machine at an address, if not by their own
// addresses.
func HiddenAt(source *setv1alpha1.Cluster, at netip.Addr) (*setv1alpha1.SeenAs, bool) {
	return hiddenFrom(entriesOf(source), netip.PrefixFrom(at, at.BitLen()))
}

func entriesOf(source *setv1alpha1.Cluster) []entry {
	var out []entry
	for i := range source.Spec.SeenAs {
		if to, err := netip.ParsePrefix(source.Spec.SeenAs[i].To); err == nil {
			out = append(out, entry{to.Masked(), &source.Spec.SeenAs[i]})
		}
	}
	return out
}

// entry is an entry of spec.seenAs.
type entry struct {
	to netip.Prefix
	*setv1alpha1.SeenAs
}

// hiddenFrom finds an entry that hides Pods from some address of a place: where no entry is about a
// part of the place, the longest that the whole place is in counts; else each half is asked about.
func hiddenFrom(all []entry, place netip.Prefix) (*setv1alpha1.SeenAs, bool) {
	all = slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return !e.to.Overlaps(place) })
	if len(all) == 0 {
		return nil, false
	}
	longest := slices.MaxFunc(all, func(a, b entry) int { return a.to.Bits() - b.to.Bits() })
	if longest.to.Bits() <= place.Bits() {
		if longest.As == setv1alpha1.SeenRoutable {
			return nil, false
		}
		return longest.SeenAs, true
	}
	low := netip.PrefixFrom(place.Addr(), place.Bits()+1)
	raw := place.Addr().AsSlice()
	raw[place.Bits()/8] |= 0x80 >> (place.Bits() % 8)
	middle, _ := netip.AddrFromSlice(raw)
	for _, half := range []netip.Prefix{low, netip.PrefixFrom(middle, place.Bits()+1)} {
		if s, hidden := hiddenFrom(all, half); hidden {
			return s, true
		}
	}
	return nil, false
}

func cidrs(list []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range list {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// Admits reports what a policy says about packets that come from Pods of a cluster: whether a rule
// allows them, and whether another rule is about them. Whether there are such Pods is not asked.
// For packets that go there it does not matter as what the Pods are seen.
func Admits(p *policy.Policy, from *setv1alpha1.Cluster) (allows, other bool) {
	given := Given(from.Name, from.Labels)
	for i := range p.Ingress {
		r := &p.Ingress[i]
		if !slices.ContainsFunc(r.Peers, func(peer policy.Peer) bool { return peer.Scope == ScopeClusterSet && mayMeanPods(&peer, given) }) {
			continue
		}
		if r.Action == policy.Allow {
			allows = true
		} else {
			other = true
		}
	}
	return allows, other
}

// mayMeanPods reports whether a peer may mean Pods of a cluster whose Namespaces have these labels,
// besides other labels that do not matter.
func mayMeanPods(peer *policy.Peer, given map[string]string) bool {
	if check(peer) != nil || peer.NodeSelector != nil || peer.ExternalEntitySelector != nil && peer.PodSelector == nil {
		return false
	}
	if peer.ServiceAccount != nil || peer.NamespaceSelector == nil {
		return true
	}
	for key, value := range peer.NamespaceSelector.MatchLabels {
		if has, is := given[key]; Reserved(key) && (!is || has != value) {
			return false
		}
	}
	for _, r := range peer.NamespaceSelector.MatchExpressions {
		if !Reserved(r.Key) {
			continue
		}
		has, is := given[r.Key]
		in := is && slices.Contains(r.Values, has)
		if holds := map[string]bool{"In": in, "NotIn": !in, "Exists": is, "DoesNotExist": !is}; !holds[string(r.Operator)] {
			return false
		}
	}
	return true
}

// HiddenWords says what is hidden, and what to do.
func HiddenWords(source, viewer string, s *setv1alpha1.SeenAs) string {
	as := "by the addresses of their Nodes"
	if s.As == setv1alpha1.SeenEgress {
		as = "by " + strings.Join(s.Addresses, ", ")
	}
	return fmt.Sprintf("%s sees the Pods of %s %s (seenAs of Cluster %s to %s), which others share", viewer, source, as, source, s.To)
}
