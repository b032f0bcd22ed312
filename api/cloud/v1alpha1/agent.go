package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// LabelAllowIsolates (AntreaAgentInfo), with the value "true", is set by an agent for which an
// Allow rule isolates: in a direction to which one applies, it drops what no rule allows. For an
// Antrea Agent, which does not set it, no Allow rule isolates. It changes only what is shown to
// people.
const LabelAllowIsolates = "nephele.io/allow-isolates"

// What agent and controller agree upon by means of the AntreaAgentInfo of a cloud VM that a
// selector hands to its agent. Values are "ingress", "egress" or both with a comma between them.
const (
	// LabelHeedsCloud (AntreaAgentInfo), with the value "true", is set by an agent that ends the
	// isolation of a direction only after it has read that AnnotationCloudLetsIn does not name it.
	LabelHeedsCloud = "nephele.io/heeds-cloud"
	// AnnotationIsolates is set by the agent: the directions in which it drops what no rule allows.
	AnnotationIsolates = "nephele.io/isolates"
	// AnnotationNotEnforceable is set by the agent of a Node: a line "NAMESPACE/NAME: REASON" for
	// each of the first Pods on which policies cannot be enforced.
	AnnotationNotEnforceable = "nephele.io/not-enforceable"
	// AnnotationHostFailsafe is set by the agent of a host: the flows that it lets through whatever
	// policies say, as JSON of the type of failsafe flows of an account.
	AnnotationHostFailsafe = "nephele.io/host-failsafe"
	// AnnotationForwards is set by the agent of a host: the families ("IPv4", "IPv6", with a comma
	// between them) of which the host passes packets on between others, which its policies do not
	// judge.
	AnnotationForwards = "nephele.io/forwards"
	// AnnotationForeignFilters is set by an agent: a line for each of the first filters
	// that others have put before the host's traffic.
	AnnotationForeignFilters = "nephele.io/foreign-filters"
	// AnnotationNetwork is set by the agent of a Node that makes its network: how that stands, as
	// JSON. "nephele node" shows it.
	AnnotationNetwork = "nephele.io/network"
	// AnnotationCloudLetsIn is set by the controller: the account, and the directions in which the
	// groups of the VM let in, or may let in soon, whatever the agent decides.
	AnnotationCloudLetsIn = "nephele.io/cloud-lets-in"
)

// AnnotationWireGuardKey is set by the agent of a Node on its Node: the public key by which others
// encrypt what they send to its Pods.
const AnnotationWireGuardKey = "nephele.io/wireguard-key"

// AnnotationIPsecIdentity is set by the agent of a Node on its Node: the identity in the
// certificate by which others know it when they encrypt by IPsec.
const AnnotationIPsecIdentity = "nephele.io/ipsec-identity"

// ipsecDomain ends the identities of Nodes.
const ipsecDomain = ".nodes.nephele.io"

// IPsecIdentity is what a certificate of a Node says. A Node that comes with the name of a former
// one is another one.
func IPsecIdentity(node string, uid types.UID) string { return node + "." + string(uid) + ipsecDomain }

// IsIPsecIdentity reports whether a text is one that IPsecIdentity makes.
func IsIPsecIdentity(text string) bool {
	return strings.HasSuffix(text, ipsecDomain) && len(text) > len(ipsecDomain)
}

// AnnotationKernel is set by an agent: the release of the kernel that it writes rules to.
const AnnotationKernel = "nephele.io/kernel"

// ReasonSilent is the reason of the conditions of an AntreaAgentInfo, which are Unknown then, while
// its agent has said nothing for three minutes. The controller writes it.
const ReasonSilent = "Silent"

// ReasonPartial is the reason of the condition AgentHealthy while some Pods evade policies. What is
// enforced on others is in force.
const ReasonPartial = "Partial"
