package v1alpha1

// ConditionFaulty (account): True while a fault of the program, a panic that was recovered, keeps
// something from being done. It goes away by itself when the cause is gone.
const ConditionFaulty = "Faulty"

const (
	// ReasonPartlyRealized: the policies or VMs that the message names are left out, and the rest
	// is enforced.
	ReasonPartlyRealized = "PartlyRealized"
	// ReasonNotRealized: no change of the account is realized. What is in force stays.
	ReasonNotRealized = "NotRealized"
)
