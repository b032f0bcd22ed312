package plan_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim/aws"
	simpacket "github.com/nephele-io/nephele/internal/sim/aws/packet"
	simworld "github.com/nephele-io/nephele/internal/sim/world"
)

// mirror is the simulated AWS account beside a fakeCloud: it gets the same operations, must accept
// them, and must come to the same verdicts.
type mirror struct {
	world  *simworld.World
	region *simworld.Region
	now    time.Time
}

// newMirror builds the account of the estate in the simulator.
func (e *estate) newMirror() (*mirror, error) {
	f := e.cloud()
	owner := f.snap.OwnerID
	zone := aws.Zone{Name: testRegion + "a", ID: "euw1-az1"}
	rs := aws.RegionState{Account: owner, Name: testRegion, Zones: []aws.Zone{zone}}
	for _, n := range f.snap.Networks {
		vpc := aws.VPC{ID: n.ID, Account: owner, Region: testRegion, State: aws.StateAvailable}
		subnet := aws.Subnet{ID: strings.Replace(n.ID, "vpc-", "subnet-", 1), Account: owner, VPCID: n.ID, CIDR: n.CIDRs[0], Zone: zone, State: aws.StateAvailable}
		for _, c := range n.CIDRs {
			vpc.CIDRs = append(vpc.CIDRs, aws.CIDRBlock{Prefix: c})
		}
		for _, c := range n.CIDRs[1:] {
			subnet.IPv6 = append(subnet.IPv6, aws.CIDRBlock{Prefix: c})
		}
		rs.VPCs, rs.Subnets = append(rs.VPCs, vpc), append(rs.Subnets, subnet)
	}
	for _, l := range f.snap.PrefixLists {
		list := aws.PrefixList{ID: l.ID, Name: l.Name, OwnerID: l.OwnerID, Family: "IPv4", MaxEntries: l.MaxEntries, State: "create-complete"}
		var entries []aws.PrefixListEntry
		for _, p := range l.Entries {
			entries = append(entries, aws.PrefixListEntry{CIDR: p})
			if p.Addr().Is6() {
				list.Family = "IPv6"
			}
		}
		list.Versions = [][]aws.PrefixListEntry{entries}
		rs.PrefixLists = append(rs.PrefixLists, list)
	}
	next := 0
	for _, g := range f.snap.Groups {
		group := aws.SecurityGroup{ID: g.ID, Account: owner, VPCID: g.NetworkID, Name: g.Name, Description: "native"}
		for _, r := range g.Rules {
			next++
			rule := aws.SecurityGroupRule{
				ID: fmt.Sprintf("sgr-%08x", next), GroupID: g.ID, Account: owner, Egress: r.Direction == cloud.Egress,
				Protocol: protocolName(r.Match.Protocol), FromPort: int32(r.Match.From), ToPort: int32(r.Match.To),
				CIDR: r.Peer.CIDR, PrefixListID: r.Peer.PrefixListID,
			}
			if r.Peer.GroupID != "" {
				rule.Group = &aws.GroupPeer{GroupID: r.Peer.GroupID, UserID: cmp.Or(r.Peer.GroupOwner, owner)}
			}
			group.Rules = append(group.Rules, rule)
		}
		rs.SecurityGroups = append(rs.SecurityGroups, group)
	}
	for i, vm := range f.snap.VMs {
		if len(vm.Interfaces) == 0 || vm.Interfaces[0] == vm.ID {
			continue
		}
		state, _ := aws.ParseInstanceState("running")
		rs.Instances = append(rs.Instances, aws.Instance{
			ID: vm.ID, Account: owner, ReservationID: fmt.Sprintf("r-%08x", i), State: state, VPCID: vm.NetworkID,
			SubnetID: strings.Replace(vm.NetworkID, "vpc-", "subnet-", 1), InstanceType: "t3.micro", Zone: zone.Name,
		})
	}
	device := map[string]int{}
	for i, n := range f.snap.Interfaces {
		nic := aws.NetworkInterface{
			ID: n.ID, Account: owner, VPCID: n.NetworkID, SubnetID: strings.Replace(n.NetworkID, "vpc-", "subnet-", 1), Zone: zone.Name,
			InterfaceType: "interface", MAC: fmt.Sprintf("02:00:00:00:00:%02x", i), Status: aws.StatusAvailable, RequesterManaged: n.Managed, Tags: maps.Clone(n.Tags),
		}
		for _, a := range n.PrivateIPs {
			if a.Is6() {
				nic.IPv6 = append(nic.IPv6, a)
				continue
			}
			p := aws.PrivateIP{Addr: a, Primary: len(nic.PrivateIPs) == 0}
			if p.Primary && len(n.PublicIPs) > 0 {
				p.Public = n.PublicIPs[0]
			}
			nic.PrivateIPs = append(nic.PrivateIPs, p)
		}
		for _, id := range n.GroupIDs {
			nic.Groups = append(nic.Groups, aws.GroupName{ID: id, Name: f.group(id).Name})
		}
		if n.VMID != "" && n.VMID != n.ID {
			nic.Status = aws.StatusInUse
			nic.Attachment = &aws.Attachment{ID: fmt.Sprintf("eni-attach-%08x", i), InstanceID: n.VMID, DeviceIndex: device[n.VMID], Status: "attached"}
			device[n.VMID]++
		}
		rs.NetworkInterfaces = append(rs.NetworkInterfaces, nic)
	}
	st := aws.State{
		Version: aws.StateVersion, Seed: 1,
		Accounts: []aws.Account{{ID: owner, Regions: []string{testRegion}, Quotas: aws.Quotas{
			RulesPerGroup: e.Limits.RulesPerGroup, GroupsPerInterface: e.Limits.GroupsPerInterface,
		}}},
		Regions: []aws.RegionState{rs},
	}
	if len(e.Abroad) > 0 {
		account, region := e.mirrorAbroad(zone)
		st.Accounts, st.Regions = append(st.Accounts, account), append(st.Regions, region)
	}
	for i, p := range f.snap.Peerings {
		side := func(end cloud.PeeringEnd) aws.PeeringVPC {
			out := aws.PeeringVPC{VPCID: end.NetworkID, Account: end.OwnerID, Region: testRegion}
			if n := f.network(end.NetworkID); n != nil {
				out.CIDRs = n.CIDRs
			}
			return out
		}
		st.Peerings = append(st.Peerings, aws.PeeringConnection{ID: fmt.Sprintf("pcx-%08x", i), Status: aws.PeeringActive, Requester: side(p.A), Accepter: side(p.B)})
	}
	m := &mirror{now: time.Unix(1700000000, 0)}
	var err error
	if m.world, err = simworld.New(st, simworld.Options{Clock: func() time.Time { return m.now }}); err != nil {
		return nil, err
	}
	m.region, err = m.world.Region(owner, testRegion)
	return m, err
}

