package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
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
//
// Somebody else in the subscription chooses the ids of other networks and interfaces, and can make
// hashes of 32 bits equal. So names have 64 bits; names of former releases, with 32, are still
// known as ours. Records of what interfaces had hold ids of views, and a former release that comes
// back must find these: ids have 32 bits as before, and where two interfaces would share one, the
// second has 128. See apart.

const (
	NSGPart, ASGPart = "/providers/microsoft.network/networksecuritygroups/", "/providers/microsoft.network/applicationsecuritygroups/"
	// noGroup is in place of the id of a group in the view of an interface that has none.
	noGroup = "none"
	viewOf  = "@"
	// The bytes of hashes: of names, which have at most 80 characters, of views that share the
	// short one with another interface, and of all others and of names in former releases.
	nameHash, longHash, shortHash = 8, 16, 4
)

// hash is a hash of a text with so many bytes, in hexadecimal digits.
func hash(s string, bytes int) string {
	sum := sha256.Sum256([]byte(strings.ToLower(s)))
	return hex.EncodeToString(sum[:bytes])
}

// NameIn is the name in Azure of a group of ours for a network.
func NameIn(network, name string) string { return name + "-" + hash(network, nameHash) }

// nameOf is the port's name of a group that is of a network; false if it is not of that network.
func nameOf(azureName, network string) (string, bool) {
	azureName = strings.ToLower(azureName)
	if name, ok := strings.CutSuffix(azureName, "-"+hash(network, nameHash)); ok {
		return name, true
	}
	return strings.CutSuffix(azureName, "-"+hash(network, shortHash))
}

// viewID is the id of what a group (empty for none) means to an interface, with a hash of that many
// bytes.
func viewID(group, nic string, bytes int) string {
	if group == "" {
		group = noGroup
	}
	return group + viewOf + hash(nic, bytes)
}

// viewed reports whether an id is that of a view of an interface, and returns its group and the
// bytes of its hash.
func viewed(id, nic string) (group string, bytes int, ok bool) {
	group, ok = GroupOfView(id)
	for _, bytes := range []int{shortHash, longHash} {
		if ok && id == viewID(group, nic, bytes) {
			return group, bytes, true
		}
	}
	return "", 0, false
}

// apart says how many bytes the hashes of interfaces have in the ids of their views, so that no two
// share an id; tags are the tags of the port, by interface. What a record says counts first. Where
// two records say the same, no one can tell which interface is meant: the later one is among mixed,
// with the other.
func apart(tags map[string]map[string]string) (bytes map[string]int, mixed map[string]string) {
	bytes, mixed = map[string]int{}, map[string]string{}
	holders := map[string]string{} // short hashes, and whose they are
	claim := func(nic string) (other string) {
		h := hash(nic, shortHash)
		if other = holders[h]; other == "" {
			holders[h] = nic
		}
		return other
	}
	all := slices.Sorted(maps.Keys(tags))
	for _, nic := range all {
		for _, id := range cloud.FormerGroups(tags[nic]) {
			if _, n, ok := viewed(id, nic); ok && bytes[nic] != shortHash {
				bytes[nic] = n
			}
		}
		if bytes[nic] == shortHash {
			if other := claim(nic); other != "" {
				mixed[nic] = other
			}
		}
	}
	for _, nic := range all {
		if bytes[nic] != 0 {
			continue
		}
		if bytes[nic] = shortHash; claim(nic) != "" {
			bytes[nic] = longHash
		}
	}
	return bytes, mixed
}

// GroupOfView is the group of a view, empty for none; false if it is the id of no view.
func GroupOfView(id string) (string, bool) {
	group, _, ok := strings.Cut(id, viewOf)
	if group == noGroup {
		group = ""
	}
	return group, ok
}

// IdentityOf is the id of the application security group of a pair.
func IdentityOf(group string) string { return swap(group, NSGPart, ASGPart) }

// RulesOf is the id of the network security group of a pair.
func RulesOf(identity string) string { return swap(identity, ASGPart, NSGPart) }

// swap changes the kind in the id of a group whose name is one that we would give; empty if it is
// not.
func swap(id, from, to string) string {
	scope, name, ok := strings.Cut(strings.ToLower(id), from)
	if !ok || !strings.HasPrefix(name, cloud.NamePrefix) || strings.Contains(name, "/") {
		return ""
	}
	return scope + to + name
}
