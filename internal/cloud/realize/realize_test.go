package realize

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// TestHistory: after every event the cloud means exactly what the policies mean, and at the end it
// is as it was.
func TestHistory(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{regions: []string{home, away}})
	before := l.holdings()
	l.publish()
	l.start()
	l.settle()
	if n := l.mutations(); n > 0 {
		t.Errorf("%d mutating calls without a policy", n)
	}
	for _, e := range history() {
		e.do(l)
		l.publish()
		l.settle()
		if d := compare(l.actual(), l.wanted()); d != "" {
			t.Fatalf("after %q:\n%s", e.name, d)
		}
	}
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Errorf("something is left (-before +after):\n%s", d)
	}
	if n := l.mutations(); n == 0 {
		t.Error("nothing was ever called")
	}
}
