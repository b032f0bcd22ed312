package source

import (
	"strings"
	"testing"
)

// TestListInPlaceOfAnswer: what --query cuts out is refused with what is wanted.
func TestListInPlaceOfAnswer(t *testing.T) {
	if _, err := Members("x.json", []byte(" [[]]")); err == nil || !strings.Contains(err.Error(), "x.json: a list, as --query of aws makes: expected the whole answer") {
		t.Errorf("%v", err)
	}
}
