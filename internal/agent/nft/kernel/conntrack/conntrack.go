// Package conntrack reads and changes what the kernel knows of connections.
//
// It owns the Connections of the host, which it cuts where a program does not allow them and adopts
// where they are older than the rules, and the EventReader, which reports connections that begin
// and end and finds connections whose events the kernel has dropped. A Program of package nft
// decides how packets would be judged. Connections are safe for concurrent use; one goroutine runs
// an EventReader.
package conntrack

import (
	"errors"

	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// ErrUnlabelled: connections that are older than the first rules of the agent cannot be cut.
var ErrUnlabelled = errors.New("connections that were there before the agent's rules cannot be ended")

// Event tells that a connection has begun, after all rules have let its first packet pass, or that
// conntrack has forgotten it.
type Event struct {
	Ended bool
	// Packet is the first packet as rules see it: after its destination was translated, and before
	// its source is.
	Packet ruleset.Packet
	// Way is where the first packet goes.
	Way ruleset.Way
	// Expected tells that it belongs to another connection, as the data of FTP do.
	Expected bool
	// PickedUp tells that conntrack has not seen the connection being made, so that the other end
	// may have made it.
	PickedUp bool
	// Found tells that the kernel dropped the event of its beginning, and that the connection was
	// found afterwards: it may be some seconds old.
	Found bool
	// The counts are of a connection that has ended, both ways; 0 unless the kernel counts.
	Packets, Bytes, ReplyPackets, ReplyBytes uint64
}
