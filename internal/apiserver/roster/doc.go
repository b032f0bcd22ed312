// Package roster holds which Pods run on which Node, and lets the agent of a Node list and watch
// its own ones: what of a Pod is in a LocalPod, and no more.
//
// A list is whole, as of one moment. Before everything is known there is none: a watch or list
// fails with ErrNotReady, so that no agent takes a controller that has just started for a Node
// without Pods. A watch goes on from the position of a list or of a former watch of the same Index,
// and sends each Pod that has changed once, as it is now, in the order of the last changes: a slow
// receiver gets fewer changes and costs no memory. A receiver that goes on in the middle may get a
// change or the end of a Pod that it has never received. A position that is too old or of another
// Index fails with ErrExpired: its receiver lists anew.
//
// What it costs is in proportion to the Pods that there are, besides maxTombstones names for each
// Node with Pods or a watch. A Pod that shares the addresses of its Node, or has ended, is none
// here.
//
// Index is safe for concurrent use. What it hands out shares lists with other answers and must not
// be modified.
package roster
