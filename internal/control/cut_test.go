package control

import (
	"strings"
	"testing"
)

func TestCutAtWord(t *testing.T) {
	text := strings.Repeat("needs 401 rules, über quota ", 20)
	got := cutAtWord(text, maxFailureMessage)
	head, tail, _ := strings.Cut(got, " ... (")
	if len(got) > maxFailureMessage || !strings.HasPrefix(text, head+" ") || !strings.HasSuffix(tail, " characters more)") {
		t.Errorf("%d: %q", len(got), got)
	}
	if got := cutAtWord(strings.Repeat("x", 300), maxFailureMessage); len(got) > maxFailureMessage || !strings.HasPrefix(got, "xxx") {
		t.Errorf("without a space: %q", got)
	}
}
