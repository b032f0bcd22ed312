package flow

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
)

// Excepted are the addresses that a peer leaves out of what it names.
func Excepted(p cloud.Peer) addrset.Set {
	if p.Except == "" {
		return addrset.Set{}
	}
	return addrset.OfPrefixes(p.Except.Prefixes()...)
}

// Except is a peer that leaves out addresses besides those that it leaves out already.
func Except(p cloud.Peer, addrs addrset.Set) cloud.Peer {
	p.Except = cloud.BlocksOf(Excepted(p).Union(addrs).Prefixes())
	return p
}

// whole is a peer that leaves nothing out.
func whole(p cloud.Peer) cloud.Peer {
	p.Except = ""
	return p
}

// Opaques is what peers whose addresses are not known mean together: sorted, each of them once, and
// left out of it is what all leave out. It reuses the slice.
func Opaques(peers []cloud.Peer) []cloud.Peer {
	slices.SortFunc(peers, cloud.Peer.Compare)
	peers = slices.Compact(peers)
	out := peers[:0]
	for _, p := range peers { // a peer that leaves nothing out sorts before those that do
		if n := len(out) - 1; n >= 0 && p.Except != "" && whole(out[n]) == whole(p) {
			out[n] = Except(whole(p), Excepted(out[n]).Intersect(Excepted(p)))
			continue
		}
		out = append(out, p)
	}
	return out
}

// inBoth is what two lists of Opaques have in common.
func inBoth(a, b []cloud.Peer) []cloud.Peer {
	var out []cloud.Peer
	for _, p := range a {
		if q, ok := sameName(b, p); ok {
			if p != q {
				p = Except(p, Excepted(q))
			}
			out = append(out, p)
		}
	}
	return out
}

// sameName finds the peer that names the same.
func sameName(list []cloud.Peer, p cloud.Peer) (cloud.Peer, bool) {
	if i := slices.IndexFunc(list, func(q cloud.Peer) bool { return whole(q) == whole(p) }); i >= 0 {
		return list[i], true
	}
	return cloud.Peer{}, false
}

// leftOut are the addresses that the grant excludes from a peer and does not allow otherwise.
func (c Grant) leftOut(p cloud.Peer) addrset.Set {
	out := Family(c.Service.Protocol)
	if q, ok := sameName(c.Opaque, p); ok {
		out = out.Intersect(Excepted(q))
	}
	return out.Minus(c.All)
}

// Lacks are the addresses that the peer may have and that the grant does not allow it. known is
// false if the grant does not name the peer at all; then it may lack any.
func (c Grant) Lacks(p cloud.Peer) (addrs addrset.Set, known bool) {
	if _, known = sameName(c.Opaque, p); !known {
		return addrset.Set{}, false
	}
	return c.leftOut(p).Minus(Excepted(p)), true
}

// AllowEither reports whether everything that a rule with such a peer allows of a service is
// allowed by one permit or the other, whatever addresses the peer has.
func AllowEither(a, b Permit, s Service, p cloud.Peer) bool {
	if a.names(s, p) || b.names(s, p) {
		return true
	}
	if p.PrefixListID == "" {
		return false
	}
	except := Excepted(p)
	return !slices.ContainsFunc(a.Union(b).Within(s), func(g Grant) bool { return !g.leftOut(p).Within(except) })
}

// names reports whether the very peer is allowed for all of a service.
func (p Permit) names(s Service, peer cloud.Peer) bool {
	return !slices.ContainsFunc(p.Within(s), func(g Grant) bool { return !slices.Contains(g.Opaque, peer) })
}
