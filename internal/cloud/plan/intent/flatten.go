package intent

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Flattening is the input of flatten: one direction of one kind of interface.
type Flattening struct {
	rules []*Bound // in the order of evaluation
	View  *Network // where addresses are looked at from
	// native are the rules of the former groups; used only in an open direction.
	Native []cloud.Rule
	// kept is what goes on being allowed beside native, in an open direction; see regionState.kept.
	kept flow.Permit
	// whole are those of native that name a prefix list and from which nothing is taken out.
	whole map[cloud.Rule]bool
}

// Flatten turns ordered rules into what is allowed; c knows the addresses behind the peers.
func (f Flattening) Flatten(c *Region) flow.Permit {
	isolated := false
	var services []flow.Service
	for _, r := range f.rules {
		isolated = isolated || r.Verdict == Allow
		services = append(services, r.services...)
	}
	native := f.Native
	if isolated {
		native, f.kept = nil, flow.Permit{}
	}
	for _, r := range native {
		services = append(services, flow.ServiceOf(r.Match))
	}
	for _, g := range f.kept.Grants {
		services = append(services, g.Service)
	}
	var out flow.Permit
	cells := flow.Partition(services)
	f.whole = f.wholeLists(c, native, cells)
	for _, s := range cells {
		c.MayStop()
		out.Grants = append(out.Grants, f.cell(c, s, native))
	}
	return out.CollapseTypes().CollapseProtocols()
}

func (f Flattening) cell(c *Region, s flow.Service, native []cloud.Rule) flow.Grant {
	family := flow.Family(s.Protocol)
	every, named := c.walked(f.rules, s, f.View)
	matched, named := walked{every.allowed.Intersect(family), every.left.Intersect(family)}, walked{named.allowed.Intersect(family), named.left.Intersect(family)}
	all, anonymous, plain := matched.allowed, named.allowed, named.allowed
	out := flow.Grant{Service: s}
	for _, r := range native {
		if !flow.ServiceOf(r.Match).Covers(s) {
			continue
		}
		addrs, byAddr, known := c.NativePeer(r.Peer, f.View)
		switch {
		case !known:
			if p, whole := f.opaque(c, r.Peer, family, every.left.Union(every.allowed)); p.PrefixListID+p.GroupID != "" {
				out.Opaque = append(out.Opaque, p)
			} else if !whole {
				c.opaqueDropped(f.View, r.Peer)
			}
		case f.whole[r.Key()]:
			out.Opaque = append(out.Opaque, r.Peer)
			anonymous = anonymous.Union(addrs.Intersect(named.left))
			all = all.Union(addrs.Intersect(matched.left))
		case byAddr:
			anonymous = anonymous.Union(addrs.Intersect(named.left))
			plain = plain.Union(addrs.Intersect(named.left))
			fallthrough
		default:
			all = all.Union(addrs.Intersect(matched.left))
		}
	}
	if kept := f.kept.At(s).All; !kept.Empty() {
		all, anonymous, plain = all.Union(kept.Intersect(matched.left)), anonymous.Union(kept.Intersect(named.left)), plain.Union(kept.Intersect(named.left))
	}
	out.Opaque = flow.Opaques(out.Opaque)
	out.All, out.Anonymous, out.Plain = all, anonymous.Intersect(all), plain.Intersect(all)
	return out
}

// opaque is what stays allowed of a peer whose addresses are not known, where rules leave only some
// addresses open. It is no peer if nothing stays, which is the whole truth unless the cloud cannot
// leave addresses out.
func (f Flattening) opaque(c *Region, p cloud.Peer, family, open addrset.Set) (stays cloud.Peer, whole bool) {
	may := f.mayBe(p).Intersect(family).Minus(flow.Excepted(p))
	switch {
	case may.Within(open):
		return p, true
	case p.PrefixListID == "" || !c.Limits.Excepts:
		return cloud.Peer{}, false
	case !may.Overlaps(open):
		return cloud.Peer{}, true
	}
	return flow.Except(p, addrset.All().Minus(open)), true
}

// mayBe returns the addresses that a peer whose members are not known may have.
func (f Flattening) mayBe(p cloud.Peer) addrset.Set {
	if p.GroupID != "" {
		return f.View.around
	}
	return addrset.All()
}
