package aws

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// localTarget is the target of the routes that every table has to the VPC's own blocks. They are
// not kept: they follow the VPC.
const localTarget = "local"

// blackhole is the state of a route whose target takes no packets.
const blackhole = "blackhole"

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

// to is the destination in words.
func (r *Route) to() string {
	if r.PrefixListID != "" {
		return r.PrefixListID
	}
	return r.Destination.String()
}

func cloneTable(t *RouteTable) RouteTable {
	c := *t
	c.Associations = slices.Clone(t.Associations)
	c.Routes = slices.Clone(t.Routes)
	c.Tags = maps.Clone(t.Tags)
	return c
}

func (d *regionData) mainTable(vpc string) *RouteTable {
	for _, t := range d.tables {
		if t.VPCID == vpc && t.Main != "" {
			return t
		}
	}
	return nil
}

// tableOf returns the route table that a subnet uses.
func (d *regionData) tableOf(s *Subnet) *RouteTable {
	for _, t := range d.tables {
		if slices.ContainsFunc(t.Associations, func(a SubnetAssociation) bool { return a.SubnetID == s.ID }) {
			return t
		}
	}
	return d.mainTable(s.VPCID)
}

func (r Routes) table(id string, now time.Time) (*RouteTable, error) {
	return lookUp("rtb", id, r.data.tables, func(t *RouteTable) time.Time { return t.Visible }, now)
}

// RouteTables is DescribeRouteTables: with the routes to the VPC itself, first.
func (r Routes) RouteTables(ids ...string) (out []RouteTable, err error) {
	r.w.read(func(now time.Time) {
		out, err = byID("rtb", r.data.tables, ids, func(t *RouteTable) bool { return seen(t.Visible, now) }, r.described)
	})
	return out, err
}

func (r Routes) described(t *RouteTable) RouteTable {
	c := cloneTable(t)
	var local []Route
	if v := r.data.vpcs[t.VPCID]; v != nil {
		for _, b := range v.CIDRs {
			local = append(local, Route{Destination: b.Prefix, Target: localTarget, Origin: "CreateRouteTable"})
		}
	}
	c.Routes = append(local, c.Routes...)
	for i := range c.Routes {
		c.Routes[i].State = r.w.packets().routeState(r.data, t.VPCID, &c.Routes[i])
	}
	return c
}

// routeState says whether a target still takes packets. Of targets that are not modelled it is
// taken that they do.
func (way packets) routeState(d *regionData, vpc string, route *Route) string {
	target, good := route.Target, route.State != blackhole
	switch ResourceType(target) {
	case "internet-gateway":
		g := d.gateways[target]
		// A description that reports routes need not tell of gateways.
		good = g == nil && len(d.gateways) == 0 || g != nil && g.VPCID == vpc
	case "vpc-peering-connection":
		p := way.w.peerings[target]
		good = p != nil && p.Status == PeeringActive
	case "network-interface":
		n := d.nics[target]
		good = n != nil && n.Attachment != nil
	}
	if good {
		return "active"
	}
	return blackhole
}

// CreateRouteTable makes a table that leads to the VPC itself only.
func (r Routes) CreateRouteTable(vpcID string, tags Tags, token string) (RouteTable, error) {
	var out RouteTable
	err := r.mutate("CreateRouteTable", func(now time.Time) ([]string, error) {
		if x := repeated(&r.data.fabric, "CreateRouteTable", token, r.data.tables); x != nil {
			out = r.described(x)
			return nil, errNothingChanged
		}
		v, err := r.ownVPC(vpcID, now)
		if err != nil {
			return nil, err
		}
		if err := r.checkNewTags(tags); err != nil {
			return nil, err
		}
		t := &RouteTable{ID: r.w.newID("rtb"), Account: r.at.account, VPCID: v.ID, Tags: cloneTags(tags), Visible: now.Add(r.w.visibility)}
		r.data.tables[t.ID] = t
		r.data.remember("CreateRouteTable", token, t.ID)
		out = r.described(t)
		return []string{t.ID}, nil
	})
	return out, err
}

// DeleteRouteTable deletes a table that is neither a VPC's main one nor used by a subnet.
func (r Routes) DeleteRouteTable(id string) error {
	return r.mutate("DeleteRouteTable", func(now time.Time) ([]string, error) {
		t, err := r.table(id, now)
		if err != nil {
			return nil, err
		}
		if t.Main != "" || len(t.Associations) > 0 {
			return nil, refuse("DependencyViolation", "The routeTable '%s' has dependencies and cannot be deleted.", t.ID)
		}
		delete(r.data.tables, t.ID)
		return []string{t.ID}, nil
	})
}

