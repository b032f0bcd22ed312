// Package reach answers which machines reach which, for all peers at once. evaluate.Evaluator
// answers the same question for one flow.
//
// It owns the meaning of computed policies as sets. One direction of one endpoint, for one service,
// is cut into parts: sets of peer addresses that the same rule decides in the same way. Endpoints
// with the same rules are one class and are computed once, so an answer about 10,000 machines costs
// what its classes cost. With a snapshot of a cloud, the machine's own security groups decide the
// flows that the policies leave to them.
//
// It promises to agree with evaluate.Evaluator about every flow whose packets carry an address,
// come from a source port that no rule names, and are sent to the destination's own address, not to
// the address of a Service. IGMP is answered as one protocol: a rule about a type or group of IGMP
// makes the answer Unknown.
//
// All functions are pure: no I/O, no clock, no goroutines. A World is immutable after New and may
// be used by many goroutines; callers must not modify what it returns.
package reach
