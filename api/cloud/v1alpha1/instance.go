package v1alpha1

// AnnotationTakeOver on a CloudProviderAccount makes this instance of the controller go on in the
// account although another one with the same cluster id writes there. Its value is the epoch of the
// other one, status.otherInstance; any other value does nothing. It is removed when that is done.
const AnnotationTakeOver = "nephele.io/take-over"

// ConditionSoleWriter (account): True while no other instance of the controller with the same
// cluster id writes to the account. False: one does, and this one writes nothing until it is told
// to take over. Unknown: it is being watched for, or it could not see this one.
const ConditionSoleWriter = "SoleWriter"

// The reasons of ConditionSoleWriter beside ReasonOK and ReasonPending.
const (
	// ReasonAnotherInstance: another process with the same cluster id writes to the account.
	ReasonAnotherInstance = "AnotherInstance"
	// ReasonNotMarked: the cloud does not let us mark the networks that we claim. Policies are
	// enforced all the same.
	ReasonNotMarked = "NotMarked"
)
