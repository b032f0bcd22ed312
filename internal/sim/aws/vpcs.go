package aws

import (
	"encoding/hex"
	"net/http"
	"net/netip"
	"slices"
	"time"
)

func (v *VPC) hasIPv6() bool {
	return slices.ContainsFunc(v.CIDRs, func(c CIDRBlock) bool { return c.Prefix.Addr().Is6() })
}

// vpcFor finds a visible VPC; an empty id means the default VPC.
func (r Networks) vpcFor(id string, now time.Time) (*VPC, error) {
	if id == "" {
		if v := r.defaultVPC(); v != nil {
			return v, nil
		}
		return nil, refuse("VPCIdNotSpecified", "No default VPC for this user")
	}
	if err := CheckID("vpc", id); err != nil {
		return nil, err
	}
	v, ok := r.visibleVPCs()[id]
	if !ok || !seen(v.Visible, now) {
		return nil, NotFound(id)
	}
	return v, nil
}

// CreateVPC makes a VPC with its default group. The answer says pending.
func (r Networks) CreateVPC(in CreateVPCInput) (VPC, error) {
	var out VPC
	err := r.mutate("CreateVpc", func(now time.Time) ([]string, error) {
		v4, err := canonicalCIDR(in.CIDR, false)
		if err != nil {
			return nil, invalidValue("Value (%s) for parameter cidrBlock is invalid. This is not a valid CIDR block.", in.CIDR)
		}
		if v4.Bits() < 16 || v4.Bits() > 28 {
			return nil, refuse("InvalidVpc.Range", "The CIDR '%s' is invalid.", in.CIDR)
		}
		if len(r.data.vpcs) >= r.w.quotas(r.at.account).VPCsPerRegion {
			return nil, refuse("VpcLimitExceeded", "The maximum number of VPCs has been reached.")
		}
		if err := r.checkNewTags(in.Tags); err != nil {
			return nil, err
		}
		v := &VPC{
			Account: r.at.account, Region: r.at.region, State: StatePending,
			DHCPOptionsID: "dopt-00000000", Tenancy: "default", Tags: cloneTags(in.Tags), Visible: now.Add(r.w.visibility),
		}
		var v6 netip.Prefix
		if in.IPv6CIDR != "" {
			if v6, err = canonicalCIDR(in.IPv6CIDR, true); err != nil {
				return nil, err
			}
		}
		v.ID = r.w.newID("vpc")
		v.CIDRs = []CIDRBlock{{r.w.newID("vpc-cidr-assoc"), v4}}
		if in.AmazonProvidedIPv6 {
			v6 = r.w.newIPv6Block()
		}
		if v6.IsValid() {
			v.CIDRs = append(v.CIDRs, CIDRBlock{r.w.newID("vpc-cidr-assoc"), v6})
		}
		r.data.vpcs[v.ID] = v
		r.w.later(now, r.w.transition, r.at, v.ID, StatePending, StateAvailable)
		g := r.newDefaultGroup(v, now)
		r.data.groups[g.ID] = g
		r.data.completeVPC(v, v.Visible)
		out = cloneVPC(v)
		return []string{v.ID, g.ID}, nil
	})
	return out, err
}

// newDefaultGroup makes the default group of a VPC: everything in from itself, everything out.
func (r Networks) newDefaultGroup(v *VPC, now time.Time) *SecurityGroup {
	g := Groups(r).newGroup(v, defaultGroup, "default VPC security group", now)
	g.Rules = append([]SecurityGroupRule{{
		ID: r.w.newID("sgr"), GroupID: g.ID, Account: g.Account, Protocol: AllProtocols, FromPort: -1, ToPort: -1,
		Group: &GroupPeer{GroupID: g.ID, UserID: g.Account},
	}}, g.Rules...)
	return g
}

// newIPv6Block makes up a /56 below the documentation prefix 2001:db8::/32.
func (w *World) newIPv6Block() netip.Prefix {
	d := w.digest()
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8, d[0], d[1], d[2]}
	return netip.PrefixFrom(netip.AddrFrom16(a), 56)
}

// CreateSubnet makes a subnet inside a block of its VPC.
func (r Networks) CreateSubnet(in CreateSubnetInput) (Subnet, error) {
	var out Subnet
	err := r.mutate("CreateSubnet", func(now time.Time) ([]string, error) {
		if in.VPCID == "" {
			return nil, refuse("MissingParameter", "The request must contain the parameter vpcId")
		}
		v, err := r.vpcFor(in.VPCID, now)
		if err != nil {
			return nil, err
		}
		if v.Account != r.at.account {
			return nil, &Error{"UnauthorizedOperation", "You are not authorized to perform this operation.", http.StatusForbidden}
		}
		s, err := r.checkSubnet(v, in)
		if err != nil {
			return nil, err
		}
		if err := r.checkNewTags(in.Tags); err != nil {
			return nil, err
		}
		s.ID = r.w.newID("subnet")
		for i := range s.IPv6 {
			s.IPv6[i].AssociationID = r.w.newID("subnet-cidr-assoc")
		}
		s.Tags, s.Visible = cloneTags(in.Tags), now.Add(r.w.visibility)
		r.data.subnets[s.ID] = s
		out = cloneSubnet(s)
		out.AvailableIPs = r.freeAddresses(s)
		return []string{s.ID}, nil
	})
	return out, err
}

