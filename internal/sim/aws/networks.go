package aws

import (
	"net/netip"
	"slices"
	"time"
)

// VPCAttributes are the switches of a VPC.
type VPCAttributes struct {
	DNSSupportOff bool `json:"dnsSupportOff,omitempty"`
	DNSHostnames  bool `json:"dnsHostnames,omitempty"`
	AddressUsage  bool `json:"addressUsage,omitempty"`
}

// RegionInfo is one answer row of DescribeRegions.
type RegionInfo struct {
	Name        string
	Endpoint    string // host name, without a scheme
	OptInStatus string
}

// Zone is an availability zone.
type Zone struct {
	Name string `json:"name"` // us-west-2a
	ID   string `json:"id"`   // usw2-az1
}

// CIDRBlock is an address block associated with a VPC or subnet.
type CIDRBlock struct {
	AssociationID string       `json:"associationId,omitempty"`
	Prefix        netip.Prefix `json:"prefix"`
}

// VPC states.
const (
	StatePending   = "pending"
	StateAvailable = "available"
)

// VPC is a virtual private cloud. CIDRs holds the IPv4 blocks, the primary one first, then the IPv6
// blocks.
type VPC struct {
	ID            string      `json:"id"`
	Account       string      `json:"account"`
	Region        string      `json:"region"`
	CIDRs         []CIDRBlock `json:"cidrs"`
	IsDefault     bool        `json:"isDefault,omitempty"`
	State         string      `json:"state"`
	DHCPOptionsID string      `json:"dhcpOptionsId,omitempty"`
	Tenancy       string      `json:"tenancy,omitempty"`
	Tags          Tags        `json:"tags,omitempty"`
	// Attributes are the switches of ModifyVpcAttribute.
	Attributes VPCAttributes `json:"attributes,omitzero"`
	Visible    time.Time     `json:"visible,omitzero"` // NotFound before; see Options.VisibilityDelay
}

// Subnet is a subnet of a VPC. CIDR is its IPv4 block, invalid in a subnet of IPv6 alone; IPv6
// holds the IPv6 blocks.
type Subnet struct {
	ID                  string       `json:"id"`
	Account             string       `json:"account"`
	VPCID               string       `json:"vpcId"`
	CIDR                netip.Prefix `json:"cidr"`
	IPv6                []CIDRBlock  `json:"ipv6,omitempty"`
	Zone                Zone         `json:"zone"`
	DefaultForAZ        bool         `json:"defaultForAz,omitempty"`
	MapPublicIPOnLaunch bool         `json:"mapPublicIpOnLaunch,omitempty"`
	SharedWith          []string     `json:"sharedWith,omitempty"` // accounts that may use it too
	State               string       `json:"state"`
	Tags                Tags         `json:"tags,omitempty"`
	Visible             time.Time    `json:"visible,omitzero"`
	AvailableIPs        int          `json:"-"` // free IPv4 addresses; filled in by describes
}

// PeeringVPC is one side of a peering connection.
type PeeringVPC struct {
	VPCID   string         `json:"vpcId"`
	Account string         `json:"account"`
	Region  string         `json:"region"`
	CIDRs   []netip.Prefix `json:"cidrs,omitempty"` // v4 then v6
}

// PeeringActive is the status code of a peering that carries traffic.
const PeeringActive = "active"

// PeeringConnection joins two VPCs, possibly of two accounts or regions.
type PeeringConnection struct {
	ID        string     `json:"id"`
	Status    string     `json:"status"` // active, pending-acceptance, deleted, rejected, expired, failed
	Message   string     `json:"message,omitempty"`
	Requester PeeringVPC `json:"requester"`
	Accepter  PeeringVPC `json:"accepter"`
	Tags      Tags       `json:"tags,omitempty"`
}

// Status codes of a peering connection other than active.
const (
	PeeringPending  = "pending-acceptance"
	PeeringDeleted  = "deleted"
	PeeringRejected = "rejected"
	PeeringFailed   = "failed"
)

// Blocks are the address blocks of the VPC.
func (v *VPC) Blocks() []netip.Prefix {
	var out []netip.Prefix
	for _, b := range v.CIDRs {
		out = append(out, b.Prefix)
	}
	return out
}

// Overlaps reports whether any block of the VPC overlaps one of another VPC.
func (v *VPC) Overlaps(o *VPC) bool {
	for _, a := range v.CIDRs {
		for _, b := range o.CIDRs {
			if a.Prefix.Overlaps(b.Prefix) {
				return true
			}
		}
	}
	return false
}

// HasIPv6 reports whether the VPC has an IPv6 block.
func (v *VPC) HasIPv6() bool {
	return slices.ContainsFunc(v.CIDRs, func(c CIDRBlock) bool { return c.Prefix.Addr().Is6() })
}

// Holds reports whether p lies in a block of the VPC.
func (v *VPC) Holds(p netip.Prefix) bool {
	return slices.ContainsFunc(v.CIDRs, func(c CIDRBlock) bool {
		return c.Prefix.Bits() <= p.Bits() && c.Prefix.Contains(p.Addr())
	})
}

// Overlaps reports whether any block of the subnet overlaps one of another subnet.
func (s *Subnet) Overlaps(o *Subnet) bool {
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
