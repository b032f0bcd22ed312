// Package traceflow runs the Traceflows of a cluster from the side of the controller: it finds out
// which addresses a Traceflow is about and which Node begins, gives it one of few tags, and ends it
// when the Nodes have told all, or its time is over.
//
// It promises:
//
//   - Of the Traceflows that run no two have the same tag, and no more run than there are tags; the
//     others wait in the order in which they were made.
//   - A controller that starts goes on with what a former one has begun: all is in the status.
//   - PacketCaptures are assigned to Nodes in the same way, a few to each Node at once.
//   - It writes no results, and the only other thing that it writes of a Traceflow is its state.
//
// Controller is for one goroutine, that of Start.
package traceflow
