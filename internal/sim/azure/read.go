package azure

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// Get returns a resource, or a part of one, as the cloud shows it. It is a read.
func (c *Cloud) Get(by *Principal, id document.ID) (map[string]any, error) {
	if err := unknownType(id); err != nil {
		return nil, err
	}
	if err := (access{c}).admit(by, action(id, "read"), id); err != nil {
		return nil, err
	}
	if list, isPart := parts[id.Type()]; isPart {
		parent := c.resources[id.Parent().Key()]
		if parent == nil {
			return nil, document.NotFound(id.Parent())
		}
		doc := c.render(parent, c.now())
		for _, part := range objects(doc["properties"].(map[string]any)[list]) {
			if name, _ := part["name"].(string); strings.EqualFold(name, id.Name()) {
				return part, nil
			}
		}
		return nil, document.Refuse(http.StatusNotFound, "NotFound", "Resource %s not found.", id)
	}
	r := c.resources[id.Key()]
	if r == nil {
		return nil, document.NotFound(id)
	}
	return c.render(r, c.now()), nil
}

// parts are the types that are kept within their parent, and the list that holds them.
var parts = map[string]string{document.TypeRule: "securityRules", document.TypeSubnet: "subnets", document.TypePeering: "virtualNetworkPeerings",
	document.TypeRoute: "routes"}

// List returns the resources of a type: of a subscription, of a resource group, or below a
// resource. It is a read.
func (c *Cloud) List(by *Principal, scope document.ID, kind string) ([]map[string]any, error) {
	of := scope
	of.Provider, of.Types = splitType(kind)
	of.Names = append(slices.Clone(scope.Names), "*")
	if err := unknownType(of); err != nil {
		return nil, err
	}
	if err := (access{c}).admit(by, action(of, "read"), scope); err != nil {
		return nil, err
	}
	if list, isPart := parts[of.Type()]; isPart {
		parent := c.resources[scope.Key()]
		if parent == nil {
			return nil, document.NotFound(scope)
		}
		return objects(c.render(parent, c.now())["properties"].(map[string]any)[list]), nil
	}
	if scope.Provider != "" && c.resources[scope.Key()] == nil {
		return nil, document.NotFound(scope)
	}
	out := []map[string]any{}
	x := c.now()
	for _, k := range slices.Sorted(maps.Keys(c.resources)) {
		r := c.resources[k]
		if r.id.Type() == of.Type() && document.Within(k, scope.Key()) {
			out = append(out, c.render(r, x))
		}
	}
	return out, nil
}

func splitType(kind string) (provider string, types []string) {
	provider, rest, _ := strings.Cut(kind, "/")
	return provider, strings.Split(rest, "/")
}

// DefaultRules are the rules that a network security group ends in. It is a read.
func (c *Cloud) DefaultRules(by *Principal, group document.ID) ([]map[string]any, error) {
	if err := (access{c}).admit(by, "Microsoft.Network/networkSecurityGroups/defaultSecurityRules/read", group); err != nil {
		return nil, err
	}
	r := c.resources[group.Key()]
	if r == nil || r.id.Type() != document.TypeNSG {
		return nil, document.NotFound(group)
	}
	return objects(document.DefaultRuleDocuments(r.id, r.Etag)), nil
}

// InstanceView is the state of a virtual machine. It is a read.
func (c *Cloud) InstanceView(by *Principal, machine document.ID) (map[string]any, error) {
	if err := (access{c}).admit(by, "Microsoft.Compute/virtualMachines/instanceView/read", machine); err != nil {
		return nil, err
	}
	r := c.resources[machine.Key()]
	if r == nil || r.id.Type() != document.TypeVM && r.id.Type() != document.TypeInstance {
		return nil, document.NotFound(machine)
	}
	return instanceView(r), nil
}

func instanceView(r *Resource) map[string]any {
	state := strings.ToLower(r.provisioning())
	view := map[string]any{"statuses": []any{
		map[string]any{"code": "ProvisioningState/" + state, "level": "Info", "displayStatus": "Provisioning " + state},
	}}
	if r.Power != "" {
		view["statuses"] = append(view["statuses"].([]any), map[string]any{"code": "PowerState/" + r.Power, "level": "Info", "displayStatus": "VM " + r.Power})
	}
	return view
}

func (r *Resource) provisioning() string {
	if r.Provisioning == "" {
		return document.Succeeded
	}
	return r.Provisioning
}

// Running returns the vmId of a virtual machine that runs. It is a read.
func (c *Cloud) Running(id document.ID) (vmID string, ok bool) {
	r := c.resources[id.Key()]
	if r == nil || r.Power != "running" {
		return "", false
	}
	vmID, ok = r.Properties["vmId"].(string)
	return vmID, ok
}