func (r Networks) checkSubnet(v *VPC, in CreateSubnetInput) (*Subnet, error) {
	s := &Subnet{Account: r.at.account, VPCID: v.ID, State: StateAvailable}
	var err error
	if in.CIDR != "" || in.IPv6CIDR == "" {
		if s.CIDR, err = canonicalCIDR(in.CIDR, false); err != nil {
			return nil, invalidValue("Value (%s) for parameter cidrBlock is invalid. This is not a valid CIDR block.", in.CIDR)
		}
		if s.CIDR.Bits() < 16 || s.CIDR.Bits() > 28 || !v.holds(s.CIDR) {
			return nil, refuse("InvalidSubnet.Range", "The CIDR '%s' is invalid.", in.CIDR)
		}
	}
	if in.IPv6CIDR != "" {
		p, err := canonicalCIDR(in.IPv6CIDR, true)
		if err != nil {
			return nil, err
		}
		if p.Bits() != 64 || !v.holds(p) {
			return nil, refuse("InvalidSubnet.Range", "The CIDR '%s' is invalid.", in.IPv6CIDR)
		}
		s.IPv6 = []CIDRBlock{{Prefix: p}}
	}
	inVPC := 0
	for _, other := range r.data.subnets {
		if other.VPCID != v.ID {
			continue
		}
		inVPC++
		if other.overlaps(s) {
			return nil, refuse("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet", in.CIDR)
		}
	}
	if inVPC >= r.w.quotas(r.at.account).SubnetsPerVPC {
		return nil, refuse("SubnetLimitExceeded", "The maximum number of subnets has been reached.")
	}
	s.Zone = r.data.zones[0]
	if in.Zone != "" {
		i := slices.IndexFunc(r.data.zones, func(z Zone) bool { return z.Name == in.Zone })
		if i < 0 {
			return nil, invalidValue(
				"Value (%s) for parameter availabilityZone is invalid. Subnets can currently only be created in the availability zones of %s.",
				in.Zone,
				r.at.region,
			)
		}
		s.Zone = r.data.zones[i]
	}
	return s, nil
}

// holds reports whether p lies in a block of the VPC.
func (v *VPC) holds(p netip.Prefix) bool {
	return slices.ContainsFunc(v.CIDRs, func(c CIDRBlock) bool {
		return c.Prefix.Bits() <= p.Bits() && c.Prefix.Contains(p.Addr())
	})
}

func (s *Subnet) overlaps(o *Subnet) bool {
	if s.CIDR.Overlaps(o.CIDR) {
		return true
	}
	for _, a := range s.IPv6 {
		for _, b := range o.IPv6 {
			if a.Prefix.Overlaps(b.Prefix) {
				return true
			}
		}
	}
	return false
}

// reservedAddresses are the first four and the last address of a subnet, which the cloud keeps.
const reservedAddresses = 5

// freeAddresses counts the IPv4 addresses that a new interface could get.
func (r Networks) freeAddresses(s *Subnet) int {
	if !s.CIDR.IsValid() {
		return 0
	}
	free := 1<<(32-s.CIDR.Bits()) - reservedAddresses
	take := func(d *regionData) {
		for _, n := range d.nics {
			if n.SubnetID == s.ID {
				free -= len(n.PrivateIPs)
				for _, p := range n.Prefixes {
					if p.Addr().Is4() {
						free -= 1 << (32 - p.Bits())
					}
				}
			}
		}
	}
	take(r.data)
	r.neighbours(take)
	return max(free, 0)
}

// used returns the private addresses taken in a VPC.
func (d *regionData) used(vpcID string) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, n := range d.nics {
		if n.VPCID != vpcID {
			continue
		}
		for _, p := range n.PrivateIPs {
			out[p.Addr] = true
		}
		for _, a := range n.IPv6 {
			out[a] = true
		}
		for _, p := range n.Prefixes {
			// No one is given an IPv6 address by its place in the block.
			for a := p.Addr(); a.Is4() && p.Contains(a); a = a.Next() {
				out[a] = true
			}
		}
	}
	return out
}

// freeIPv4 returns the lowest free address of the subnet that an interface may have.
func freeIPv4(s *Subnet, used map[netip.Addr]bool) (netip.Addr, bool) {
	a := s.CIDR.Addr()
	for range 4 {
		a = a.Next()
	}
	for ; s.CIDR.Contains(a.Next()); a = a.Next() {
		if !used[a] {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// newIPv6 makes up a free address of the subnet's first IPv6 block.
func (w *World) newIPv6(s *Subnet, used map[netip.Addr]bool) (netip.Addr, bool) {
	if len(s.IPv6) == 0 {
		return netip.Addr{}, false
	}
	for {
		a := s.IPv6[0].Prefix.Addr().As16()
		d := w.digest()
		copy(a[8:], d[:8])
		if addr := netip.AddrFrom16(a); !used[addr] {
			return addr, true
		}
	}
}

// newPublicIP makes up an unused address of 198.18.0.0/15, which is set aside for test networks.
func (w *World) newPublicIP() netip.Addr {
	for {
		d := w.digest()
		a := netip.AddrFrom4([4]byte{198, 18 + d[0]&1, d[1], d[2]})
		if !w.publicInUse(a) {
			return a
		}
	}
}

func (w *World) publicInUse(a netip.Addr) bool {
	for _, d := range w.regions {
		for _, n := range d.nics {
			for _, p := range n.PrivateIPs {
				if p.Public == a {
					return true
				}
			}
		}
	}
	return false
}

// shortHash is 17 hexadecimal digits that depend on s alone.
func shortHash(s string) string {
	d := hash(s)
	return hex.EncodeToString(d[:9])[:17]
}
