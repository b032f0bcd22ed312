// Package intenttest makes small inputs of the planner for the tests of its layers: one network
// with VMs, their security groups and policies, all of them by name.
//
// It owns the shape of these worlds, and decides nothing: what becomes of one is for the layers to
// say. A text that cannot be read is a mistake of the test, and panics. One goroutine may use a
// World at a time.
package intenttest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
)

// The names that all worlds have in common.
const (
	Cluster, Account, Owner = "cluster", "vms/shop", "us"
	RegionName, Network     = "here", "vpc"
)

// Everything is a cloud whose rules can say all.
type Everything struct{}

// Unsupported is nothing.
func (Everything) Unsupported(flow.Service) string { return "" }

// World is the input about one account with one region.
type World struct {
	intent.Input
	Snap *cloud.Snapshot
}

// New returns a world of selected VMs. Each of them, say web, has the interface eni-web with the
// address 10.0.0.10, the next one 10.0.0.11 and so on, in the group sg-web without rules.
func New(vms ...string) *World {
	s := &cloud.Snapshot{
		Scope: cloud.Scope{Account: Account, Region: RegionName}, OwnerID: Owner,
		Networks: []cloud.Network{{ID: Network, OwnerID: Owner, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}},
	}
	w := &World{Snap: s, Input: intent.Input{
		ClusterID: Cluster, Account: Account, Entities: map[intent.EntityRef]intent.VMRef{}, Modes: map[intent.VMRef]intent.Mode{},
		Regions: []intent.Observed{{Snapshot: s, Limits: cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 2500, TagsPerResource: 50}}},
	}}
	for i, name := range vms {
		s.Groups = append(s.Groups, cloud.Group{ID: "sg-" + name, Name: name, NetworkID: Network, OwnerID: Owner})
		s.VMs = append(s.VMs, cloud.VM{ID: name, Name: name, NetworkID: Network, Interfaces: []string{"eni-" + name}})
		s.Interfaces = append(s.Interfaces, cloud.Interface{
			ID: "eni-" + name, VMID: name, NetworkID: Network, OwnerID: Owner, GroupIDs: []string{"sg-" + name},
			PrivateIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(10 + i)})},
		})
		w.Entities[Entity(name)] = VM(name)
	}
	w.sort()
	return w
}

// VM names a VM of the world.
func VM(name string) intent.VMRef { return intent.VMRef{Region: RegionName, ID: name} }

// Entity is the entity of a VM.
func Entity(name string) intent.EntityRef { return intent.EntityRef{Namespace: "vms", Name: name} }

