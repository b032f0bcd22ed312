package v1alpha1

// LabelAllowIsolates on an AntreaAgentInfo, with the value "true", is set by an agent for which an
// Allow rule isolates: in a direction to which one applies, it drops what no rule allows. Without
// it an Antrea Agent is meant, for which it does not. Only what is shown to people depends on it.
const LabelAllowIsolates = "nephele.io/allow-isolates"
