package azure

import (
	"strings"
	"testing"
)

// TestLike: patterns of roles are matched in a time that does not grow with the number of their
// stars; an author of roles of the subscription could hold up the account otherwise.
func TestLike(t *testing.T) {
	for pattern, texts := range map[string]map[string]bool{
		"*":        {"": true, "a/b": true},
		"a/*":      {"a/": true, "a/b": true, "a": false, "b/a/": false},
		"*/read":   {"a/read": true, "/read": true, "read": false, "a/read/b": false},
		"a*a":      {"a": false, "aa": true, "aba": true},
		"a*b*c":    {"abc": true, "axbxc": true, "acb": false, "abcbc": true},
		"*ab*ab":   {"ab": false, "abab": true, "aab": false},
		"a/b":      {"a/b": true, "a/bc": false},
		"*/*/read": {"a/b/read": true, "a/read": false},
	} {
		for text, want := range texts {
			if got := like(pattern, text); got != want {
				t.Errorf("%q like %q: %t", text, pattern, got)
			}
		}
	}
	if like(strings.Repeat("*a", 500), strings.Repeat("a", 499)) {
		t.Error("500 letters found in 499")
	}
}
