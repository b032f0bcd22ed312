package network

import (
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/store"
)

// Networks are the calls about VPCs, their blocks, and subnets.
type Networks struct{ s *store.Site }

// NetworksAt returns the calls on a site.
func NetworksAt(s *store.Site) Networks { return Networks{s} }

// CreateVPC makes a VPC with its default group. The answer says pending.
func (r Networks) CreateVPC(in aws.CreateVPCInput) (aws.VPC, error) {
	var out aws.VPC
	err := r.s.Mutate("CreateVpc", func(now time.Time) ([]string, error) {
		v4, err := aws.CanonicalCIDR(in.CIDR, false)
		if err != nil {
			return nil, aws.InvalidValue("Value (%s) for parameter cidrBlock is invalid. This is not a valid CIDR block.", in.CIDR)
		}
		if v4.Bits() < 16 || v4.Bits() > 28 {
			return nil, aws.Refuse("InvalidVpc.Range", "The CIDR '%s' is invalid.", in.CIDR)
		}
		if len(r.s.Data.VPCs) >= r.s.Quotas().VPCsPerRegion {
			return nil, aws.Refuse("VpcLimitExceeded", "The maximum number of VPCs has been reached.")
		}
		if err := r.s.CheckNewTags(in.Tags); err != nil {
			return nil, err
		}
		v := &aws.VPC{
			Account: r.s.Account, Region: r.s.Region, State: aws.StatePending,
			DHCPOptionsID: "dopt-00000000", Tenancy: "default", Tags: in.Tags.Clone(), Visible: r.s.Visible(now),
		}
		var v6 netip.Prefix
		if in.IPv6CIDR != "" {
			if v6, err = aws.CanonicalCIDR(in.IPv6CIDR, true); err != nil {
				return nil, err
			}
		}
		v.ID = r.s.NewID("vpc")
		v.CIDRs = []aws.CIDRBlock{{AssociationID: r.s.NewID("vpc-cidr-assoc"), Prefix: v4}}
		if in.AmazonProvidedIPv6 {
			v6 = r.s.NewIPv6Block()
		}
		if v6.IsValid() {
			v.CIDRs = append(v.CIDRs, aws.CIDRBlock{AssociationID: r.s.NewID("vpc-cidr-assoc"), Prefix: v6})
		}
		r.s.Data.VPCs[v.ID] = v
		r.s.Later(now, r.s.Transition(), v.ID, aws.StatePending, aws.StateAvailable)
		g := r.newDefaultGroup(v, now)
		r.s.Data.Groups[g.ID] = g
		r.s.CompleteVPC(v)
		out = v.Clone()
		return []string{v.ID, g.ID}, nil
	})
	return out, err
}

// newDefaultGroup makes the default group of a VPC: everything in from itself, everything out.
func (r Networks) newDefaultGroup(v *aws.VPC, now time.Time) *aws.SecurityGroup {
	g := r.s.NewGroup(v, aws.DefaultGroup, "default VPC security group", now)
	g.Rules = append([]aws.SecurityGroupRule{{
		ID: r.s.NewID("sgr"), GroupID: g.ID, Account: g.Account, Protocol: aws.AllProtocols, FromPort: -1, ToPort: -1,
		Group: &aws.GroupPeer{GroupID: g.ID, UserID: g.Account},
	}}, g.Rules...)
	return g
}

