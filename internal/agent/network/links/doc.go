// Package links configures the network of a Node in the kernel, and reads it back, by netlink. It
// decides nothing: package network decides the wanted state and the steps to it.
//
// It promises:
//
//   - Each step succeeds or fails in bounded time, and can be repeated.
//   - It recognizes what is ours: the VXLAN device and the links to Pods by their names, routes by
//     their route protocol, and the addresses and neighbors of the device.
package links
