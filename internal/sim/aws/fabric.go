package aws

import (
	"maps"
	"slices"
	"time"
)

// This file keeps what a VPC has beside subnets and groups: route tables, network ACLs, internet
// gateways; and launch templates.

// FabricState is the part of a RegionState that this file is about.
type FabricState struct {
	RouteTables      []RouteTable      `json:"routeTables,omitempty"`
	NetworkACLs      []NetworkACL      `json:"networkAcls,omitempty"`
	InternetGateways []InternetGateway `json:"internetGateways,omitempty"`
	LaunchTemplates  []LaunchTemplate  `json:"launchTemplates,omitempty"`
	// ClientTokens are the ids of what was made with a token, by action and token.
	ClientTokens map[string]string `json:"clientTokens,omitempty"`
}

// fabric is what regionData has of it, by id.
type fabric struct {
	tables    map[string]*RouteTable
	acls      map[string]*NetworkACL
	gateways  map[string]*InternetGateway
	templates map[string]*LaunchTemplate
	tokens    map[string]string // see FabricState.ClientTokens
}

func newFabric() fabric {
	return fabric{
		tables: map[string]*RouteTable{}, acls: map[string]*NetworkACL{}, gateways: map[string]*InternetGateway{},
		templates: map[string]*LaunchTemplate{}, tokens: map[string]string{},
	}
}

// fillFabric takes what a RegionState tells, and makes up the main table and the default ACL of
// each VPC that it does not tell of.
func (d *regionData) fillFabric(s *FabricState) {
	index(d.tables, s.RouteTables, cloneTable, func(t *RouteTable) string { return t.ID })
	index(d.acls, s.NetworkACLs, cloneACL, func(a *NetworkACL) string { return a.ID })
	index(d.gateways, s.InternetGateways, cloneGateway, func(g *InternetGateway) string { return g.ID })
	index(d.templates, s.LaunchTemplates, cloneTemplate, func(t *LaunchTemplate) string { return t.ID })
	maps.Copy(d.tokens, s.ClientTokens)
	for _, v := range d.vpcs {
		d.completeVPC(v, time.Time{})
	}
}

// completeVPC gives a VPC its main route table and its default ACL. Their ids depend on the VPC's
// alone.
func (d *regionData) completeVPC(v *VPC, visible time.Time) {
	if d.mainTable(v.ID) == nil {
		t := &RouteTable{
			ID: "rtb-" + shortHash("main/"+v.ID), Account: v.Account, VPCID: v.ID, Main: "rtbassoc-" + shortHash("main/"+v.ID),
			Implied: true, Visible: visible,
		}
		d.tables[t.ID] = t
	}
	if d.defaultACL(v.ID) == nil {
		a := &NetworkACL{
			ID: "acl-" + shortHash("default/"+v.ID), Account: v.Account, VPCID: v.ID, Default: true, Implied: true, Visible: visible,
			Entries: openEntries(v.hasIPv6()),
		}
		d.acls[a.ID] = a
	}
}

// state leaves out what New makes up again.
func (f *fabric) state() FabricState {
	return FabricState{
		RouteTables: slices.DeleteFunc(ordered(f.tables, cloneTable), func(t RouteTable) bool {
			return t.Implied && len(t.Tags)+len(t.Associations) == 0
		}),
		NetworkACLs: slices.DeleteFunc(ordered(f.acls, cloneACL), func(a NetworkACL) bool {
			return a.Implied && len(a.Tags)+len(a.Associations) == 0
		}),
		InternetGateways: ordered(f.gateways, cloneGateway),
		LaunchTemplates:  ordered(f.templates, cloneTemplate),
		ClientTokens:     maps.Clone(f.tokens),
	}
}

// repeated returns what an earlier call with the same token made, if it is still there: a client
// that lost the answer asks again.
func repeated[T any](f *fabric, action, token string, all map[string]*T) *T {
	if token == "" {
		return nil
	}
	return all[f.tokens[action+" "+token]]
}

func (f *fabric) remember(action, token, id string) {
	if token != "" {
		f.tokens[action+" "+token] = id
	}
}

// tagsOf finds the tags of a thing, and when it can be seen.
func (f *fabric) tagsOf(id string) (*Tags, time.Time) {
	if t := f.tables[id]; t != nil {
		return &t.Tags, t.Visible
	}
	if a := f.acls[id]; a != nil {
		return &a.Tags, a.Visible
	}
	if g := f.gateways[id]; g != nil {
		return &g.Tags, g.Visible
	}
	if t := f.templates[id]; t != nil {
		return &t.Tags, t.Visible
	}
	return nil, time.Time{}
}

