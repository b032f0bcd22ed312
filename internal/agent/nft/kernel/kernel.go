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
	ErrOwned = errors.New("another agent guards this host: it owns the table")
	// ErrRights: the process may not configure the network.
	ErrRights = errors.New("the process may not change the rules of the kernel: it needs CAP_NET_ADMIN")
	// ErrLog: what rules log cannot be received.
	ErrLog = errors.New("another process receives what rules log, or this one may not: it needs CAP_NET_ADMIN")
	// ErrUnsupported: the kernel has no nftables.
	ErrUnsupported = errors.New("the kernel has no nftables (nf_tables with family inet)")
)

// Feature is something that a kernel can be built without.
type Feature string

// The features. Without one of the first two nothing can be enforced; without the others, less.
const (
	FeatureConnections Feature = "connection tracking"
	FeatureSets        Feature = "sets"
	FeatureLabels      Feature = "connection labels"
	FeatureReject      Feature = "reject"
	FeatureLog         Feature = "log"
	FeatureQueue       Feature = "queues"
	FeatureCounters    Feature = "counters"
	FeatureRoutes      Feature = "routes"
	FeatureMasquerade  Feature = "masquerading"
	FeatureServices    Feature = "balancing"
	// FeatureKinds is needed only where what passes through a host is judged.
	FeatureKinds    Feature = "kinds of links"
	FeatureSegments Feature = "segments"
)

// String says what is missing, what it is called there, and what follows.
func (f Feature) String() string {
	switch f {
	case FeatureConnections:
		return "the kernel has no connection tracking for nftables (nft_ct, nf_conntrack): policies cannot be enforced"
	case FeatureSets:
		return "the kernel has no sets and verdict maps of nftables (nf_tables_set): policies cannot be enforced"
	case FeatureLabels:
		return "the kernel has no labels of connections (NF_CONNTRACK_LABELS): connections that a changed policy does not allow go on"
	case FeatureReject:
		return "the kernel cannot reject (nft_reject_inet): Reject is a Drop"
	case FeatureLog:
		return "the kernel cannot log to programs (nft_log, nft_limit, nfnetlink_log): policies are not logged"
	case FeatureQueue:
		return "the kernel has no queues for packets (nft_compat, xt_NFQUEUE): of domain names only plain ones are known, by looking them up"
	case FeatureCounters:
		return "the kernel does not count (nft_counter): there are no statistics of rules"
	case FeatureRoutes:
		return "the kernel does not look addresses up for rules (nft_fib_inet): with IPVS, policies on the Node count for what goes to Services as well, and in a network of ours Pods can send from addresses of others"
	case FeatureKinds:
		return "the kernel does not tell rules the kind of a link (iifkind of nft_meta, since Linux 5.6): what comes from bridges of the host is not judged"
	case FeatureSegments:
		return "the kernel does not change what connections of TCP say of segments (rt and tcp option of nf_tables, since Linux 4.14): in a network of ours large packets from outside may not reach Pods of other Nodes"
	case FeatureMasquerade:
		return "the kernel cannot masquerade (nft_masq, nft_chain_nat): in a network of ours Pods do not reach what is outside of the cluster, nor Services"
	case FeatureServices:
		return "the kernel cannot choose among endpoints (nft_numgen, nft_nat, dynamic sets): in a network of ours Services are not reached, unless kube-proxy leads to them"
	}
	return "the kernel lacks " + string(f)
}

// Required reports whether nothing can be enforced without it.
func (f Feature) Required() bool { return f == FeatureConnections || f == FeatureSets }

// Features lists them.
func Features() []Feature {
	return []Feature{
		FeatureConnections, FeatureSets, FeatureLabels, FeatureReject, FeatureLog, FeatureQueue, FeatureCounters, FeatureRoutes, FeatureMasquerade, FeatureServices,
		FeatureKinds, FeatureSegments,
	}
}

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
