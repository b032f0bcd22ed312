package flows

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Window is the time that a row sums up.
const Window = time.Minute

// Key is what connections have in common that one row sums up.
type Key struct {
	// Minute is the beginning of the window, in UTC.
	Minute time.Time
	// Account, Region and Interface say where it was seen, as Record does.
	Account, Region, Interface string
	// Direction is that of the first packet: cloud.Egress if the end at the interface began the
	// connection.
	Direction cloud.Direction
	// Client began the connection, Server was asked.
	Client, Server netip.Addr
	Protocol       uint8
	// Port is the one of the server; 0 for protocols without ports.
	Port uint16
	// Accepted is false if the first packet was dropped.
	Accepted bool
	// Guessed tells that nothing showed which end began the connection: it is the one with the
	// higher port.
	Guessed bool
	// Midway tells that the beginning of the connection was not seen, and so that it may be older
	// than the window.
	Midway bool
	// Rule, ACL and Refused come from the record.
	Rule, ACL, Refused string
	// ClientService and ServerService name the services of the cloud that the ends belong to.
	ClientService, ServerService string
}

// Row sums up connections.
type Row struct {
	Key
	// Connections counts those with different ports of the client. A connection over several
	// windows counts in each.
	Connections int
	// Packets and Bytes count what the client sent, ReplyPackets and ReplyBytes what it got.
	Packets, Bytes, ReplyPackets, ReplyBytes uint64
	// ReplyDropped tells that answers were dropped, which only filters without a memory do.
	ReplyDropped bool
}

// Other is the address that is not at the interface.
func (r *Row) Other() netip.Addr {
	if r.Direction == cloud.Egress {
		return r.Server
	}
	return r.Client
}

// Own is the address at the interface.
func (r *Row) Own() netip.Addr {
	if r.Direction == cloud.Egress {
		return r.Client
	}
	return r.Server
}

// Turn takes the other end for the one that began the connections. Only rows without ports can be
// turned: of others the port of the client is not kept.
func (r *Row) Turn() {
	r.Client, r.Server, r.Direction = r.Server, r.Client, opposite(r.Direction)
	r.ClientService, r.ServerService = r.ServerService, r.ClientService
	r.Packets, r.Bytes, r.ReplyPackets, r.ReplyBytes = r.ReplyPackets, r.ReplyBytes, r.Packets, r.Bytes
}

// Compare orders rows by time, then by place, then by ends.
func Compare(a, b *Row) int {
	return cmp.Or(
		a.Minute.Compare(b.Minute), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Interface, b.Interface),
		cmp.Compare(a.Direction, b.Direction), a.Client.Compare(b.Client), a.Server.Compare(b.Server), cmp.Compare(a.Protocol, b.Protocol),
		cmp.Compare(a.Port, b.Port), compareBool(a.Accepted, b.Accepted), compareBool(a.Guessed, b.Guessed), compareBool(a.Midway, b.Midway),
		cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.ACL, b.ACL), cmp.Compare(a.Refused, b.Refused), cmp.Compare(a.ClientService, b.ClientService),
		cmp.Compare(a.ServerService, b.ServerService),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Sort orders rows as Compare does.
func Sort(rows []Row) {
	slices.SortFunc(rows, func(a, b Row) int { return Compare(&a, &b) })
}
