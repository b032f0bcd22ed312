// Package traceflow runs the Traceflows of a cluster in the controller: it finds the addresses of a
// Traceflow and the Node where it begins, gives it one of a few tags, and ends it when all Nodes
// have reported, or its time is over.
//
// It promises:
//
//   - No two running Traceflows have the same tag, and no more run than there are tags; the others
//     wait in the order in which they were created.
//   - A new controller continues the Traceflows of the former one: their status holds everything.
//   - PacketCaptures are assigned to Nodes in the same way, a few to each Node at once.
//   - Of a Traceflow it writes only the state, never results.
//
// Controller is for one goroutine, that of Start.
package traceflow
