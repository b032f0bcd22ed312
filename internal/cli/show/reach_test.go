package show

import "testing"

// TestDotNames: names from the cloud do nothing to a graph.
func TestDotNames(t *testing.T) {
	for in, want := range map[string]string{"a\"]; evil -> \"b": `"a\"]; evil -> \"b"`, "a\\": `"a\\"`, "a\nb": `"a\\nb"`} {
		if got := dotName(in); got != want {
			t.Errorf("%q in a graph: %s, want %s", in, got, want)
		}
	}
}
