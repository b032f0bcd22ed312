// Package v1alpha1 is the API group analysis.nephele.io: questions about what policies do, which
// are created, answered at once and never stored, as a SubjectAccessReview is.
//
// It owns the Go types as they are on the wire, in JSON. They are the one model of answers: what
// explains and plans fills them, and "nephele explain", "reach", "rules" and "plan" print them with
// "-o json", without what an answer was made from (Seen). docs/reference/answers.md is generated
// from them.
//
// Who may create a review is decided by RBAC, for each kind. What the answer tells is bounded by
// what the caller may read besides: of a Namespace whose network policies he may not list, nothing
// is told but addresses that he named himself, and its machines count as if they let everything
// through. Limited in a status says that something was left out for that reason.
//
// Besides the reviews there are the kinds of enforcers: TrafficReport, which they send, and
// LocalPod, which a Node lists and watches.
//
// The types are plain values: as safe for concurrent use as any struct, that is, for readers only.
//
// +kubebuilder:object:generate=true
// +groupName=analysis.nephele.io
package v1alpha1
