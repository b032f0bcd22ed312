package resources

import (
	"encoding/json"
	"strings"
)

// CallGraph is the right that a question to Resource Graph takes.
const CallGraph = "Microsoft.ResourceGraph/resources/read"

// Types of resources, in lower case as Resource Graph tells them.
const (
	TypeVNet     = "microsoft.network/virtualnetworks"
	TypeNIC      = "microsoft.network/networkinterfaces"
	TypeNSG      = "microsoft.network/networksecuritygroups"
	TypeASG      = "microsoft.network/applicationsecuritygroups"
	typePublicIP = "microsoft.network/publicipaddresses"
	typeVM       = "microsoft.compute/virtualmachines"
	TypeSet      = "microsoft.compute/virtualmachinescalesets"
	TypeInstance = "microsoft.compute/virtualmachinescalesets/virtualmachines"
)

const setPart = "/providers/" + TypeSet + "/"

// Row is one resource as Resource Graph tells it.
type Row struct {
	ID         string             `json:"id"`
	Name       string             `json:"name"`
	Type       string             `json:"type"`
	Location   string             `json:"location"`
	Tags       map[string]*string `json:"tags"`
	Properties json.RawMessage    `json:"properties"`
	SKU        *struct {
		Name string `json:"name"`
	} `json:"sku"`
	// shared is true of a gateway that had others in its subnet when it was last told.
	shared bool
}

// Kinds are the types of what a snapshot is made of.
func Kinds() []string {
	return []string{
		TypeVNet, TypeNIC, TypeNSG, TypeASG, typePublicIP, typeVM, TypeSet, TypeRouteTable, typeNetworkGateway, typeLocalGateway, typeConnection,
	}
}

// Place is where a resource is, from its id.
type Place struct{ Group, Kind, Name string }

// ParsePlace reads the place from an id. It reports false for an id of anything but a resource in a
// resource group.
func ParsePlace(id string) (Place, bool) {
	parts := strings.Split(strings.Trim(id, "/"), "/")
	if len(parts) != 8 || !strings.EqualFold(parts[0], "subscriptions") || !strings.EqualFold(parts[2], "resourceGroups") || !strings.EqualFold(parts[4], "providers") {
		return Place{}, false
	}
	return Place{parts[3], strings.ToLower(parts[5] + "/" + parts[6]), parts[7]}, true
}

// OfSet reports whether an id in lower case is of a part of a scale set.
func OfSet(id string) bool { return strings.Contains(id, setPart) }
