package plan_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
	"github.com/nephele-io/nephele/internal/cloud/plan/model/modeltest"
)

// fakeCloud is the state of one region and account as a snapshot, with the rules of EC2 for
// changing it.
type fakeCloud struct {
	snap   *cloud.Snapshot
	limits cloud.Limits
	next   int
	// isAbroad reports whether an address in reach of a network holds a group of another account.
	isAbroad func(group, network string, addr netip.Addr) bool
	// mirror gets the same operations, unless it is nil.
	mirror *mirror
	// model applies operations to snap, which has so many groups.
	model  *model.Model
	groups int
}

func (f *fakeCloud) clone() *fakeCloud {
	out := *f
	s := *f.snap
	s.Networks = slices.Clone(s.Networks)
	for i := range s.Networks {
		s.Networks[i].Tags = maps.Clone(s.Networks[i].Tags)
	}
	s.Interfaces = slices.Clone(s.Interfaces)
	for i := range s.Interfaces {
		s.Interfaces[i].Tags = maps.Clone(s.Interfaces[i].Tags)
		s.Interfaces[i].GroupIDs = slices.Clone(s.Interfaces[i].GroupIDs)
	}
	s.Groups = slices.Clone(s.Groups)
	for i := range s.Groups {
		s.Groups[i].Rules, s.Groups[i].Tags = slices.Clone(s.Groups[i].Rules), maps.Clone(s.Groups[i].Tags)
	}
	out.snap, out.mirror, out.model = &s, nil, nil
	return &out
}

func (f *fakeCloud) group(id string) *cloud.Group {
	for i := range f.snap.Groups {
		if f.snap.Groups[i].ID == id {
			return &f.snap.Groups[i]
		}
	}
	return nil
}

func (f *fakeCloud) nic(id string) *cloud.Interface {
	for i := range f.snap.Interfaces {
		if f.snap.Interfaces[i].ID == id {
			return &f.snap.Interfaces[i]
		}
	}
	return nil
}

func (f *fakeCloud) network(id string) *cloud.Network {
	for i := range f.snap.Networks {
		if f.snap.Networks[i].ID == id {
			return &f.snap.Networks[i]
		}
	}
	return nil
}

// peered reports whether a group of network b can be referenced from network a.
func (f *fakeCloud) peered(a, b string) bool {
	if a == b {
		return true
	}
	for _, p := range f.snap.Peerings {
		if p.A.Region == p.B.Region && (p.A.NetworkID == a && p.B.NetworkID == b || p.A.NetworkID == b && p.B.NetworkID == a) {
			return true
		}
	}
	return false
}

// apply does what the cloud would do, or fails as it would.
func (f *fakeCloud) apply(network string, op cloud.Op) error {
	if f.model == nil || f.model.Snapshot() != f.snap || f.groups != len(f.snap.Groups) {
		f.model = model.New(f.snap) // a test has put something else there
	}
	op = f.model.Resolve(network, op)
	if err := modeltest.Refuses(f.model, network, op, f.limits); err != nil {
		return err
	}
	if op.Kind == cloud.OpCreateGroup {
		f.next++
	}
	created := fmt.Sprintf("sg-ffff%04x", f.next)
	if f.mirror != nil {
		id, err := f.mirror.apply(op)
		if err != nil {
			return fmt.Errorf("the simulator: %w", err)
		}
		created = id
	}
	op.Rules = slices.Clone(op.Rules)
	for i := range op.Rules {
		op.Rules[i].ID = "sgr"
	}
	if err := f.model.ApplyAs(network, op, created); err != nil {
		return err
	}
	f.snap, f.groups = f.model.Snapshot(), len(f.model.Snapshot().Groups)
	return nil
}

// quota reports a group with more rules than it can hold.
func (f *fakeCloud) quota(g *cloud.Group) error {
	if n, where := modeltest.Fullest(model.NewView(f.snap), g.Rules); n > f.limits.RulesPerGroup {
		return fmt.Errorf("%s has %d %s rules", g.ID, n, where)
	}
	return nil
}