func (f *fabric) eachTags(add func(id string, tags Tags, visible time.Time)) {
	for id, t := range f.tables {
		add(id, t.Tags, t.Visible)
	}
	for id, a := range f.acls {
		add(id, a.Tags, a.Visible)
	}
	for id, g := range f.gateways {
		add(id, g.Tags, g.Visible)
	}
	for id, t := range f.templates {
		add(id, t.Tags, t.Visible)
	}
}

// checkFabric checks the fabric of a region against its VPCs and subnets.
func (c *checker) fabric(s *FabricState, vpcs map[string]*VPC, subnets map[string]*Subnet) {
	mains, defaults := map[string]bool{}, map[string]bool{}
	for i := range s.RouteTables {
		t := &s.RouteTables[i]
		c.id("rtb", t.ID)
		if vpcs[t.VPCID] == nil || t.Main != "" && mains[t.VPCID] {
			c.bad("%s: expected a known VPC with one main route table, not %q", t.ID, t.VPCID)
		}
		mains[t.VPCID] = mains[t.VPCID] || t.Main != ""
		c.associated(t.ID, t.VPCID, t.Associations, subnets)
		for _, r := range t.Routes {
			if r.Destination.IsValid() == (r.PrefixListID != "") || r.Destination.IsValid() && r.Destination != r.Destination.Masked() || r.Target == "" {
				c.bad("%s: route to %s by %q: expected one canonical block or prefix list, and a target", t.ID, r.Destination, r.Target)
			}
		}
	}
	for i := range s.NetworkACLs {
		a := &s.NetworkACLs[i]
		c.id("acl", a.ID)
		if vpcs[a.VPCID] == nil || a.Default && defaults[a.VPCID] {
			c.bad("%s: expected a known VPC with one default ACL, not %q", a.ID, a.VPCID)
		}
		defaults[a.VPCID] = defaults[a.VPCID] || a.Default
		c.associated(a.ID, a.VPCID, a.Associations, subnets)
		seen := map[entryKey]bool{}
		for _, e := range a.Entries {
			if err := e.check(); err != nil || seen[e.key()] {
				c.bad("%s: entry %d: %v", a.ID, e.Number, err)
			}
			seen[e.key()] = true
		}
	}
	for i := range s.InternetGateways {
		g := &s.InternetGateways[i]
		c.id("igw", g.ID)
		if g.VPCID != "" && vpcs[g.VPCID] == nil {
			c.bad("%s: there is no VPC %s", g.ID, g.VPCID)
		}
	}
	for i := range s.LaunchTemplates {
		t := &s.LaunchTemplates[i]
		c.id("lt", t.ID)
		if t.Name == "" || t.version(t.DefaultVersion) == nil {
			c.bad("%s: expected a name and a default version that is there", t.ID)
		}
	}
}

func (c *checker) associated(id, vpc string, all []SubnetAssociation, subnets map[string]*Subnet) {
	for _, a := range all {
		if s := subnets[a.SubnetID]; s == nil || s.VPCID != vpc {
			c.bad("%s: there is no subnet %s in VPC %s", id, a.SubnetID, vpc)
		}
	}
}

// SubnetAssociation says that a subnet uses a route table or a network ACL.
type SubnetAssociation struct {
	ID       string `json:"id"`
	SubnetID string `json:"subnetId"`
}

// withoutSubnet drops the associations of a subnet.
func withoutSubnet(all []SubnetAssociation, subnet string) []SubnetAssociation {
	return slices.DeleteFunc(slices.Clone(all), func(a SubnetAssociation) bool { return a.SubnetID == subnet })
}

// lookUp finds a visible thing of the region by id.
func lookUp[T any](prefix, id string, all map[string]*T, visible func(*T) time.Time, now time.Time) (*T, error) {
	if err := CheckID(prefix, id); err != nil {
		return nil, err
	}
	t, ok := all[id]
	if !ok || !seen(visible(t), now) {
		return nil, NotFound(id)
	}
	return t, nil
}

// ownVPC finds a VPC that the account itself has.
func (r *site) ownVPC(id string, now time.Time) (*VPC, error) {
	if id == "" {
		return nil, refuse("MissingParameter", "The request must contain the parameter vpcId")
	}
	return lookUp("vpc", id, r.data.vpcs, func(v *VPC) time.Time { return v.Visible }, now)
}