// sort puts objects into the order that snapshots have.
func (w *World) sort() {
	slices.SortFunc(w.Snap.Groups, func(a, b cloud.Group) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(w.Snap.Interfaces, func(a, b cloud.Interface) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(w.Snap.VMs, func(a, b cloud.VM) int { return cmp.Compare(a.ID, b.ID) })
}

// NIC is the interface of a VM.
func (w *World) NIC(vm string) *cloud.Interface { return w.Snap.Interface("eni-" + vm) }

// Limits returns the limits of the region.
func (w *World) Limits() *cloud.Limits { return &w.Regions[0].Limits }

// Deselect leaves VMs to others: no entity stands for them.
func (w *World) Deselect(vms ...string) {
	for _, name := range vms {
		delete(w.Entities, Entity(name))
	}
}

// Native gives a group rules of its owner, such as "ingress tcp 22-25 from sg-web" or
// "egress all to 0.0.0.0/0".
func (w *World) Native(group string, rules ...string) {
	g := w.Snap.Group(group)
	g.Rules = append(g.Rules, Rules(rules...)...)
}

// Take puts a VM under control: its interface holds ours-NAME with the rules, and remembers what it
// held before. The group says that these policies are in force; a call without policies says
// nothing of it, and "none" that none are.
func (w *World) Take(vm string, rules []string, inForce ...string) *cloud.Group {
	tags := map[string]string{cloud.TagCluster: Cluster, cloud.TagAccount: Account, cloud.TagKind: cloud.KindClass, cloud.TagClass: vm}
	if len(inForce) > 0 {
		e := record.Enforcement{}
		for _, name := range inForce {
			if name != "none" {
				e[record.Shortened(name)] = true
			}
		}
		maps.Copy(tags, e.Tags())
	}
	id := "ours-" + vm
	w.Snap.Groups = append(w.Snap.Groups, cloud.Group{ID: id, Name: cloud.NamePrefix + vm, NetworkID: Network, OwnerID: Owner, Tags: tags, Rules: Rules(rules...)})
	n := w.NIC(vm)
	n.Tags = record.FormerTags(n.GroupIDs)
	n.GroupIDs = []string{id}
	w.sort()
	return w.Snap.Group(id)
}

// Seal has records checked, and signs the records of the VMs that are named.
func (w *World) Seal(vms ...string) {
	w.Input.Seal = record.NewSeal(make([]byte, record.SealKeySize), Cluster, Account)
	for _, name := range vms {
		n := w.NIC(name)
		n.Tags[cloud.TagSignature] = w.Input.Seal.Sign(RegionName, []record.Entry{{Interface: n.ID, Groups: record.Former(n)}})
	}
}

// SealAnew has another key from now on: the one before has signed what is signed.
func (w *World) SealAnew() {
	former := make([]byte, record.SealKeySize)
	w.Input.Seal = record.NewSeal(bytes.Repeat([]byte{1}, record.SealKeySize), Cluster, Account, former)
}

// Policy adds a policy of the application tier: its name is also its UID, the sooner it is added
// the sooner it is evaluated. It applies to the VMs that are named, and has rules such as
// "allow ingress tcp 80 from app 10.1.0.0/16" or "drop egress any to anywhere". A service that is
// neither a protocol, with or without a port, nor any is the name of a port.
func (w *World) Policy(name, to string, rules ...string) *v1beta2.NetworkPolicy {
	tier, priority := int32(250), float64(1+len(w.Policies))
	p := &v1beta2.NetworkPolicy{
		TierPriority: &tier, Priority: &priority, AppliedToGroups: []string{"to-" + name},
		SourceRef: &v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "vms", Name: name, UID: types.UID(name)},
	}
	p.Name, p.UID = name, types.UID(name)
	for i, text := range rules {
		p.Rules = append(p.Rules, w.rule(int32(i), text))
	}
	group := &v1beta2.AppliedToGroup{GroupMembers: w.Members(strings.Fields(to)...)}
	group.Name = "to-" + name
	w.Policies, w.AppliedToGroups = append(w.Policies, p), append(w.AppliedToGroups, group)
	return p
}

// Members are VMs as members of groups, also of such that nobody selects.
func (w *World) Members(vms ...string) (out []v1beta2.GroupMember) {
	for _, name := range vms {
		m := v1beta2.GroupMember{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "vms", Name: name}}
		if n := w.NIC(name); n != nil {
			for _, a := range n.PrivateIPs {
				m.IPs = append(m.IPs, a.AsSlice())
			}
		}
		out = append(out, m)
	}
	return out
}

// rule reads a rule of a policy.
func (w *World) rule(index int32, text string) v1beta2.NetworkPolicyRule {
	words := strings.Fields(text)
	action := v1beta2.RuleAction(strings.ToUpper(words[0][:1]) + words[0][1:])
	at := slices.IndexFunc(words, func(word string) bool { return word == "from" || word == "to" })
	r := v1beta2.NetworkPolicyRule{Action: &action, Priority: index, Direction: v1beta2.DirectionIn}
	var peer v1beta2.NetworkPolicyPeer
	var vms []string
	names := words[at+1:]
	if names[0] == "anywhere" {
		names = []string{"0.0.0.0/0", "::/0"}
	}
	for _, name := range names {
		block, err := netip.ParsePrefix(name)
		if err != nil {
			vms = append(vms, name)
			continue
		}
		peer.IPBlocks = append(peer.IPBlocks, v1beta2.IPBlock{CIDR: v1beta2.IPNet{IP: block.Addr().AsSlice(), PrefixLength: int32(block.Bits())}})
	}
	if len(vms) > 0 {
		group := &v1beta2.AddressGroup{GroupMembers: w.Members(vms...)}
		group.Name = strings.Join(vms, "+")
		if !slices.ContainsFunc(w.AddressGroups, func(g *v1beta2.AddressGroup) bool { return g.Name == group.Name }) {
			w.AddressGroups = append(w.AddressGroups, group)
		}
		peer.AddressGroups = []string{group.Name}
	}
	if r.From = peer; words[1] == "egress" {
		r.Direction, r.From, r.To = v1beta2.DirectionOut, v1beta2.NetworkPolicyPeer{}, peer
	}
	r.Services = services(words[2:at])
	return r
}

