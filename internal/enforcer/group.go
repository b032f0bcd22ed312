package enforcer

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// mostPacked is up to how many members a group is packed. Larger ones would take too long to
// unpack for every change.
const mostPacked = 1000

// AddressGroup is a computed address group as it is kept. It never changes.
//
// Decoded, a member takes five times as much memory as on the wire, and an enforcer looks at few
// groups at a time. So it may be kept as on the wire.
type AddressGroup struct {
	name string
	// whole is the group; nil if it is packed.
	whole  *v1beta2.AddressGroup
	packed string
}

// NewAddressGroup returns a group as it was computed, which must not be changed from then on.
func NewAddressGroup(g *v1beta2.AddressGroup) *AddressGroup {
	return &AddressGroup{name: g.Name, whole: g}
}

// packedGroup returns a group that takes little memory.
func packedGroup(g *v1beta2.AddressGroup) *AddressGroup {
	if len(g.GroupMembers) > mostPacked {
		return NewAddressGroup(g)
	}
	raw, err := g.Marshal()
	if err != nil { // what cannot be packed stays as it is
		return NewAddressGroup(g)
	}
	return &AddressGroup{name: g.Name, packed: string(raw)}
}

// GetName returns the name of the group.
func (g *AddressGroup) GetName() string { return g.name }

// Object returns the group as it was computed, its members sorted by identity. It must not be
// changed. A caller that needs it often should keep it.
func (g *AddressGroup) Object() *v1beta2.AddressGroup {
	if g.whole != nil {
		return g.whole
	}
	var out v1beta2.AddressGroup
	if err := out.Unmarshal([]byte(g.packed)); err != nil {
		panic(fmt.Sprintf("address group %s was packed by us and cannot be read: %v", g.name, err))
	}
	return &out
}

// MarshalJSON writes the group as the API has it.
func (g *AddressGroup) MarshalJSON() ([]byte, error) { return json.Marshal(g.Object()) }

// UnmarshalJSON reads a group as the API has it.
func (g *AddressGroup) UnmarshalJSON(text []byte) error {
	var o v1beta2.AddressGroup
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	*g = *packedGroup(&o)
	return nil
}

// Objects returns groups as they were computed.
func Objects(groups []*AddressGroup) []*v1beta2.AddressGroup {
	out := make([]*v1beta2.AddressGroup, 0, len(groups))
	for _, g := range groups {
		out = append(out, g.Object())
	}
	return out
}

// NewAddressGroups is NewAddressGroup of many.
func NewAddressGroups(groups []*v1beta2.AddressGroup) []*AddressGroup {
	out := make([]*AddressGroup, 0, len(groups))
	for _, g := range groups {
		out = append(out, NewAddressGroup(g))
	}
	return out
}

// Equal reports whether two groups are the same.
func (g *AddressGroup) Equal(o *AddressGroup) bool {
	if g.whole == nil && o.whole == nil {
		return g.packed == o.packed
	}
	return reflect.DeepEqual(g.Object(), o.Object())
}

// Size is about how many bytes the group has as JSON, and rather more.
func (g *AddressGroup) Size() int {
	if g.whole == nil {
		return 10 * len(g.packed)
	}
	return 300 * len(g.whole.GroupMembers)
}
