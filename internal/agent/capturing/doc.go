// Package capturing follows the PacketCaptures of a cluster on a Node: it writes the packets that
// match into a file of the Node, in the format pcapng.
//
// It promises:
//
//   - A file is readable for the administrator of the Node only, is bounded in packets and bytes,
//     and goes when its PacketCapture does. All files together are bounded.
//   - While no PacketCapture runs, nothing is captured and there are no rules for it. The kernel
//     removes the rules when the process ends.
//   - A PacketCapture that the end of the agent interrupted is reported as incomplete.
//
// Captures is for one goroutine, that of Run.
package capturing
