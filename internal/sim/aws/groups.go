package aws

import (
	"net/netip"
	"time"
)

// GroupName names a security group by id and by name.
type GroupName struct {
	ID   string `json:"id"`
	Name string `json:"name"`
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

// GroupReference says that rules in a VPC at the other side of an active peering refer to a group.
type GroupReference struct {
	GroupID, VPCID, PeeringID string
}
