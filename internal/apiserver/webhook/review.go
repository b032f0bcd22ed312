package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/internal/policy"
)

// maxReview is the size of the largest question in bytes: an object and the former one, each as large as the API server takes
// them, and what is around them.
const maxReview = 8 << 20

// question is what the API server asks.
type question struct {
	operation   admissionv1.Operation
	namespace   string
	object, old []byte
}

// answer is what it is told. Without errs and err the object is accepted.
type answer struct {
	// errs are what is wrong with the object; form says that it is the form, which is otherwise for the schema to refuse.
	errs []policy.FieldError
	form bool
	// err is why it cannot be decided.
	err error
	// patch completes the object.
	patch    []operation
	warnings []string
}

// operation is one step of a JSON patch that adds.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value string `json:"value"`
}

// handler answers the questions of one hook.
type handler struct {
	hook  Hook
	state *states
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review, status, err := readReview(w, r)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	review.Response, err = h.respond(r, review.Request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	review.Request = nil
	raw, err := json.Marshal(review)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// An error means that the caller has gone.
	_, _ = w.Write(raw)
}

// readReview reads a question. Both versions have the same fields.
func readReview(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionReview, int, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, http.StatusMethodNotAllowed, fmt.Errorf("%s: want POST with an AdmissionReview", r.Method)
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the AdmissionReview is larger than %d bytes", maxReview)
	case err != nil:
		return nil, http.StatusBadRequest, fmt.Errorf("read the AdmissionReview: %w", err)
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(raw, review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("not an AdmissionReview: %w", err)
	}
	v1, v1beta1 := admissionv1.SchemeGroupVersion.String(), admissionv1beta1.SchemeGroupVersion.String()
	switch {
	case review.Kind != "AdmissionReview" || review.APIVersion != v1 && review.APIVersion != v1beta1:
		return nil, http.StatusBadRequest, fmt.Errorf("%q of %q: want an AdmissionReview of %s or %s", review.Kind, review.APIVersion, v1, v1beta1)
	case review.Request == nil:
		return nil, http.StatusBadRequest, errors.New("the AdmissionReview has no request")
	}
	return review, 0, nil
}

func (h *handler) respond(r *http.Request, in *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	a := h.hook.decide(r.Context(), h.state, &question{
		operation: in.Operation, namespace: in.Namespace, object: in.Object.Raw, old: in.OldObject.Raw,
	})
	out := &admissionv1.AdmissionResponse{UID: in.UID, Warnings: a.warnings}
	switch {
	case len(a.errs) > 0:
		out.Result = refusal(a.errs, a.form)
	case a.err != nil:
		out.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
			Message: "it cannot be decided whether this is valid, try again: " + a.err.Error(),
		}
	default:
		out.Allowed = true
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
	s := &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest,
		Message: policy.JoinErrors(errs), Details: &metav1.StatusDetails{},
	}
	if form {
		s.Code, s.Reason = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
	}
	for _, e := range errs {
		s.Details.Causes = append(s.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseTypeFieldValueInvalid, Field: e.Field, Message: e.Detail(),
		})
	}
	return s
}
