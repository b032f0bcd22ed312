package input

import (
	"reflect"
	"testing"

	"github.com/nephele-io/nephele/internal/kinds"
)

// TestObjectsHoldEveryKind: Objects take, give back and overlay every kind that the table says
// answers are made from, and have no list of any other.
func TestObjectsHoldEveryKind(t *testing.T) {
	lists := len((&Objects{}).lists())
	fields := 0
	for _, of := range []reflect.Type{reflect.TypeFor[Objects](), reflect.TypeFor[Leaving]()} {
		for f := range of.Fields() {
			if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Pointer && f.Name != "TrimmedPods" {
				fields++
			}
		}
	}
	if fields != lists {
		t.Errorf("Objects have %d lists of objects, and lists() %d", fields, lists)
	}
	for _, k := range kinds.All() {
		// EndpointSlices are read from manifests, or where the caller may read them.
		held := k.Is(kinds.Explained) || k.Kind == "EndpointSlice"
		var in, over Objects
		object := k.New()
		object.SetName("x")
		object.SetUID("u")
		in.Add(object)
		replaced := k.New()
		replaced.SetName("x")
		over.Add(replaced)
		in.Overlay(&over)
		if held && replaced.GetUID() != "u" {
			t.Errorf("%s (%s): what is put over another one does not take its place", k.Kind, k.Group)
		}
		if got := in.Remove(k, "", "x"); got != held {
			t.Errorf("%s (%s): held is %v, want %v", k.Kind, k.Group, got, held)
		}
		if in.Remove(k, "", "x") {
			t.Errorf("%s (%s): it is still there after it was removed", k.Kind, k.Group)
		}
		if held {
			lists--
		}
	}
	if lists != 0 {
		t.Errorf("%d lists of Objects are of kinds that the table does not have", lists)
	}
}
