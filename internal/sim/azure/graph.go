package azure

import (
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// GraphRows are the rows of a table of Resource Graph that the caller sees, as they were known
// there some time ago, in the order of ids. Tables are resources and computeresources; false for
// another one. subscriptions restricts them; none means all. It is a read.
func (c *Cloud) GraphRows(by *Principal, table string, subscriptions []string) ([]map[string]any, bool) {
	wanted := map[string]bool{}
	for _, s := range subscriptions {
		wanted[strings.ToLower(s)] = true
	}
	var instances bool
	switch strings.ToLower(table) {
	case "resources":
	case "computeresources":
		instances = true
	default:
		return nil, false
	}
	x := buildIndex(c.graph)
	out := []map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(c.graph)) {
		r := c.graph[k]
		kind := r.id.Type()
		// Interfaces of scale sets are in no table.
		if kind == document.TypeSetNIC || (kind == document.TypeInstance) != instances {
			continue
		}
		s := c.subscriptions[strings.ToLower(r.id.Subscription)]
		if s == nil || !strings.EqualFold(s.Tenant, by.Tenant) || len(wanted) > 0 && !wanted[strings.ToLower(s.ID)] {
			continue
		}
		if !by.May(action(r.id, "read"), r.ID) {
			continue
		}
		out = append(out, c.graphRow(r, x, s))
	}
	return out, true
}

func (c *Cloud) graphRow(r *Resource, x *index, s *Subscription) map[string]any {
	doc := c.render(r, x)
	properties := doc["properties"].(map[string]any)
	if r.Power != "" {
		properties["extended"] = map[string]any{"instanceView": map[string]any{"powerState": map[string]any{
			"code": "PowerState/" + r.Power, "level": "Info", "displayStatus": "VM " + r.Power,
		}}}
	}
	name := r.id.Name()
	if r.id.Type() == document.TypeInstance {
		name = r.id.Names[0] + "_" + name
	}
	row := map[string]any{
		"id": r.ID, "name": name, "type": strings.ToLower(r.Type), "tenantId": s.Tenant, "kind": "", "location": r.Location,
		"resourceGroup": strings.ToLower(r.id.Group), "subscriptionId": s.ID, "managedBy": "", "sku": nil, "plan": nil, "properties": properties,
		"tags": doc["tags"], "identity": nil, "zones": nil, "extendedLocation": nil,
	}
	for _, k := range []string{"sku", "plan", "identity", "zones", "kind", "managedBy", "extendedLocation"} {
		if v, ok := doc[k]; ok {
			row[k] = v
		}
	}
	return row
}
