package network

import (
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/store"
)

// Routes are the calls about where packets go: route tables and internet gateways.
type Routes struct{ s *store.Site }

// RoutesAt returns the calls on a site.
func RoutesAt(s *store.Site) Routes { return Routes{s} }

func (r Routes) table(id string, now time.Time) (*aws.RouteTable, error) {
	return store.LookUp("rtb", id, r.s.Data.Tables, func(t *aws.RouteTable) time.Time { return t.Visible }, now)
}

// RouteTables is DescribeRouteTables: with the routes to the VPC itself, first.
func (r Routes) RouteTables(ids ...string) (out []aws.RouteTable, err error) {
	r.s.Read(func(now time.Time) {
		out, err = store.ByID("rtb", r.s.Data.Tables, ids, func(t *aws.RouteTable) bool { return store.Seen(t.Visible, now) }, r.described)
	})
	return out, err
}

func (r Routes) described(t *aws.RouteTable) aws.RouteTable {
	c := t.Clone()
	var local []aws.Route
	if v := r.s.Data.VPCs[t.VPCID]; v != nil {
		for _, b := range v.CIDRs {
			local = append(local, aws.Route{Destination: b.Prefix, Target: aws.LocalTarget, Origin: "CreateRouteTable"})
		}
	}
	c.Routes = append(local, c.Routes...)
	for i := range c.Routes {
		c.Routes[i].State = r.s.Data.RouteState(r.s.Peerings(), t.VPCID, &c.Routes[i])
	}
	return c
}

// CreateRouteTable makes a table that leads to the VPC itself only.
func (r Routes) CreateRouteTable(vpcID string, tags aws.Tags, token string) (aws.RouteTable, error) {
	var out aws.RouteTable
	err := r.s.Mutate("CreateRouteTable", func(now time.Time) ([]string, error) {
		if x := r.s.Data.Tables[r.s.Made("CreateRouteTable", token)]; x != nil {
			out = r.described(x)
			return nil, store.ErrNothingChanged
		}
		v, err := r.s.OwnVPC(vpcID, now)
		if err != nil {
			return nil, err
		}
		if err := r.s.CheckNewTags(tags); err != nil {
			return nil, err
		}
		t := &aws.RouteTable{ID: r.s.NewID("rtb"), Account: r.s.Account, VPCID: v.ID, Tags: tags.Clone(), Visible: r.s.Visible(now)}
		r.s.Data.Tables[t.ID] = t
		r.s.Remember("CreateRouteTable", token, t.ID)
		out = r.described(t)
		return []string{t.ID}, nil
	})
	return out, err
}

// DeleteRouteTable deletes a table that is neither a VPC's main one nor used by a subnet.
func (r Routes) DeleteRouteTable(id string) error {
	return r.s.Mutate("DeleteRouteTable", func(now time.Time) ([]string, error) {
		t, err := r.table(id, now)
		if err != nil {
			return nil, err
		}
		if t.Main != "" || len(t.Associations) > 0 {
			return nil, aws.Refuse("DependencyViolation", "The routeTable '%s' has dependencies and cannot be deleted.", t.ID)
		}
		delete(r.s.Data.Tables, t.ID)
		return []string{t.ID}, nil
	})
}

// AssociateRouteTable lets a subnet use a table and returns the id of the association. A subnet
// that uses another one already is refused.
func (r Routes) AssociateRouteTable(id, subnetID string) (association string, err error) {
	err = r.s.Mutate("AssociateRouteTable", func(now time.Time) ([]string, error) {
		t, err := r.table(id, now)
		if err != nil {
			return nil, err
		}
		s, err := r.s.OwnSubnet(subnetID, now)
		if err != nil {
			return nil, err
		}
		if s.VPCID != t.VPCID {
			return nil, aws.InvalidValue("route table %s and subnet %s belong to different networks", t.ID, s.ID)
		}
		for _, other := range r.s.Data.Tables {
			for _, a := range other.Associations {
				if a.SubnetID != s.ID {
					continue
				}
				if other == t {
					association = a.ID
					return nil, store.ErrNothingChanged
				}
				return nil, aws.Refuse("Resource.AlreadyAssociated", "the specified association for route table %s conflicts with an existing association", t.ID)
			}
		}
		association = r.s.NewID("rtbassoc")
		t.Associations = append(t.Associations, aws.SubnetAssociation{ID: association, SubnetID: s.ID})
		return []string{t.ID, s.ID}, nil
	})
	return association, err
}