// AssociateRouteTable lets a subnet use a table and returns the id of the association. A subnet
// that uses another one already is refused.
func (r Routes) AssociateRouteTable(id, subnetID string) (association string, err error) {
	err = r.mutate("AssociateRouteTable", func(now time.Time) ([]string, error) {
		t, err := r.table(id, now)
		if err != nil {
			return nil, err
		}
		s, err := r.ownSubnet(subnetID, now)
		if err != nil {
			return nil, err
		}
		if s.VPCID != t.VPCID {
			return nil, invalidValue("route table %s and subnet %s belong to different networks", t.ID, s.ID)
		}
		for _, other := range r.data.tables {
			for _, a := range other.Associations {
				if a.SubnetID != s.ID {
					continue
				}
				if other == t {
					association = a.ID
					return nil, errNothingChanged
				}
				return nil, refuse("Resource.AlreadyAssociated", "the specified association for route table %s conflicts with an existing association", t.ID)
			}
		}
		association = r.w.newID("rtbassoc")
		t.Associations = append(t.Associations, SubnetAssociation{association, s.ID})
		return []string{t.ID, s.ID}, nil
	})
	return association, err
}

// DisassociateRouteTable ends an association with a subnet, which uses the main table then.
func (r Routes) DisassociateRouteTable(association string) error {
	return r.mutate("DisassociateRouteTable", func(now time.Time) ([]string, error) {
		t, at, err := r.association(association)
		if err != nil {
			return nil, err
		}
		if at < 0 {
			return nil, invalidValue("cannot disassociate the main route table association %s", association)
		}
		subnet := t.Associations[at].SubnetID
		t.Associations = withoutSubnet(t.Associations, subnet)
		return []string{t.ID, subnet}, nil
	})
}

// ReplaceRouteTableAssociation lets a subnet, or the VPC for its main association, use another
// table.
func (r Routes) ReplaceRouteTableAssociation(association, id string) (replaced string, err error) {
	err = r.mutate("ReplaceRouteTableAssociation", func(now time.Time) ([]string, error) {
		from, at, err := r.association(association)
		if err != nil {
			return nil, err
		}
		to, err := r.table(id, now)
		if err != nil {
			return nil, err
		}
		if from.VPCID != to.VPCID {
			return nil, invalidValue("route table %s and association %s belong to different networks", to.ID, association)
		}
		replaced = r.w.newID("rtbassoc")
		if at < 0 {
			from.Main, to.Main = "", replaced
		} else {
			subnet := from.Associations[at].SubnetID
			from.Associations = withoutSubnet(from.Associations, subnet)
			to.Associations = append(to.Associations, SubnetAssociation{replaced, subnet})
		}
		return []string{from.ID, to.ID}, nil
	})
	return replaced, err
}

// association finds an association: its table and its place there, -1 for the main one.
func (r Routes) association(id string) (*RouteTable, int, error) {
	for _, t := range r.data.tables {
		if t.Main == id && id != "" {
			return t, -1, nil
		}
		if i := slices.IndexFunc(t.Associations, func(a SubnetAssociation) bool { return a.ID == id }); i >= 0 {
			return t, i, nil
		}
	}
	return nil, 0, refuse("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", id)
}

// CreateRoute adds a route to a table.
func (r Routes) CreateRoute(in RouteInput) error {
	return r.route("CreateRoute", in, func(t *RouteTable, at int, route Route) error {
		if at >= 0 {
			if t.Routes[at].Target == route.Target {
				return errNothingChanged
			}
			return refuse("RouteAlreadyExists", "The route identified by %s already exists.", route.to())
		}
		t.Routes = append(t.Routes, route)
		return nil
	})
}

// ReplaceRoute gives a route of a table another target.
func (r Routes) ReplaceRoute(in RouteInput) error {
	return r.route("ReplaceRoute", in, func(t *RouteTable, at int, route Route) error {
		if at < 0 {
			return invalidValue("There is no route defined for '%s' in the route table. Use CreateRoute instead.", route.to())
		}
		t.Routes[at].Target = route.Target
		return nil
	})
}

