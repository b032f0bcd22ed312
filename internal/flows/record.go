package flows

import (
	"net/netip"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Record is what one interface saw of the packets from one address and port to another, within a
// window of time. The answers to these packets are another record, if the source tells them apart.
type Record struct {
	// Start and End are the window.
	Start, End time.Time
	// Account is the cloud's own account number, Region its region; each is empty if the log does
	// not say.
	Account, Region string
	// Interface is the ID of the interface, in the words of the cloud.
	Interface string
	// Direction is which way the packets crossed the interface; empty if the log does not say.
	Direction cloud.Direction
	// Source and Destination are the addresses that the packets had where they began and where they
	// end, as far as the log tells.
	Source, Destination netip.Addr
	// SourcePort and DestinationPort are 0 for protocols without ports.
	SourcePort, DestinationPort uint16
	// Protocol is the number of IANA.
	Protocol uint8
	// Begins tells which end began the connection, where the record itself shows it.
	Begins Beginning
	// Fresh tells that the record holds the first packet, or its answer.
	Fresh bool
	// Accepted is false if the packets were dropped.
	Accepted bool
	// Packets and Bytes count the packets of the record. ReplyPackets and ReplyBytes count the
	// answers, for logs with both in one record.
	Packets, Bytes, ReplyPackets, ReplyBytes uint64
	// Rule is the rule that decided, for clouds that tell it, and ACL is what holds the rule.
	Rule, ACL string
	// Refused is the cloud's word for why it dropped packets, other than groups and network ACLs.
	Refused string
	// SourceService and DestinationService name the service of the cloud that an address belongs
	// to.
	SourceService, DestinationService string
}

// Beginning is which end of a record's packets began the connection.
type Beginning uint8

// The beginnings.
const (
	// BeginsUnknown: the record does not show it.
	BeginsUnknown Beginning = iota
	// BeginsSource: the packets are from the end that began it.
	BeginsSource
	// BeginsDestination: the packets are answers.
	BeginsDestination
)

// Gap is a window in which a source did not, or could not, tell what an interface saw.
type Gap struct {
	Interface  string
	Start, End time.Time
	// Lost is true if there was traffic that is not told, and false if there was none.
	Lost bool
}
