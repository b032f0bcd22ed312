// Package network says what the network of a Node is: which addresses its Pods get, and which
// links, routes and neighbours the kernel of the Node must have for its Pods to reach those of
// other Nodes. It is pure: no I/O, no goroutines, and the time is given.
//
// It owns Pool, which gives Pods addresses out of the podCIDRs of the Node; Make, which says what
// is wanted of the kernel; and Difference, which says what must be done to get there. Package links
// does that in a kernel and reads it back.
//
// It promises:
//
//   - Make and Difference are functions of their input. Who starts anew with the same input wants
//     the same, and nothing is done where all is there.
//   - What is wanted comes before what is not wanted any more goes, and a route that leads elsewhere
//     is replaced at once, so that no packet is lost between.
//   - An address is one Pod's until that Pod is gone, and rests before it is another's.
//   - What is not in the kernel by us is neither changed nor removed.
package network
