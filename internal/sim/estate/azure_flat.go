package estate

import (
	"regexp"
	"slices"
	"strings"
)

// What lists of the az command line print are resources without their member "properties": what
// belongs into it stands beside the id, and so it is with the parts of a resource. Some versions of
// az spell "IP" as "Ip" as well. unflattened puts that right.

// flatIP is "IP" within the name of a member, as az spells it.
var flatIP = regexp.MustCompile(`Ip([A-Z])`)

// groupOf is what az tells beside each id.
const groupOf = "resourceGroup"

// besideProperties are the members of a resource, or of a part of one, that are no properties.
func besideProperties(name string) bool {
	return slices.Contains([]string{
		"id", "name", "type", "location", "tags", "sku", "etag", "zones", "identity", "extendedLocation", "plan", "kind", "managedBy",
	}, name)
}

// namelessParts are lists whose elements are parts of a resource without an id of their own: az
// reports them no more than their properties and perhaps a name.
func namelessParts(list string) bool {
	return slices.Contains([]string{"loadBalancerBackendAddresses", "networkInterfaces", "ipConfigurations", "privateLinkServiceConnections", "manualPrivateLinkServiceConnections"}, list)
}

// unflattened returns a resource as Resource Manager tells it; one that has properties is returned
// as it is.
func unflattened(doc map[string]any) map[string]any {
	text, _ := doc["id"].(string)
	if _, whole := doc["properties"]; whole {
		return doc
	}
	out := apart(doc, text)
	// "az vm list --show-details" tells in words whether a machine runs.
	if words, ok := doc["powerState"].(string); ok {
		state, _ := strings.CutPrefix(strings.ToLower(words), "vm ")
		out["properties"].(map[string]any)["extended"] = map[string]any{"instanceView": map[string]any{"powerState": map[string]any{"code": "PowerState/" + state}}}
	}
	return out
}

// apart puts the properties of a resource or part apart. id is that of the resource or part.
func apart(doc map[string]any, id string) map[string]any {
	out, properties := map[string]any{}, map[string]any{}
	for k, v := range doc {
		switch {
		case v == nil, k == groupOf: // az tells what is not set, and the group beside each id
		case besideProperties(k):
			out[k] = v
		default:
			k = flatIP.ReplaceAllString(k, "IP$1")
			properties[k] = partsApart(k, v, id)
		}
	}
	out["properties"] = properties
	return out
}

// partsApart does that with the parts within a value, however deep they are. A part has an id below
// that of its resource; what has another one is a reference.
func partsApart(name string, v any, id string) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, 0, len(v))
		for _, x := range v {
			part, ok := x.(map[string]any)
			if !ok {
				out = append(out, x)
				continue
			}
			own, _ := part["id"].(string)
			_, whole := part["properties"]
			switch below := len(own) > len(id) && strings.EqualFold(own[:len(id)], id) && own[len(id)] == '/'; {
			case whole:
				out = append(out, part)
			case below && part["name"] != nil:
				out = append(out, apart(part, own))
			case namelessParts(name) && len(part) > 1 && own == "", namelessParts(name) && part["primary"] != nil:
				out = append(out, apart(part, id))
			default:
				out = append(out, partsApart(name, part, id))
			}
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if x != nil && k != groupOf {
				k = flatIP.ReplaceAllString(k, "IP$1")
				out[k] = partsApart(k, x, id)
			}
		}
		return out
	}
	return v
}
