// Package cloudtest is the conformance suite of the port in package cloud: what every adapter must
// do, checked over the wire against a simulated cloud that can be disturbed.
//
// An adapter's test calls Run with a function that makes a fresh World; the suite knows nothing of
// the cloud behind it but the port. It promises to leave no goroutines and to use no real time:
// what waits, waits on the clock that the World brings along.
//
// Concurrency: Run belongs to one test; a World must stand concurrent calls of its Provider, which
// one of the tests makes.
package cloudtest