// render is the resource as the cloud shows it: what was written, and what the cloud fills in.
// Parts share what is not changed with the resource; callers only read it.
func (c *Cloud) render(r *Resource, x *index) map[string]any {
	doc := map[string]any{"name": r.id.Name(), "id": r.ID, "type": r.Type}
	for k, v := range r.Extra {
		doc[k] = v
	}
	if r.Location != "" {
		doc["location"] = r.Location
	}
	if r.Tags != nil {
		tags := make(map[string]any, len(r.Tags))
		for k, v := range r.Tags {
			tags[k] = v
		}
		doc["tags"] = tags
	}
	network := strings.EqualFold(r.id.Provider, "Microsoft.Network")
	if network {
		doc["etag"] = r.Etag
	}
	properties := make(map[string]any, len(r.Properties)+4)
	for k, v := range r.Properties {
		properties[k] = v
	}
	properties["provisioningState"] = r.provisioning()
	doc["properties"] = properties
	key := r.id.Key()
	switch r.id.Type() {
	case document.TypeNSG:
		r.children(properties, "securityRules", nil)
		properties["defaultSecurityRules"] = document.DefaultRuleDocuments(r.id, r.Etag)
		setReferences(properties, "networkInterfaces", x.groupNICs[key])
		setReferences(properties, "subnets", x.groupSubnets[key])
	case document.TypeVNet:
		r.children(properties, "subnets", func(id document.ID, p map[string]any) {
			setReferences(p, "ipConfigurations", x.subnetUsers[id.Key()])
		})
		r.children(properties, "virtualNetworkPeerings", func(_ document.ID, p map[string]any) { c.peeringState(r, p) })
	case document.TypeNIC, document.TypeSetNIC:
		r.children(properties, "ipConfigurations", nil)
		if m := x.machineOf[key]; m != "" {
			properties["virtualMachine"] = map[string]any{"id": m}
		}
	case document.TypeTable:
		r.children(properties, "routes", nil)
		setReferences(properties, "subnets", x.tableSubnets[key])
	case document.TypePublicIP:
		delete(properties, "ipConfiguration")
		if id := x.publicUser[key]; id != "" {
			properties["ipConfiguration"] = map[string]any{"id": id}
		}
	}
	return doc
}

// children gives the parts of a resource the etag and the state of the whole.
func (r *Resource) children(properties map[string]any, list string, more func(document.ID, map[string]any)) {
	given, present := properties[list].([]any)
	if !present {
		if list == "ipConfigurations" {
			return
		}
		given = []any{}
	}
	out := make([]any, 0, len(given))
	for _, part := range objects(given) {
		next := make(map[string]any, len(part)+2)
		for k, v := range part {
			next[k] = v
		}
		name, _ := part["name"].(string)
		id := r.id.Child(list, name)
		own, _ := part["properties"].(map[string]any)
		inner := make(map[string]any, len(own)+1)
		for k, v := range own {
			inner[k] = v
		}
		inner["provisioningState"] = r.provisioning()
		if more != nil {
			more(id, inner)
		}
		next["id"], next["etag"], next["properties"] = id.String(), r.Etag, inner
		next["type"] = "Microsoft.Network/" + strings.Join(id.Types, "/")
		out = append(out, next)
	}
	properties[list] = out
}

// peeringState says how it stands with a peering: it carries traffic when both networks have it.
func (c *Cloud) peeringState(r *Resource, p map[string]any) {
	state := "Initiated"
	remote, _ := p["remoteVirtualNetwork"].(map[string]any)
	id, _ := remote["id"].(string)
	other := c.resources[document.Key(id)]
	if other == nil {
		state = "Disconnected"
	} else if n, ok := other.parsed.(*document.Network); ok {
		p["remoteAddressSpace"] = map[string]any{"addressPrefixes": texts(n.Space)}
		for i := range n.Peerings {
			if n.Peerings[i].Remote == r.id.Key() {
				state = "Connected"
			}
		}
	}
	p["peeringState"] = state
}

func texts[T interface{ String() string }](all []T) []any {
	out := make([]any, len(all))
	for i := range all {
		out[i] = all[i].String()
	}
	return out
}

func setReferences(properties map[string]any, name string, ids []string) {
	delete(properties, name)
	if len(ids) == 0 {
		return
	}
	list := make([]any, len(ids))
	for i := range ids {
		list[i] = map[string]any{"id": ids[i]}
	}
	properties[name] = list
}

