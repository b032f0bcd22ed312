package aws

import (
	"net/netip"
	"slices"
	"time"
)

// Tags are the tags of one resource: key to value. A nil map is an untagged resource.
type Tags map[string]string

// Keys returns the tag keys in order.
func (t Tags) Keys() []string {
	keys := make([]string, 0, len(t))
	for k := range t {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Account is one AWS account.
type Account struct {
	ID      string   `json:"id"`                // 12 digits
	Alias   string   `json:"alias,omitempty"`   // a name for people; may be empty
	Regions []string `json:"regions,omitempty"` // regions enabled for the account, in order
	Quotas  Quotas   `json:"quotas"`            // zero fields mean the default of AWS
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

// GroupName names a security group by id and by name.
type GroupName struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// PrivateIP is one private IPv4 address of a network interface, with the public address mapped to
// it, if any.
type PrivateIP struct {
	Addr       netip.Addr `json:"addr"`
	Primary    bool       `json:"primary,omitempty"`
	Public     netip.Addr `json:"public,omitzero"`      // public or Elastic IPv4 address; invalid = none
	AutoPublic bool       `json:"autoPublic,omitempty"` // Public is lent by the cloud (owner "amazon") while the instance runs
}

// Attachment ties a network interface to an instance.
type Attachment struct {
	ID                  string    `json:"id"`
	InstanceID          string    `json:"instanceId"` // empty when the interface is attached to a service of the cloud
	DeviceIndex         int       `json:"deviceIndex"`
	Status              string    `json:"status"` // attached
	AttachTime          time.Time `json:"attachTime"`
	DeleteOnTermination bool      `json:"deleteOnTermination,omitempty"`
}

// Network interface states.
const (
	StatusInUse     = "in-use"
	StatusAvailable = "available"
)

// NetworkInterface is an elastic network interface, the thing that security groups are attached to.
type NetworkInterface struct {
	ID               string       `json:"id"`
	Account          string       `json:"account"`
	VPCID            string       `json:"vpcId"`
	SubnetID         string       `json:"subnetId"`
	Zone             string       `json:"zone"`
	Description      string       `json:"description,omitempty"`
	InterfaceType    string       `json:"interfaceType"`
	MAC              string       `json:"mac"`
	RequesterID      string       `json:"requesterId,omitempty"`
	RequesterManaged bool         `json:"requesterManaged,omitempty"`
	SourceDestCheck  bool         `json:"sourceDestCheck"`
	Status           string       `json:"status"`
	PrivateIPs       []PrivateIP  `json:"privateIps,omitempty"` // the primary one first
	IPv6             []netip.Addr `json:"ipv6,omitempty"`
	// Prefixes are blocks that are addresses of the interface as a whole (prefix delegation).
	Prefixes   []netip.Prefix `json:"prefixes,omitempty"`
	Groups     []GroupName    `json:"groups"` // in the order they were set
	Attachment *Attachment    `json:"attachment,omitempty"`
	Tags       Tags           `json:"tags,omitempty"`
	Visible    time.Time      `json:"visible,omitzero"`
}

// PrimaryIP returns the primary private IPv4 address entry, or a zero PrivateIP.
func (n *NetworkInterface) PrimaryIP() PrivateIP {
	for _, p := range n.PrivateIPs {
		if p.Primary {
			return p
		}
	}
	return PrivateIP{}
}

// mayHoldNone reports whether the interface is one that EC2 shows without a security group: those
// of NAT gateways, transit gateways and load balancers, which nothing filters. Interfaces that a
// customer makes always have a group.
func (n *NetworkInterface) mayHoldNone() bool {
	switch n.InterfaceType {
	case "", "interface", "efa", "efa-only", "trunk", "branch":
		return n.RequesterManaged
	}
	return true
}

// HasGroup reports whether the interface holds the group.
func (n *NetworkInterface) HasGroup(id string) bool {
	return slices.ContainsFunc(n.Groups, func(g GroupName) bool { return g.ID == id })
}

// InstanceState is the power state of an instance; its value is the EC2 state code.
type InstanceState int

// Instance states.
const (
	Pending      InstanceState = 0
	Running      InstanceState = 16
	ShuttingDown InstanceState = 32
	Terminated   InstanceState = 48
	Stopping     InstanceState = 64
	Stopped      InstanceState = 80
)

// String returns the EC2 name of the state.
func (s InstanceState) String() string {
	switch s {
	case Pending:
		return "pending"
	case Running:
		return "running"
	case ShuttingDown:
		return "shutting-down"
	case Terminated:
		return "terminated"
	case Stopping:
		return "stopping"
	case Stopped:
		return "stopped"
	}
	return "unknown"
}

// ParseInstanceState is the reverse of InstanceState.String.
func ParseInstanceState(name string) (InstanceState, bool) {
	for _, s := range []InstanceState{Pending, Running, ShuttingDown, Terminated, Stopping, Stopped} {
		if s.String() == name {
			return s, true
		}
	}
	return 0, false
}

// Instance is a virtual machine. NetworkInterfaces is filled in by describes, by device index; the
// state keeps interfaces apart and joins them by their Attachment.
type Instance struct {
	ID               string        `json:"id"`
	Account          string        `json:"account"`
	ReservationID    string        `json:"reservationId"`
	ImageID          string        `json:"imageId,omitempty"`
	InstanceType     string        `json:"instanceType,omitempty"`
	KeyName          string        `json:"keyName,omitempty"`
	ClientToken      string        `json:"clientToken,omitempty"`
	LaunchIndex      int           `json:"launchIndex,omitempty"`
	LaunchTime       time.Time     `json:"launchTime"`
	Zone             string        `json:"zone,omitempty"`
	Tenancy          string        `json:"tenancy,omitempty"`
	State            InstanceState `json:"state"`
	TransitionReason string        `json:"transitionReason,omitempty"`
	VPCID            string        `json:"vpcId,omitempty"`    // empty once terminated
	SubnetID         string        `json:"subnetId,omitempty"` // empty once terminated
	Tags             Tags          `json:"tags,omitempty"`
	Visible          time.Time     `json:"visible,omitzero"`
	// Attributes are the attributes of ModifyInstanceAttribute.
	Attributes InstanceAttributes `json:"attributes,omitzero"`

	NetworkInterfaces []NetworkInterface `json:"-"`
}

// Primary returns the interface with device index 0, or nil.
func (i *Instance) Primary() *NetworkInterface {
	for n := range i.NetworkInterfaces {
		if a := i.NetworkInterfaces[n].Attachment; a != nil && a.DeviceIndex == 0 {
			return &i.NetworkInterfaces[n]
		}
	}
	return nil
}

// SecurityGroup is a security group with all its rules, ingress and egress, in the order of their
// creation.
type SecurityGroup struct {
	ID          string              `json:"id"`
	Account     string              `json:"account"`
	VPCID       string              `json:"vpcId"`
	Name        string              `json:"name"`
	Description string              `json:"description"`
	Rules       []SecurityGroupRule `json:"rules,omitempty"`
	Tags        Tags                `json:"tags,omitempty"`
	Visible     time.Time           `json:"visible,omitzero"`
}

// GroupPeer is the referenced group of a rule.
type GroupPeer struct {
	GroupID       string `json:"groupId"`
	UserID        string `json:"userId"`                  // account that owns the group
	VPCID         string `json:"vpcId,omitempty"`         // set when the group is of another VPC
	PeeringID     string `json:"peeringId,omitempty"`     // set when the group is of another VPC
	PeeringStatus string `json:"peeringStatus,omitempty"` // filled in by describes
}

// SecurityGroupRule is one rule: one protocol, one port range, one peer. Exactly one of CIDR,
// PrefixListID and Group is set.
type SecurityGroupRule struct {
	ID           string       `json:"id"`
	GroupID      string       `json:"groupId"`
	Account      string       `json:"account"`
	Egress       bool         `json:"egress,omitempty"`
	Protocol     string       `json:"protocol"` // tcp, udp, icmp, icmpv6, -1 or a number
	FromPort     int32        `json:"fromPort"` // port or ICMP type; -1 = all
	ToPort       int32        `json:"toPort"`   // port or ICMP code; -1 = all
	CIDR         netip.Prefix `json:"cidr,omitzero"`
	PrefixListID string       `json:"prefixListId,omitempty"`
	Group        *GroupPeer   `json:"group,omitempty"`
	Description  string       `json:"description,omitempty"`
	Tags         Tags         `json:"tags,omitempty"`
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

// PrefixListEntry is one block of a prefix list.
type PrefixListEntry struct {
	CIDR        netip.Prefix `json:"cidr"`
	Description string       `json:"description,omitempty"`
}

// AWSOwned is the owner of prefix lists that the cloud itself manages.
const AWSOwned = "AWS"

// PrefixList is a managed prefix list. Versions[v-1] holds the entries of version v; lists of the
// cloud have one version.
type PrefixList struct {
	ID         string              `json:"id"`
	Name       string              `json:"name"`
	OwnerID    string              `json:"ownerId"` // account, or AWSOwned
	Family     string              `json:"family"`  // IPv4 or IPv6
	MaxEntries int                 `json:"maxEntries"`
	State      string              `json:"state"`
	Versions   [][]PrefixListEntry `json:"versions"`
	Tags       Tags                `json:"tags,omitempty"`
	Visible    time.Time           `json:"visible,omitzero"`
}

// Version is the current version number, from 1.
func (p *PrefixList) Version() int { return len(p.Versions) }

// Entries returns the current entries.
func (p *PrefixList) Entries() []PrefixListEntry {
	if len(p.Versions) == 0 {
		return nil
	}
	return p.Versions[len(p.Versions)-1]
}

// ResourceTag is one answer row of DescribeTags.
type ResourceTag struct {
	ResourceID   string
	ResourceType string
	Key          string
	Value        string
}

// ARN returns the Amazon resource name of an EC2 resource.
func ARN(region, account, id string) string {
	return "arn:aws:ec2:" + region + ":" + account + ":" + ResourceType(id) + "/" + id
}
