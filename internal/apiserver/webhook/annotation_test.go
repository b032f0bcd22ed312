package webhook

import (
	"strings"
	"testing"
)

func TestAnnotationWarnings(t *testing.T) {
	for value, warned := range map[string]bool{"keep": false, "tighten": false, "widen": true, "": true, "Tighten": true} {
		got := AnnotationWarnings(map[string]string{"nephele.io/on-refusal": value})
		if (len(got) == 1) != warned || warned && !strings.HasPrefix(got[0], "metadata.annotations[nephele.io/on-refusal]: want keep or tighten, not ") {
			t.Errorf("%q: %v", value, got)
		}
	}
	if got := AnnotationWarnings(nil); got != nil {
		t.Errorf("none: %v", got)
	}
}
