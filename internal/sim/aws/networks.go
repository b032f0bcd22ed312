package aws

import (
	"net/netip"
	"slices"
	"time"
)

// This file changes and deletes VPCs and subnets.

// VPCAttributes are the switches of a VPC.
type VPCAttributes struct {
	DNSSupportOff bool `json:"dnsSupportOff,omitempty"`
	DNSHostnames  bool `json:"dnsHostnames,omitempty"`
	AddressUsage  bool `json:"addressUsage,omitempty"`
}

// ModifyVPC changes the switches of a VPC.
func (r Networks) ModifyVPC(id string, change func(*VPCAttributes)) error {
	return r.mutate("ModifyVpcAttribute", func(now time.Time) ([]string, error) {
		v, err := r.ownVPC(id, now)
		if err != nil {
			return nil, err
		}
		after := v.Attributes
		change(&after)
		if after.DNSHostnames && after.DNSSupportOff {
			return nil, refuse("InvalidParameterCombination", "enableDnsHostnames cannot be enabled while enableDnsSupport is disabled")
		}
		v.Attributes = after
		return []string{v.ID}, nil
	})
}

// ModifySubnet says whether interfaces that are launched into a subnet get a public address.
func (r Networks) ModifySubnet(id string, mapPublicIP bool) error {
	return r.mutate("ModifySubnetAttribute", func(now time.Time) ([]string, error) {
		s, err := r.ownSubnet(id, now)
		if err != nil {
			return nil, err
		}
		s.MapPublicIPOnLaunch = mapPublicIP
		return []string{s.ID}, nil
	})
}

// DeleteSubnet deletes a subnet in which there is no interface, and what associates it.
func (r Networks) DeleteSubnet(id string) error {
	return r.mutate("DeleteSubnet", func(now time.Time) ([]string, error) {
		s, err := r.ownSubnet(id, now)
		if err != nil {
			return nil, err
		}
		used := r.nicsAnywhere(func(n *NetworkInterface) bool { return n.SubnetID == s.ID })
		if used {
			return nil, refuse("DependencyViolation", "The subnet '%s' has dependencies and cannot be deleted.", s.ID)
		}
		for _, t := range r.data.tables {
			t.Associations = withoutSubnet(t.Associations, s.ID)
		}
		for _, a := range r.data.acls {
			a.Associations = withoutSubnet(a.Associations, s.ID)
		}
		delete(r.data.subnets, s.ID)
		return []string{s.ID}, nil
	})
}

// nicsAnywhere reports whether the account or one that it shares with has such an interface.
func (r Networks) nicsAnywhere(is func(*NetworkInterface) bool) (found bool) {
	look := func(d *regionData) {
		for _, n := range d.nics {
			found = found || is(n)
		}
	}
	look(r.data)
	r.neighbours(look)
	return found
}

// DeleteVPC deletes a VPC that holds nothing but its default group, its main route table and its
// default ACL, which go with it. Peering connections of it end.
func (r Networks) DeleteVPC(id string) error {
	return r.mutate("DeleteVpc", func(now time.Time) ([]string, error) {
		v, err := r.ownVPC(id, now)
		if err != nil {
			return nil, err
		}
		if r.vpcInUse(v) {
			return nil, refuse("DependencyViolation", "The vpc '%s' has dependencies and cannot be deleted.", v.ID)
		}
		touched := []string{v.ID}
		for id, g := range r.data.groups {
			if g.VPCID == v.ID {
				delete(r.data.groups, id)
				touched = append(touched, id)
			}
		}
		for id, t := range r.data.tables {
			if t.VPCID == v.ID {
				delete(r.data.tables, id)
			}
		}
		for id, a := range r.data.acls {
			if a.VPCID == v.ID {
				delete(r.data.acls, id)
			}
		}
		for id, p := range r.w.peerings {
			if (p.Requester.VPCID == v.ID || p.Accepter.VPCID == v.ID) && (p.Status == PeeringActive || p.Status == peeringPending) {
				p.Status, p.Message = peeringDeleted, "Deleted by "+r.at.account
				touched = append(touched, id)
			}
		}
		delete(r.data.vpcs, v.ID)
		slices.Sort(touched[1:])
		return touched, nil
	})
}

