package azure

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// Result is what became of a change.
type Result struct {
	// Document is the resource, or the part of it, as it is now; nil if it is gone or going.
	Document map[string]any
	Created  bool
	// Absent says that what was to be deleted was not there.
	Absent bool
	// Operation goes on after the answer; nil if all is done.
	Operation *Operation
	// Location is that of the resource.
	Location string
}

// readOnly are the members of properties that the cloud writes; what a client sends there is not
// looked at.
var readOnly = map[string][]string{
	document.TypeNSG:      {"defaultSecurityRules", "networkInterfaces", "subnets", "flowLogs"},
	document.TypeASG:      {},
	document.TypeNIC:      {"virtualMachine", "macAddress", "hostedWorkloads", "tapConfigurations", "vnetEncryptionSupported", "privateEndpoint", "privateLinkService"},
	document.TypeVNet:     {"flowLogs"},
	document.TypePublicIP: {"ipConfiguration", "ipAddress"},
	document.TypeVM:       {"vmId", "instanceView", "timeCreated"},
	document.TypeTable:    {"subnets"},
}

// Put creates a resource or replaces it, or one of its parts.
func (c *Cloud) Put(w Write, id document.ID, body map[string]any) (Result, error) {
	if err := unknownType(id); err != nil {
		return Result{}, err
	}
	if err := (access{c}).admitChange(w.By, action(id, "write"), id); err != nil {
		return Result{}, err
	}
	if list, isPart := parts[id.Type()]; isPart {
		return edits{c}.putPart(w, id, list, body)
	}
	if readOnly[id.Type()] == nil {
		return Result{}, document.Refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "The simulator does not write resources of type %s.", id.Type())
	}
	prev := c.resources[id.Key()]
	if err := (edits{c}).conditions(w, prev); err != nil {
		return Result{}, err
	}
	next, err := edits{c}.draft(id, prev, body)
	if err != nil {
		return Result{}, err
	}
	return edits{c}.replace(w, prev, next)
}

// conditions checks If-Match and If-None-Match. A part has the etag of the whole.
func (c edits) conditions(w Write, r *Resource) error {
	failed := func(what string) error {
		return document.Refuse(http.StatusPreconditionFailed, "PreconditionFailed", "Precondition failed. %s", what)
	}
	switch {
	case w.IfMatch != "" && r == nil:
		return failed("The resource does not exist.")
	case w.IfMatch != "" && w.IfMatch != "*" && w.IfMatch != r.Etag:
		return failed("Etag provided in if-match header " + w.IfMatch + " does not match etag " + r.Etag + " of resource " + r.ID + " in NRP data store.")
	case w.IfNoneMatch == "*" && r != nil:
		return failed("The resource exists.")
	}
	return nil
}

// draft makes the resource that a document describes.
func (c edits) draft(id document.ID, prev *Resource, body map[string]any) (*Resource, error) {
	next := &Resource{ID: id.String(), Type: canonical[id.Type()], id: id}
	if prev != nil {
		// The cloud keeps the case of the first write.
		next.ID, next.id, next.Power = prev.ID, prev.id, prev.Power
	}
	location, _ := body["location"].(string)
	location = strings.ToLower(strings.ReplaceAll(location, " ", ""))
	switch {
	case location == "":
		return nil, document.BadRequest("LocationRequired", "The location property is required for this definition.")
	case prev != nil && !strings.EqualFold(prev.Location, location):
		return nil, document.Refuse(http.StatusConflict, "InvalidResourceLocation", "The resource '%s' already exists in location '%s' in resource group '%s'. "+
			"A resource with the same name cannot be created in location '%s'. Please select a new resource name.", id.Name(), prev.Location, id.Group, location)
	case prev == nil && !slices.Contains(Locations(), location):
		return nil, document.BadRequest("LocationNotAvailableForResourceType", "The provided location '%s' is not available for resource type '%s'.", location, next.Type)
	}
	next.Location = location
	if err := document.CheckName(id.Name()); err != nil && prev == nil {
		return nil, err
	}
	tags, err := c.tagsOf(id, body["tags"])
	if err != nil {
		return nil, err
	}
	next.Tags = tags
	properties, ok := body["properties"].(map[string]any)
	if !ok && body["properties"] != nil {
		return nil, document.BadRequest("InvalidRequestContent", "The request content was invalid and could not be deserialized: properties is not an object.")
	}
	next.Properties = cloneMap(properties)
	if next.Properties == nil {
		next.Properties = map[string]any{}
	}
	for k, v := range body {
		switch k {
		case "id", "name", "type", "etag", "location", "tags", "properties", "resources":
		default:
			if next.Extra == nil {
				next.Extra = map[string]any{}
			}
			next.Extra[k] = cloneValue(v)
		}
	}
	c.ownMembers(next, prev)
	return next, nil
}

