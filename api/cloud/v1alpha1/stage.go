package v1alpha1

// AnnotationStage on a NetworkPolicy or ClusterNetworkPolicy of crd.antrea.io says that it is not
// to be enforced yet: StagePlan. A user that may change a policy may set it, because that user may
// delete the policy. On other kinds it is not heeded.
const AnnotationStage = "nephele.io/stage"

// StagePlan is the value of AnnotationStage with which a policy is shown by commands that are asked
// for staged policies, and not enforced. A policy with any other value is enforced; admission
// refuses those.
const StagePlan = "plan"
