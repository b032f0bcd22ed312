// Package printed reads resources as the az command line prints them.
//
// What "az vm list" and "az network ... list" print are resources without their member
// "properties": what belongs into it stands beside the id, and so it is with the parts of a
// resource. Whole puts it back. Everything here is a pure function.
package printed

import (
	"encoding/json"
	"slices"
	"strings"
)

// envelope are the members of a resource that are no properties.
func envelope() []string {
	return []string{"id", "name", "type", "location", "tags", "sku", "etag", "zones", "identity", "extendedlocation", "plan", "kind", "resourcegroup"}
}

// partLists are the lists of resources within resources.
func partLists() []string {
	return []string{
		"subnets", "virtualnetworkpeerings", "securityrules", "routes", "ipconfigurations", "networkinterfaces", "frontendipconfigurations", "backendaddresspools",
		"loadbalancerbackendaddresses", "loadbalancingrules", "probes", "inboundnatrules", "gatewayipconfigurations", "frontendports", "httplisteners",
		"backendhttpsettingscollection", "requestroutingrules", "urlpathmaps", "pathrules", "privatelinkserviceconnections", "manualprivatelinkserviceconnections",
	}
}

// Whole returns a resource as Resource Graph tells it; what has properties is returned as it is.
func Whole(raw json.RawMessage) (json.RawMessage, error) {
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	if _, told := object["properties"]; told || object["location"] == nil {
		return raw, nil
	}
	out := lifted(object)
	// "az vm list --show-details" tells how a machine is in words.
	if text, ok := object["powerState"].(string); ok {
		if state, ok := strings.CutPrefix(strings.ToLower(text), "vm "); ok {
			out["properties"].(map[string]any)["extended"] = map[string]any{"instanceView": map[string]any{"powerState": map[string]any{"code": "PowerState/" + state}}}
		}
	}
	return json.Marshal(out)
}

// lifted is an object whose properties are apart.
func lifted(object map[string]any) map[string]any {
	out, properties := map[string]any{}, map[string]any{}
	for k, v := range object {
		if slices.Contains(envelope(), strings.ToLower(k)) {
			out[k] = v
		} else {
			properties[k] = v
		}
	}
	out["properties"] = liftedParts(properties)
	return out
}

// liftedParts does it with the parts of an object, however deep they are.
func liftedParts(v any) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for k, x := range object {
		list, many := x.([]any)
		if !many || !slices.Contains(partLists(), strings.ToLower(k)) {
			out[k] = liftedParts(x)
			continue
		}
		parts := make([]any, len(list))
		for i := range list {
			parts[i] = list[i]
			if part, ok := list[i].(map[string]any); ok && part["properties"] == nil {
				parts[i] = lifted(part)
			}
		}
		out[k] = parts
	}
	return out
}