// CreateSubnet makes a subnet inside a block of its VPC.
func (r Networks) CreateSubnet(in aws.CreateSubnetInput) (aws.Subnet, error) {
	var out aws.Subnet
	err := r.s.Mutate("CreateSubnet", func(now time.Time) ([]string, error) {
		if in.VPCID == "" {
			return nil, aws.Refuse("MissingParameter", "The request must contain the parameter vpcId")
		}
		v, err := r.s.VPC(in.VPCID, now)
		if err != nil {
			return nil, err
		}
		if v.Account != r.s.Account {
			return nil, &aws.Error{Code: "UnauthorizedOperation", Message: "You are not authorized to perform this operation.", HTTPStatus: http.StatusForbidden}
		}
		s, err := r.checkSubnet(v, in)
		if err != nil {
			return nil, err
		}
		if err := r.s.CheckNewTags(in.Tags); err != nil {
			return nil, err
		}
		s.ID = r.s.NewID("subnet")
		for i := range s.IPv6 {
			s.IPv6[i].AssociationID = r.s.NewID("subnet-cidr-assoc")
		}
		s.Tags, s.Visible = in.Tags.Clone(), r.s.Visible(now)
		r.s.Data.Subnets[s.ID] = s
		out = s.Clone()
		out.AvailableIPs = r.s.FreeAddresses(s)
		return []string{s.ID}, nil
	})
	return out, err
}

func (r Networks) checkSubnet(v *aws.VPC, in aws.CreateSubnetInput) (*aws.Subnet, error) {
	s := &aws.Subnet{Account: r.s.Account, VPCID: v.ID, State: aws.StateAvailable}
	var err error
	if in.CIDR != "" || in.IPv6CIDR == "" {
		if s.CIDR, err = aws.CanonicalCIDR(in.CIDR, false); err != nil {
			return nil, aws.InvalidValue("Value (%s) for parameter cidrBlock is invalid. This is not a valid CIDR block.", in.CIDR)
		}
		if s.CIDR.Bits() < 16 || s.CIDR.Bits() > 28 || !v.Holds(s.CIDR) {
			return nil, aws.Refuse("InvalidSubnet.Range", "The CIDR '%s' is invalid.", in.CIDR)
		}
	}
	if in.IPv6CIDR != "" {
		p, err := aws.CanonicalCIDR(in.IPv6CIDR, true)
		if err != nil {
			return nil, err
		}
		if p.Bits() != 64 || !v.Holds(p) {
			return nil, aws.Refuse("InvalidSubnet.Range", "The CIDR '%s' is invalid.", in.IPv6CIDR)
		}
		s.IPv6 = []aws.CIDRBlock{{Prefix: p}}
	}
	inVPC := 0
	for _, other := range r.s.Data.Subnets {
		if other.VPCID != v.ID {
			continue
		}
		inVPC++
		if other.Overlaps(s) {
			return nil, aws.Refuse("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet", in.CIDR)
		}
	}
	if inVPC >= r.s.Quotas().SubnetsPerVPC {
		return nil, aws.Refuse("SubnetLimitExceeded", "The maximum number of subnets has been reached.")
	}
	s.Zone = r.s.Zones()[0]
	if in.Zone != "" {
		i := slices.IndexFunc(r.s.Zones(), func(z aws.Zone) bool { return z.Name == in.Zone })
		if i < 0 {
			return nil, aws.InvalidValue(
				"Value (%s) for parameter availabilityZone is invalid. Subnets can currently only be created in the availability zones of %s.",
				in.Zone,
				r.s.Region,
			)
		}
		s.Zone = r.s.Zones()[i]
	}
	return s, nil
}

// VPCs is DescribeVpcs.
func (r Networks) VPCs(ids ...string) (out []aws.VPC, err error) {
	r.s.Read(func(now time.Time) {
		out, err = store.ByID("vpc", r.s.VisibleVPCs(), ids, func(v *aws.VPC) bool { return store.Seen(v.Visible, now) }, (*aws.VPC).Clone)
	})
	return out, err
}

// Subnets is DescribeSubnets.
func (r Networks) Subnets(ids ...string) (out []aws.Subnet, err error) {
	r.s.Read(func(now time.Time) {
		out, err = store.ByID("subnet", r.s.VisibleSubnets(), ids, func(s *aws.Subnet) bool { return store.Seen(s.Visible, now) },
			func(s *aws.Subnet) aws.Subnet {
				c := s.Clone()
				c.AvailableIPs = r.s.FreeAddresses(s)
				return c
			})
	})
	return out, err
}
