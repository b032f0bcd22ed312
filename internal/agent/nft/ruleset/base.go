package ruleset

// Base is a chain that packets enter.
type Base string

// The chains that packets enter, each in one place on their way.
const (
	// ToHost and FromHost are named as the directions of the host itself.
	ToHost   Base = "ingress"
	FromHost Base = "egress"
	// PodsToNode is what Pods send to their Node.
	PodsToNode Base = "pods-to-node"
	// PodsOut and PodsIn are what Pods send to others, and receive from others than their Node.
	PodsOut Base = "pods-egress"
	PodsIn  Base = "pods-ingress"
	// ServicesOut and ServicesIn are the same of what IPVS has led to where it is to go.
	ServicesOut Base = "services-egress"
	ServicesIn  Base = "services-ingress"
	// AskedByHost, AskedByPods and AskedHere are what has passed and asks resolvers for names: of
	// the host, of Pods, and of Pods that ask a resolver on the Node.
	AskedByHost Base = "names-asked"
	AskedByPods Base = "names-asked-pods"
	AskedHere   Base = "names-asked-here"
	// ForwardedOut and ForwardedIn are what only passes through a host that is no Node, where that
	// is judged.
	ForwardedOut Base = "forwarded-egress"
	ForwardedIn  Base = "forwarded-ingress"
	// FromPods is what comes to the Node over links to Pods, before anything else is decided about
	// it, and ToOthers what leaves, after that.
	FromPods Base = "network-from-pods"
	ToOthers Base = "network-to-others"
	// FromNode is what the Node sends, before conntrack follows it.
	FromNode Base = "network-from-node"
	// InClear is what leaves, where some of it must be encrypted.
	InClear Base = "network-in-clear"
	// ToServices and HostToServices are where it is chosen where connections to Services go: of
	// what comes to the Node, and of what it makes itself.
	ToServices     Base = "network-services"
	HostToServices Base = "network-services-host"
	// ToExits is where it is chosen by which Node something leaves the cluster, of what comes to
	// the Node and has its destination.
	ToExits Base = "network-exits"
	// Segments is what is forwarded, where connections learn how much fits into a packet.
	Segments Base = "network-segments"
)

// Bases lists the base chains that ask policies. Chains of one way are in the order in which
// packets meet them.
func Bases() []Base {
	return []Base{PodsToNode, ToHost, AskedHere, FromHost, AskedByHost, PodsOut, PodsIn, AskedByPods, ServicesOut, ServicesIn, ForwardedOut, ForwardedIn}
}

// Way is where a packet goes.
type Way uint8

// The ways.
const (
	// Arriving is what ends on the host, Leaving what begins there, Passing what goes through, and
	// Redirected what IPVS sends on.
	Arriving Way = iota
	Leaving
	Passing
	Redirected
)

// Way is the way of the packets that enter the chain.
func (b Base) Way() Way {
	switch b {
	case PodsOut, PodsIn, AskedByPods, ForwardedOut, ForwardedIn:
		return Passing
	case ServicesOut, ServicesIn:
		return Redirected
	case FromHost, AskedByHost:
		return Leaving
	}
	return Arriving
}

// Direction is that of the rules that are asked in the chain.
func (b Base) Direction() Direction {
	switch b {
	case PodsToNode, FromHost, AskedByHost, PodsOut, ServicesOut, ForwardedOut:
		return Egress
	}
	return Ingress
}
