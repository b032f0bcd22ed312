// Package tracing follows the Traceflows of a cluster on a Node: it sends the packet of a Traceflow
// that begins here, chooses which packets the kernel traces, and reports the path of each on this
// Node.
//
// It promises:
//
//   - While no Traceflow runs, nothing is traced and there is neither a link nor a rule for it. The
//     kernel removes both when the process ends.
//   - A Node reports once for each Traceflow what its rules did with the packet, as the kernel
//     traced it.
//   - The controller bounds the number of Traceflows, by giving each a tag. Trace events that the
//     kernel sends faster than they are read are dropped; the Traceflow then ends by its timeout.
//
// Traces is for one goroutine, that of Run.
package tracing
