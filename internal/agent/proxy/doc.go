// Package proxy says where connections to Services go on a Node. It is pure: no I/O, no clock, no
// goroutines.
//
// It owns Balance, which makes of Services and EndpointSlices what package nft brings into the
// kernel: by which address, protocol and port a Service is reached, and which endpoints it has
// there.
//
// It promises:
//
//   - Balance is a function of its input, and does not depend on the order of it.
//   - An endpoint that is not ready is never chosen while a ready one may be; one that ends is chosen
//     only while no ready one is left.
//   - Objects that say what cannot be are left out, and no other one with them.
package proxy
