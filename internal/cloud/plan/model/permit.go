package model

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Permit is what rules of one direction allow together. addresses says what a peer means; where it
// does not know, the peer is opaque. Of the grants only Service, All and Opaque are set.
func Permit(rules []cloud.Rule, addresses func(cloud.Peer) (set addrset.Set, known bool)) flow.Permit {
	return Unions(nil).Permit("", rules, addresses)
}

// Unions remembers what the peers of several rules mean together: many permits name the same ones.
type Unions map[string]addrset.Set

// Permit is the function of that name. The moment says which members groups have: peers mean the
// same whenever it is the same.
func (u Unions) Permit(moment string, rules []cloud.Rule, addresses func(cloud.Peer) (set addrset.Set, known bool)) flow.Permit {
	type match struct {
		service flow.Service
		peers   []cloud.Peer
		sets    []addrset.Set
		opaque  []cloud.Peer
		all     addrset.Set
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
		if set, known := addresses(r.Peer); known {
			m.peers, m.sets = append(m.peers, r.Peer), append(m.sets, set)
		} else {
			m.opaque = append(m.opaque, r.Peer)
		}
	}
	for _, m := range matches {
		m.all = u.union(moment, m.peers, m.sets)
	}
	var out flow.Permit
	for _, s := range flow.Partition(services) {
		g := flow.Grant{Service: s}
		var sets []addrset.Set
		for _, m := range matches {
			if m.service.Covers(s) {
				sets = append(sets, m.all)
				g.Opaque = append(g.Opaque, m.opaque...)
			}
		}
		g.All = addrset.Union(sets...).Intersect(flow.Family(s.Protocol))
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
