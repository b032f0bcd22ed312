package network

import (
	"strings"
)

// Rate is how many bits a second pass; 0 for as many as come.
type Rate uint64

// The bounds of a Rate, as Kubernetes has them.
const (
	MinRate Rate = 1000
	MaxRate Rate = 1e15
)

// Shape is what passes by the link to a Pod.
type Shape struct {
	// Ingress is what the Pod receives, and Egress what it sends.
	Ingress, Egress Rate
}

// brakePrefix begins the names of the links by which what Pods send is slowed down.
const brakePrefix = "npb"

// BrakeName is the name of the link by which what comes over a link to a Pod is slowed down.
func BrakeName(end string) string { return brakePrefix + strings.TrimPrefix(end, EndPrefix) }

// IsBrake reports whether a name is one that BrakeName makes.
func IsBrake(name string) bool { return strings.HasPrefix(name, brakePrefix) }

// Bucket says how a rate is kept: in bytes a second, how many bytes pass at once, of what came in a
// tenth of a second and at least one packet of the largest size, and how many wait: what passes in
// 25 milliseconds.
func (r Rate) Bucket() (rate uint64, burst, limit uint32) {
	const minBurst, maxBurst, maxLimit = 65536 + 1500, 1 << 28, 1 << 29
	rate = uint64(r / 8)
	burst = uint32(min(max(rate/10, minBurst), maxBurst))
	return rate, burst, uint32(min(rate/40+uint64(burst), maxLimit))
}