func (r Networks) vpcInUse(v *VPC) bool {
	for _, s := range r.data.subnets {
		if s.VPCID == v.ID {
			return true
		}
	}
	for _, g := range r.data.groups {
		if g.VPCID == v.ID && g.Name != defaultGroup {
			return true
		}
	}
	for _, g := range r.data.gateways {
		if g.VPCID == v.ID {
			return true
		}
	}
	for _, t := range r.data.tables {
		if t.VPCID == v.ID && t.Main == "" {
			return true
		}
	}
	for _, a := range r.data.acls {
		if a.VPCID == v.ID && !a.Default {
			return true
		}
	}
	return r.nicsAnywhere(func(n *NetworkInterface) bool { return n.VPCID == v.ID })
}

// maxBlocks is how many blocks of a family a VPC has at most.
const maxBlocks = 5

// AssociateVPCCIDRBlock gives a VPC a further block.
func (r Networks) AssociateVPCCIDRBlock(id, cidr string, provided bool) (CIDRBlock, error) {
	var out CIDRBlock
	err := r.mutate("AssociateVpcCidrBlock", func(now time.Time) ([]string, error) {
		v, err := r.ownVPC(id, now)
		if err != nil {
			return nil, err
		}
		p := netip.Prefix{}
		switch {
		case provided && cidr != "":
			return nil, refuse("InvalidParameterCombination", "Only one of cidrBlock and amazonProvidedIpv6CidrBlock can be specified")
		case provided:
			p = r.w.newIPv6Block()
		default:
			if p, err = canonicalCIDR(cidr, false); err != nil {
				return nil, invalidValue("Value (%s) for parameter cidrBlock is invalid. This is not a valid CIDR block.", cidr)
			}
			if p.Bits() < 16 || p.Bits() > 28 {
				return nil, refuse("InvalidVpc.Range", "The CIDR '%s' is invalid.", cidr)
			}
		}
		n := 0
		for _, b := range v.CIDRs {
			if b.Prefix.Overlaps(p) {
				return nil, refuse("InvalidVpc.Range", "The CIDR '%s' overlaps with %s, which is associated with the VPC.", cidr, b.Prefix)
			}
			if b.Prefix.Addr().Is4() == p.Addr().Is4() {
				n++
			}
		}
		if n >= maxBlocks {
			return nil, refuse("CidrLimitExceeded", "This network '%s' has met its maximum number of allowed CIDRs: %d", v.ID, maxBlocks)
		}
		out = CIDRBlock{r.w.newID("vpc-cidr-assoc"), p}
		after := append(slices.Clone(v.CIDRs), out)
		slices.SortStableFunc(after, func(a, b CIDRBlock) int { return a.Prefix.Addr().BitLen() - b.Prefix.Addr().BitLen() })
		v.CIDRs = after
		return []string{v.ID}, nil
	})
	return out, err
}

// DisassociateVPCCIDRBlock takes a block other than the first from a VPC, if no subnet lies in it.
func (r Networks) DisassociateVPCCIDRBlock(association string) (vpcID string, out CIDRBlock, err error) {
	err = r.mutate("DisassociateVpcCidrBlock", func(time.Time) ([]string, error) {
		for _, v := range r.data.vpcs {
			at := slices.IndexFunc(v.CIDRs, func(b CIDRBlock) bool { return b.AssociationID == association })
			if at < 0 {
				continue
			}
			if at == 0 {
				return nil, refuse(
					"OperationNotPermitted",
					"The vpc CIDR block with association ID %s may not be disassociated. It is the primary IPv4 CIDR block of the VPC",
					association,
				)
			}
			for _, s := range r.data.subnets {
				if s.VPCID == v.ID &&
					(s.CIDR.Overlaps(v.CIDRs[at].Prefix) || slices.ContainsFunc(s.IPv6, func(b CIDRBlock) bool { return b.Prefix.Overlaps(v.CIDRs[at].Prefix) })) {
					return nil, refuse("DependencyViolation", "The CIDR block of the association %s is used by the subnet '%s'", association, s.ID)
				}
			}
			vpcID, out = v.ID, v.CIDRs[at]
			v.CIDRs = slices.Delete(slices.Clone(v.CIDRs), at, at+1)
			return []string{v.ID}, nil
		}
		return nil, refuse("InvalidVpcCidrBlockAssociationID.NotFound", "The vpc CIDR block association ID '%s' does not exist", association)
	})
	return vpcID, out, err
}