// ownMembers puts what the cloud itself writes in the place of what a client sent there.
func (c edits) ownMembers(next, prev *Resource) {
	kind := next.id.Type()
	for _, k := range append([]string{"provisioningState", "resourceGuid"}, readOnly[kind]...) {
		delete(next.Properties, k)
		if prev != nil {
			if v, ok := prev.Properties[k]; ok {
				next.Properties[k] = v
			}
		}
	}
	if _, has := next.Properties["resourceGuid"]; !has && strings.EqualFold(next.id.Provider, "Microsoft.Network") {
		next.Properties["resourceGuid"] = c.cloud.guid()
	}
	switch kind {
	case document.TypeVNet:
		// A document without these leaves them as they are, other than every other list.
		for _, k := range []string{"subnets", "virtualNetworkPeerings"} {
			if _, given := next.Properties[k]; !given && prev != nil && prev.Properties[k] != nil {
				next.Properties[k] = prev.Properties[k]
			}
		}
	case document.TypeVM:
		if _, has := next.Properties["vmId"]; !has {
			next.Properties["vmId"] = c.cloud.guid()
		}
	case document.TypeNIC:
		if _, has := next.Properties["macAddress"]; !has {
			g := strings.ToUpper(strings.ReplaceAll(c.cloud.guid(), "-", ""))
			next.Properties["macAddress"] = fmt.Sprintf("00-0D-3A-%s-%s-%s", g[:2], g[2:4], g[4:6])
		}
	}
	for _, list := range []string{"securityRules", "subnets", "virtualNetworkPeerings", "ipConfigurations", "routes"} {
		for _, part := range objects(next.Properties[list]) {
			c.tidyPart(kind, part)
		}
	}
}

// tidyPart takes from a part what the cloud fills in anew for every answer, and gives rules the
// lists that they always have.
func (c edits) tidyPart(kind string, part map[string]any) {
	delete(part, "id")
	delete(part, "etag")
	delete(part, "type")
	p, _ := part["properties"].(map[string]any)
	if p == nil {
		return
	}
	for _, k := range []string{"provisioningState", "ipConfigurations", "peeringState", "remoteAddressSpace", "hasBgpOverride"} {
		delete(p, k)
	}
	if kind == document.TypeNSG {
		for _, k := range []string{"sourcePortRanges", "destinationPortRanges", "sourceAddressPrefixes", "destinationAddressPrefixes"} {
			if p[k] == nil {
				p[k] = []any{}
			}
		}
	}
}

// replace checks a draft against everything else and puts it in the place of prev.
func (c edits) replace(w Write, prev, next *Resource) (Result, error) {
	if err := access(c).busy(prev, w.Now); err != nil {
		return Result{}, err
	}
	if err := checks(c).prepare(prev, next); err != nil {
		return Result{}, err
	}
	parsed, err := document.Parse(next.id, next.Properties)
	if err != nil {
		return Result{}, err
	}
	next.parsed = parsed
	if err := checks(c).check(w, prev, next); err != nil {
		return Result{}, err
	}
	next.Etag = c.cloud.etag()
	op := c.cloud.begin(w, next.id, next.Location)
	if op != nil {
		op.Before, next.Provisioning = prev, document.Updating
	}
	if next.id.Type() == document.TypeVM && prev == nil {
		next.Power, next.Properties["timeCreated"] = "running", w.Now.UTC().Format(time.RFC3339Nano)
	}
	c.cloud.commit(w.Now, next.id.Key(), next)
	return Result{Document: c.cloud.render(next, c.cloud.now()), Created: prev == nil, Operation: op, Location: next.Location}, nil
}

