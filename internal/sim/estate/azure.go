package estate

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/platform/unicodetext"
	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
	"github.com/nephele-io/nephele/internal/sim/estate/source"
)

// The application that every subscription gets, and its secret. The client id is
// azure.GUIDOf("client nephele").
const (
	DefaultApplication  = "nephele"
	DefaultClientSecret = "nephele-simulator-default-secret"
	// defaultTenant is the tenant of descriptions that name none.
	defaultTenant = "6e657068-656c-4000-8000-000000000001"
)

// LoadAzure reads a file, or all .json files of a folder and below: answers of Resource Manager
// ({"value": [...]}) and of Resource Graph ({"data": ...}), lists as the az command line prints
// them, single resources, and recorded exchanges (a list of {"uri", "body"}). What resources refer
// to and the description does not tell is made up, and said in the report: subnets that hold the
// addresses of their interfaces, empty application security groups. References to network security
// groups that are not told are left out.
//
// Each subscription gets the application DefaultApplication, which may do everything.
func LoadAzure(name string) (azure.State, source.Report, error) {
	info, err := os.Stat(name)
	if err != nil {
		return azure.State{}, source.Report{Source: name}, fmt.Errorf("load an estate: %w", err)
	}
	dir, base := filepath.Split(filepath.Clean(name))
	if info.IsDir() {
		dir, base = name, "."
	}
	if dir == "" {
		dir = "."
	}
	l := &azureLoader{report: source.Report{Source: name, Format: "answers of Resource Manager"}, resources: map[string]azure.Resource{}, serviceTags: map[string][]netip.Prefix{}, tenants: map[string]string{}}
	fsys := os.DirFS(dir)
	err = fs.WalkDir(fsys, base, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".json") {
			return err
		}
		raw, err := fs.ReadFile(fsys, path)
		if err != nil {
			return err
		}
		var doc any
		text, err := unicodetext.Decode(raw)
		if err == nil {
			err = json.Unmarshal(text, &doc)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, path), err)
		}
		before := len(l.resources) + len(l.serviceTags)
		l.read(doc)
		if len(l.resources)+len(l.serviceTags) == before {
			l.report.Ignored = append(l.report.Ignored, path)
			return nil
		}
		l.report.Files = append(l.report.Files, path)
		return nil
	})
	if err != nil {
		return azure.State{}, l.report, fmt.Errorf("load an estate: %w", err)
	}
	if len(l.resources) == 0 {
		return azure.State{}, l.report, fmt.Errorf("%s: there is no resource of Azure in it: expected answers as az resource list gives them", name)
	}
	s, err := l.state()
	if err != nil {
		return azure.State{}, l.report, err
	}
	if err := s.Check(); err != nil {
		return azure.State{}, l.report, fmt.Errorf("%s: the estate is not consistent: %w", name, err)
	}
	return s, l.report, nil
}

type azureLoader struct {
	report    source.Report
	resources map[string]azure.Resource // by key
	tenants   map[string]string         // of subscriptions, as Resource Graph tells them
	// serviceTags are by name.
	serviceTags map[string][]netip.Prefix
}

// read takes every resource that it finds in a document of any form.
func (l *azureLoader) read(doc any) {
	switch v := doc.(type) {
	case []any:
		for _, x := range v {
			l.read(x)
		}
	case map[string]any:
		switch {
		case v["columns"] != nil && v["rows"] != nil:
			l.table(v)
		case v["value"] != nil && v["id"] == nil:
			l.read(v["value"])
		case v["data"] != nil:
			l.read(v["data"])
		case v["values"] != nil && v["cloud"] != nil:
			l.tags(v)
		case v["uri"] != nil:
			l.read(v["body"])
		default:
			l.resource(v)
		}
	}
}

// tags reads an answer about service tags, as "az network list-service-tags" prints it. What is no
// block of addresses is left out, and said.
func (l *azureLoader) tags(v map[string]any) {
	values, _ := v["values"].([]any)
	for _, x := range values {
		tag, _ := x.(map[string]any)
		name, _ := tag["name"].(string)
		properties, whole := tag["properties"].(map[string]any)
		if !whole {
			properties = tag
		}
		texts, _ := properties["addressPrefixes"].([]any)
		var blocks []netip.Prefix
		for _, t := range texts {
			text, _ := t.(string)
			p, err := netip.ParsePrefix(text)
			if err != nil {
				l.gap(name, "the blocks of addresses of a service tag, not "+text, "nothing", false)
				continue
			}
			blocks = append(blocks, p)
		}
		if name != "" && len(blocks) > 0 {
			l.serviceTags[name] = blocks
		}
	}
}

