// Package netfilter talks to the netfilter subsystems of the kernel over netlink.
//
// It owns the Socket (batches of any size with one answer, dumps, and unsolicited events of a
// subsystem) and the attributes of messages. The meaning of messages belongs to its users. A Socket
// is used by one goroutine at a time, but for Close.
package netfilter
