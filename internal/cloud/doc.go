// Package cloud is the port between Nephele's loops and the clouds: what a cloud looks like at one
// moment (Snapshot), what may be done to it (Op), who does it (Provider) and how its failures are
// classified (Class).
//
// It owns data types only. Everything here is a value: a Snapshot is never changed after it was
// returned by Observe, an Op is built by the planner, printed, and applied at most once per plan.
// Values are safe for concurrent reading. The only behaviour a provider has is Observe, Lower and
// Apply; Lower is pure.
package cloud
