package aws

import (
	"net/netip"
	"slices"
	"time"
)

// wantedGroups checks a set of groups for an interface of a VPC and returns it without repetitions.
// mixed is the refusal for a group of another VPC, which differs from call to call.
func (r Interfaces) wantedGroups(vpcID string, ids []string, now time.Time, mixed func(group string) *Error) ([]GroupName, error) {
	var out []GroupName
	for _, id := range ids {
		if err := CheckID("sg", id); err != nil {
			return nil, err
		}
		g, ok := r.data.groups[id]
		if !ok || !seen(g.Visible, now) {
			return nil, NotFound(id)
		}
		if g.VPCID != vpcID {
			return nil, mixed(id)
		}
		name := GroupName{g.ID, g.Name}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if len(out) > r.w.quotas(r.at.account).GroupsPerInterface {
		return nil, refuse("SecurityGroupsPerInterfaceLimitExceeded", "The maximum number of security groups per interface has been reached.")
	}
	return out, nil
}

// ModifyNetworkInterfaceGroups replaces the groups of an interface
// (ModifyNetworkInterfaceAttribute). At least one group must be left, all of the interface's VPC.
func (r Interfaces) ModifyNetworkInterfaceGroups(nicID string, groupIDs []string) error {
	return r.mutate("ModifyNetworkInterfaceAttribute", func(now time.Time) ([]string, error) {
		if err := CheckID("eni", nicID); err != nil {
			return nil, err
		}
		n, ok := r.data.nics[nicID]
		if !ok || !seen(n.Visible, now) {
			return nil, NotFound(nicID)
		}
		if n.RequesterManaged {
			return nil, &Error{"AuthFailure", "You do not have permission to access the specified resource.", 401}
		}
		return []string{nicID}, r.setGroups(n, groupIDs, now)
	})
}

func (r Interfaces) setGroups(n *NetworkInterface, groupIDs []string, now time.Time) error {
	if len(groupIDs) == 0 {
		return invalidValue("You must specify at least one security group for the network interface '%s'", n.ID)
	}
	groups, err := r.wantedGroups(n.VPCID, groupIDs, now, func(string) *Error {
		return invalidValue("You have specified two resources that belong to different networks.")
	})
	if err != nil {
		return err
	}
	n.Groups = groups
	return nil
}

// ModifyInstanceGroups replaces the groups of an instance with one interface
// (ModifyInstanceAttribute).
func (r Interfaces) ModifyInstanceGroups(instanceID string, groupIDs []string) error {
	return r.mutate("ModifyInstanceAttribute", func(now time.Time) ([]string, error) {
		i, err := r.instance(instanceID, now)
		if err != nil {
			return nil, err
		}
		nics := r.data.attached(i.ID)
		switch {
		case len(nics) > 1:
			return nil, refuse("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", i.ID)
		case len(nics) == 0:
			return nil, refuse("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be modified.", i.ID)
		}
		err = r.setGroups(nics[0], groupIDs, now)
		if e, ok := err.(*Error); ok && e.Code == "SecurityGroupsPerInterfaceLimitExceeded" {
			err = refuse("SecurityGroupsPerInstanceLimitExceeded", "The maximum number of security groups per instance has been reached.")
		}
		return []string{i.ID, nics[0].ID}, err
	})
}

// attached returns the interfaces of an instance by device index.
func (d *regionData) attached(instanceID string) []*NetworkInterface {
	var out []*NetworkInterface
	for _, n := range d.nics {
		if n.Attachment != nil && n.Attachment.InstanceID == instanceID {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *NetworkInterface) int { return a.Attachment.DeviceIndex - b.Attachment.DeviceIndex })
	return out
}

// nicPlan is a checked InterfaceSpec: what newNIC needs and what can no longer fail.
type nicPlan struct {
	spec     InterfaceSpec
	existing *NetworkInterface
	subnet   *Subnet
	groups   []GroupName
	primary  netip.Addr // invalid = any free one
	others   []netip.Addr
	v6       []netip.Addr
}

// planNIC checks an interface specification. taken collects the addresses that the call has
// promised already.
func (r Interfaces) planNIC(spec InterfaceSpec, now time.Time, taken map[netip.Addr]bool) (nicPlan, error) {
	p := nicPlan{spec: spec}
	if id := spec.NetworkInterfaceID; id != "" {
		if err := CheckID("eni", id); err != nil {
			return p, err
		}
		n, ok := r.data.nics[id]
		if !ok || !seen(n.Visible, now) {
			return p, NotFound(id)
		}
		if n.Attachment != nil {
			return p, refuse("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", id)
		}
		p.existing = n
		return p, nil
	}
	var err error
	if p.subnet, err = r.subnetFor(spec.SubnetID, now); err != nil {
		return p, err
	}
	p.groups, err = r.wantedGroups(p.subnet.VPCID, spec.GroupIDs, now, func(g string) *Error {
		return refuse("InvalidParameter", "Security group %s and subnet %s belong to different networks.", g, p.subnet.ID)
	})
	if err != nil {
		return p, err
	}
	if len(p.groups) == 0 {
		for _, g := range r.data.groups {
			if g.VPCID == p.subnet.VPCID && g.Name == defaultGroup {
				p.groups = []GroupName{{g.ID, g.Name}}
			}
		}
	}
	if spec.PrivateIP != "" {
		if p.primary, err = r.claim(p.subnet, spec.PrivateIP, taken); err != nil {
			return p, err
		}
	}
	for _, s := range spec.SecondaryIPs {
		a, err := r.claim(p.subnet, s, taken)
		if err != nil {
			return p, err
		}
		p.others = append(p.others, a)
	}
	for _, s := range spec.IPv6 {
		a, err := r.claim(p.subnet, s, taken)
		if err != nil {
			return p, err
		}
		p.v6 = append(p.v6, a)
	}
	if (spec.IPv6Count > 0 || len(spec.IPv6) > 0) && len(p.subnet.IPv6) == 0 {
		return p, invalidValue("The subnet '%s' has no IPv6 CIDR block", p.subnet.ID)
	}
	return p, nil
}

// claim checks that an address lies in the subnet and is free.
func (r Interfaces) claim(s *Subnet, text string, taken map[netip.Addr]bool) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, invalidValue("Invalid IP address: '%s'", text)
	}
	inside := s.CIDR.Contains(a) || slices.ContainsFunc(s.IPv6, func(c CIDRBlock) bool { return c.Prefix.Contains(a) })
	if !inside {
		return a, invalidValue("Address %s does not fall within the subnet's address range", a)
	}
	if taken[a] || r.used(s.VPCID)[a] {
		return a, refuse("InvalidIPAddress.InUse", "Address %s is in use.", a)
	}
	taken[a] = true
	return a, nil
}

