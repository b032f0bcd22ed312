package azure

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// A group of ours on Azure is a pair of one name: a network security group that has the rules, and
// an application security group that is what rules of others name. The port knows the pair as one
// group, by the id of the former. The name ends with a hash of the network, because a name must be
// the only one of its kind in a resource group, and one resource group may hold several networks.
//
// Other network security groups are shown as what they mean to one interface, one view per
// interface: the meaning of an ordered list depends on the interface, and on the network. The id of
// a view is that of the group, "@", and a hash of the interface.

const (
	nsgPart, asgPart = "/providers/microsoft.network/networksecuritygroups/", "/providers/microsoft.network/applicationsecuritygroups/"
	// noGroup is in place of the id of a group in the view of an interface that has none.
	noGroup = "none"
	viewOf  = "@"
	hashLen = 8
)

func hash(s string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(s)))
	return hex.EncodeToString(sum[:hashLen/2])
}

// NameIn is the name in Azure of a group of ours for a network.
func NameIn(network, name string) string { return name + "-" + hash(network) }

// nameOf is the port's name of a group that is of a network; false if it is not of that network.
func nameOf(azureName, network string) (string, bool) {
	return strings.CutSuffix(strings.ToLower(azureName), "-"+hash(network))
}

// viewID is the id of what a group (empty for none) means to an interface.
func viewID(group, nic string) string {
	if group == "" {
		group = noGroup
	}
	return group + viewOf + hash(nic)
}

// groupOfView is the group of a view, empty for none; false if it is the id of no view.
func groupOfView(id string) (string, bool) {
	group, _, ok := strings.Cut(id, viewOf)
	if group == noGroup {
		group = ""
	}
	return group, ok
}

// identityOf is the id of the application security group of a pair.
func identityOf(group string) string { return swap(group, nsgPart, asgPart) }

// rulesOf is the id of the network security group of a pair.
func rulesOf(identity string) string { return swap(identity, asgPart, nsgPart) }

// swap changes the kind in the id of a group whose name is one that we would give; empty if it is
// not.
func swap(id, from, to string) string {
	scope, name, ok := strings.Cut(strings.ToLower(id), from)
	if !ok || !strings.HasPrefix(name, cloud.NamePrefix) || strings.Contains(name, "/") {
		return ""
	}
	return scope + to + name
}
