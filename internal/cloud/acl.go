package cloud

import (
	"context"
	"net/netip"
)

// NetworkACL filters what crosses the border of a subnet, whatever the groups of interfaces allow.
// Nothing of ours writes one.
type NetworkACL struct {
	ID        string
	SubnetIDs []string
	// Entries are asked in the order of their numbers; the first that matches decides. Where none
	// does, the packet is denied.
	Entries []ACLEntry
}

// ACLEntry is one entry of a NetworkACL.
type ACLEntry struct {
	Number int
	Egress bool
	Allow  bool
	// Protocol is 0..255, or AnyProtocol. Of TCP and UDP From and To are ports, of ICMP type and
	// code, where -1 is any.
	Protocol, From, To int
	CIDR               netip.Prefix
}

// ACLReader is a Provider that can read network ACLs. They are no part of snapshots, because no
// plan depends on them.
type ACLReader interface {
	// NetworkACLs returns all of a region. Errors are *Error.
	NetworkACLs(ctx context.Context, s Scope) ([]NetworkACL, error)
}
