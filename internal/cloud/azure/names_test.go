package azure

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

// TestFormerNames: what a former release has named counts as it is, so that an upgrade writes
// nothing; what is named anew has long hashes.
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

	const scope, group = "/subscriptions/s/resourcegroups/g/providers/microsoft.network/", "/subscriptions/s/resourcegroups/g/providers/microsoft.network/networksecuritygroups/web"
	w := newWorld("s", room{})
	w.groups[group] = &nsg{row: row{ID: group, Name: "web"}}
	tag := func(value string) map[string]*string { return map[string]*string{azureTags + "former-groups": &value} }
	add := func(name string, tags map[string]*string) *cloud.Interface {
		id := scope + "networkinterfaces/" + name
		w.nics[id] = &nic{row: row{ID: id, Name: name, Tags: tags}, NSG: &reference{ID: group}}
		return &cloud.Interface{ID: id, Tags: portTags(tags)}
	}
	id := func(name string, bytes int) string { return viewID(group, scope+"networkinterfaces/"+name, bytes) }
	// Two interfaces that a former release could not tell apart.
	one, other, seen := "", "", map[string]string{}
	for i := 0; other == ""; i++ {
		name := fmt.Sprint("n", i)
		if one = seen[id(name, shortHash)]; one != "" {
			other = name
		}
		seen[id(name, shortHash)] = name
	}
	fresh := []*cloud.Interface{add(one, nil), add(other, nil)}
	recorded := add("recorded", tag(id("recorded", shortHash)))
	planted := add("planted", tag(id("recorded", shortHash)+" "+group+viewOf+"00000000 "+id("planted", viewHash)[:len(group)+17]))
	v := newViews(w)
	for _, i := range slices.Concat(fresh, []*cloud.Interface{recorded, planted}) {
		v.interfaceGroups(i, w.nics[i.ID])
		want := viewID(group, i.ID, viewHash)
		if i == recorded {
			want = viewID(group, i.ID, shortHash)
		}
		if !slices.Equal(i.GroupIDs, []string{want}) || v.groups[want].Holder != i.ID || i.Untouchable != "" {
			t.Errorf("%s holds %v (%s), want %s", i.ID, i.GroupIDs, i.Untouchable, want)
		}
	}
	if len(v.groups) != 4 {
		t.Errorf("%d views of 4 interfaces", len(v.groups))
	}

	// Both have records by which nobody tells them apart: the later one is left as it is.
	first, second := add(one, tag(id(one, shortHash))), add(other, tag(id(other, shortHash)))
	v = newViews(w)
	v.interfaceGroups(first, w.nics[first.ID])
	v.interfaceGroups(second, w.nics[second.ID])
	if first.Untouchable != "" || !strings.Contains(second.Untouchable, first.ID) {
		t.Errorf("%q, %q", first.Untouchable, second.Untouchable)
	}
}