func (c edits) putPart(w Write, id document.ID, list string, body map[string]any) (Result, error) {
	parent := c.cloud.resources[id.Parent().Key()]
	if parent == nil {
		return Result{}, document.Refuse(http.StatusNotFound, "ParentResourceNotFound", "Failed to perform '%s' on resource(s) of type '%s', because the parent "+
			"resource '%s' could not be found.", "write", canonical[id.Type()], id.Parent())
	}
	if err := c.conditions(w, parent); err != nil {
		return Result{}, err
	}
	part := cloneMap(body)
	part["name"] = id.Name()
	c.tidyPart(parent.id.Type(), part)
	next := parent.clone()
	next.id = parent.id
	all, _ := next.Properties[list].([]any)
	at := slices.IndexFunc(all, func(v any) bool { return named(v, id.Name()) })
	if at >= 0 {
		part["name"] = all[at].(map[string]any)["name"]
		all[at] = part
	} else {
		all = append(all, part)
	}
	next.Properties[list] = all
	out, err := c.replace(w, parent, next)
	if err != nil {
		return Result{}, err
	}
	out.Created = at < 0
	for _, p := range objects(out.Document["properties"].(map[string]any)[list]) {
		if named(p, id.Name()) {
			out.Document = p
			break
		}
	}
	return out, nil
}

func named(v any, name string) bool {
	m, _ := v.(map[string]any)
	text, _ := m["name"].(string)
	return strings.EqualFold(text, name)
}

// Delete removes a resource or one of its parts.
func (c *Cloud) Delete(w Write, id document.ID) (Result, error) {
	if err := unknownType(id); err != nil {
		return Result{}, err
	}
	if err := (access{c}).admitChange(w.By, action(id, "delete"), id); err != nil {
		return Result{}, err
	}
	if list, isPart := parts[id.Type()]; isPart {
		return edits{c}.deletePart(w, id, list)
	}
	r := c.resources[id.Key()]
	if r == nil {
		return Result{Absent: true}, nil
	}
	if err := (edits{c}).conditions(w, r); err != nil {
		return Result{}, err
	}
	if err := (access{c}).busy(r, w.Now); err != nil {
		return Result{}, err
	}
	if err := (edits{c}).unused(r); err != nil {
		return Result{}, err
	}
	op := c.begin(w, r.id, r.Location)
	if op == nil {
		c.commit(w.Now, id.Key(), nil)
		return Result{Location: r.Location}, nil
	}
	op.Delete, op.Before = true, r
	next := r.again()
	next.Provisioning, next.Etag = document.Deleting, c.etag()
	c.commit(w.Now, id.Key(), next)
	return Result{Operation: op, Location: r.Location}, nil
}

func (c edits) deletePart(w Write, id document.ID, list string) (Result, error) {
	parent := c.cloud.resources[id.Parent().Key()]
	if parent == nil {
		return Result{Absent: true}, nil
	}
	if err := c.conditions(w, parent); err != nil {
		return Result{}, err
	}
	next := parent.clone()
	next.id = parent.id
	all, _ := next.Properties[list].([]any)
	at := slices.IndexFunc(all, func(v any) bool { return named(v, id.Name()) })
	if at < 0 {
		return Result{Absent: true}, nil
	}
	if users := c.cloud.now().subnetUsers[id.Key()]; list == "subnets" && len(users) > 0 {
		return Result{}, subnetInUse(id, users)
	}
	next.Properties[list] = slices.Delete(all, at, at+1)
	out, err := c.replace(w, parent, next)
	out.Document = nil
	return out, err
}

func subnetInUse(id document.ID, users []string) error {
	return document.BadRequest("InUseSubnetCannotBeDeleted", "Subnet %s is in use by %s and cannot be deleted. In order to delete the subnet, delete all the "+
		"resources within the subnet. See aka.ms/deletesubnet.", id.Name(), users[0])
}

