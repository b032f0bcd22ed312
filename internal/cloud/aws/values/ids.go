package values

import "strings"

// IDKind is the kind of object that an id of the cloud names.
type IDKind int

// The kinds of objects that snapshots are made of.
const (
	OtherID IDKind = iota
	InstanceID
	InterfaceID
	GroupID
	NetworkID
	PeeringID
	PrefixListID
)

// KindOf tells the kind by the beginning of the id.
func KindOf(id string) IDKind {
	prefix, _, _ := strings.Cut(id, "-")
	switch prefix {
	case "i":
		return InstanceID
	case "eni":
		return InterfaceID
	case "sg":
		return GroupID
	case "vpc":
		return NetworkID
	case "pcx":
		return PeeringID
	case "pl":
		return PrefixListID
	}
	return OtherID
}
