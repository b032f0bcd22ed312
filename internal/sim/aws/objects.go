package aws

import (
	"net/netip"
	"slices"
	"time"
)

// Account is one AWS account.
type Account struct {
	ID      string   `json:"id"`                // 12 digits
	Alias   string   `json:"alias,omitempty"`   // a name for people; may be empty
	Regions []string `json:"regions,omitempty"` // regions enabled for the account, in order
	Quotas  Quotas   `json:"quotas"`            // zero fields mean the default of AWS
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

// MayHoldNone reports whether the interface is one that EC2 shows without a security group: those
// of NAT gateways, transit gateways and load balancers, which nothing filters. Interfaces that a
// customer makes always have a group.
func (n *NetworkInterface) MayHoldNone() bool {
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
