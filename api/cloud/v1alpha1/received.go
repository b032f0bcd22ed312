package v1alpha1

// ConditionPoliciesReceived (account): whether what a foreign Antrea Controller computes for the
// account is received; there is none where policies are computed by the controller itself.
const ConditionPoliciesReceived = "PoliciesReceived"

// ReasonPolicyServerAway: nothing has come for a while, because the Antrea Controller does not
// answer.
const ReasonPolicyServerAway = "PolicyServerAway"
