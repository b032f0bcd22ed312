package plan_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// fakeCloud is the state of one region and account as a snapshot, with the rules of EC2 for changing it.
type fakeCloud struct {
	snap   *cloud.Snapshot
	limits cloud.Limits
	next   int
	// isAbroad reports whether an address in reach of a network holds a group of another account.
	isAbroad func(group, network string, addr netip.Addr) bool
	// mirror gets the same operations, unless it is nil.
	mirror *mirror
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
	out.snap, out.mirror = &s, nil
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

func (f *fakeCloud) named(network, name string) *cloud.Group {
	for i := range f.snap.Groups {
		if g := &f.snap.Groups[i]; g.NetworkID == network && strings.EqualFold(g.Name, name) {
			return g
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
	ids := map[string]string{}
	for _, g := range f.snap.Groups {
		ids[g.NetworkID+"/"+g.Name] = g.ID
	}
	op = op.Resolve(network, ids)
	created := ""
	if f.mirror != nil {
		id, err := f.mirror.apply(op)
		if err != nil {
			return fmt.Errorf("the simulator: %w", err)
		}
		created = id
	}
	switch op.Kind {
	case cloud.OpCreateGroup:
		if g := f.named(op.Group.NetworkID, op.Group.Name); g != nil {
			return fmt.Errorf("InvalidGroup.Duplicate %s", op.Group.Name)
		}
		if len(f.snap.Groups) >= f.limits.GroupsPerRegion {
			return fmt.Errorf("SecurityGroupLimitExceeded")
		}
		f.next++
		if created == "" {
			created = fmt.Sprintf("sg-ffff%04x", f.next)
		}
		f.snap.Groups = append(f.snap.Groups, cloud.Group{
			ID: created, Name: op.Group.Name, NetworkID: op.Group.NetworkID, OwnerID: f.snap.OwnerID,
			Description: op.Group.Description, Tags: maps.Clone(op.Group.Tags),
		})
	case cloud.OpAddRules, cloud.OpRemoveRules:
		return f.applyRules(op)
	case cloud.OpReplaceRules:
		return f.replaceRules(op)
	case cloud.OpSetInterfaceGroups:
		return f.setGroups(op)
	case cloud.OpTag, cloud.OpUntag:
		for _, id := range op.Subjects() {
			if err := f.tag(op, id); err != nil {
				return err
			}
		}
	case cloud.OpDeleteGroup:
		return f.deleteGroup(op.Target)
	}
	return nil
}

func (f *fakeCloud) applyRules(op cloud.Op) error {
	g := f.group(op.Target)
	if g == nil {
		return fmt.Errorf("InvalidGroup.NotFound %q", op.Target)
	}
	for _, r := range op.Rules {
		at := slices.IndexFunc(g.Rules, r.Same)
		if op.Kind == cloud.OpRemoveRules {
			if at < 0 {
				return fmt.Errorf("InvalidPermission.NotFound %s in %s", r, g.ID)
			}
			g.Rules = slices.Delete(slices.Clone(g.Rules), at, at+1)
			continue
		}
		if at >= 0 {
			return fmt.Errorf("InvalidPermission.Duplicate %s in %s", r, g.ID)
		}
		if r.Peer.GroupName != "" {
			return fmt.Errorf("unresolved group name %s", r.Peer.GroupName)
		}
		if r.Peer.GroupID != "" && r.Peer.GroupOwner == "" {
			peer := f.group(r.Peer.GroupID)
			if peer == nil || !f.peered(g.NetworkID, peer.NetworkID) {
				return fmt.Errorf("InvalidGroup.NotFound %s", r.Peer.GroupID)
			}
		}
		if c := r.Peer.CIDR; c.IsValid() && c.Masked() != c {
			return fmt.Errorf("CIDR %s has host bits", c)
		}
		r.ID = "sgr"
		g.Rules = append(slices.Clone(g.Rules), r)
	}
	slices.SortFunc(g.Rules, cloud.Rule.Compare)
	return f.quota(g)
}

func (f *fakeCloud) replaceRules(op cloud.Op) error {
	g := f.group(op.Target)
	if g == nil {
		return fmt.Errorf("InvalidGroup.NotFound %q", op.Target)
	}
	rules := slices.Clone(g.Rules)
	for i, r := range op.Rules {
		old := op.Replaced[i]
		at := slices.IndexFunc(rules, old.Same)
		switch {
		case at < 0:
			return fmt.Errorf("InvalidSecurityGroupRuleId.NotFound %s in %s", old, g.ID)
		case !r.Same(old) && slices.ContainsFunc(rules, r.Same):
			return fmt.Errorf("InvalidPermission.Duplicate %s in %s", r, g.ID)
		case r.Direction != old.Direction || kindOfPeer(r.Peer) != kindOfPeer(old.Peer):
			return fmt.Errorf("%s cannot become %s", old, r)
		}
		r.ID = rules[at].ID
		rules[at] = r
	}
	slices.SortFunc(rules, cloud.Rule.Compare)
	g.Rules = rules
	return f.quota(g)
}

func kindOfPeer(p cloud.Peer) string {
	return fmt.Sprint(p.CIDR.IsValid(), p.CIDR.Addr().Is4(), p.GroupID != "", p.PrefixListID != "")
}

func (f *fakeCloud) quota(g *cloud.Group) error {
	counts := map[string]int{}
	for _, r := range g.Rules {
		v4, v6 := 1, 1
		switch {
		case r.Peer.PrefixListID != "":
			for _, l := range f.snap.PrefixLists {
				if l.ID == r.Peer.PrefixListID {
					v4, v6 = l.MaxEntries, 0
					if len(l.Entries) > 0 && l.Entries[0].Addr().Is6() {
						v4, v6 = v6, v4
					}
				}
			}
		case r.Peer.CIDR.IsValid() && r.Peer.CIDR.Addr().Is4():
			v6 = 0
		case r.Peer.CIDR.IsValid():
			v4 = 0
		}
		counts[string(r.Direction)+"4"] += v4
		counts[string(r.Direction)+"6"] += v6
	}
	for k, n := range counts {
		if n > f.limits.RulesPerGroup {
			return fmt.Errorf("RulesPerSecurityGroupLimitExceeded: %s has %d %s rules", g.ID, n, k)
		}
	}
	return nil
}

func (f *fakeCloud) setGroups(op cloud.Op) error {
	n := f.nic(op.Target)
	if n == nil {
		return fmt.Errorf("InvalidNetworkInterfaceID.NotFound %s", op.Target)
	}
	if n.Managed {
		return fmt.Errorf("OperationNotPermitted %s", op.Target)
	}
	if len(op.GroupNames) > 0 {
		return fmt.Errorf("unresolved group names %v", op.GroupNames)
	}
	if len(op.GroupIDs) == 0 || len(op.GroupIDs) > f.limits.GroupsPerInterface {
		return fmt.Errorf("%d groups for %s", len(op.GroupIDs), n.ID)
	}
	for _, id := range op.GroupIDs {
		if g := f.group(id); g == nil || g.NetworkID != n.NetworkID {
			return fmt.Errorf("InvalidGroup.NotFound %s", id)
		}
	}
	n.GroupIDs = slices.Sorted(slices.Values(op.GroupIDs))
	return nil
}

func (f *fakeCloud) tag(op cloud.Op, id string) error {
	var tags *map[string]string
	if n := f.network(id); n != nil {
		tags = &n.Tags
	} else if n := f.nic(id); n != nil {
		tags = &n.Tags
	} else if g := f.group(id); g != nil {
		tags = &g.Tags
	} else {
		return fmt.Errorf("InvalidID %s", id)
	}
	if *tags == nil {
		*tags = map[string]string{}
	}
	for k, v := range op.Tags {
		if len(v) > 255 {
			return fmt.Errorf("tag value of %d characters", len(v))
		}
		if op.Kind == cloud.OpTag {
			(*tags)[k] = v
		} else {
			delete(*tags, k)
		}
	}
	return nil
}

func (f *fakeCloud) deleteGroup(id string) error {
	for _, n := range f.snap.Interfaces {
		if slices.Contains(n.GroupIDs, id) {
			return fmt.Errorf("DependencyViolation: %s is held by %s", id, n.ID)
		}
	}
	for _, g := range f.snap.Groups {
		for _, r := range g.Rules {
			if r.Peer.GroupID == id && g.ID != id {
				return fmt.Errorf("DependencyViolation: %s is referred to by %s", id, g.ID)
			}
		}
	}
	f.snap.Groups = slices.DeleteFunc(slices.Clone(f.snap.Groups), func(g cloud.Group) bool { return g.ID == id })
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
}

func (f *fakeCloud) prober() *prober {
	p := &prober{fakeCloud: f, rules: map[string][]cloud.Rule{}, held: map[string]map[string]bool{}, nics: map[string]*cloud.Interface{}}
	groups := map[string]*cloud.Group{}
	for i := range f.snap.Groups {
		groups[f.snap.Groups[i].ID] = &f.snap.Groups[i]
	}
	for i := range f.snap.Interfaces {
		n := &f.snap.Interfaces[i]
		p.nics[n.ID], p.held[n.ID] = n, map[string]bool{}
		for _, id := range n.GroupIDs {
			p.held[n.ID][id] = true
			p.rules[n.ID] = append(p.rules[n.ID], groups[id].Rules...)
		}
	}
	return p
}

// half decides one half by the rules of the interface's groups, as the cloud does.
func (p *prober) half(nic string, d cloud.Direction, r remote, k packet) bool {
	for _, rule := range p.rules[nic] {
		if rule.Direction == d && matches(rule.Match, k) && p.peerMatches(p.nics[nic], rule.Peer, r) {
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

func (p *prober) peerMatches(nic *cloud.Interface, peer cloud.Peer, r remote) bool {
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