func services(words []string) []v1beta2.Service {
	if words[0] == "any" {
		return nil
	}
	protocol := v1beta2.Protocol(strings.ToUpper(words[0]))
	switch {
	case protocol != "TCP" && protocol != "UDP" && protocol != "SCTP" && protocol != "ICMP":
		named := intstr.FromString(words[0])
		return []v1beta2.Service{{Port: &named}}
	case len(words) == 1:
		return []v1beta2.Service{{Protocol: &protocol}}
	}
	from, to := span(words[1])
	if protocol == "ICMP" {
		kind := int32(from)
		return []v1beta2.Service{{Protocol: &protocol, ICMPType: &kind}}
	}
	port, end := intstr.FromInt(from), int32(to)
	return []v1beta2.Service{{Protocol: &protocol, Port: &port, EndPort: &end}}
}

// span reads "80" and "80-90".
func span(text string) (from, to int) {
	first, last, found := strings.Cut(text, "-")
	if !found {
		last = first
	}
	from, err := strconv.Atoi(first)
	to, other := strconv.Atoi(last)
	if cmp.Or(err, other) != nil {
		panic(fmt.Sprintf("%q is no range of numbers", text))
	}
	return from, to
}

var protocols = map[string]int{"all": cloud.AnyProtocol, "tcp": cloud.TCP, "udp": cloud.UDP, "icmp": cloud.ICMP, "icmpv6": cloud.ICMPv6, "gre": 47}

// Rules reads rules of security groups: "ingress tcp 22-25 from sg-web". A peer is a block, a
// prefix list (pl-1), a group that is still to be created (+NAME) or else the ID of a group.
func Rules(texts ...string) (out []cloud.Rule) {
	for _, text := range texts {
		words := strings.Fields(text)
		protocol, known := protocols[words[1]]
		r := cloud.Rule{Direction: cloud.Direction(words[0]), Match: cloud.NewMatch(protocol, -1, -1), Peer: peer(words[len(words)-1])}
		if from, to := 0, 65535; protocol == cloud.TCP || protocol == cloud.UDP {
			if len(words) == 5 {
				from, to = span(words[2])
			}
			r.Match = cloud.NewMatch(protocol, from, to)
		} else if len(words) == 5 {
			from, _ = span(words[2])
			r.Match = cloud.NewMatch(protocol, from, -1)
		}
		if !known || r.Direction != cloud.Ingress && r.Direction != cloud.Egress {
			panic(fmt.Sprintf("%q is no rule", text))
		}
		out = append(out, r)
	}
	slices.SortFunc(out, cloud.Rule.Compare)
	return out
}

func peer(text string) cloud.Peer {
	if block, err := netip.ParsePrefix(text); err == nil {
		return cloud.Peer{CIDR: block}
	}
	if name, created := strings.CutPrefix(text, "+"); created {
		return cloud.Peer{GroupName: name}
	}
	if strings.HasPrefix(text, "pl-") {
		return cloud.Peer{PrefixListID: text}
	}
	return cloud.Peer{GroupID: text}
}

// Region reads the world: the first layer, on which the tests of the others stand.
func (w *World) Region() *intent.Region { return intent.New(w.Input, Everything{}, nil).Regions[0] }

// Say says in words what is allowed: "tcp 80 10.0.0.11; any 10.9.0.0/16". Services that follow one
// another and are allowed to the same addresses are put together, and any are all those that none
// before it names.
func Say(p flow.Permit) string {
	var grants []flow.Grant
	for _, g := range p.Grants {
		if n := len(grants) - 1; n >= 0 && grants[n].Service.Protocol == g.Service.Protocol && int(grants[n].Service.To)+1 == int(g.Service.From) && grants[n].All.Equal(g.All) {
			grants[n].Service.To = g.Service.To
			continue
		}
		grants = append(grants, g)
	}
	var out []string
	for i, g := range grants {
		last := i == len(grants)-1
		if !last && g.Service == flow.Whole(g.Service.Protocol) && g.All.Equal(grants[len(grants)-1].All.Intersect(flow.Family(g.Service.Protocol))) {
			continue // as any
		}
		var to []string
		if !g.All.Empty() {
			to = append(to, g.All.Words(9))
		}
		for _, p := range g.Opaque {
			to = append(to, p.String())
		}
		name := strings.Replace(g.Service.String(), "any protocol", "any", 1)
		if len(to) > 0 {
			out = append(out, name+" "+strings.Join(to, ", "))
		} else if !last && len(grants[len(grants)-1].Opaque)+grants[len(grants)-1].All.Len() > 0 {
			out = append(out, name+" nobody")
		}
	}
	return cmp.Or(strings.Join(out, "; "), "nothing")
}
