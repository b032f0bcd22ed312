// Package roster knows which Pods run on each Node, and lets the agent of a Node list and watch its
// own Pods, reduced to the fields of LocalPod.
//
// A list is complete, as of one moment. Until all Pods are known, a watch or list fails with
// ErrNotReady, so an agent of a controller that has just started does not take its Node to be
// empty. A watch goes on from the position of a list or of a former watch of the same Index, and
// sends each Pod that has changed once, as it is now, in the order of the last changes: a slow
// receiver gets fewer changes and costs no memory. A watch that resumes may deliver a change or the
// deletion of a Pod that the receiver has never seen. A position that is too old or of another
// Index fails with ErrExpired; the receiver then lists again.
//
// Its cost is proportional to the number of Pods, plus maxTombstones names for each Node with Pods
// or a watch. A Pod that shares the addresses of its Node, or has ended, is left out.
//
// Index is safe for concurrent use. What it hands out shares lists with other answers and must not
// be modified.
package roster
