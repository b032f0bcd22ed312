// Package v1alpha1 is the API group analysis.nephele.io: questions about what policies do, which
// are created, answered at once and never stored, as a SubjectAccessReview is.
//
// It owns the Go types as they are on the wire, in JSON. The status of a FlowReview is what
// "nephele explain -o json" prints, that of a ReachReview what "nephele reach -o json" prints, that
// of an EffectiveRules what "nephele rules -o json" prints, and that of a PlanReview what
// "nephele plan -o json" prints.
//
// Who may create a review is decided by RBAC, for each kind. What the answer tells is bounded by
// what the caller may read besides: of a Namespace whose network policies he may not list, nothing
// is told but addresses that he named himself, and its machines count as if they let everything
// through. Limited in a status says that something was left out for that reason.
//
// The types are plain values: as safe for concurrent use as any struct, that is, for readers only.
//
// +kubebuilder:object:generate=true
// +groupName=analysis.nephele.io
package v1alpha1
