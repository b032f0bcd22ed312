package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// BalanceTo is a rule that chooses a backend.
type BalanceTo struct {
	Family Family
	// Backends is how many there are, and First the number of the first one.
	Backends, First uint32
	// AnyAddress tells that they are not found by the address that the connection is made to.
	AnyAddress bool
	// Sticky is for how many seconds a client stays with a backend. With Known it is the one that
	// the client has, and the next rule goes on if it has none.
	Sticky uint32
	Known  bool
}

// The dispatches for Services. Endpoints have addresses and ports in the place of chains; Sticky
// ones are learned by the kernel.
const (
	Services4, Services6   SetName = "services4", "services6"
	NodePorts4, NodePorts6 SetName = "nodeports4", "nodeports6"
	Endpoints4, Endpoints6 SetName = "endpoints4", "endpoints6"
	Keeps4, Keeps6         SetName = "keeps4", "keeps6"
	KeepPorts4, KeepPorts6 SetName = "keepports4", "keepports6"
	ClusterIP4, ClusterIP6 SetName = "clusterips4", "clusterips6"
	Hairpin4, Hairpin6     SetName = "hairpin4", "hairpin6"
	Sticky4, Sticky6       SetName = "sticky4", "sticky6"
)

// Asked is what a dispatch is asked by.
type Asked uint8

// What dispatches are asked by.
const (
	// AskedByAddress: source, destination or both, as DispatchBy says.
	AskedByAddress Asked = iota
	// AskedByFrontend: the address, protocol and port that a packet is sent to; AskedByPort without
	// the address; AskedByOriginal and AskedByOriginalPort: those that the connection was made to.
	AskedByFrontend
	AskedByPort
	AskedByOriginal
	AskedByOriginalPort
	// AskedByRule: rules that balance ask it.
	AskedByRule
)

// Asked reports what a dispatch is asked by.
func (n SetName) Asked() Asked {
	switch n {
	case Services4, Services6:
		return AskedByFrontend
	case NodePorts4, NodePorts6:
		return AskedByPort
	case Keeps4, Keeps6:
		return AskedByOriginal
	case KeepPorts4, KeepPorts6:
		return AskedByOriginalPort
	case Endpoints4, Endpoints6, Sticky4, Sticky6:
		return AskedByRule
	}
	return AskedByAddress
}

// HoldsBackends reports whether a dispatch has addresses and ports in the place of chains.
func (n SetName) HoldsBackends() bool { return n == Endpoints4 || n == Endpoints6 || n.IsLearned() }

// IsLearned reports whether the kernel learns the elements of a dispatch by itself.
func (n SetName) IsLearned() bool { return n == Sticky4 || n == Sticky6 }

// OfServices lists the dispatches that lead to Services.
func OfServices() []SetName {
	return []SetName{Services4, Services6, NodePorts4, NodePorts6, Endpoints4, Endpoints6, Keeps4, Keeps6, KeepPorts4, KeepPorts6, ClusterIP4, ClusterIP6, Sticky4, Sticky6}
}

// IsOfServices reports whether the elements of a dispatch come from Services.
func (n SetName) IsOfServices() bool { return slices.Contains(OfServices(), n) }

// Targets begins the names of chains that dispatches for Services lead to.
const Targets = NetworkChains + "lead-"

// IsTarget reports whether a chain is one that dispatches for Services lead to.
func IsTarget(chain string) bool { return strings.HasPrefix(chain, Targets) }

// Lineage tells how the dispatches for Services came about. Two with the same Mark are the same.
type Lineage struct {
	// Mark stands for the dispatches, and From for those that they were made of; nil for none.
	// Touched are the keys that may differ then.
	Mark, From *Mark
	Touched    map[SetName][]string
}

// Mark stands for something by its address.
type Mark struct{ _ byte }

// InFamily returns the one of two dispatches that is of a family.
func InFamily(four, six SetName, f Family) SetName {
	if f == IPv6 {
		return six
	}
	return four
}

// String prints it for people.
func (b *BalanceTo) String() string {
	words := []string{fmt.Sprintf("one of %d backends of ipv%d", b.Backends, b.Family)}
	if b.First > 0 {
		words = append(words, "for the Node and its Pods")
	}
	if b.AnyAddress {
		words = append(words, "by the port")
	}
	if b.Sticky > 0 {
		words = append(words, fmt.Sprintf("the same for %d s", b.Sticky))
	}
	if b.Known {
		words = append(words, "if the client has one")
	}
	return strings.Join(words, ", ")
}

// The dispatches of exits, by the Pod that sends: how its packets leave, and with which address.
const (
	Exits4   SetName = "pods-out-exits4"
	Exits6   SetName = "pods-out-exits6"
	ExitsAs4 SetName = "pods-out-exits-as4"
	ExitsAs6 SetName = "pods-out-exits-as6"
)

// The dispatches of a Node: by the destination, by the source, and by both.
const (
	PodsIn4  SetName = "pods-in4"
	PodsIn6  SetName = "pods-in6"
	PodsOut4 SetName = "pods-out4"
	PodsOut6 SetName = "pods-out6"
	Self4    SetName = "pods-self4"
	Self6    SetName = "pods-self6"
)

// DispatchFamily is the family of the addresses in a dispatch.
func (n SetName) DispatchFamily() Family {
	if strings.HasSuffix(string(n), "6") {
		return IPv6
	}
	return IPv4
}

// DispatchBy reports which addresses of a packet a dispatch looks at.
func (n SetName) DispatchBy() (source, destination bool) {
	both := strings.HasPrefix(string(n), "pods-self")
	both = both || n == Hairpin4 || n == Hairpin6
	return both || strings.HasPrefix(string(n), "pods-out"), both || strings.HasPrefix(string(n), "pods-in") || n == ClusterIP4 || n == ClusterIP6
}

// IsDispatch reports whether a name is that of a dispatch.
func (n SetName) IsDispatch() bool {
	return strings.HasPrefix(string(n), "pods-") || n == Hairpin4 || n == Hairpin6 || n.IsOfServices()
}

// DispatchKey is the key by which a dispatch is asked for a packet with two addresses.
func (n SetName) DispatchKey(source, destination netip.Addr) string {
	var key []byte
	bySource, byDestination := n.DispatchBy()
	if bySource {
		key = append(key, source.AsSlice()...)
	}
	if byDestination {
		key = append(key, destination.AsSlice()...)
	}
	return string(key)
}

// NetworkChains begins the names of chains that are there for the network.
const NetworkChains = "network-"
