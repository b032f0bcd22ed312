package model

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Meaning is what a peer of a rule gives to a flow.Grant.
type Meaning struct {
	All, Anonymous, Plain addrset.Set
	// Opaque is set if the peer itself is one of those of the grant.
	Opaque bool
}

// Known is the meaning of a peer as View.Addresses tells it: addresses, or else the peer itself.
func Known(all addrset.Set, known bool) Meaning { return Meaning{All: all, Opaque: !known} }

// Permit is what rules of one direction allow together.
func Permit(rules []cloud.Rule, meaning func(cloud.Peer) Meaning) flow.Permit {
	return Unions(nil).Permit("", rules, meaning)
}

// Unions remembers what the peers of several rules mean together: many permits name the same ones.
type Unions map[string]addrset.Set

// Permit is the function of that name. The moment says which members groups have: peers mean the
// same whenever it is the same.
func (u Unions) Permit(moment string, rules []cloud.Rule, meaning func(cloud.Peer) Meaning) flow.Permit {
	type match struct {
		service               flow.Service
		peers, opaque         []cloud.Peer
		all, anonymous, plain []addrset.Set // of all peers, and then what they mean together
	}
	var matches []*match
	var services []flow.Service
	at := map[cloud.Match]*match{}
	for _, r := range rules {
		m := at[r.Match]
		if m == nil {
			m = &match{service: flow.ServiceOf(r.Match)}
			at[r.Match], matches, services = m, append(matches, m), append(services, m.service)
		}
		is := meaning(r.Peer)
		if is.Opaque {
			m.opaque = append(m.opaque, r.Peer)
		}
		if !is.All.Empty() {
			m.peers, m.all = append(m.peers, r.Peer), append(m.all, is.All)
		}
		if !is.Anonymous.Empty() {
			m.anonymous, m.plain = append(m.anonymous, is.Anonymous), append(m.plain, is.Plain)
		}
	}
	for _, m := range matches {
		m.all = []addrset.Set{u.union(moment, m.peers, m.all)}
		m.anonymous, m.plain = []addrset.Set{addrset.Union(m.anonymous...)}, []addrset.Set{addrset.Union(m.plain...)}
	}
	var out flow.Permit
	for _, s := range flow.Partition(services) {
		g := flow.Grant{Service: s}
		var all, anonymous, plain []addrset.Set
		for _, m := range matches {
			if m.service.Covers(s) {
				all, anonymous, plain = append(all, m.all...), append(anonymous, m.anonymous...), append(plain, m.plain...)
				g.Opaque = append(g.Opaque, m.opaque...)
			}
		}
		family := flow.Family(s.Protocol)
		g.All, g.Anonymous, g.Plain = addrset.Union(all...).Intersect(family), addrset.Union(anonymous...).Intersect(family), addrset.Union(plain...).Intersect(family)
		g.Opaque = flow.Opaques(g.Opaque)
		out.Grants = append(out.Grants, g)
	}
	return out
}

// union is what peers mean together.
func (u Unions) union(moment string, peers []cloud.Peer, sets []addrset.Set) addrset.Set {
	if u == nil || len(sets) < 2 {
		return addrset.Union(sets...)
	}
	key := []byte(moment)
	for _, p := range peers {
		key = append(append(key, ' '), p.GroupOwner...)
		key = append(append(key, '/'), p.String()...)
	}
	out, ok := u[string(key)]
	if !ok {
		out = addrset.Union(sets...)
		u[string(key)] = out
	}
	return out
}
