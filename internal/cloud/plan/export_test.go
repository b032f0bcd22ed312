package plan

// Foretold identifies the state that the plan leads to, as the planner sees it before.
func (in Input) Foretold(p Plan) string { return in.applied(p).fingerprint() }

// Fingerprint identifies the observed state.
func (in Input) Fingerprint() string { return in.fingerprint() }

// Told reports whether a type and code of ICMP or ICMPv6 stays open where others are taken out of the whole protocol; see thriftyTypes.
func Told(protocol, port int) bool {
	types, icmp := toldTypes[protocol]
	return !icmp || port&0xff < types[port>>8]
}