// ownSubnet finds a subnet that the account itself has.
func (r *site) ownSubnet(id string, now time.Time) (*Subnet, error) {
	return lookUp("subnet", id, r.data.subnets, func(s *Subnet) time.Time { return s.Visible }, now)
}

// InternetGateway joins a VPC to the internet.
type InternetGateway struct {
	ID      string    `json:"id"`
	Account string    `json:"account"`
	VPCID   string    `json:"vpcId,omitempty"`
	Tags    Tags      `json:"tags,omitempty"`
	Visible time.Time `json:"visible,omitzero"`
}

func cloneGateway(g *InternetGateway) InternetGateway {
	c := *g
	c.Tags = maps.Clone(g.Tags)
	return c
}

func (r Routes) gateway(id string, now time.Time) (*InternetGateway, error) {
	return lookUp("igw", id, r.data.gateways, func(g *InternetGateway) time.Time { return g.Visible }, now)
}

// InternetGateways is DescribeInternetGateways.
func (r Routes) InternetGateways(ids ...string) (out []InternetGateway, err error) {
	r.w.read(func(now time.Time) {
		out, err = byID("igw", r.data.gateways, ids, func(g *InternetGateway) bool { return seen(g.Visible, now) }, cloneGateway)
	})
	return out, err
}

// CreateInternetGateway makes a gateway that is attached to nothing.
func (r Routes) CreateInternetGateway(tags Tags) (InternetGateway, error) {
	var out InternetGateway
	err := r.mutate("CreateInternetGateway", func(now time.Time) ([]string, error) {
		if err := r.checkNewTags(tags); err != nil {
			return nil, err
		}
		g := &InternetGateway{ID: r.w.newID("igw"), Account: r.at.account, Tags: cloneTags(tags), Visible: now.Add(r.w.visibility)}
		r.data.gateways[g.ID] = g
		out = cloneGateway(g)
		return []string{g.ID}, nil
	})
	return out, err
}

// AttachInternetGateway joins a gateway and a VPC, each of which has one other at most.
func (r Routes) AttachInternetGateway(id, vpcID string) error {
	return r.mutate("AttachInternetGateway", func(now time.Time) ([]string, error) {
		g, err := r.gateway(id, now)
		if err != nil {
			return nil, err
		}
		v, err := r.ownVPC(vpcID, now)
		if err != nil {
			return nil, err
		}
		if g.VPCID != "" {
			return nil, refuse("Resource.AlreadyAssociated", "resource %s is already attached to network %s", g.ID, g.VPCID)
		}
		for _, other := range r.data.gateways {
			if other.VPCID == v.ID {
				return nil, refuse("InvalidParameterValue", "Network %s already has an internet gateway attached", v.ID)
			}
		}
		g.VPCID = v.ID
		return []string{g.ID, v.ID}, nil
	})
}

// DetachInternetGateway takes a gateway from its VPC. Routes through it become black holes; it is
// refused while an interface of the VPC has a public address.
func (r Routes) DetachInternetGateway(id, vpcID string) error {
	return r.mutate("DetachInternetGateway", func(now time.Time) ([]string, error) {
		g, err := r.gateway(id, now)
		if err != nil {
			return nil, err
		}
		if _, err := r.ownVPC(vpcID, now); err != nil {
			return nil, err
		}
		if g.VPCID != vpcID {
			return nil, refuse("Gateway.NotAttached", "resource %s is not attached to network %s", g.ID, vpcID)
		}
		for _, n := range r.data.nics {
			if n.VPCID == vpcID && slices.ContainsFunc(n.PrivateIPs, func(p PrivateIP) bool { return p.Public.IsValid() }) {
				return nil, refuse(
					"DependencyViolation",
					"Network %s has some mapped public address(es). Please unmap those public address(es) before detaching the gateway.",
					vpcID,
				)
			}
		}
		g.VPCID = ""
		return []string{g.ID, vpcID}, nil
	})
}

// DeleteInternetGateway deletes a gateway that is attached to nothing.
func (r Routes) DeleteInternetGateway(id string) error {
	return r.mutate("DeleteInternetGateway", func(now time.Time) ([]string, error) {
		g, err := r.gateway(id, now)
		if err != nil {
			return nil, err
		}
		if g.VPCID != "" {
			return nil, refuse("DependencyViolation", "The internetGateway '%s' has dependencies and cannot be deleted.", g.ID)
		}
		delete(r.data.gateways, g.ID)
		return []string{g.ID}, nil
	})
}