// unused refuses to delete what others need.
func (c edits) unused(r *Resource) error {
	x, key := c.cloud.now(), r.id.Key()
	switch r.id.Type() {
	case document.TypeNSG:
		if users := slices.Concat(x.groupNICs[key], x.groupSubnets[key]); len(users) > 0 {
			return document.BadRequest("InUseNetworkSecurityGroupCannotBeDeleted", "Network security group %s cannot be deleted because it is in use by the following "+
				"resources: %s. In order to delete the Network security group, remove the association with the resource(s).", r.ID, strings.Join(users, ", "))
		}
	case document.TypeASG:
		users := slices.Clone(x.mentions[key])
		for _, m := range x.members[key] {
			users = append(users, m.resource.id.Child("ipConfigurations", m.at.Name).String())
		}
		if len(users) > 0 {
			return document.BadRequest("InUseApplicationSecurityGroupCannotBeDeleted", "Application security group %s cannot be deleted because it is in use by the "+
				"following resources: %s.", r.ID, strings.Join(users, ", "))
		}
	case document.TypeNIC:
		if m := x.machineOf[key]; m != "" {
			return document.BadRequest("NicInUse", "Network Interface %s is used by existing resource %s. In order to delete the network interface, it must be "+
				"dissociated from the resource. To learn more, see aka.ms/deletenic.", r.ID, m)
		}
	case document.TypeVNet:
		n := r.parsed.(*document.Network)
		for i := range n.Subnets {
			id := r.id.Child("subnets", n.Subnets[i].Name)
			if users := x.subnetUsers[id.Key()]; len(users) > 0 {
				return subnetInUse(id, users)
			}
		}
	case document.TypeTable:
		if users := x.tableSubnets[key]; len(users) > 0 {
			return document.BadRequest("InUseRouteTableCannotBeDeleted", "Route table %s is in use and cannot be deleted: %s.", r.ID, strings.Join(users, ", "))
		}
	case document.TypePublicIP:
		if user := x.publicUser[key]; user != "" {
			return document.BadRequest("PublicIPAddressCannotBeDeleted", "Public IP address %s can not be deleted since it is still allocated to resource %s. In order to "+
				"delete the public IP, disassociate/detach the Public IP address from the resource.", r.ID, user)
		}
	}
	return nil
}

// tagNameNot are the characters that names of tags do not have.
const tagNameNot = `<>%&\?/`

// tagsOf reads the tags of a document.
func (c edits) tagsOf(id document.ID, v any) (map[string]string, error) {
	given, ok := v.(map[string]any)
	if v == nil {
		return nil, nil
	}
	if !ok {
		return nil, document.BadRequest("InvalidRequestContent", "The request content was invalid and could not be deserialized: tags is not an object.")
	}
	out := make(map[string]string, len(given))
	for k, v := range given {
		text, ok := v.(string)
		if !ok {
			return nil, document.BadRequest("InvalidRequestContent", "The request content was invalid and could not be deserialized: the tag '%s' is not a string.", k)
		}
		out[k] = text
	}
	return out, c.checkTags(id, out)
}

func (c edits) checkTags(id document.ID, tags map[string]string) error {
	most := c.cloud.subscriptions[strings.ToLower(id.Subscription)].Limits.withDefaults().TagsPerResource
	if len(tags) > most {
		return document.BadRequest("InvalidTagsCount", "The number of tags %d on resource '%s' exceeds the maximum of %d.", len(tags), id.Name(), most)
	}
	names := map[string]bool{}
	for k, v := range tags {
		switch {
		case k == "" || len([]rune(k)) > 512:
			return document.BadRequest("InvalidTagNameLength", "The tag name '%.40s' is empty or longer than 512 characters.", k)
		case strings.ContainsAny(k, tagNameNot):
			return document.BadRequest("InvalidTagNameCharacters", "The tag names '%s' have characters '%s' or control characters, which are not supported.", k, tagNameNot)
		case len([]rune(v)) > 256:
			return document.BadRequest("InvalidTagValueLength", "Tag value too large. The value of the tag '%s' has %d characters, at most 256 are allowed.", k, len([]rune(v)))
		case names[strings.ToLower(k)]:
			return document.BadRequest("DuplicateTagName", "The tag name '%s' is given twice.", k)
		}
		names[strings.ToLower(k)] = true
	}
	return nil
}

// Operations of the tags of a scope.
const (
	TagsMerge   = "Merge"
	TagsReplace = "Replace"
	TagsDelete  = "Delete"
)

// UpdateTags changes the tags of a resource or resource group and returns what they are then. Names
// are compared without regard to case.
func (c *Cloud) UpdateTags(w Write, id document.ID, operation string, tags map[string]string) (map[string]string, error) {
	if err := (access{c}).admitChange(w.By, "Microsoft.Resources/tags/write", id); err != nil {
		return nil, err
	}
	r, g := c.resources[id.Key()], c.groups[id.Key()]
	var have map[string]string
	switch {
	case r != nil:
		if err := (access{c}).busy(r, w.Now); err != nil {
			return nil, err
		}
		have = r.Tags
	case g != nil:
		have = g.Tags
	default:
		return nil, document.NotFound(id)
	}
	next := maps.Clone(have)
	if next == nil || operation == TagsReplace {
		next = map[string]string{}
	}
	for k, v := range tags {
		for name, value := range next {
			if strings.EqualFold(name, k) && (operation != TagsDelete || v == "" || value == v) {
				delete(next, name)
			}
		}
		if operation != TagsDelete {
			next[k] = v
		}
	}
	if err := (edits{c}).checkTags(id, next); err != nil {
		return nil, err
	}
	if len(next) == 0 && operation == TagsDelete {
		next = nil // as a resource that never had any
	}
	if r == nil {
		group := *g
		group.Tags = next
		c.groups[id.Key()] = &group
		return next, nil
	}
	edits{c}.setTags(w, r, next)
	return next, nil
}

