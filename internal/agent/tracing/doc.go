// Package tracing follows the Traceflows of a cluster on a Node: it sends the packet of a Traceflow
// that begins here, chooses which packets the kernel traces, and tells what became of each on this
// Node.
//
// It promises:
//
//   - Nothing is traced, and no link and rule is there, while no Traceflow runs. The kernel removes
//     both when the process ends.
//   - What a Node tells is what rules have done with a packet, told by the kernel. Of each
//     Traceflow it tells once.
//   - Traceflows are bounded by the controller, which gives each a tag; what the kernel tells
//     faster than it is taken in is dropped, and the Traceflow then ends by its timeout.
//
// Traces is for one goroutine, that of Run.
package tracing