// table reads the rows of Resource Graph.
func (l *azureLoader) table(v map[string]any) {
	columns, _ := v["columns"].([]any)
	rows, _ := v["rows"].([]any)
	for _, r := range rows {
		line, _ := r.([]any)
		doc := map[string]any{}
		for i := range min(len(line), len(columns)) {
			if c, ok := columns[i].(map[string]any); ok && line[i] != nil {
				name, _ := c["name"].(string)
				doc[name] = line[i]
			}
		}
		l.resource(doc)
	}
}

// resource takes a resource, if it is one of a type that is simulated. Of one that comes twice the
// more detailed is kept.
func (l *azureLoader) resource(doc map[string]any) {
	text, _ := doc["id"].(string)
	id, ok := document.ParseID(text)
	kind, known := azure.Spelling(id.Type())
	if ok && known {
		doc = unflattened(doc)
	}
	properties, _ := doc["properties"].(map[string]any)
	if !ok || !known || properties == nil || len(id.Types) == 2 && !strings.EqualFold(id.Types[0], "virtualMachineScaleSets") {
		return
	}
	if t, _ := doc["tenantId"].(string); t != "" {
		l.tenants[strings.ToLower(id.Subscription)] = t
	}
	r := azure.Resource{ID: text, Type: kind, Properties: properties, Power: "running"}
	r.Location, _ = doc["location"].(string)
	r.Etag, _ = doc["etag"].(string)
	if tags, ok := doc["tags"].(map[string]any); ok {
		r.Tags = map[string]string{}
		for k, v := range tags {
			r.Tags[k], _ = v.(string)
		}
	}
	if !strings.EqualFold(id.Name(), id.Names[0]) || !strings.HasSuffix(strings.ToLower(kind), "virtualmachines") {
		r.Power = ""
	}
	if extended, ok := properties["extended"].(map[string]any); ok {
		view, _ := extended["instanceView"].(map[string]any)
		power, _ := view["powerState"].(map[string]any)
		code, _ := power["code"].(string)
		r.Power = strings.TrimPrefix(code, "PowerState/")
		delete(properties, "extended")
	}
	for _, k := range []string{"sku", "zones", "identity", "plan", "extendedLocation"} {
		if v := doc[k]; v != nil && v != "" {
			if r.Extra == nil {
				r.Extra = map[string]any{}
			}
			r.Extra[k] = v
		}
	}
	old, twice := l.resources[id.Key()]
	if twice && len(old.Properties) >= len(properties) {
		return
	}
	l.resources[id.Key()] = r
}

func (l *azureLoader) gap(object, expected, taken string, needed bool) {
	l.report.Gaps = append(l.report.Gaps, source.Gap{Place: l.report.Source, Object: object, Expected: expected, Taken: taken, Needed: needed})
}

// state completes what is asked to a state that is consistent.
func (l *azureLoader) state() (azure.State, error) {
	subnets := map[string][]netip.Addr{} // subnets that interfaces name, with their addresses
	for _, k := range l.keys() {
		r := l.resources[k]
		id, _ := document.ParseID(r.ID) // it has been parsed before
		switch id.Type() {
		case "microsoft.network/networkinterfaces":
			l.interfaceNeeds(r, subnets)
		case "microsoft.network/networksecuritygroups":
			for _, rule := range objectsOf(r.Properties["securityRules"]) {
				p, _ := rule["properties"].(map[string]any)
				for _, name := range []string{"sourceApplicationSecurityGroups", "destinationApplicationSecurityGroups"} {
					l.needGroups(p[name], r.Location)
				}
			}
		}
	}
	l.makeSubnets(subnets)
	s := azure.State{ServiceTags: l.serviceTags}
	for _, k := range l.keys() {
		r := l.resources[k]
		id, _ := document.ParseID(r.ID)
		tenant := l.tenants[strings.ToLower(id.Subscription)]
		if tenant == "" {
			tenant = defaultTenant
		}
		if !slices.ContainsFunc(s.Tenants, func(t azure.Tenant) bool { return t.ID == tenant }) {
			s.Tenants = append(s.Tenants, azure.Tenant{ID: tenant})
			s.Principals = append(s.Principals, azure.Principal{
				Tenant:   tenant,
				Name:     DefaultApplication,
				ClientID: build.GUIDOf("client " + DefaultApplication),
				ObjectID: build.GUIDOf("object " + DefaultApplication),
				Secrets:  []string{DefaultClientSecret},
			})
		}
		if !slices.ContainsFunc(s.Subscriptions, func(x azure.Subscription) bool { return strings.EqualFold(x.ID, id.Subscription) }) {
			s.Subscriptions = append(s.Subscriptions, azure.Subscription{ID: id.Subscription, Tenant: tenant, Name: "described"})
		}
		group := azure.ResourceGroup{Subscription: id.Subscription, Name: id.Group, Location: r.Location}
		if !slices.ContainsFunc(s.Groups, func(g azure.ResourceGroup) bool { return g.ID().Key() == group.ID().Key() }) {
			s.Groups = append(s.Groups, group)
		}
		s.Resources = append(s.Resources, r)
	}
	return s, nil
}

