package network

import (
	"net/netip"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// ModifyVPC changes the switches of a VPC.
func (r Networks) ModifyVPC(id string, change func(*aws.VPCAttributes)) error {
	return r.s.Mutate("ModifyVpcAttribute", func(now time.Time) ([]string, error) {
		v, err := r.s.OwnVPC(id, now)
		if err != nil {
			return nil, err
		}
		after := v.Attributes
		change(&after)
		if after.DNSHostnames && after.DNSSupportOff {
			return nil, aws.Refuse("InvalidParameterCombination", "enableDnsHostnames cannot be enabled while enableDnsSupport is disabled")
		}
		v.Attributes = after
		return []string{v.ID}, nil
	})
}

// ModifySubnet says whether interfaces that are launched into a subnet get a public address.
func (r Networks) ModifySubnet(id string, mapPublicIP bool) error {
	return r.s.Mutate("ModifySubnetAttribute", func(now time.Time) ([]string, error) {
		s, err := r.s.OwnSubnet(id, now)
		if err != nil {
			return nil, err
		}
		s.MapPublicIPOnLaunch = mapPublicIP
		return []string{s.ID}, nil
	})
}

// DeleteSubnet deletes a subnet in which there is no interface, and what associates it.
func (r Networks) DeleteSubnet(id string) error {
	return r.s.Mutate("DeleteSubnet", func(now time.Time) ([]string, error) {
		s, err := r.s.OwnSubnet(id, now)
		if err != nil {
			return nil, err
		}
		used := r.nicsAnywhere(func(n *aws.NetworkInterface) bool { return n.SubnetID == s.ID })
		if used {
			return nil, aws.Refuse("DependencyViolation", "The subnet '%s' has dependencies and cannot be deleted.", s.ID)
		}
		for _, t := range r.s.Data.Tables {
			t.Associations = aws.WithoutSubnet(t.Associations, s.ID)
		}
		for _, a := range r.s.Data.ACLs {
			a.Associations = aws.WithoutSubnet(a.Associations, s.ID)
		}
		delete(r.s.Data.Subnets, s.ID)
		return []string{s.ID}, nil
	})
}

// nicsAnywhere reports whether the account or one that it shares with has such an interface.
func (r Networks) nicsAnywhere(is func(*aws.NetworkInterface) bool) (found bool) {
	look := func(d *aws.Resources) {
		for _, n := range d.NICs {
			found = found || is(n)
		}
	}
	look(r.s.Data)
	r.s.Neighbours(look)
	return found
}

// DeleteVPC deletes a VPC that holds nothing but its default group, its main route table and its
// default ACL, which go with it. Peering connections of it end.
func (r Networks) DeleteVPC(id string) error {
	return r.s.Mutate("DeleteVpc", func(now time.Time) ([]string, error) {
		v, err := r.s.OwnVPC(id, now)
		if err != nil {
			return nil, err
		}
		if r.vpcInUse(v) {
			return nil, aws.Refuse("DependencyViolation", "The vpc '%s' has dependencies and cannot be deleted.", v.ID)
		}
		touched := []string{v.ID}
		for id, g := range r.s.Data.Groups {
			if g.VPCID == v.ID {
				delete(r.s.Data.Groups, id)
				touched = append(touched, id)
			}
		}
		for id, t := range r.s.Data.Tables {
			if t.VPCID == v.ID {
				delete(r.s.Data.Tables, id)
			}
		}
		for id, a := range r.s.Data.ACLs {
			if a.VPCID == v.ID {
				delete(r.s.Data.ACLs, id)
			}
		}
		for id, p := range r.s.Peerings() {
			if (p.Requester.VPCID == v.ID || p.Accepter.VPCID == v.ID) && (p.Status == aws.PeeringActive || p.Status == aws.PeeringPending) {
				p.Status, p.Message = aws.PeeringDeleted, "Deleted by "+r.s.Account
				touched = append(touched, id)
			}
		}
		delete(r.s.Data.VPCs, v.ID)
		slices.Sort(touched[1:])
		return touched, nil
	})
}

func (r Networks) vpcInUse(v *aws.VPC) bool {
	for _, s := range r.s.Data.Subnets {
		if s.VPCID == v.ID {
			return true
		}
	}
	for _, g := range r.s.Data.Groups {
		if g.VPCID == v.ID && g.Name != aws.DefaultGroup {
			return true
		}
	}
	for _, g := range r.s.Data.Gateways {
		if g.VPCID == v.ID {
			return true
		}
	}
	for _, t := range r.s.Data.Tables {
		if t.VPCID == v.ID && t.Main == "" {
			return true
		}
	}
	for _, a := range r.s.Data.ACLs {
		if a.VPCID == v.ID && !a.Default {
			return true
		}
	}
	return r.nicsAnywhere(func(n *aws.NetworkInterface) bool { return n.VPCID == v.ID })
}

// maxBlocks is how many blocks of a family a VPC has at most.
const maxBlocks = 5

// AssociateVPCCIDRBlock gives a VPC a further block.
func (r Networks) AssociateVPCCIDRBlock(id, cidr string, provided bool) (aws.CIDRBlock, error) {
	var out aws.CIDRBlock
	err := r.s.Mutate("AssociateVpcCidrBlock", func(now time.Time) ([]string, error) {
		v, err := r.s.OwnVPC(id, now)
		if err != nil {
			return nil, err
		}
		p := netip.Prefix{}
		switch {
		case provided && cidr != "":
			return nil, aws.Refuse("InvalidParameterCombination", "Only one of cidrBlock and amazonProvidedIpv6CidrBlock can be specified")
		case provided:
			p = r.s.NewIPv6Block()
		default:
			if p, err = aws.CanonicalCIDR(cidr, false); err != nil {
				return nil, aws.InvalidValue("Value (%s) for parameter cidrBlock is invalid. This is not a valid CIDR block.", cidr)
			}
			if p.Bits() < 16 || p.Bits() > 28 {
				return nil, aws.Refuse("InvalidVpc.Range", "The CIDR '%s' is invalid.", cidr)
			}
		}
		n := 0
		for _, b := range v.CIDRs {
			if b.Prefix.Overlaps(p) {
				return nil, aws.Refuse("InvalidVpc.Range", "The CIDR '%s' overlaps with %s, which is associated with the VPC.", cidr, b.Prefix)
			}
			if b.Prefix.Addr().Is4() == p.Addr().Is4() {
				n++
			}
		}
		if n >= maxBlocks {
			return nil, aws.Refuse("CidrLimitExceeded", "This network '%s' has met its maximum number of allowed CIDRs: %d", v.ID, maxBlocks)
		}
		out = aws.CIDRBlock{AssociationID: r.s.NewID("vpc-cidr-assoc"), Prefix: p}
		after := append(slices.Clone(v.CIDRs), out)
		slices.SortStableFunc(after, func(a, b aws.CIDRBlock) int { return a.Prefix.Addr().BitLen() - b.Prefix.Addr().BitLen() })
		v.CIDRs = after
		return []string{v.ID}, nil
	})
	return out, err
}

// DisassociateVPCCIDRBlock takes a block other than the first from a VPC, if no subnet lies in it.
func (r Networks) DisassociateVPCCIDRBlock(association string) (vpcID string, out aws.CIDRBlock, err error) {
	err = r.s.Mutate("DisassociateVpcCidrBlock", func(time.Time) ([]string, error) {
		for _, v := range r.s.Data.VPCs {
			at := slices.IndexFunc(v.CIDRs, func(b aws.CIDRBlock) bool { return b.AssociationID == association })
			if at < 0 {
				continue
			}
			if at == 0 {
				return nil, aws.Refuse(
					"OperationNotPermitted",
					"The vpc CIDR block with association ID %s may not be disassociated. It is the primary IPv4 CIDR block of the VPC",
					association,
				)
			}
			for _, s := range r.s.Data.Subnets {
				if s.VPCID == v.ID &&
					(s.CIDR.Overlaps(v.CIDRs[at].Prefix) || slices.ContainsFunc(s.IPv6, func(b aws.CIDRBlock) bool { return b.Prefix.Overlaps(v.CIDRs[at].Prefix) })) {
					return nil, aws.Refuse("DependencyViolation", "The CIDR block of the association %s is used by the subnet '%s'", association, s.ID)
				}
			}
			vpcID, out = v.ID, v.CIDRs[at]
			v.CIDRs = slices.Delete(slices.Clone(v.CIDRs), at, at+1)
			return []string{v.ID}, nil
		}
		return nil, aws.Refuse("InvalidVpcCidrBlockAssociationID.NotFound", "The vpc CIDR block association ID '%s' does not exist", association)
	})
	return vpcID, out, err
}