// objects returns the objects of a JSON list.
func objects(v any) []map[string]any {
	list, _ := v.([]any)
	out := make([]map[string]any, 0, len(list))
	for i := range list {
		if m, ok := list[i].(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// Subscriptions are those that the caller sees. It is a read.
func (c *Cloud) Subscriptions(by *Principal) []Subscription {
	var out []Subscription
	for _, k := range slices.Sorted(maps.Keys(c.subscriptions)) {
		s := *c.subscriptions[k]
		if strings.EqualFold(s.Tenant, by.Tenant) && by.sees("/subscriptions/"+s.ID) {
			out = append(out, s)
		}
	}
	return out
}

// Subscription is one subscription, if the caller sees it. It is a read.
func (c *Cloud) Subscription(by *Principal, id string) (Subscription, error) {
	s, err := c.subscription(by, id)
	if err != nil {
		return Subscription{}, err
	}
	if !by.sees("/subscriptions/" + s.ID) {
		return Subscription{}, by.Authorize("Microsoft.Resources/subscriptions/read", "/subscriptions/"+s.ID)
	}
	return *s, nil
}

// ResourceGroups are the resource groups of a subscription that the caller sees. It is a read.
func (c *Cloud) ResourceGroups(by *Principal, subscription string) ([]ResourceGroup, error) {
	if _, err := c.Subscription(by, subscription); err != nil {
		return nil, err
	}
	var out []ResourceGroup
	for _, k := range slices.Sorted(maps.Keys(c.groups)) {
		g := c.groups[k]
		if strings.EqualFold(g.Subscription, subscription) && by.May("Microsoft.Resources/subscriptions/resourceGroups/read", g.ID().String()) {
			out = append(out, *g)
		}
	}
	return out, nil
}

// ResourceGroup is one resource group. It is a read.
func (c *Cloud) ResourceGroup(by *Principal, id document.ID) (ResourceGroup, error) {
	if err := (access{c}).admit(by, "Microsoft.Resources/subscriptions/resourceGroups/read", id); err != nil {
		return ResourceGroup{}, err
	}
	return *c.groups[id.Key()], nil
}

// Tags returns the tags of a resource or resource group. It is a read.
func (c *Cloud) Tags(by *Principal, id document.ID) (map[string]string, error) {
	if err := (access{c}).admit(by, "Microsoft.Resources/tags/read", id); err != nil {
		return nil, err
	}
	if id.Provider == "" {
		return c.groups[id.Key()].Tags, nil
	}
	if r := c.resources[id.Key()]; r != nil {
		return r.Tags, nil
	}
	return nil, document.NotFound(id)
}

// ServiceTags are the service tags with their addresses, as a location tells them: all do the same.
// It is a read.
func (c *Cloud) ServiceTags(by *Principal, subscription, location string) (map[string][]netip.Prefix, error) {
	if err := (access{c}).admit(by, "Microsoft.Network/locations/serviceTags/read", document.ID{Subscription: subscription, Provider: "Microsoft.Network"}); err != nil {
		return nil, err
	}
	if !slices.Contains(Locations(), location) {
		return nil, document.Refuse(http.StatusBadRequest, "LocationNotAvailableForResourceType", "The provided location '%s' is not available for resource type 'serviceTags'.", location)
	}
	return c.namedTags(), nil
}

// SetServiceTag gives a service tag other addresses; none take it away. It is a change.
func (c *Cloud) SetServiceTag(name string, blocks []netip.Prefix) {
	key := strings.ToLower(name)
	c.current.Store(nil)
	if len(blocks) == 0 {
		delete(c.serviceTags, key)
		delete(c.tagNames, key)
		return
	}
	c.tagNames[key], c.serviceTags[key] = name, slices.Clone(blocks)
}

// Resources returns the resources of a subscription or a resource group that a principal may read,
// of one type or of all, as the list of resources tells them: without properties. It is a read.
func (c *Cloud) Resources(by *Principal, scope document.ID, kind string) ([]map[string]any, error) {
	if c.subscriptions[strings.ToLower(scope.Subscription)] == nil || scope.Group != "" {
		if _, err := c.ResourceGroup(by, scope); err != nil {
			return nil, err
		}
	}
	out := []map[string]any{}
	x := c.now()
	for _, k := range slices.Sorted(maps.Keys(c.resources)) {
		r := c.resources[k]
		t := r.id.Type()
		if t == document.TypeSetNIC || t == document.TypeInstance || !document.Within(k, scope.Key()) || kind != "" && !strings.EqualFold(t, kind) ||
			(access{c}).admit(by, action(r.id, "read"), r.id) != nil {
			continue
		}
		doc := c.render(r, x)
		delete(doc, "properties")
		delete(doc, "etag")
		out = append(out, doc)
	}
	return out, nil
}
