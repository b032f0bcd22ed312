package webhook

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
)

// TestPanicIsAnswered: an object that judging panics about is refused with the reason, and the next
// one is judged.
func TestPanicIsAnswered(t *testing.T) {
	odd := true
	h := &handler{hook: Hook{decide: func(context.Context, *states, *question) answer {
		if odd {
			panic("an odd object")
		}
		return answer{}
	}}}
	got, err := h.respond(t.Context(), &admissionv1.AdmissionRequest{UID: "1"})
	if err != nil || got.Allowed || got.Result == nil || !strings.Contains(got.Result.Message, "an odd object") {
		t.Errorf("%+v %v", got, err)
	}
	odd = false
	if got, err := h.respond(t.Context(), &admissionv1.AdmissionRequest{UID: "2"}); err != nil || !got.Allowed {
		t.Errorf("%+v %v", got, err)
	}
}
