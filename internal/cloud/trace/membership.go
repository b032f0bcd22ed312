package trace

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Membership is what decides about the packets of interfaces: the network that they are in, and the
// groups that they hold. It answers for all addresses at once what Cloud.Follow answers for one
// packet; both read rules by the same extent.
type Membership struct {
	cloud   *Cloud
	region  *region
	network string
	ids     []string
	held    []*cloud.Group
	// open tells that nothing filters, as with load balancers that were made without groups.
	open bool
	// untold tells that it is not known which groups are held.
	untold bool
}

// Membership returns that of an interface; nil if it is not in sight.
func (c *Cloud) Membership(id string) *Membership {
	at, known := c.interfaces[id]
	if !known {
		return nil
	}
	return c.membership(at.region, at.Interface)
}

func (c *Cloud) membership(r *region, n *cloud.Interface) *Membership {
	m := &Membership{
		cloud: c, region: r, network: n.NetworkID, ids: n.GroupIDs, open: n.Managed && len(n.GroupIDs) == 0 && !c.untold[n.ID], untold: c.untold[n.ID],
	}
	for _, id := range n.GroupIDs {
		if g := r.groups[id]; g != nil { // others do not exist any more
			m.held = append(m.held, g)
		}
	}
	return m
}

// Key is equal for memberships that are the same; empty for nil.
func (m *Membership) Key() string {
	if m == nil {
		return ""
	}
	words := []string{m.region.snapshot.Account, m.region.snapshot.Region, m.network}
	if m.open {
		words = append(words, "open")
	}
	if m.untold {
		words = append(words, "untold")
	}
	return strings.Join(append(words, m.ids...), " ")
}

// Connected reports whether packets between two members keep their private addresses.
func (m *Membership) Connected(o *Membership) bool { return m.cloud.Connected(m.network, o.network) }

// Near reports whether references to groups of the one hold for the other.
func (m *Membership) Near(o *Membership) bool {
	return o != nil && (m.network == o.network || m.cloud.near[[2]string{m.network, o.network}])
}

// Services are what the groups tell apart in a direction.
func (m *Membership) Services(d cloud.Direction) []flow.Service {
	if m == nil {
		return nil
	}
	var out []flow.Service
	for _, g := range m.held {
		for i := range g.Rules {
			if g.Rules[i].Direction == d {
				out = append(out, flow.ServiceOf(g.Rules[i].Match))
			}
		}
	}
	return out
}

// Named calls f with every set of addresses that the groups tell apart in a direction.
func (m *Membership) Named(d cloud.Direction, f func(addrset.Set)) {
	if m == nil {
		return
	}
	for _, g := range m.held {
		for i := range g.Rules {
			if r := &g.Rules[i]; r.Direction == d {
				certain, perhaps := m.extent(nil, false, r.Peer).sets()
				f(certain)
				f(perhaps)
			}
		}
	}
}

// Allowed returns the addresses at the other end that the groups allow for a service, which lies in
// one piece of the partition of Services, and those that they may allow besides: it depends on
// groups and prefix lists that cannot be read. The other end is a member, or nil. Groups are not
// known where packets go by public addresses.
func (m *Membership) Allowed(d cloud.Direction, s flow.Service, other *Membership, byAddress bool) (certain, perhaps addrset.Set) {
	switch {
	case m.open:
		return addrset.All(), addrset.Set{}
	case m.untold:
		return addrset.Set{}, addrset.All()
	}
	m.rules(d, s, func(_ *cloud.Group, r *cloud.Rule) bool {
		yes, maybe := m.extent(other, byAddress, r.Peer).sets()
		certain, perhaps = certain.Union(yes), perhaps.Union(maybe)
		return true
	})
	return certain, perhaps.Minus(certain)
}

// rules calls f for every rule about a service, until it returns false.
func (m *Membership) rules(d cloud.Direction, s flow.Service, f func(*cloud.Group, *cloud.Rule) bool) {
	for _, g := range m.held {
		for i := range g.Rules {
			if r := &g.Rules[i]; r.Direction == d && flow.ServiceOf(r.Match).Covers(s) && !f(g, r) {
				return
			}
		}
	}
}

// extent is the set of machines and addresses that the peer of a rule means.
type extent struct {
	// all: any other end.
	all    bool
	blocks []netip.Prefix
	except cloud.Blocks
	// unread: it may mean others as well, but for addresses of the Internet if private is true.
	unread, private bool
}

// extent returns what a peer means at a member, if the other end is a member of other, or nil for
// any.
func (m *Membership) extent(other *Membership, byAddress bool, p cloud.Peer) extent {
	switch {
	case p.CIDR.IsValid():
		return extent{blocks: []netip.Prefix{p.CIDR}}
	case p.PrefixListID != "":
		if l := m.region.lists[p.PrefixListID]; l != nil && l.Known() {
			return extent{blocks: l.Entries, except: p.Except}
		}
		return extent{unread: true, except: p.Except}
	case other == nil:
		// A group of another account may have members that are not in sight, over a peering.
		foreign := p.GroupOwner != "" && p.GroupOwner != m.region.snapshot.OwnerID && m.cloud.known(p.GroupID) == nil
		return extent{unread: foreign || m.cloud.partly, private: true}
	case byAddress:
		return extent{}
	}
	return extent{all: slices.Contains(other.ids, p.GroupID) && m.Near(other), unread: other.untold && m.Near(other)}
}

// match is how a rule's peer stands to the other end.
type match int

const (
	no match = iota
	perhaps
	yes
)

// match judges one address; one that is not valid is some address of IPv4 in the Internet.
func (e extent) match(a netip.Addr) match {
	certain := e.all || slices.ContainsFunc(e.blocks, func(b netip.Prefix) bool {
		return a.IsValid() && b.Contains(a) || !a.IsValid() && b.Addr().Is4() && b.Bits() == 0
	})
	switch {
	case a.IsValid() && e.except.Contains(a):
		return no
	case certain:
		return yes
	case e.unread && !(e.private && Global(a)):
		return perhaps
	case !a.IsValid() && slices.ContainsFunc(e.blocks, func(b netip.Prefix) bool { return b.Addr().Is4() && Global(b.Addr()) }):
		return perhaps
	}
	return no
}

// sets are all addresses that are meant, and those that may be.
func (e extent) sets() (certain, perhaps addrset.Set) {
	except := addrset.OfPrefixes(e.except.Prefixes()...)
	if e.all {
		certain = addrset.All()
	} else {
		certain = addrset.OfPrefixes(e.blocks...).Minus(except)
	}
	if e.unread {
		perhaps = addrset.All()
		if e.private {
			perhaps = notGlobal()
		}
		perhaps = perhaps.Minus(except)
	}
	return certain, perhaps
}

// notGlobal are the addresses that Global says no of.
func notGlobal() addrset.Set {
	var out []netip.Prefix
	for _, text := range []string{
		"0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "224.0.0.0/4", "255.255.255.255/32",
		"::/127", "fc00::/7", "fe80::/10", "ff00::/8",
	} {
		out = append(out, netip.MustParsePrefix(text))
	}
	return addrset.OfPrefixes(out...)
}
