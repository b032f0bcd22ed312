package plan

import "slices"

// Foretold identifies the state that the plan leads to, as the planner sees it before.
func (in Input) Foretold(p Plan) string { return in.applied(p).fingerprint() }

// Fingerprint identifies the observed state.
func (in Input) Fingerprint() string { return in.fingerprint() }

// Told reports whether a protocol, or a type and code of ICMP or ICMPv6, stays open where others are taken out of all of them; see thrifty and
// thriftyTypes.
func Told(protocol, port int) bool {
	if types, icmp := toldTypes[protocol]; icmp {
		return port&0xff < types[port>>8]
	}
	return slices.Contains(told[:], protocol)
}
