package v1alpha1

// ConditionFlowLogsRead (account): every bucket of flow logs was read at the latest attempt, holds
// files, and has the fields that exact answers need. While it is False the message names the
// bucket, what is wrong, and the command that puts it right. Absent while the account names no
// bucket.
const ConditionFlowLogsRead = "FlowLogsRead"

const (
	// ReasonBucketNotFound: there is no bucket, or container, of that name.
	ReasonBucketNotFound = "BucketNotFound"
	// ReasonNoFiles: nothing there is a file of a flow log of the account that was written within a
	// day.
	ReasonNoFiles = "NoFiles"
	// ReasonFieldsMissing: a flow log lacks fields. What it tells is kept, and marked as a guess
	// where it is one; without fields that are needed it tells nothing.
	ReasonFieldsMissing = "FieldsMissing"
)
