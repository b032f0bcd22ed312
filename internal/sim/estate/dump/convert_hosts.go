package dump

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate/defaults"
)

// buildInstances makes the instances and the interfaces that their answers hold.
func (b *builder) buildInstances() error {
	for i := range b.raw.reservations {
		r := &b.raw.reservations[i]
		for k := range r.Instances {
			if r.Instances[k].InstanceId == "" {
				return b.fault("Reservations", fmt.Sprintf("reservation %d, instance %d", i, k), "InstanceId", "expected an id")
			}
			if err := b.instance(r, &r.Instances[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *builder) instance(r *rawReservation, raw *rawInstance) error {
	b.own("Reservations", r.OwnerId)
	id := b.id("i", raw.InstanceId)
	for n := 2; b.instances[id] != nil; n++ {
		id = defaults.ID("i", b.raw.name, raw.InstanceId, fmt.Sprint(n))
		b.warn("Reservations", raw.InstanceId, "appears again; this one is given the id %s", id)
	}
	state, ok := aws.ParseInstanceState(cmp.Or(raw.State.Name, "running"))
	if !ok {
		return b.fault("Reservations", raw.InstanceId, "State.Name", "expected the state of an instance, found %q", raw.State.Name)
	}
	x := &aws.Instance{
		ID: id, Account: b.account, ReservationID: cmp.Or(r.ReservationId, defaults.ID("r", id)), ImageID: raw.ImageId,
		InstanceType: raw.InstanceType, KeyName: raw.KeyName, ClientToken: raw.ClientToken, LaunchIndex: raw.AmiLaunchIndex,
		LaunchTime: raw.LaunchTime.Time, Zone: raw.Placement.AvailabilityZone, Tenancy: cmp.Or(raw.Placement.Tenancy, "default"),
		State: state, TransitionReason: raw.StateTransitionReason, Tags: tagsOf(raw.Tags),
	}
	b.instances[id] = x
	if state == aws.Terminated {
		return nil
	}
	if len(raw.NetworkInterfaces) == 0 {
		b.warn("Reservations", raw.InstanceId, "has no network interface in its answer; one was made up from its address and groups")
		raw.NetworkInterfaces = []rawNIC{primaryNIC(raw)}
	}
	for k := range raw.NetworkInterfaces {
		n := &raw.NetworkInterfaces[k]
		if n.Attachment == nil {
			n.Attachment = &rawAttachment{DeviceIndex: k, DeleteOnTermination: k == 0}
		}
		n.Attachment.InstanceId = id
		n.AvailabilityZone = cmp.Or(n.AvailabilityZone, x.Zone)
		made, err := b.nic("Reservations", raw.InstanceId, n)
		if err != nil {
			return err
		}
		if k == 0 || made.Attachment.DeviceIndex == 0 {
			x.VPCID, x.SubnetID = made.VPCID, made.SubnetID
			x.Zone = cmp.Or(x.Zone, made.Zone)
		}
	}
	return nil
}

// primaryNIC is the interface of an instance whose answer has none.
func primaryNIC(raw *rawInstance) rawNIC {
	n := rawNIC{
		NetworkInterfaceId: "made up for " + raw.InstanceId, VpcId: raw.VpcId, SubnetId: raw.SubnetId, Status: aws.StatusInUse,
		PrivateIpAddress: raw.PrivateIpAddress, Ipv6Address: raw.Ipv6Address, Groups: raw.SecurityGroups,
	}
	if raw.PublicIpAddress != "" {
		n.Association = &rawAssociation{PublicIp: raw.PublicIpAddress, IpOwnerId: "amazon"}
	}
	return n
}

// nic makes one interface. An id that another interface has already is replaced.
func (b *builder) nic(member, owner string, raw *rawNIC) (*aws.NetworkInterface, error) {
	b.own(member, raw.OwnerId)
	if raw.NetworkInterfaceId == "" {
		return nil, b.fault(member, owner, "NetworkInterfaceId", "expected an id")
	}
	id := b.id("eni", raw.NetworkInterfaceId)
	n := &aws.NetworkInterface{
		ID: id, Account: b.account, Zone: raw.AvailabilityZone, Description: raw.Description,
		InterfaceType: cmp.Or(raw.InterfaceType, "interface"), MAC: raw.MacAddress, RequesterID: raw.RequesterId,
		RequesterManaged: raw.RequesterManaged, SourceDestCheck: raw.SourceDestCheck == nil || *raw.SourceDestCheck,
		Status: cmp.Or(raw.Status, aws.StatusAvailable), Tags: tagsOf(raw.TagSet),
	}
	if b.nics[id] != nil {
		n.ID = defaults.ID("eni", b.raw.name, owner, raw.NetworkInterfaceId, raw.PrivateIpAddress)
		n.MAC = ""
		b.warn(member, owner, "its interface %s has the id of another one; it is given the id %s", raw.NetworkInterfaceId, n.ID)
	}
	n.MAC = cmp.Or(n.MAC, defaults.MAC(n.ID))
	if err := b.addresses(member, n, raw); err != nil {
		return nil, err
	}
	var near netip.Addr
	if len(n.PrivateIPs) > 0 {
		near = n.PrivateIPs[0].Addr
	} else if len(n.IPv6) > 0 {
		near = n.IPv6[0]
	}
	s := b.subnet(member, raw.NetworkInterfaceId, raw.SubnetId, raw.VpcId, near)
	n.SubnetID, n.VPCID = s.ID, s.VPCID
	for _, g := range raw.Groups {
		n.Groups = append(n.Groups, b.group(member, raw.NetworkInterfaceId, g, n.VPCID))
	}
	if len(n.Groups) == 0 && mustHoldGroups(raw) {
		n.Groups = []aws.GroupName{b.fallbackGroup(member, raw.NetworkInterfaceId, n.VPCID)}
	}
	if a := raw.Attachment; a != nil {
		n.Status = aws.StatusInUse
		n.Attachment = &aws.Attachment{
			ID: a.AttachmentId, InstanceID: a.InstanceId, DeviceIndex: a.DeviceIndex, Status: cmp.Or(a.Status, "attached"),
			AttachTime: a.AttachTime.Time, DeleteOnTermination: a.DeleteOnTermination,
		}
		if n.ID != id || a.AttachmentId == "" {
			n.Attachment.ID = defaults.ID("eni-attach", n.ID)
		}
	}
	b.nics[n.ID] = n
	return n, nil
}

// mustHoldGroups reports whether the cloud gives an interface at least one group, so that an answer
// with none does not tell all: every one but interfaces of services, among which NAT gateways,
// transit gateways and some load balancers have none and are not filtered.
func mustHoldGroups(raw *rawNIC) bool {
	switch raw.InterfaceType {
	case "", "interface", "efa", "efa-only", "trunk", "branch":
		return !raw.RequesterManaged
	}
	return false
}

// fallbackGroup is the default group of the VPC, for an interface without groups.
func (b *builder) fallbackGroup(member, object, vpcID string) aws.GroupName {
	g := b.named(vpcID, defaults.GroupName)
	if g == nil {
		made := defaults.GroupOf(b.vpcs[vpcID])
		b.groups[made.ID] = &made
		g = &made
		b.warn("SecurityGroups", vpcID, "has no default group in the dump; one was made up")
	}
	b.warn(member, object, "has no security group; it is given the default group %s", g.ID)
	return aws.GroupName{ID: g.ID, Name: g.Name}
}

func (b *builder) addresses(member string, n *aws.NetworkInterface, raw *rawNIC) error {
	ips := raw.PrivateIpAddresses
	if len(ips) == 0 && raw.PrivateIpAddress != "" {
		ips = []rawPrivateIP{{raw.PrivateIpAddress, true, raw.Association}}
	}
	for _, p := range ips {
		a, err := netip.ParseAddr(p.PrivateIpAddress)
		if err != nil || !a.Is4() {
			return b.fault(member, raw.NetworkInterfaceId, "PrivateIpAddress", "expected an IPv4 address, found %q", p.PrivateIpAddress)
		}
		ip := aws.PrivateIP{Addr: a, Primary: p.Primary}
		if p.Association != nil && p.Association.PublicIp != "" {
			if ip.Public, err = netip.ParseAddr(p.Association.PublicIp); err != nil {
				return b.fault(member, raw.NetworkInterfaceId, "PublicIp", "expected an IPv4 address, found %q", p.Association.PublicIp)
			}
			ip.AutoPublic = p.Association.IpOwnerId == "amazon"
		}
		n.PrivateIPs = append(n.PrivateIPs, ip)
	}
	slices.SortStableFunc(n.PrivateIPs, func(x, y aws.PrivateIP) int {
		return cmp.Compare(boolInt(!x.Primary), boolInt(!y.Primary))
	})
	for i := range n.PrivateIPs {
		n.PrivateIPs[i].Primary = i == 0
	}
	v6 := raw.Ipv6Addresses
	if len(v6) == 0 && raw.Ipv6Address != "" {
		v6 = append(v6, struct{ Ipv6Address string }{raw.Ipv6Address})
	}
	for _, v6 := range v6 {
		a, err := netip.ParseAddr(v6.Ipv6Address)
		if err != nil || !a.Is6() {
			return b.fault(member, raw.NetworkInterfaceId, "Ipv6Address", "expected an IPv6 address, found %q", v6.Ipv6Address)
		}
		n.IPv6 = append(n.IPv6, a)
	}
	return b.prefixes(member, n, raw)
}

// prefixes takes the blocks that are delegated to an interface.
func (b *builder) prefixes(member string, n *aws.NetworkInterface, raw *rawNIC) error {
	add := func(field, text string, v6 bool) error {
		p, err := b.block(member, raw.NetworkInterfaceId, field, text)
		if err == nil && p.Addr().Is6() != v6 {
			return b.fault(member, raw.NetworkInterfaceId, field, "%s is a block of the other address family", p)
		}
		n.Prefixes = append(n.Prefixes, p)
		return err
	}
	for _, p := range raw.Ipv4Prefixes {
		if err := add("Ipv4Prefix", p.Ipv4Prefix, false); err != nil {
			return err
		}
	}
	for _, p := range raw.Ipv6Prefixes {
		if err := add("Ipv6Prefix", p.Ipv6Prefix, true); err != nil {
			return err
		}
	}
	return nil
}

func boolInt(v bool) int {
	if v {
		return 1
	}
	return 0
}

// buildNICs adds the interfaces of DescribeNetworkInterfaces to those that the instances brought,
// and takes from it what the instances' answers do not hold (tags, requester).
func (b *builder) buildNICs() error {
	for i := range b.raw.nics {
		raw := &b.raw.nics[i]
		id := b.id("eni", cmp.Or(raw.NetworkInterfaceId, "unnamed"))
		if have := b.nics[id]; have != nil && raw.Attachment != nil && raw.Attachment.InstanceId != "" &&
			have.Attachment.InstanceID == b.id("i", raw.Attachment.InstanceId) {
			have.Tags, have.RequesterID, have.RequesterManaged = tagsOf(raw.TagSet), raw.RequesterId, raw.RequesterManaged
			if len(have.Prefixes) == 0 {
				if err := b.prefixes("NetworkInterfaces", have, raw); err != nil {
					return err
				}
			}
			continue
		}
		n, err := b.nic("NetworkInterfaces", raw.NetworkInterfaceId, raw)
		if err != nil {
			return err
		}
		if n.Attachment != nil && n.Attachment.InstanceID != "" {
			n.Attachment.InstanceID = b.id("i", n.Attachment.InstanceID)
			if b.instances[n.Attachment.InstanceID] == nil {
				b.warn("NetworkInterfaces", raw.NetworkInterfaceId, "is attached to %s, which is not in the dump; it is taken as attached to a service", raw.Attachment.InstanceId)
				n.Attachment.InstanceID = ""
			}
		}
	}
	return nil
}

// checkAddresses reports addresses that do not fit their subnet or that two interfaces of a VPC
// have. They are kept.
func (b *builder) checkAddresses() {
	type place struct {
		vpc  string
		addr netip.Addr
	}
	holder := map[place]string{}
	for _, id := range slices.Sorted(maps.Keys(b.nics)) {
		n := b.nics[id]
		s := b.subnets[n.SubnetID]
		for _, p := range n.PrivateIPs {
			if !s.CIDR.Contains(p.Addr) {
				b.warn("NetworkInterfaces", id, "address %s is not in its subnet %s (%s); it is kept", p.Addr, s.ID, s.CIDR)
			}
			if first := holder[place{n.VPCID, p.Addr}]; first != "" {
				b.warn("NetworkInterfaces", id, "address %s is also that of %s; it is kept", p.Addr, first)
			}
			holder[place{n.VPCID, p.Addr}] = id
		}
	}
}

func (b *builder) buildPeerings() error {
	for i := range b.raw.peerings {
		raw := &b.raw.peerings[i]
		if raw.VpcPeeringConnectionId == "" {
			return b.fault("VpcPeeringConnections", fmt.Sprintf("element %d", i), "VpcPeeringConnectionId", "expected an id")
		}
		p := aws.PeeringConnection{
			ID: b.id("pcx", raw.VpcPeeringConnectionId), Status: cmp.Or(raw.Status.Code, aws.PeeringActive),
			Message: raw.Status.Message, Tags: tagsOf(raw.Tags),
		}
		for _, side := range []struct {
			from *rawPeeringSide
			to   *aws.PeeringVPC
		}{{&raw.RequesterVpcInfo, &p.Requester}, {&raw.AccepterVpcInfo, &p.Accepter}} {
			side.to.VPCID = b.id("vpc", side.from.VpcId)
			side.to.Account = b.account
			if defaults.IsAccount(side.from.OwnerId) && b.vpcs[side.to.VPCID] == nil {
				side.to.Account = side.from.OwnerId
			}
			side.to.Region = cmp.Or(side.from.Region, b.raw.name)
			var texts []string
			for _, c := range side.from.CidrBlockSet {
				texts = append(texts, c.CidrBlock)
			}
			if len(texts) == 0 && side.from.CidrBlock != "" {
				texts = append(texts, side.from.CidrBlock)
			}
			for _, c := range side.from.Ipv6CidrBlockSet {
				texts = append(texts, c.Ipv6CidrBlock)
			}
			for _, text := range texts {
				block, err := b.block("VpcPeeringConnections", raw.VpcPeeringConnectionId, "CidrBlock", text)
				if err != nil {
					return err
				}
				side.to.CIDRs = append(side.to.CIDRs, block)
			}
		}
		b.peerings = append(b.peerings, p)
	}
	return nil
}

// applyTags adds what DescribeTags knows beyond the tags that the objects bring themselves.
func (b *builder) applyTags() {
	for _, t := range b.raw.tags {
		var tags *aws.Tags
		switch id := t.ResourceId; {
		case b.vpcs[id] != nil:
			tags = &b.vpcs[id].Tags
		case b.subnets[id] != nil:
			tags = &b.subnets[id].Tags
		case b.groups[id] != nil:
			tags = &b.groups[id].Tags
		case b.nics[id] != nil:
			tags = &b.nics[id].Tags
		case b.instances[id] != nil:
			tags = &b.instances[id].Tags
		default:
			continue
		}
		if *tags == nil {
			*tags = aws.Tags{}
		}
		if have, ok := (*tags)[t.Key]; !ok {
			(*tags)[t.Key] = t.Value
		} else if have != t.Value {
			b.warn("Tags", t.ResourceId, "tag %s is %q here and %q on the object; the object's is kept", t.Key, t.Value, have)
		}
	}
}
