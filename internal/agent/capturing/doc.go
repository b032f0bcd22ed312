// Package capturing follows the PacketCaptures of a cluster on a Node: it writes the packets that
// match into a file of the Node, in the format pcapng.
//
// It promises:
//
//   - A file is readable for the administrator of the Node only, is bounded in packets and bytes,
//     and goes when its PacketCapture does. All files together are bounded.
//   - Nothing is captured, and no rule is there, while no PacketCapture runs. The kernel removes
//     the rules when the process ends.
//   - A PacketCapture that was cut off by the end of the agent is reported as incomplete.
//
// Captures is for one goroutine, that of Run.
package capturing
