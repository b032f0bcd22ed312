// Package netfilter talks to the netfilter subsystems of the kernel over netlink.
//
// It owns the Socket: batches of any size with one answer, dumps, and what a subsystem sends by
// itself; and the attributes of messages. What the messages mean, its users know. A Socket is used
// by one goroutine at a time, but for Close.
package netfilter
