package aws

import "time"

// Mutation describes one committed mutation to the hooks of OnMutation.
type Mutation struct {
	Seq       uint64 // from 1, without holes
	Time      time.Time
	Account   string
	Region    string // empty for calls that are of no region
	Action    string // EC2 or STS action name, or the method of World that no action represents
	Resources []string
	// Cause is the caller that asked for it over the wire; nil for internal mutations.
	Cause *Cause
}

// Cause is the caller of a mutation, and the call. It is read only.
type Cause struct {
	// Request is the id of the call that the answer carries.
	Request string
	Caller  Credential
	// Params are the wire parameters of the call.
	Params map[string]string
	// Agent is what the client calls itself, Source the address that it called from.
	Agent, Source string
}
