package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/nephele-io/nephele/internal/platform/recovered"
	"github.com/nephele-io/nephele/internal/policy"
)

// maxTold is how many faults of one object an answer names: enough to go on with, few enough that
// the answer is never large.
const maxTold = 50

// maxMessage and maxCause are how long, in bytes, the message about all faults and that about one
// may become: what is wrong may be long.
const maxMessage, maxCause = 32 << 10, 1 << 10

// question is what the API server asks.
type question struct {
	operation   admissionv1.Operation
	namespace   string
	object, old []byte
}

// answer is the response to one review. Without errs and err the object is accepted.
type answer struct {
	// errs are what is wrong with the object; form says that it is the form, which is otherwise for
	// the schema to refuse.
	errs []policy.FieldError
	form bool
	// err is why it cannot be decided.
	err error
	// patch completes the object.
	patch    []operation
	warnings []string
}

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// handler answers the questions of one hook.
type handler struct {
	hook    Hook
	state   *states
	limits  *limits
	witness Witness
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, r.Method+": want POST with an AdmissionReview", http.StatusMethodNotAllowed)
		return
	}
	raw, done, err := h.limits.read(w, r)
	if err != nil {
		var limit *limitError
		if errors.As(err, &limit) {
			limit.tell(w)
			return
		}
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer done()
	review, err := decodeReview(raw)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), Timeout)
	defer cancel()
	review.Response, err = h.respond(ctx, review.Request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	review.Request = nil
	raw, err = json.Marshal(review)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// An error means that the caller has gone.
	_, _ = w.Write(raw)
}

// decodeReview decodes a question. Both versions have the same fields.
func decodeReview(raw []byte) (*admissionv1.AdmissionReview, error) {
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(raw, review); err != nil {
		return nil, fmt.Errorf("not an AdmissionReview: %w", err)
	}
	v1, v1beta1 := admissionv1.SchemeGroupVersion.String(), admissionv1beta1.SchemeGroupVersion.String()
	switch {
	case review.Kind != "AdmissionReview" || review.APIVersion != v1 && review.APIVersion != v1beta1:
		return nil, fmt.Errorf("%q of %q: want an AdmissionReview of %s or %s", review.Kind, review.APIVersion, v1, v1beta1)
	case review.Request == nil:
		return nil, errors.New("the AdmissionReview has no request")
	}
	return review, nil
}

func (h *handler) respond(ctx context.Context, in *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	var a answer
	fault := recovered.Do(func() {
		a = h.hook.decide(ctx, h.state, &question{
			operation: in.Operation, namespace: in.Namespace, object: in.Object.Raw, old: in.OldObject.Raw,
		})
	})
	if fault != nil { // the object says what, and the log where
		klog.FromContext(ctx).Error(fault, "Judging an object panicked", "resource", in.Resource.Resource, "namespace", in.Namespace, "name", in.Name, "stack", recovered.StackOf(fault))
		a = answer{err: fault}
	}
	out := &admissionv1.AdmissionResponse{UID: in.UID}
	for _, w := range a.warnings[:min(len(a.warnings), maxTold)] {
		out.Warnings = append(out.Warnings, shortened(w, maxCause))
	}
	switch {
	case len(a.errs) > 0:
		out.Result = refusal(a.errs, a.form)
		out.Result.Details.Name, out.Result.Details.Group, out.Result.Details.Kind = shortened(in.Name, maxCause), in.Resource.Group, in.Resource.Resource
	case a.err != nil:
		out.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
			Message: "it cannot be decided whether this is valid, try again: " + a.err.Error(),
		}
	default:
		out.Allowed = true
		h.saw(in)
		if len(a.patch) == 0 {
			return out, nil
		}
		patch, err := json.Marshal(a.patch)
		if err != nil {
			return nil, fmt.Errorf("encode the patch: %w", err)
		}
		kind := admissionv1.PatchTypeJSONPatch
		out.Patch, out.PatchType = patch, &kind
	}
	return out, nil
}

// unreadable says that an object has not even the types of its kind.
func unreadable(err error) answer {
	return answer{form: true, errs: []policy.FieldError{{Field: "object", Given: "what cannot be read", Want: "the form of its kind: " + err.Error()}}}
}

// refusal says what is wrong in one line, and field by field for programs.
func refusal(errs []policy.FieldError, form bool) *metav1.Status {
	told := errs[:min(len(errs), maxTold)]
	s := &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest,
		Message: policy.JoinErrors(told), Details: &metav1.StatusDetails{},
	}
	if more := len(errs) - len(told); more > 0 {
		s.Message += fmt.Sprintf("; and %d more", more)
	}
	s.Message = shortened(s.Message, maxMessage)
	if form {
		s.Code, s.Reason = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
	}
	for _, e := range told {
		s.Details.Causes = append(s.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseTypeFieldValueInvalid, Field: shortened(e.Field, maxCause), Message: shortened(e.Detail(), maxCause),
		})
	}
	return s
}

// shortened cuts a text to so many bytes.
func shortened(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
