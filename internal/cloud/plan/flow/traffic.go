package flow

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
)

// Traffic is what one class of interfaces must allow, in the terms of a cloud's rules: addresses,
// groups and lists.
type Traffic struct {
	Ingress, Egress []Cell
}

// Cell is what is allowed for one service. The cells of a direction are disjoint, and together they
// are all packets.
type Cell struct {
	Service Service
	// Addrs are the allowed addresses that must be named as CIDRs. Cells of ICMP hold IPv4
	// addresses only, cells of ICMPv6 IPv6 addresses only.
	Addrs addrset.Set
	// Groups are the allowed security groups and opaque prefix lists, sorted.
	Groups []cloud.Peer
	// Idle are groups for which it makes no difference whether the service is allowed: their
	// members cannot send or receive it (an address family they do not have), or other rules allow
	// it.
	Idle []cloud.Peer
}

// Cells returns the cells of a direction.
func (t Traffic) Cells(d cloud.Direction) []Cell {
	if d == cloud.Ingress {
		return t.Ingress
	}
	return t.Egress
}