func (r Routes) route(action string, in RouteInput, change func(t *RouteTable, at int, route Route) error) error {
	return r.mutate(action, func(now time.Time) ([]string, error) {
		t, err := r.table(in.TableID, now)
		if err != nil {
			return nil, err
		}
		route, err := in.destination()
		if err != nil {
			return nil, err
		}
		if v := r.data.vpcs[t.VPCID]; v != nil && route.Destination.IsValid() && v.holds(route.Destination) &&
			slices.ContainsFunc(v.CIDRs, func(b CIDRBlock) bool { return b.Prefix == route.Destination }) {
			return nil, refuse("RouteAlreadyExists", "The route identified by %s already exists.", route.to())
		}
		if route.Target, err = r.target(t, in.Target, now); err != nil {
			return nil, err
		}
		route.Origin = "CreateRoute"
		at := slices.IndexFunc(t.Routes, func(x Route) bool { return x.to() == route.to() })
		if err := change(t, at, route); err != nil {
			return nil, err
		}
		t.Implied = false
		return []string{t.ID}, nil
	})
}

// DeleteRoute takes a route out of a table.
func (r Routes) DeleteRoute(in RouteInput) error {
	return r.mutate("DeleteRoute", func(now time.Time) ([]string, error) {
		t, err := r.table(in.TableID, now)
		if err != nil {
			return nil, err
		}
		route, err := in.destination()
		if err != nil {
			return nil, err
		}
		if v := r.data.vpcs[t.VPCID]; v != nil && slices.ContainsFunc(v.CIDRs, func(b CIDRBlock) bool { return b.Prefix == route.Destination }) {
			return nil, invalidValue("cannot remove local route %s in route table %s", route.to(), t.ID)
		}
		at := slices.IndexFunc(t.Routes, func(x Route) bool { return x.to() == route.to() })
		if at < 0 {
			return nil, refuse("InvalidRoute.NotFound", "no route with destination-cidr-block %s in route table %s", route.to(), t.ID)
		}
		t.Routes = slices.Delete(slices.Clone(t.Routes), at, at+1)
		return []string{t.ID}, nil
	})
}

func (in *RouteInput) destination() (Route, error) {
	var out Route
	var err error
	switch given := strings.Join(strings.Fields(in.Destination+" "+in.DestinationIPv6+" "+in.PrefixListID), " "); {
	case given == "":
		return out, refuse("MissingParameter", "The request must contain the parameter destinationCidrBlock or destinationIpv6CidrBlock or destinationPrefixListId")
	case strings.Contains(given, " "):
		return out, refuse("InvalidParameterCombination", "Only one of destinationCidrBlock, destinationIpv6CidrBlock and destinationPrefixListId can be specified")
	case in.PrefixListID != "":
		out.PrefixListID = in.PrefixListID
		return out, CheckID("pl", in.PrefixListID)
	}
	if out.Destination, err = canonicalCIDR(cmp.Or(in.Destination, in.DestinationIPv6), in.Destination == ""); err != nil {
		return out, invalidValue("Value (%s) for parameter destinationCidrBlock is invalid. This is not a valid CIDR block.", cmp.Or(in.Destination, in.DestinationIPv6))
	}
	return out, nil
}

// target checks what a route leads to. What the simulator has none of (a NAT gateway, a transit
// gateway, ...) is taken as it is named.
func (r Routes) target(t *RouteTable, id string, now time.Time) (string, error) {
	switch ResourceType(id) {
	case "internet-gateway":
		g, err := r.gateway(id, now)
		if err != nil {
			return "", err
		}
		if g.VPCID != t.VPCID {
			return "", invalidValue("route table %s and network gateway %s belong to different networks", t.ID, g.ID)
		}
	case "vpc-peering-connection":
		p := r.w.peerings[id]
		if err := CheckID("pcx", id); err != nil {
			return "", err
		}
		if p == nil || p.Requester.VPCID != t.VPCID && p.Accepter.VPCID != t.VPCID {
			return "", NotFound(id)
		}
		if p.Status != PeeringActive {
			return "", refuse("InvalidStateTransition", "VpcPeeringConnection %s is not in the active state", id)
		}
	case "network-interface":
		n, err := lookUp("eni", id, r.data.nics, func(n *NetworkInterface) time.Time { return n.Visible }, now)
		if err != nil {
			return "", err
		}
		if n.VPCID != t.VPCID {
			return "", invalidValue("route table %s and interface %s belong to different networks", t.ID, n.ID)
		}
	case "instance":
		nics := r.data.attached(id)
		if _, err := r.instance(id, now); err != nil {
			return "", err
		}
		if len(nics) != 1 {
			return "", refuse("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", id)
		}
		return nics[0].ID, nil
	case "":
		if id == "" {
			return "", refuse("MissingParameter", "The request must contain exactly one of gatewayId, natGatewayId, networkInterfaceId, vpcPeeringConnectionId or transitGatewayId")
		}
	}
	return id, nil
}