// DisassociateRouteTable ends an association with a subnet, which uses the main table then.
func (r Routes) DisassociateRouteTable(association string) error {
	return r.s.Mutate("DisassociateRouteTable", func(now time.Time) ([]string, error) {
		t, at, err := r.association(association)
		if err != nil {
			return nil, err
		}
		if at < 0 {
			return nil, aws.InvalidValue("cannot disassociate the main route table association %s", association)
		}
		subnet := t.Associations[at].SubnetID
		t.Associations = aws.WithoutSubnet(t.Associations, subnet)
		return []string{t.ID, subnet}, nil
	})
}

// ReplaceRouteTableAssociation lets a subnet, or the VPC for its main association, use another
// table.
func (r Routes) ReplaceRouteTableAssociation(association, id string) (replaced string, err error) {
	err = r.s.Mutate("ReplaceRouteTableAssociation", func(now time.Time) ([]string, error) {
		from, at, err := r.association(association)
		if err != nil {
			return nil, err
		}
		to, err := r.table(id, now)
		if err != nil {
			return nil, err
		}
		if from.VPCID != to.VPCID {
			return nil, aws.InvalidValue("route table %s and association %s belong to different networks", to.ID, association)
		}
		replaced = r.s.NewID("rtbassoc")
		if at < 0 {
			from.Main, to.Main = "", replaced
		} else {
			subnet := from.Associations[at].SubnetID
			from.Associations = aws.WithoutSubnet(from.Associations, subnet)
			to.Associations = append(to.Associations, aws.SubnetAssociation{ID: replaced, SubnetID: subnet})
		}
		return []string{from.ID, to.ID}, nil
	})
	return replaced, err
}

// association finds an association: its table and its place there, -1 for the main one.
func (r Routes) association(id string) (*aws.RouteTable, int, error) {
	for _, t := range r.s.Data.Tables {
		if t.Main == id && id != "" {
			return t, -1, nil
		}
		if i := slices.IndexFunc(t.Associations, func(a aws.SubnetAssociation) bool { return a.ID == id }); i >= 0 {
			return t, i, nil
		}
	}
	return nil, 0, aws.Refuse("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", id)
}

// CreateRoute adds a route to a table.
func (r Routes) CreateRoute(in aws.RouteInput) error {
	return r.route("CreateRoute", in, func(t *aws.RouteTable, at int, route aws.Route) error {
		if at >= 0 {
			if t.Routes[at].Target == route.Target {
				return store.ErrNothingChanged
			}
			return aws.Refuse("RouteAlreadyExists", "The route identified by %s already exists.", route.To())
		}
		t.Routes = append(t.Routes, route)
		return nil
	})
}

// ReplaceRoute gives a route of a table another target.
func (r Routes) ReplaceRoute(in aws.RouteInput) error {
	return r.route("ReplaceRoute", in, func(t *aws.RouteTable, at int, route aws.Route) error {
		if at < 0 {
			return aws.InvalidValue("There is no route defined for '%s' in the route table. Use CreateRoute instead.", route.To())
		}
		t.Routes[at].Target = route.Target
		return nil
	})
}

