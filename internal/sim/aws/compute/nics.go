package compute

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/store"
)

// WantedGroups checks a set of groups for an interface of a VPC and returns it without repetitions.
// mixed is the refusal for a group of another VPC, which differs from call to call.
func (r Interfaces) WantedGroups(vpcID string, ids []string, now time.Time, mixed func(group string) *aws.Error) ([]aws.GroupName, error) {
	var out []aws.GroupName
	for _, id := range ids {
		if err := aws.CheckID("sg", id); err != nil {
			return nil, err
		}
		g, ok := r.s.Data.Groups[id]
		if !ok || !store.Seen(g.Visible, now) {
			return nil, aws.NotFound(id)
		}
		if g.VPCID != vpcID {
			return nil, mixed(id)
		}
		name := aws.GroupName{ID: g.ID, Name: g.Name}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if len(out) > r.s.Quotas().GroupsPerInterface {
		return nil, aws.Refuse("SecurityGroupsPerInterfaceLimitExceeded", "The maximum number of security groups per interface has been reached.")
	}
	return out, nil
}

// ModifyNetworkInterfaceGroups replaces the groups of an interface
// (ModifyNetworkInterfaceAttribute). At least one group must be left, all of the interface's VPC.
func (r Interfaces) ModifyNetworkInterfaceGroups(nicID string, groupIDs []string) error {
	return r.s.Mutate("ModifyNetworkInterfaceAttribute", func(now time.Time) ([]string, error) {
		if err := aws.CheckID("eni", nicID); err != nil {
			return nil, err
		}
		n, ok := r.s.Data.NICs[nicID]
		if !ok || !store.Seen(n.Visible, now) {
			return nil, aws.NotFound(nicID)
		}
		if n.RequesterManaged {
			return nil, &aws.Error{Code: "AuthFailure", Message: "You do not have permission to access the specified resource.", HTTPStatus: 401}
		}
		return []string{nicID}, r.setGroups(n, groupIDs, now)
	})
}

func (r Interfaces) setGroups(n *aws.NetworkInterface, groupIDs []string, now time.Time) error {
	if len(groupIDs) == 0 {
		return aws.InvalidValue("You must specify at least one security group for the network interface '%s'", n.ID)
	}
	groups, err := r.WantedGroups(n.VPCID, groupIDs, now, func(string) *aws.Error {
		return aws.InvalidValue("You have specified two resources that belong to different networks.")
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
	return r.s.Mutate("ModifyInstanceAttribute", func(now time.Time) ([]string, error) {
		i, err := r.s.Instance(instanceID, now)
		if err != nil {
			return nil, err
		}
		nics := r.s.Data.Attached(i.ID)
		switch {
		case len(nics) > 1:
			return nil, aws.Refuse("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", i.ID)
		case len(nics) == 0:
			return nil, aws.Refuse("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be modified.", i.ID)
		}
		err = r.setGroups(nics[0], groupIDs, now)
		if e, ok := err.(*aws.Error); ok && e.Code == "SecurityGroupsPerInterfaceLimitExceeded" {
			err = aws.Refuse("SecurityGroupsPerInstanceLimitExceeded", "The maximum number of security groups per instance has been reached.")
		}
		return []string{i.ID, nics[0].ID}, err
	})
}

// nicPlan is a checked InterfaceSpec: what newNIC needs and what can no longer fail.
type nicPlan struct {
	spec     aws.InterfaceSpec
	existing *aws.NetworkInterface
	subnet   *aws.Subnet
	groups   []aws.GroupName
	primary  netip.Addr // invalid = any free one
	others   []netip.Addr
	v6       []netip.Addr
}

func (p nicPlan) vpc() string {
	if p.existing != nil {
		return p.existing.VPCID
	}
	return p.subnet.VPCID
}

// planNIC checks an interface specification. taken collects the addresses that the call has
// promised already.
func (r Interfaces) planNIC(spec aws.InterfaceSpec, now time.Time, taken map[netip.Addr]bool) (nicPlan, error) {
	p := nicPlan{spec: spec}
	if id := spec.NetworkInterfaceID; id != "" {
		if err := aws.CheckID("eni", id); err != nil {
			return p, err
		}
		n, ok := r.s.Data.NICs[id]
		if !ok || !store.Seen(n.Visible, now) {
			return p, aws.NotFound(id)
		}
		if n.Attachment != nil {
			return p, aws.Refuse("InvalidNetworkInterface.InUse", "Interface: [%s] in use.", id)
		}
		p.existing = n
		return p, nil
	}
	var err error
	if p.subnet, err = r.subnetFor(spec.SubnetID, now); err != nil {
		return p, err
	}
	p.groups, err = r.WantedGroups(p.subnet.VPCID, spec.GroupIDs, now, func(g string) *aws.Error {
		return aws.Refuse("InvalidParameter", "Security group %s and subnet %s belong to different networks.", g, p.subnet.ID)
	})
	if err != nil {
		return p, err
	}
	if len(p.groups) == 0 {
		for _, g := range r.s.Data.Groups {
			if g.VPCID == p.subnet.VPCID && g.Name == aws.DefaultGroup {
				p.groups = []aws.GroupName{{ID: g.ID, Name: g.Name}}
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
		return p, aws.InvalidValue("The subnet '%s' has no IPv6 CIDR block", p.subnet.ID)
	}
	return p, nil
}

// claim checks that an address lies in the subnet and is free.
func (r Interfaces) claim(s *aws.Subnet, text string, taken map[netip.Addr]bool) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, aws.InvalidValue("Invalid IP address: '%s'", text)
	}
	inside := s.CIDR.Contains(a) || slices.ContainsFunc(s.IPv6, func(c aws.CIDRBlock) bool { return c.Prefix.Contains(a) })
	if !inside {
		return a, aws.InvalidValue("Address %s does not fall within the subnet's address range", a)
	}
	if taken[a] || r.s.Used(s.VPCID)[a] {
		return a, aws.Refuse("InvalidIPAddress.InUse", "Address %s is in use.", a)
	}
	taken[a] = true
	return a, nil
}

// subnetFor finds a visible subnet; an empty id means the first default subnet of the default VPC.
func (r Interfaces) subnetFor(id string, now time.Time) (*aws.Subnet, error) {
	if id != "" {
		if err := aws.CheckID("subnet", id); err != nil {
			return nil, err
		}
		s, ok := r.s.VisibleSubnets()[id]
		if !ok || !store.Seen(s.Visible, now) {
			return nil, aws.NotFound(id)
		}
		return s, nil
	}
	vpc := r.s.DefaultVPC()
	if vpc == nil {
		return nil, aws.Refuse("VPCIdNotSpecified", "No default VPC for this user")
	}
	var first *aws.Subnet
	for _, s := range r.s.Data.Subnets {
		if s.VPCID == vpc.ID && s.DefaultForAZ && (first == nil || s.Zone.Name+s.ID < first.Zone.Name+first.ID) {
			first = s
		}
	}
	if first == nil {
		return nil, aws.Refuse("MissingInput", "No subnets found for the default VPC '%s'. Please specify a subnet.", vpc.ID)
	}
	return first, nil
}

// newNIC makes the planned interface, not yet attached and not yet stored. used are the addresses
// taken in its VPC.
func (r Interfaces) newNIC(p nicPlan, now time.Time, used map[netip.Addr]bool) (*aws.NetworkInterface, error) {
	n := &aws.NetworkInterface{
		ID: r.s.NewID("eni"), Account: r.s.Account, VPCID: p.subnet.VPCID, SubnetID: p.subnet.ID, Zone: p.subnet.Zone.Name,
		Description: p.spec.Description, InterfaceType: "interface", MAC: r.s.NewMAC(), SourceDestCheck: true,
		Status: aws.StatusAvailable, Groups: p.groups, Visible: r.s.Visible(now),
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
		if addr, ok = store.FreeIPv4(p.subnet, used); !ok {
			return nil, aws.Refuse("InsufficientFreeAddressesInSubnet", "The specified subnet does not have enough free addresses to satisfy the request.")
		}
	}
	if addr.IsValid() {
		used[addr] = true
		n.PrivateIPs = []aws.PrivateIP{{Addr: addr, Primary: true}}
	}
	for _, a := range p.others {
		n.PrivateIPs = append(n.PrivateIPs, aws.PrivateIP{Addr: a})
	}
	n.IPv6 = slices.Clone(p.v6)
	for range count {
		a, _ := r.s.NewIPv6(p.subnet, used)
		used[a] = true
		n.IPv6 = append(n.IPv6, a)
	}
	public := p.spec.DeviceIndex == 0 && p.subnet.MapPublicIPOnLaunch
	if p.spec.AssociatePublicIP != nil {
		public = *p.spec.AssociatePublicIP
	}
	if public && len(n.PrivateIPs) > 0 {
		n.PrivateIPs[0].AutoPublic = true
		n.PrivateIPs[0].Public = r.s.NewPublicIP()
	}
	return n, nil
}

// Make makes an interface of a service, neither attached nor stored. taken are the addresses that
// the call has promised already; the address of the interface is added to them.
func (r Interfaces) Make(spec aws.InterfaceSpec, now time.Time, taken map[netip.Addr]bool) (*aws.NetworkInterface, error) {
	p, err := r.planNIC(spec, now, taken)
	if err != nil {
		return nil, err
	}
	used := r.s.Used(p.subnet.VPCID)
	maps.Copy(used, taken)
	n, err := r.newNIC(p, now, used)
	if err != nil {
		return nil, err
	}
	taken[n.PrivateIPs[0].Addr] = true
	return n, nil
}