func protocolName(number int) string {
	if name := map[int]string{-1: "-1", 6: "tcp", 17: "udp", 1: "icmp", 58: "icmpv6"}[number]; name != "" {
		return name
	}
	return strconv.Itoa(number)
}

// apply does the operation in the simulator, as an adapter would; names are resolved already. It
// returns the ID of a created group.
func (m *mirror) apply(op cloud.Op) (id string, err error) {
	switch op.Kind {
	case cloud.OpCreateGroup:
		g, err := m.region.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{
			Name: op.Group.Name, Description: op.Group.Description, VPCID: op.Group.NetworkID, Tags: op.Group.Tags,
		})
		if err != nil {
			return "", err
		}
		var ids []string
		for _, r := range g.Rules {
			ids = append(ids, r.ID)
		}
		if len(ids) > 0 {
			_, err = m.region.Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: g.ID, Egress: true, RuleIDs: ids})
		}
		return g.ID, err
	case cloud.OpAddRules, cloud.OpRemoveRules:
		return "", m.applyRules(op)
	case cloud.OpSetRules: // no call of this cloud: nobody looks before it is done
		if err := m.applyRules(cloud.Op{Kind: cloud.OpRemoveRules, Target: op.Target, Rules: op.Removed()}); err != nil {
			return "", err
		}
		return "", m.applyRules(cloud.Op{Kind: cloud.OpAddRules, Target: op.Target, Rules: op.Added()})
	case cloud.OpReplaceRules:
		return "", m.replaceRules(op)
	case cloud.OpSetInterfaceGroups:
		return "", m.region.Interfaces().ModifyNetworkInterfaceGroups(op.Target, op.GroupIDs)
	case cloud.OpTag:
		var tags []aws.Tag
		for k, v := range op.Tags {
			tags = append(tags, aws.Tag{Key: k, Value: v})
		}
		return "", m.region.CreateTags(op.Subjects(), tags)
	case cloud.OpUntag:
		var keys []aws.TagKey
		for k := range op.Tags {
			keys = append(keys, aws.TagKey{Key: k})
		}
		return "", m.region.DeleteTags(op.Subjects(), keys)
	default:
		_, err := m.region.Groups().DeleteSecurityGroup(op.Target, "")
		return "", err
	}
}

