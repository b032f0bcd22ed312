package resources

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

// TestFormerNames: a group that a former release has named is ours, and is named anew with a hash
// that no other network can be given.
func TestFormerNames(t *testing.T) {
	const network = "/subscriptions/s/resourcegroups/g/providers/microsoft.network/virtualnetworks/v"
	for _, name := range []string{NameIn(network, "nephele-c-1"), "Nephele-c-1-" + hash(network, shortHash)} {
		if got, ok := nameOf(name, network); got != "nephele-c-1" || !ok {
			t.Errorf("%s is %q, %t", name, got, ok)
		}
		if got, ok := nameOf(name, network+"2"); ok {
			t.Errorf("%s is %q of another network", name, got)
		}
	}
	if n := len(NameIn(network, "")); n != 17 {
		t.Errorf("names end with %d characters", n)
	}
}

// TestInterfacesOfOneHash: two interfaces whose ids somebody has chosen so that short hashes of
// them are equal have views of their own, and records count as they were written.
func TestInterfacesOfOneHash(t *testing.T) {
	const scope, group = "/subscriptions/s/resourcegroups/g/providers/microsoft.network/", "/subscriptions/s/resourcegroups/g/providers/microsoft.network/networksecuritygroups/web"
	nicID := func(name string) string { return scope + "networkinterfaces/" + name }
	id := func(name string, bytes int) string { return viewID(group, nicID(name), bytes) }
	one, other, seen := "", "", map[string]string{}
	for i := 0; other == ""; i++ {
		name := fmt.Sprint("n", i)
		if one = seen[id(name, shortHash)]; one != "" {
			other = name
		}
		seen[id(name, shortHash)] = name
	}
	if one > other {
		one, other = other, one
	}
	for what, c := range map[string]struct {
		records map[string]string // what tags say of names
		want    map[string]string
		mixed   string
	}{
		"no records":                  {nil, map[string]string{one: id(one, shortHash), other: id(other, longHash), "third": id("third", shortHash)}, ""},
		"a record of the second":      {map[string]string{other: id(other, shortHash)}, map[string]string{one: id(one, longHash), other: id(other, shortHash)}, ""},
		"a long one of the first":     {map[string]string{one: id(one, longHash)}, map[string]string{one: id(one, longHash), other: id(other, shortHash)}, ""},
		"one that nobody shares":      {map[string]string{"third": id("third", longHash)}, map[string]string{"third": id("third", longHash)}, ""},
		"records of both":             {map[string]string{one: id(one, shortHash), other: id(other, shortHash)}, map[string]string{one: id(one, shortHash), other: id(other, shortHash)}, other},
		"what somebody has made up":   {map[string]string{"third": id(one, shortHash) + " " + group + viewOf + "00000000 " + id("third", longHash)[:len(group)+17]}, map[string]string{"third": id("third", shortHash)}, ""},
		"ids of both lengths":         {map[string]string{"third": id("third", longHash) + " " + id("third", shortHash)}, map[string]string{"third": id("third", shortHash)}, ""},
		"of somebody else's neighbor": {map[string]string{one: id(other, longHash)}, map[string]string{one: id(one, shortHash), other: id(other, longHash)}, ""},
	} {
		w := NewRegion("s", Room{})
		w.Groups[group] = &NSG{Row: Row{ID: group, Name: "web"}}
		for name := range c.want {
			n := &NIC{Row: Row{ID: nicID(name), Name: name}, NSG: &Reference{ID: group}}
			if record, has := c.records[name]; has {
				n.Tags = map[string]*string{tagPrefix + "former-groups": &record}
			}
			w.NICs[nicID(name)] = n
		}
		v := newViews(w)
		for name, want := range c.want {
			n := w.NICs[nicID(name)]
			i := &cloud.Interface{ID: nicID(name), Tags: PortTags(n.Tags)}
			v.interfaceGroups(i, n)
			if mixed := i.Untouchable != ""; !slices.Equal(i.GroupIDs, []string{want}) || mixed != (name == c.mixed) {
				t.Errorf("%s: %s holds %v (%s), want %s", what, name, i.GroupIDs, i.Untouchable, want)
			}
			if name == c.mixed && !strings.Contains(i.Untouchable, nicID(one)) {
				t.Errorf("%s: %s", what, i.Untouchable)
			}
			if c.mixed == "" && v.groups[want].Holder != i.ID {
				t.Errorf("%s: the view of %s is of %s", what, name, v.groups[want].Holder)
			}
		}
	}
}
