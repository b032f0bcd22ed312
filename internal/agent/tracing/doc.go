// Package tracing follows the Traceflows of a cluster on a Node: it sends the packet of a Traceflow
// that begins here, chooses which packets the kernel traces, and reports the path of each on this
// Node.
//
// It promises:
//
//   - Nothing is traced, and no link and rule is there, while no Traceflow runs. The kernel removes
//     both when the process ends.
//   - A Node reports what its rules have done with a packet, as the kernel traced it, once for each
//     Traceflow.
//   - The controller bounds the number of Traceflows, by giving each a tag. Trace events that the
//     kernel sends faster than they are read are dropped; the Traceflow then ends by its timeout.
//
// Traces is for one goroutine, that of Run.
package tracing