// packet is what rules look at besides the peer. For ICMP and ICMPv6, port is type*256+code.
type packet struct{ protocol, port int }

// remote is the other end as one interface sees it.
type remote struct {
	addr netip.Addr
	nic  string // the interface behind the address, if the path is private; else empty
}

// prober decides halves of flows in one state of the cloud.
type prober struct {
	*fakeCloud
	rules map[string][]cloud.Rule // by interface
	held  map[string]map[string]bool
	nics  map[string]*cloud.Interface
	// holders are the interfaces by the groups that they hold, lists the prefix lists.
	holders map[string][]string
	lists   []cloud.PrefixList
}

func (f *fakeCloud) prober() *prober {
	p := &prober{fakeCloud: f, rules: map[string][]cloud.Rule{}, held: map[string]map[string]bool{}, nics: map[string]*cloud.Interface{},
		holders: map[string][]string{}, lists: f.snap.PrefixLists}
	groups := map[string]*cloud.Group{}
	for i := range f.snap.Groups {
		groups[f.snap.Groups[i].ID] = &f.snap.Groups[i]
	}
	for i := range f.snap.Interfaces {
		n := &f.snap.Interfaces[i]
		p.nics[n.ID], p.held[n.ID] = n, map[string]bool{}
		for _, id := range n.GroupIDs {
			p.held[n.ID][id] = true
			p.holders[id] = append(p.holders[id], n.ID)
			p.rules[n.ID] = append(p.rules[n.ID], groups[id].Rules...)
		}
	}
	return p
}

// decidesAs reports whether an interface decides every half as in another state: it has the same
// rules, and their peers the same members. Addresses, networks and peerings do not change while
// plans are applied.
func (p *prober) decidesAs(o *prober, nic string) bool {
	if !slices.Equal(p.rules[nic], o.rules[nic]) {
		return false
	}
	for i := range p.rules[nic] {
		switch peer := &p.rules[nic][i].Peer; {
		case peer.PrefixListID != "":
			if len(p.lists) != len(o.lists) || &p.lists[0] != &o.lists[0] {
				return false
			}
		case peer.GroupID != "" && !slices.Equal(p.holders[peer.GroupID], o.holders[peer.GroupID]):
			return false
		}
	}
	return true
}

// half decides one half by the rules of the interface's groups, as the cloud does.
func (p *prober) half(nic string, d cloud.Direction, r remote, k packet) bool {
	rules := p.rules[nic]
	for i := range rules {
		if rule := &rules[i]; rule.Direction == d && matches(rule.Match, k) && p.peerMatches(p.nics[nic], &rule.Peer, r) {
			return true
		}
	}
	return false
}

func matches(m cloud.Match, p packet) bool {
	switch {
	case m.Protocol == cloud.AnyProtocol:
		return true
	case m.Protocol != p.protocol:
		return false
	case m.Protocol == cloud.TCP || m.Protocol == cloud.UDP:
		return m.From <= p.port && p.port <= m.To
	case m.Protocol == cloud.ICMP || m.Protocol == cloud.ICMPv6:
		return m.From < 0 || m.From == p.port>>8 && (m.To < 0 || m.To == p.port&0xff)
	default:
		return true
	}
}

func (p *prober) peerMatches(nic *cloud.Interface, peer *cloud.Peer, r remote) bool {
	switch {
	case peer.CIDR.IsValid():
		return peer.CIDR.Contains(r.addr)
	case peer.PrefixListID != "":
		for _, l := range p.snap.PrefixLists {
			if l.ID == peer.PrefixListID {
				return slices.ContainsFunc(l.Entries, func(e netip.Prefix) bool { return e.Contains(r.addr) })
			}
		}
		return false
	case peer.GroupOwner != "":
		return p.isAbroad(peer.GroupID, nic.NetworkID, r.addr)
	default:
		other := p.nics[r.nic]
		return other != nil && p.held[r.nic][peer.GroupID] && p.peered(nic.NetworkID, other.NetworkID) && slices.Contains(other.PrivateIPs, r.addr)
	}
}