func (c edits) setTags(w Write, r *Resource, tags map[string]string) *Resource {
	next := r.again()
	next.Tags, next.Etag = tags, c.cloud.etag()
	c.cloud.commit(w.Now, next.id.Key(), next)
	return next
}

// Patch replaces the tags of a resource, which is all that a PATCH of a network resource does.
func (c *Cloud) Patch(w Write, id document.ID, body map[string]any) (Result, error) {
	if err := unknownType(id); err != nil {
		return Result{}, err
	}
	if err := (access{c}).admitChange(w.By, action(id, "write"), id); err != nil {
		return Result{}, err
	}
	r := c.resources[id.Key()]
	if r == nil {
		return Result{}, document.NotFound(id)
	}
	if err := (edits{c}).conditions(w, r); err != nil {
		return Result{}, err
	}
	if err := (access{c}).busy(r, w.Now); err != nil {
		return Result{}, err
	}
	tags, err := edits{c}.tagsOf(id, body["tags"])
	if err != nil {
		return Result{}, err
	}
	next := edits{c}.setTags(w, r, tags)
	return Result{Document: c.render(next, c.now()), Location: next.Location}, nil
}

// Power starts, stops or deallocates a virtual machine.
func (c *Cloud) Power(w Write, id document.ID, verb string) (Result, error) {
	state, ok := map[string]string{"start": "running", "restart": "running", "poweroff": "stopped", "deallocate": "deallocated"}[strings.ToLower(verb)]
	if !ok {
		return Result{}, document.Refuse(http.StatusNotFound, "InvalidResourceType", "The action %s is not simulated.", verb)
	}
	if err := (access{c}).admitChange(w.By, action(id, verb+"/action"), id); err != nil {
		return Result{}, err
	}
	r := c.resources[id.Key()]
	if r == nil {
		return Result{}, document.NotFound(id)
	}
	if err := (access{c}).busy(r, w.Now); err != nil {
		return Result{}, err
	}
	next := r.again()
	op := c.begin(w, r.id, r.Location)
	if op == nil {
		next.Power = state
	} else {
		op.Power, op.Before, next.Provisioning = state, r, document.Updating
	}
	c.commit(w.Now, id.Key(), next)
	return Result{Operation: op, Location: r.Location}, nil
}

// PutGroup creates or updates a resource group.
func (c *Cloud) PutGroup(w Write, id document.ID, location string, tags map[string]string) (ResourceGroup, bool, error) {
	s, err := c.subscription(w.By, id.Subscription)
	if err != nil {
		return ResourceGroup{}, false, err
	}
	if err := w.By.Authorize("Microsoft.Resources/subscriptions/resourceGroups/write", id.String()); err != nil {
		return ResourceGroup{}, false, err
	}
	if err := (edits{c}).checkTags(id, tags); err != nil {
		return ResourceGroup{}, false, err
	}
	prev := c.groups[id.Key()]
	if !slices.Contains(Locations(), strings.ToLower(location)) {
		return ResourceGroup{}, false, document.BadRequest("LocationNotAvailableForResourceGroup", "The provided location '%s' is not available for resource group.", location)
	}
	next := &ResourceGroup{Subscription: s.ID, Name: id.Group, Location: strings.ToLower(location), Tags: tags}
	if prev != nil {
		next.Name = prev.Name
	}
	c.groups[id.Key()] = next
	return *next, prev == nil, nil
}

// DeleteGroup removes a resource group with all that is in it.
func (c *Cloud) DeleteGroup(w Write, id document.ID) error {
	if err := (access{c}).admitChange(w.By, "Microsoft.Resources/subscriptions/resourceGroups/delete", id); err != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(c.resources)) {
		if document.Within(k, id.Key()) {
			c.commit(w.Now, k, nil)
		}
	}
	delete(c.groups, id.Key())
	return nil
}
