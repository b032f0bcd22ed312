package model

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Meaning is what a peer of a rule gives to a flow.Grant.
type Meaning struct {
	All, Anonymous, Plain addrset.Set
	// Opaque is set if the peer itself is one of the grant's.
	Opaque bool
}

// Known is the meaning of a peer as View.Addresses tells it: addresses, or else the peer itself.
func Known(all addrset.Set, known bool) Meaning { return Meaning{All: all, Opaque: !known} }

// Permit is what rules of one direction allow together.
func Permit(rules []cloud.Rule, meaning func(cloud.Peer) Meaning) flow.Permit {
	return permit(rules, func(s flow.Service, peers []cloud.Peer) flow.Grant { return join(s, peers, meaning) })
}

// permit is Permit, given what rules with some peers allow of a service together.
func permit(rules []cloud.Rule, allowed func(flow.Service, []cloud.Peer) flow.Grant) flow.Permit {
	peers := map[flow.Service][]cloud.Peer{}
	for _, r := range rules {
		s := flow.ServiceOf(r.Match)
		peers[s] = append(peers[s], r.Peer)
	}
	matches := make([]flow.Grant, 0, len(peers))
	for s, p := range peers {
		matches = append(matches, allowed(s, p))
	}
	var out flow.Permit
	for _, s := range flow.Partition(slices.Collect(maps.Keys(peers))) {
		out.Grants = append(out.Grants, flow.Join(s, matches))
	}
	return out
}

// join is what peers are allowed of a service together.
func join(s flow.Service, peers []cloud.Peer, meaning func(cloud.Peer) Meaning) flow.Grant {
	grants := make([]flow.Grant, 0, len(peers))
	for _, p := range peers {
		is := meaning(p)
		g := flow.Grant{Service: s, All: is.All, Anonymous: is.Anonymous, Plain: is.Plain}
		if is.Opaque {
			g.Opaque = []cloud.Peer{p}
		}
		grants = append(grants, g)
	}
	return flow.Join(s, grants)
}
