package aws

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// SubnetAssociation says that a subnet uses a route table or a network ACL.
type SubnetAssociation struct {
	ID       string `json:"id"`
	SubnetID string `json:"subnetId"`
}

// WithoutSubnet drops the associations of a subnet.
func WithoutSubnet(all []SubnetAssociation, subnet string) []SubnetAssociation {
	return slices.DeleteFunc(slices.Clone(all), func(a SubnetAssociation) bool { return a.SubnetID == subnet })
}

// InternetGateway joins a VPC to the internet.
type InternetGateway struct {
	ID      string    `json:"id"`
	Account string    `json:"account"`
	VPCID   string    `json:"vpcId,omitempty"`
	Tags    Tags      `json:"tags,omitempty"`
	Visible time.Time `json:"visible,omitzero"`
}

// LocalTarget is the target of the routes that every table has to the VPC's own blocks. They are
// not kept: they follow the VPC.
const LocalTarget = "local"

// States of a route: whether its target takes packets.
const (
	RouteActive    = "active"
	RouteBlackhole = "blackhole"
)

// RouteTable tells where packets go that leave a subnet.
type RouteTable struct {
	ID           string              `json:"id"`
	Account      string              `json:"account"`
	VPCID        string              `json:"vpcId"`
	Main         string              `json:"main,omitempty"` // association with the VPC; empty if it is not the main table
	Associations []SubnetAssociation `json:"associations,omitempty"`
	Routes       []Route             `json:"routes,omitempty"` // without those to the VPC itself
	// Implied is the main table of a VPC that no one has reported or has written to. It says
	// nothing about routes, and so plays no part in verdicts.
	Implied bool      `json:"implied,omitempty"`
	Tags    Tags      `json:"tags,omitempty"`
	Visible time.Time `json:"visible,omitzero"`
}

// Route leads to a block or to a prefix list. Target is the id of a gateway, connection or
// interface.
type Route struct {
	Destination  netip.Prefix `json:"destination,omitzero"`
	PrefixListID string       `json:"prefixListId,omitempty"`
	Target       string       `json:"target"`
	Origin       string       `json:"origin,omitempty"`
	// State is filled in by describes. Of a target that is not modelled it is kept as it was given.
	State string `json:"state,omitempty"`
}

// RouteInput are the parameters of CreateRoute and ReplaceRoute.
type RouteInput struct {
	TableID, Destination, DestinationIPv6, PrefixListID, Target string
}

// To is the destination in words.
func (r *Route) To() string {
	if r.PrefixListID != "" {
		return r.PrefixListID
	}
	return r.Destination.String()
}

// Route is the route that the parameters name, without its target.
func (in *RouteInput) Route() (Route, error) {
	var out Route
	var err error
	switch given := strings.Join(strings.Fields(in.Destination+" "+in.DestinationIPv6+" "+in.PrefixListID), " "); {
	case given == "":
		return out, Refuse("MissingParameter", "The request must contain the parameter destinationCidrBlock or destinationIpv6CidrBlock or destinationPrefixListId")
	case strings.Contains(given, " "):
		return out, Refuse("InvalidParameterCombination", "Only one of destinationCidrBlock, destinationIpv6CidrBlock and destinationPrefixListId can be specified")
	case in.PrefixListID != "":
		out.PrefixListID = in.PrefixListID
		return out, CheckID("pl", in.PrefixListID)
	}
	if out.Destination, err = CanonicalCIDR(cmp.Or(in.Destination, in.DestinationIPv6), in.Destination == ""); err != nil {
		return out, InvalidValue("Value (%s) for parameter destinationCidrBlock is invalid. This is not a valid CIDR block.", cmp.Or(in.Destination, in.DestinationIPv6))
	}
	return out, nil
}
