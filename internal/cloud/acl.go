package cloud

import (
	"context"
	"net/netip"
)

// NetworkACL filters what crosses the border of a subnet, whatever the groups of interfaces allow:
// a network ACL of AWS, or the network security group of a subnet of Azure. Nothing of ours writes
// one.
type NetworkACL struct {
	ID, Name  string
	SubnetIDs []string
	// Stateful is true if what answers a packet that was let through needs no entry. Such a filter
	// is asked within a subnet, too.
	Stateful bool
	// Entries are asked in the order of their numbers; the first that matches decides. Where none
	// does, the packet is denied.
	Entries []ACLEntry
}

// ACLEntry is one entry of a NetworkACL.
type ACLEntry struct {
	Number int
	// Name is what its owner calls it; empty where entries have numbers only.
	Name   string
	Egress bool
	Allow  bool
	// Protocol is 0..255, or AnyProtocol. Of TCP and UDP From and To are ports, of ICMP type and
	// code, where -1 is any.
	Protocol, From, To int
	// Peers are the addresses of the other end. Own are those in the subnet that it is about; nil
	// are all.
	Peers, Own []netip.Prefix
	// Unsure is true if it may match less than it says here, and no one knows how much: it names a
	// service whose addresses are not known, or source ports.
	Unsure bool
}

// ACLReader is a Provider that can read network ACLs that do not come with its snapshots.
type ACLReader interface {
	// NetworkACLs returns all of a region. Errors are *Error.
	NetworkACLs(ctx context.Context, s Scope) ([]NetworkACL, error)
}
