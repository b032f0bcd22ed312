// Package agent guards a host: it enforces on the host itself what was computed for the key of its
// ExternalNode.
//
// It is one more enforcer. It receives computed policies through package enforcer, makes a program
// of them with package nft, brings it into the kernel with package kernel, and reports what became
// of each policy. It promises:
//
//   - What was last enforced stays so, without limit, while the server cannot be reached, while
//     this process does not run, and after a restart of the host: what is enforced is kept on disk
//     as well, with a checksum, and is loaded before anything is received.
//   - A policy that cannot be expressed is refused as a whole, with the reason in its status. If it
//     was enforced in a former version, that version stays. No other policy is affected.
//   - What others change of our table is put right within two seconds. The table goes only by
//     Uninstall.
//   - Failsafe flows cannot be cut by any policy.
//
// One goroutine, that of Agent.Run, decides and writes. All other methods read what it has left and
// may be called from anywhere.
package agent
