// Package proxy decides where connections to Services go on a Node. It is pure: no I/O, no clock,
// no goroutines.
//
// It owns Balance, which turns Services and EndpointSlices into the addresses, protocols and ports
// of each Service and its endpoints on this Node. Package nft brings them into the kernel.
//
// It promises:
//
//   - Balance is a function of its input, whatever the order of the objects.
//   - An endpoint that is not ready is never chosen while a ready one may be; one that ends is
//     chosen only while no ready one is left.
//   - An object with impossible values is left out alone.
package proxy