// subnetFor finds a visible subnet; an empty id means the first default subnet of the default VPC.
func (r Interfaces) subnetFor(id string, now time.Time) (*Subnet, error) {
	if id != "" {
		if err := CheckID("subnet", id); err != nil {
			return nil, err
		}
		s, ok := r.visibleSubnets()[id]
		if !ok || !seen(s.Visible, now) {
			return nil, NotFound(id)
		}
		return s, nil
	}
	vpc := Networks(r).defaultVPC()
	if vpc == nil {
		return nil, refuse("VPCIdNotSpecified", "No default VPC for this user")
	}
	var first *Subnet
	for _, s := range r.data.subnets {
		if s.VPCID == vpc.ID && s.DefaultForAZ && (first == nil || s.Zone.Name+s.ID < first.Zone.Name+first.ID) {
			first = s
		}
	}
	if first == nil {
		return nil, refuse("MissingInput", "No subnets found for the default VPC '%s'. Please specify a subnet.", vpc.ID)
	}
	return first, nil
}

// newNIC makes the planned interface, not yet attached and not yet stored. used are the addresses
// taken in its VPC.
func (r Interfaces) newNIC(p nicPlan, now time.Time, used map[netip.Addr]bool) (*NetworkInterface, error) {
	n := &NetworkInterface{
		ID: r.w.newID("eni"), Account: r.at.account, VPCID: p.subnet.VPCID, SubnetID: p.subnet.ID, Zone: p.subnet.Zone.Name,
		Description: p.spec.Description, InterfaceType: "interface", MAC: r.w.newMAC(), SourceDestCheck: true,
		Status: StatusAvailable, Groups: p.groups, Visible: now.Add(r.w.visibility),
	}
	addr, count := p.primary, p.spec.IPv6Count
	switch {
	case addr.IsValid():
	case !p.subnet.CIDR.IsValid():
		// In a subnet of IPv6 alone it has an IPv6 address, asked for or not.
		if len(p.v6) == 0 {
			count = max(count, 1)
		}
	default:
		var ok bool
		if addr, ok = freeIPv4(p.subnet, used); !ok {
			return nil, refuse("InsufficientFreeAddressesInSubnet", "The specified subnet does not have enough free addresses to satisfy the request.")
		}
	}
	if addr.IsValid() {
		used[addr] = true
		n.PrivateIPs = []PrivateIP{{Addr: addr, Primary: true}}
	}
	for _, a := range p.others {
		n.PrivateIPs = append(n.PrivateIPs, PrivateIP{Addr: a})
	}
	n.IPv6 = slices.Clone(p.v6)
	for range count {
		a, _ := r.w.newIPv6(p.subnet, used)
		used[a] = true
		n.IPv6 = append(n.IPv6, a)
	}
	public := p.spec.DeviceIndex == 0 && p.subnet.MapPublicIPOnLaunch
	if p.spec.AssociatePublicIP != nil {
		public = *p.spec.AssociatePublicIP
	}
	if public && len(n.PrivateIPs) > 0 {
		n.PrivateIPs[0].AutoPublic = true
		n.PrivateIPs[0].Public = r.w.newPublicIP()
	}
	return n, nil
}
