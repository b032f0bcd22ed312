package ruleset

// LeavesHere is the number, in the mark of a packet, of what leaves by this Node with an address of
// an Egress.
const LeavesHere = 255

// MarkShift says where in the mark of a packet there is the number of the exit that it takes, and
// MarkMask are its bits.
const (
	MarkShift = 24
	MarkMask  = 0xff << MarkShift
)

// neverRouted is the hop limit of a packet that no router has passed on.
const neverRouted = 255

// LinkPrefix begins the names of links that lead to Pods, where the agent makes the network.
const LinkPrefix = "nph"

// SealedLink is the name of the link by which WireGuard encrypts what is between Nodes.
const SealedLink = "nephele-wg"

// WrappedLink is the name of the link by which what is between Nodes is wrapped.
const WrappedLink = "nephele-vxlan"
