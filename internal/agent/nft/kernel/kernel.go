package kernel

import (
	"errors"
	"fmt"
	"net/netip"
)

// DefaultTable is the name of the table.
const DefaultTable = "nephele"

// Errors that say what is the matter with the table.
var (
	// ErrOwned: another process has the table open.
	ErrOwned = errors.New("another process owns the table; is there a second agent on this host?")
	// ErrRights: the process may not configure the network.
	ErrRights = errors.New("the process may not change the rules of the kernel: it needs CAP_NET_ADMIN")
	// ErrUnlabelled: connections that are older than the first rules of the agent cannot be cut.
	ErrUnlabelled = errors.New("connections that were there before the agent's rules cannot be ended")
	// ErrLog: what rules log cannot be received.
	ErrLog = errors.New("another process receives what rules log, or this one may not: it needs CAP_NET_ADMIN")
	// ErrUnsupported: the kernel has no nftables.
	ErrUnsupported = errors.New("the kernel has no nftables (nf_tables with family inet)")
)

// Written says what Apply has done.
type Written struct {
	// Read tells that everything was read first.
	Read bool
	// Whole tells that the table was replaced, because it was not of our making.
	Whole bool
	// Chains, Rules and Elements count what was written, deleted elements included.
	Chains, Rules, Elements int
	// Messages is the size of the transaction; 0 if nothing had to be written.
	Messages int
}

// Filter is a chain of somebody else that traffic of the host passes as well. What it drops is
// dropped whatever our rules say.
type Filter struct {
	// Family is "ip", "ip6" or "inet".
	Family, Table, Chain string
	// Hook is "input" or "output".
	Hook string
	// Drops tells that it drops what none of its rules decides.
	Drops bool
	// Rules counts the rules of its table.
	Rules int
}

// String is the filter for people.
func (f Filter) String() string {
	out := fmt.Sprintf("chain %s of table %s %s filters %s, with %d rules", f.Chain, f.Family, f.Table, f.Hook, f.Rules)
	if f.Drops {
		out += "; what none of them decides it drops"
	}
	return out
}

// Queued is a packet that waits to be let go.
type Queued struct {
	Source, Destination netip.AddrPort
	Protocol            uint8
	// Payload is what it carries behind the headers of UDP or TCP.
	Payload []byte
	// Sequence is the number of the first byte of Payload in a stream of TCP, or the one before the
	// first byte of the stream if it begins with this packet. Ends tells that nothing follows.
	Sequence     uint32
	Begins, Ends bool
}

// Logged is a packet that a rule has logged.
type Logged struct {
	// Rule is the LogID of the rule.
	Rule                string
	Source, Destination netip.Addr
	Protocol            uint8
	// SourcePort and Port are 0 of protocols without ports.
	SourcePort, Port uint16
	// Length is that of the packet in bytes.
	Length int
}
