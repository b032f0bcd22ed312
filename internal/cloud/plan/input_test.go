package plan_test

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

const (
	testCluster = "11111111-2222-3333-4444-555555555555"
	testAccount = "vms/aws"
	testRegion  = "eu-west-1"
)

// cloud builds the account as it is before Nephele.
func (e *estate) cloud() *fakeCloud {
	s := &cloud.Snapshot{Scope: cloud.Scope{Account: testAccount, Region: testRegion}, OwnerID: "123456789012"}
	for i, n := range e.Networks {
		net := cloud.Network{ID: netID(i), OwnerID: s.OwnerID, Tags: e.claimTags(i), CIDRs: []netip.Prefix{netip.MustParsePrefix(n.V4)}}
		if n.V6 != "" {
			net.CIDRs = append(net.CIDRs, netip.MustParsePrefix(n.V6))
		}
		s.Networks = append(s.Networks, net)
	}
	for i, p := range e.Peerings {
		end := func(k int) cloud.PeeringEnd {
			return cloud.PeeringEnd{NetworkID: netID(k), OwnerID: s.OwnerID, Region: e.region(k)}
		}
		s.Peerings = append(s.Peerings, cloud.Peering{ID: fmt.Sprintf("pcx-%d", i), A: end(p[0]), B: end(p[1])})
	}
	for i, a := range e.Abroad {
		for _, k := range a.Peered {
			s.Peerings = append(s.Peerings, cloud.Peering{ID: fmt.Sprintf("pcx-f%d%d", i, k), A: cloud.PeeringEnd{NetworkID: netID(k), OwnerID: s.OwnerID, Region: e.region(k)},
				B: a.end(i)})
		}
	}
	for i := range e.Lists {
		s.PrefixLists = append(s.PrefixLists, e.listOf(i, s.OwnerID))
	}
	for i, g := range e.Groups {
		out := cloud.Group{ID: groupID(i), Name: fmt.Sprintf("native-%d", i), NetworkID: netID(g.Net), OwnerID: s.OwnerID, Default: g.Default}
		if g.Default {
			out.Name = "default"
		}
		if slices.Contains(e.Follows, i) {
			out.Tags = map[string]string{cloud.TagFollow: ""}
		}
		for _, r := range g.Rules {
			var k int
			if r.Peer.GroupID != "" && r.Peer.GroupOwner == "" {
				fmt.Sscanf(r.Peer.GroupID, "#%d", &k)
				r.Peer.GroupID = groupID(k)
			}
			if r.Peer.PrefixListID != "" {
				fmt.Sscanf(r.Peer.PrefixListID, "#%d", &k)
				r.Peer.PrefixListID = listID(k)
			}
			out.Rules = append(out.Rules, r)
		}
		slices.SortFunc(out.Rules, cloud.Rule.Compare)
		s.Groups = append(s.Groups, out)
	}
	for i := range e.VMs {
		s.VMs = append(s.VMs, cloud.VM{ID: e.subject(i), State: cloud.VMRunning})
	}
	for i, n := range e.NICs {
		nic := cloud.Interface{ID: nicID(i), NetworkID: netID(n.Net), OwnerID: s.OwnerID, Managed: n.Managed, Tags: n.tags()}
		for _, ip := range n.IPs {
			nic.PrivateIPs = append(nic.PrivateIPs, netip.MustParseAddr(ip))
		}
		if n.Public != "" {
			nic.PublicIPs = []netip.Addr{netip.MustParseAddr(n.Public)}
		}
		for _, g := range n.Groups {
			nic.GroupIDs = append(nic.GroupIDs, groupID(g))
		}
		slices.Sort(nic.GroupIDs)
		if n.VM >= 0 {
			nic.VMID = e.subject(n.VM)
			s.VMs[n.VM].Interfaces = append(s.VMs[n.VM].Interfaces, nic.ID)
			s.VMs[n.VM].NetworkID = nic.NetworkID
			e.represent(n.VM, &nic)
		}
		s.Interfaces = append(s.Interfaces, nic)
	}
	e.leaveOutFree(s)
	return &fakeCloud{snap: s, limits: e.Limits, isAbroad: func(group, network string, addr netip.Addr) bool {
		return slices.ContainsFunc(e.NICs, func(n nicSpec) bool { return netID(n.Net) == network && e.isAbroad(group, n.Net, addr) })
	}}
}

func netID(i int) string   { return fmt.Sprintf("vpc-%08x", i) }
func listID(i int) string  { return fmt.Sprintf("pl-%08x", i) }
func groupID(i int) string { return fmt.Sprintf("sg-%08x", i) }
func vmID(i int) string    { return fmt.Sprintf("i-%08x", i) }
func nicID(i int) string   { return nicIDs[i] }

// nicIDs saves the formatting, which would take longer than the verdicts.
var nicIDs = func() (ids [64]string) {
	for i := range ids {
		ids[i] = fmt.Sprintf("eni-%08x", i)
	}
	return ids
}()