func (l *azureLoader) keys() []string {
	out := make([]string, 0, len(l.resources))
	for k := range l.resources {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func objectsOf(v any) []map[string]any {
	var out []map[string]any
	list, _ := v.([]any)
	for _, x := range list {
		if m, ok := x.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

func referenceOf(v any) (document.ID, bool) {
	m, _ := v.(map[string]any)
	text, _ := m["id"].(string)
	return document.ParseID(text)
}

// interfaceNeeds notes what an interface refers to.
func (l *azureLoader) interfaceNeeds(r azure.Resource, subnets map[string][]netip.Addr) {
	if id, ok := referenceOf(r.Properties["networkSecurityGroup"]); ok {
		if _, told := l.resources[id.Key()]; !told {
			l.gap(id.String(), "the network security group of "+r.ID, "no group", true)
			delete(r.Properties, "networkSecurityGroup")
		}
	}
	for _, c := range objectsOf(r.Properties["ipConfigurations"]) {
		p, _ := c["properties"].(map[string]any)
		l.needGroups(p["applicationSecurityGroups"], r.Location)
		if id, ok := referenceOf(p["publicIPAddress"]); ok {
			if _, told := l.resources[id.Key()]; !told {
				delete(p, "publicIPAddress")
				l.gap(id.String(), "the public address of "+r.ID, "no address", false)
			}
		}
		id, ok := referenceOf(p["subnet"])
		if !ok || len(id.Types) != 2 {
			continue
		}
		if _, told := l.resources[id.Parent().Key()]; told {
			continue
		}
		text, _ := p["privateIPAddress"].(string)
		if a, err := netip.ParseAddr(text); err == nil {
			subnets[id.String()] = append(subnets[id.String()], a)
		}
	}
}

// needGroups makes up the application security groups that are named and not told.
func (l *azureLoader) needGroups(v any, location string) {
	for _, x := range objectsOf(v) {
		id, ok := referenceOf(x)
		if !ok {
			continue
		}
		if _, told := l.resources[id.Key()]; !told {
			l.resources[id.Key()] = azure.Resource{ID: id.String(), Type: "Microsoft.Network/applicationSecurityGroups", Location: location, Properties: map[string]any{}}
			l.gap(id.String(), "the application security group", "an empty one", false)
		}
	}
}

// makeSubnets makes up networks with the subnets that interfaces name: each is the /24, or what
// else is needed to hold its addresses.
func (l *azureLoader) makeSubnets(subnets map[string][]netip.Addr) {
	names := make([]string, 0, len(subnets))
	for name := range subnets {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		id, _ := document.ParseID(name)
		addresses := subnets[name]
		prefix := netip.PrefixFrom(addresses[0], min(24, addresses[0].BitLen())).Masked()
		for !holds(prefix, addresses) && prefix.Bits() > 0 {
			prefix = netip.PrefixFrom(prefix.Addr(), prefix.Bits()-1).Masked()
		}
		parent := id.Parent()
		network, there := l.resources[parent.Key()]
		if !there {
			network = azure.Resource{ID: parent.String(), Type: "Microsoft.Network/virtualNetworks", Location: l.locationOf(id), Properties: map[string]any{
				"addressSpace": map[string]any{"addressPrefixes": []any{}}, "subnets": []any{},
			}}
		}
		space := network.Properties["addressSpace"].(map[string]any)
		space["addressPrefixes"] = append(space["addressPrefixes"].([]any), prefix.String())
		network.Properties["subnets"] = append(
			network.Properties["subnets"].([]any),
			map[string]any{"name": id.Name(), "properties": map[string]any{"addressPrefix": prefix.String()}},
		)
		l.resources[parent.Key()] = network
		l.gap(name, "the virtual network", "a subnet "+prefix.String(), true)
	}
}

func holds(p netip.Prefix, all []netip.Addr) bool {
	return !slices.ContainsFunc(all, func(a netip.Addr) bool { return !p.Contains(a) })
}

// locationOf is where the interfaces of a subnet are.
func (l *azureLoader) locationOf(subnet document.ID) string {
	for _, k := range l.keys() {
		for _, c := range objectsOf(l.resources[k].Properties["ipConfigurations"]) {
			p, _ := c["properties"].(map[string]any)
			if id, ok := referenceOf(p["subnet"]); ok && id.Key() == subnet.Key() {
				return l.resources[k].Location
			}
		}
	}
	return ""
}
