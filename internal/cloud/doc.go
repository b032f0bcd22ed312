// Package cloud is the port between Nephele's loops and the clouds: what a cloud looks like at one
// moment (Snapshot), what may be done to it (Op), the adapter that does it (Provider) and how its
// failures are classified (Class).
//
// It owns data types only. Everything here is a value: a Snapshot is never changed after it was
// returned by Observe, an Op is built by the planner, printed, and applied at most once per plan.
// Values are safe for concurrent reading. The only behaviour a provider has is Observe, Lower and
// Apply; Lower is pure.
//
// # Adding a cloud
//
//  1. Write the adapter in internal/cloud/NAME: a Provider (observe, apply, limits) with errors
//     classified once, and the pure plan.Lowerer in internal/cloud/NAME/lower.
//  2. Give the simulator the cloud's wire protocol in internal/sim, on the same world, without
//     sharing code with the adapter.
//  3. Make the suite of internal/cloud/cloudtest pass over the wire, with every fault at every
//     call.
//  4. Document what a policy means there, what is refused, and which rights the credentials need;
//     let the simulator enforce those rights.
//  5. Add the cloud to the table Clouds of internal/controller.
package cloud