// input builds what the planner is given for a policy set.
func (e *estate) input(set policySet, f *fakeCloud) plan.Input {
	in := plan.Input{
		ClusterID: testCluster, Account: testAccount, Entities: map[plan.EntityRef]plan.VMRef{},
		Regions: e.views(f), Failsafe: e.failsafe(),
		Dependents: plan.DependentsRule{Default: plan.FollowDependents}, // does nothing where no group has the tag
	}
	e.choose(&in)
	for i, members := range set.Address {
		g := &v1beta2.AddressGroup{}
		g.Name = fmt.Sprintf("ag-%d", i)
		for _, m := range members {
			if member, ok := e.member(m); ok {
				for _, a := range e.memberAddrs(m) {
					b := a.As16()
					member.IPs = append(member.IPs, b[:])
				}
				g.GroupMembers = append(g.GroupMembers, member)
			}
		}
		in.AddressGroups = append(in.AddressGroups, g)
	}
	for i, members := range set.Applied {
		g := &v1beta2.AppliedToGroup{}
		g.Name = fmt.Sprintf("atg-%d", i)
		for _, m := range members {
			if member, ok := e.member(m); ok {
				member.Ports = e.ports(m)
				g.GroupMembers = append(g.GroupMembers, member)
			}
		}
		in.AppliedToGroups = append(in.AppliedToGroups, g)
	}
	for i := range set.Policies {
		in.Policies = append(in.Policies, e.policy(&set.Policies[i], i))
	}
	if e.Sealed {
		in.Seal = testSeal('k', false)
	}
	for i, let := range set.Agents {
		if in.Agents == nil {
			in.Agents = map[plan.VMRef][2]bool{}
		}
		in.Agents[e.ref(i)] = let
	}
	for i, m := range set.Modes {
		if in.Modes == nil {
			in.Modes = map[plan.VMRef]plan.Mode{}
		}
		in.Modes[e.ref(i)] = m
	}
	return in
}

func (e *estate) member(i int) (v1beta2.GroupMember, bool) {
	if i >= len(e.VMs) {
		return v1beta2.GroupMember{Pod: &v1beta2.PodReference{Namespace: "pods", Name: fmt.Sprintf("pod-%d", i)}}, true
	}
	return v1beta2.GroupMember{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "vms", Name: vmID(i)}}, e.VMs[i].Selected
}

// memberAddrs are the addresses that a member's GroupMember carries.
func (e *estate) memberAddrs(i int) []netip.Addr {
	if i >= len(e.VMs) {
		return []netip.Addr{netip.MustParseAddr(e.outside()[(i-len(e.VMs))%len(outsiders)])}
	}
	var out []netip.Addr
	for _, n := range e.NICs {
		if n.VM == i {
			for _, ip := range n.IPs {
				out = append(out, netip.MustParseAddr(ip))
			}
			if n.Public != "" {
				out = append(out, netip.MustParseAddr(n.Public))
			}
		}
	}
	return out
}

func (e *estate) policy(p *policySpec, i int) *v1beta2.NetworkPolicy {
	np := &v1beta2.NetworkPolicy{}
	np.Name = fmt.Sprintf("uid-%d-%v-%v-%d", i, p.Tier, p.Priority, len(p.Rules))
	np.UID = types.UID(np.Name)
	np.SourceRef = &v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "vms", Name: fmt.Sprintf("p%d", i), UID: np.UID}
	np.Priority, np.TierPriority = &p.Priority, &p.Tier
	if p.K8s {
		np.SourceRef.Type, np.Priority, np.TierPriority = v1beta2.K8sNetworkPolicy, nil, nil
	}
	for _, a := range p.Applied {
		np.AppliedToGroups = append(np.AppliedToGroups, fmt.Sprintf("atg-%d", a))
	}
	for k, r := range p.Rules {
		out := v1beta2.NetworkPolicyRule{Direction: v1beta2.DirectionIn, Priority: int32(k), Action: &p.Rules[k].Action}
		if p.K8s {
			out.Priority = -1
		}
		for _, a := range r.Applied {
			out.AppliedToGroups = append(out.AppliedToGroups, fmt.Sprintf("atg-%d", a))
		}
		peer := &out.From
		if r.Out {
			out.Direction, peer = v1beta2.DirectionOut, &out.To
		}
		for _, a := range r.Address {
			peer.AddressGroups = append(peer.AddressGroups, fmt.Sprintf("ag-%d", a))
		}
		for _, b := range r.Blocks {
			block := v1beta2.IPBlock{CIDR: ipNet(b.CIDR)}
			for _, x := range b.Except {
				block.Except = append(block.Except, ipNet(x))
			}
			peer.IPBlocks = append(peer.IPBlocks, block)
		}
		for _, s := range r.Services {
			out.Services = append(out.Services, s.service())
		}
		np.Rules = append(np.Rules, out)
	}
	return np
}

func (s serviceSpec) service() v1beta2.Service {
	out := v1beta2.Service{Protocol: &s.Protocol}
	if s.Name != "" {
		port := intstr.FromString(s.Name)
		out.Port = &port
	}
	if s.From > 0 {
		port := intstr.FromInt32(s.From)
		out.Port, out.EndPort = &port, &s.To
	}
	if s.Type >= 0 {
		out.ICMPType = &s.Type
		if s.Code >= 0 {
			out.ICMPCode = &s.Code
		}
	}
	return out
}

func ipNet(s string) v1beta2.IPNet {
	p := netip.MustParsePrefix(s)
	b := p.Addr().As16()
	return v1beta2.IPNet{IP: b[:], PrefixLength: int32(p.Bits())}
}