func (r Routes) route(action string, in aws.RouteInput, change func(t *aws.RouteTable, at int, route aws.Route) error) error {
	return r.s.Mutate(action, func(now time.Time) ([]string, error) {
		t, err := r.table(in.TableID, now)
		if err != nil {
			return nil, err
		}
		route, err := in.Route()
		if err != nil {
			return nil, err
		}
		if v := r.s.Data.VPCs[t.VPCID]; v != nil && route.Destination.IsValid() && v.Holds(route.Destination) &&
			slices.ContainsFunc(v.CIDRs, func(b aws.CIDRBlock) bool { return b.Prefix == route.Destination }) {
			return nil, aws.Refuse("RouteAlreadyExists", "The route identified by %s already exists.", route.To())
		}
		if route.Target, err = r.target(t, in.Target, now); err != nil {
			return nil, err
		}
		route.Origin = "CreateRoute"
		at := slices.IndexFunc(t.Routes, func(x aws.Route) bool { return x.To() == route.To() })
		if err := change(t, at, route); err != nil {
			return nil, err
		}
		t.Implied = false
		return []string{t.ID}, nil
	})
}

// DeleteRoute takes a route out of a table.
func (r Routes) DeleteRoute(in aws.RouteInput) error {
	return r.s.Mutate("DeleteRoute", func(now time.Time) ([]string, error) {
		t, err := r.table(in.TableID, now)
		if err != nil {
			return nil, err
		}
		route, err := in.Route()
		if err != nil {
			return nil, err
		}
		if v := r.s.Data.VPCs[t.VPCID]; v != nil && slices.ContainsFunc(v.CIDRs, func(b aws.CIDRBlock) bool { return b.Prefix == route.Destination }) {
			return nil, aws.InvalidValue("cannot remove local route %s in route table %s", route.To(), t.ID)
		}
		at := slices.IndexFunc(t.Routes, func(x aws.Route) bool { return x.To() == route.To() })
		if at < 0 {
			return nil, aws.Refuse("InvalidRoute.NotFound", "no route with destination-cidr-block %s in route table %s", route.To(), t.ID)
		}
		t.Routes = slices.Delete(slices.Clone(t.Routes), at, at+1)
		return []string{t.ID}, nil
	})
}

// target checks what a route leads to. What the simulator has none of (a NAT gateway, a transit
// gateway, ...) is taken as it is named.
func (r Routes) target(t *aws.RouteTable, id string, now time.Time) (string, error) {
	switch aws.ResourceType(id) {
	case "internet-gateway":
		g, err := r.gateway(id, now)
		if err != nil {
			return "", err
		}
		if g.VPCID != t.VPCID {
			return "", aws.InvalidValue("route table %s and network gateway %s belong to different networks", t.ID, g.ID)
		}
	case "vpc-peering-connection":
		p := r.s.Peerings()[id]
		if err := aws.CheckID("pcx", id); err != nil {
			return "", err
		}
		if p == nil || p.Requester.VPCID != t.VPCID && p.Accepter.VPCID != t.VPCID {
			return "", aws.NotFound(id)
		}
		if p.Status != aws.PeeringActive {
			return "", aws.Refuse("InvalidStateTransition", "VpcPeeringConnection %s is not in the active state", id)
		}
	case "network-interface":
		n, err := store.LookUp("eni", id, r.s.Data.NICs, func(n *aws.NetworkInterface) time.Time { return n.Visible }, now)
		if err != nil {
			return "", err
		}
		if n.VPCID != t.VPCID {
			return "", aws.InvalidValue("route table %s and interface %s belong to different networks", t.ID, n.ID)
		}
	case "instance":
		nics := r.s.Data.Attached(id)
		if _, err := r.s.Instance(id, now); err != nil {
			return "", err
		}
		if len(nics) != 1 {
			return "", aws.Refuse("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", id)
		}
		return nics[0].ID, nil
	case "":
		if id == "" {
			return "", aws.Refuse("MissingParameter", "The request must contain exactly one of gatewayId, natGatewayId, networkInterfaceId, vpcPeeringConnectionId or transitGatewayId")
		}
	}
	return id, nil
}