func (m *mirror) applyRules(op cloud.Op) error {
	for _, d := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
		var perms []aws.Permission
		for _, r := range op.Rules {
			if r.Direction == d {
				perms = append(perms, permissionOf(r))
			}
		}
		if len(perms) == 0 {
			continue
		}
		var err error
		if op.Kind == cloud.OpAddRules {
			_, err = m.region.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: op.Target, Egress: d == cloud.Egress, Permissions: perms})
		} else {
			_, err = m.region.Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: op.Target, Egress: d == cloud.Egress, Permissions: perms})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func permissionOf(r cloud.Rule) aws.Permission {
	p := aws.Permission{Protocol: protocolName(r.Match.Protocol)}
	switch r.Match.Protocol {
	case cloud.TCP, cloud.UDP, cloud.ICMP, cloud.ICMPv6:
		from, to := int32(r.Match.From), int32(r.Match.To)
		p.FromPort, p.ToPort = &from, &to
	}
	switch {
	case r.Peer.CIDR.IsValid():
		p.CIDRs = []aws.CIDRPeer{{CIDR: r.Peer.CIDR.String(), IPv6: r.Peer.CIDR.Addr().Is6(), Description: r.Description}}
	case r.Peer.PrefixListID != "":
		p.PrefixLists = []aws.PrefixListPeer{{PrefixListID: r.Peer.PrefixListID, Description: r.Description}}
	default:
		p.Groups = []aws.GroupRef{{GroupID: r.Peer.GroupID, UserID: r.Peer.GroupOwner, Description: r.Description}}
	}
	return p
}

// replaceRules finds the rules' IDs and modifies them.
func (m *mirror) replaceRules(op cloud.Op) error {
	rules, err := m.region.SecurityGroupRules()
	if err != nil {
		return err
	}
	var updates []aws.RuleUpdate
	for i, old := range op.Replaced {
		was, now := permissionOf(old), permissionOf(op.Rules[i])
		u := aws.RuleUpdate{
			Protocol: &now.Protocol, FromPort: now.FromPort, ToPort: now.ToPort, CIDRIPv4: "", Description: &op.Rules[i].Description,
			PrefixListID: op.Rules[i].Peer.PrefixListID, ReferencedGroupID: op.Rules[i].Peer.GroupID,
		}
		if c := op.Rules[i].Peer.CIDR; c.IsValid() && c.Addr().Is4() {
			u.CIDRIPv4 = c.String()
		} else if c.IsValid() {
			u.CIDRIPv6 = c.String()
		}
		for _, r := range rules {
			peer := ""
			if r.Group != nil {
				peer = r.Group.GroupID
			}
			ports := was.FromPort == nil || r.FromPort == *was.FromPort && r.ToPort == *was.ToPort
			if r.GroupID == op.Target && r.Egress == (old.Direction == cloud.Egress) && r.Protocol == was.Protocol && ports &&
				r.CIDR == old.Peer.CIDR && r.PrefixListID == old.Peer.PrefixListID && peer == old.Peer.GroupID {
				u.RuleID = r.ID
			}
		}
		updates = append(updates, u)
	}
	return m.region.Groups().ModifySecurityGroupRules(op.Target, updates)
}

// compare asks the simulator for some of the flows.
func (m *mirror) compare(r *rand.Rand, flows []connection, got []bool, samples int) error {
	for range min(samples, len(flows)) {
		i := r.IntN(len(flows))
		fl := flows[i]
		v, err := m.world.Allowed(fl.simulated())
		if err != nil {
			return fmt.Errorf("%s: %w", fl, err)
		}
		if v.Allowed != got[i] {
			return fmt.Errorf("%s: the simulator says %v (%s), the test's own evaluator %v", fl, v.Allowed, v.Reason, got[i])
		}
	}
	return nil
}

// simulated is the flow as the simulator is asked about it.
func (fl connection) simulated() simpacket.Flow {
	f := simpacket.Flow{Protocol: fl.protocol, Port: fl.port, ICMPType: fl.port >> 8, ICMPCode: fl.port & 0xff}
	f.Src, f.Dst = fl.end(fl.src, fl.srcAddr, fl.dst), fl.end(fl.dst, fl.dstAddr, fl.src)
	return f
}

// end names one end for the simulator: an interface on a private path, or whose own half counts; an
// address otherwise.
func (fl connection) end(nic int, addr netip.Addr, other int) simpacket.End {
	if nic < 0 {
		return simpacket.End{Addr: addr}
	}
	if fl.private || other < 0 {
		return simpacket.End{NIC: nicID(nic), Addr: addr}
	}
	return simpacket.End{Addr: addr} // by its public address
}
