package webhook

import (
	"strings"
	"testing"
)

func TestAnnotationWarnings(t *testing.T) {
	for value, warned := range map[string]bool{"keep": false, "tighten": true, "widen": true, "": true, "Tighten": true} {
		got := AnnotationWarnings(map[string]string{"nephele.io/on-refusal": value})
		if (len(got) == 1) != warned || warned && !strings.Contains(got[0], "has no effect any more: where not all of the policy fits, nothing new of it is enforced, and what is in force stays") {
			t.Errorf("%q: %v", value, got)
		}
	}
	if got := AnnotationWarnings(nil); got != nil {
		t.Errorf("none: %v", got)
	}
}
