// Package links brings the network of a Node into the kernel, and reads it back, by netlink. It
// decides nothing: package network decides what is wanted, and which steps lead there.
//
// It promises:
//
//   - Each step is done or fails, in bounded time, and can be done twice.
//   - Only what is ours is read as such: the device of VXLAN and the links to Pods by their names,
//     routes by their mark, and what is on the device.
package links
