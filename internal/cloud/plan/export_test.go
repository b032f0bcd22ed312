package plan

// Foretold identifies the state that the plan leads to, as the planner sees it before.
func (in Input) Foretold(p Plan) string { return in.applied(p).fingerprint() }

// Fingerprint identifies the observed state.
func (in Input) Fingerprint() string { return in.fingerprint() }
