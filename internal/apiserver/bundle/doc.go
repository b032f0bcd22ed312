// Package bundle serves the support bundle of the controller: the resource supportbundles of
// system.antrea.io/v1beta1 and its download.
//
// It owns the one bundle, in memory: one is made at a time, and the last one made stays for an
// hour. What a bundle has is the caller's (Write). A Storage may be used from anywhere; a goroutine
// of its own makes a bundle and ends with Destroy.
package bundle
