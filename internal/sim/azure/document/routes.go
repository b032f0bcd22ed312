package document

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// RouteTable is a route table made ready.
type RouteTable struct {
	Routes []Route
}

// Route leads the packets of a subnet to somewhere.
type Route struct {
	Name string
	// Prefix is what it is about; invalid if that is a service tag, which is Tag, in lower case.
	Prefix netip.Prefix
	Tag    string
	// Type is the kind of what it leads to, in lower case, and Hop the address of an appliance.
	Type string
	Hop  netip.Addr
}

// Kinds of what a route leads to, in lower case.
const (
	HopAppliance = "virtualappliance"
	HopNone      = "none"
)

var (
	hopTypes = []string{"virtualnetworkgateway", "vnetlocal", "internet", HopAppliance, HopNone}
	tagForm  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(\.[A-Za-z0-9]+)?$`)
)

// parseRouteTable reads and checks the routes of a table as far as that needs nothing but the
// table. RouteConflict and its words are the cloud's; the codes about next hops are not published,
// and are named after known ones.
func parseRouteTable(id ID, properties map[string]any) (*RouteTable, error) {
	var documents []struct {
		Name       string `json:"name"`
		Properties struct {
			Prefix string `json:"addressPrefix"`
			Type   string `json:"nextHopType"`
			Hop    string `json:"nextHopIpAddress"`
		} `json:"properties"`
	}
	if err := decode(properties["routes"], &documents); err != nil {
		return nil, err
	}
	out := &RouteTable{}
	for i := range documents {
		d := &documents[i]
		if err := CheckName(d.Name); err != nil {
			return nil, err
		}
		r := Route{Name: d.Name, Type: strings.ToLower(d.Properties.Type)}
		at := id.Child("routes", d.Name)
		if !slices.Contains(hopTypes, r.Type) {
			return nil, badFormat("InvalidJson", "Error converting value \""+d.Properties.Type+"\" to type RouteNextHopType.")
		}
		p, err := netip.ParsePrefix(d.Properties.Prefix)
		switch {
		case err != nil && tagForm.MatchString(d.Properties.Prefix):
			r.Tag = strings.ToLower(d.Properties.Prefix)
		case err != nil:
			return nil, BadRequest("InvalidAddressPrefixFormat", "Address prefix %s of resource %s is not formatted correctly. It should follow CIDR notation, "+
				"for example 10.0.0.0/24.", d.Properties.Prefix, at)
		case p != p.Masked():
			return nil, BadRequest("InvalidCIDRNotation", "The address prefix %s in resource %s has an invalid CIDR notation. For the given prefix length, the "+
				"address prefix should be %s.", p, at, p.Masked())
		default:
			r.Prefix = p
		}
		if r.Hop, err = parseHop(at, r, d.Properties.Hop); err != nil {
			return nil, err
		}
		for _, other := range out.Routes {
			switch {
			case strings.EqualFold(other.Name, r.Name):
				return nil, badFormat("DuplicateResourceName", "Resource "+id.String()+" has two child resources with the same name ("+d.Name+").")
			case other.Prefix == r.Prefix && other.Tag == r.Tag:
				return nil, BadRequest("RouteConflict", "Route: %s conflicts with Route: %s. Routes cannot have the same AddressPrefix.", r.Name, other.Name)
			}
		}
		out.Routes = append(out.Routes, r)
	}
	return out, nil
}

// parseHop reads the address that a route leads to: an appliance has one, nothing else has.
func parseHop(at ID, r Route, text string) (netip.Addr, error) {
	if r.Type != HopAppliance {
		if text != "" {
			return netip.Addr{}, BadRequest("RouteNextHopIpAddressNotAllowed", "Route %s has the next hop address %s. Only routes of the next hop type "+
				"VirtualAppliance have one.", at, text)
		}
		return netip.Addr{}, nil
	}
	hop, err := netip.ParseAddr(text)
	switch {
	case err != nil || hop.Zone() != "":
		return netip.Addr{}, BadRequest("InvalidIPAddressFormat", "Next hop address %q of route %s is not formatted correctly.", text, at)
	case r.Prefix.IsValid() && r.Prefix.Addr().Is4() != hop.Is4():
		return netip.Addr{}, BadRequest("RouteNextHopIpAddressFamilyMismatch", "Next hop address %s of route %s is of another address family than the prefix %s.", hop, at, r.Prefix)
	}
	return hop, nil
}

// Best is the route to an address: that of the longest prefix that holds it; nil if there is none.
func (t *RouteTable) Best(a netip.Addr) *Route {
	var best *Route
	for i := range t.Routes {
		if r := &t.Routes[i]; r.Prefix.IsValid() && r.Prefix.Contains(a) && (best == nil || r.Prefix.Bits() > best.Prefix.Bits()) {
			best = r
		}
	}
	return best
}
