// Package v1alpha1 is the API group analysis.nephele.io: questions about what policies do, which
// are created, answered at once and never stored, as a SubjectAccessReview is.
//
// It owns the Go types as they are on the wire, in JSON. They are the one model of answers:
// packages explain and preview fill them, and "nephele explain", "reach", "rules" and "plan" print
// them with "-o json", without what an answer was made from (Seen). docs/reference/answers.md is
// generated from them.
//
// RBAC decides, for each kind, which callers may create a review. The answer is bounded by what the
// caller may read: of a Namespace whose network policies the caller may not list, it shows only
// addresses that the question named, and machines there count as if they let everything through.
// Limited in a status says that something was left out for that reason.
//
// Besides the reviews there are the kinds of enforcers: TrafficReport, which they send, and
// LocalPod, which a Node lists and watches.
//
// The types are plain values: as safe for concurrent use as any struct, that is, for readers only.
//
// +kubebuilder:object:generate=true
// +groupName=analysis.nephele.io
package v1alpha1
