package manifest

import (
	"strings"
	"testing"
)

// TestListsInOneAnother: lists are read to a depth; each level is read anew, and a text of deep
// ones would take the time of all of them.
func TestListsInOneAnother(t *testing.T) {
	nested := func(n int) string {
		return strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, n) +
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}` + strings.Repeat("]}", n)
	}
	if set, err := Parse("in", []byte(nested(maxNested)), 0); err != nil || len(set.Documents) != 1 {
		t.Errorf("%v, %v", set, err)
	}
	if _, err := Parse("in", []byte(nested(maxNested+1)), 0); err == nil || !strings.Contains(err.Error(), "lists in one another") {
		t.Errorf("%v", err)
	}
}
