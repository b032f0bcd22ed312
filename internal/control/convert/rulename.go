package convert

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// namedRule is a rule in the form whose JSON is hashed for the generated name. The order of the fields, and which of them
// are always there, is part of the format.
type namedRule struct {
	Action        v1beta1.RuleAction              `json:"action"`
	Ports         []v1beta1.NetworkPolicyPort     `json:"ports,omitempty"`
	Protocols     []v1beta1.NetworkPolicyProtocol `json:"protocols,omitempty"`
	L7Protocols   []v1beta1.L7Protocol            `json:"l7Protocols,omitempty"`
	From          []namedPeer                     `json:"from,omitempty"`
	To            []namedPeer                     `json:"to,omitempty"`
	ToServices    []v1beta1.PeerService           `json:"toServices,omitempty"`
	Name          string                          `json:"name,omitempty"`
	EnableLogging bool                            `json:"enableLogging"`
	LogLabel      string                          `json:"logLabel,omitempty"`
	AppliedTo     []v1beta1.AppliedTo             `json:"appliedTo,omitempty"`
}

// namedPeer is a peer in that form.
type namedPeer struct {
	IPBlock                *v1beta1.IPBlock        `json:"ipBlock,omitempty"`
	PodSelector            *metav1.LabelSelector   `json:"podSelector,omitempty"`
	NamespaceSelector      *metav1.LabelSelector   `json:"namespaceSelector,omitempty"`
	Namespaces             *v1beta1.PeerNamespaces `json:"namespaces,omitempty"`
	ExternalEntitySelector *metav1.LabelSelector   `json:"externalEntitySelector,omitempty"`
	Group                  string                  `json:"group,omitempty"`
	FQDN                   string                  `json:"fqdn,omitempty"`
	ServiceAccount         *v1beta1.NamespacedName `json:"serviceAccount,omitempty"`
	NodeSelector           *metav1.LabelSelector   `json:"nodeSelector,omitempty"`
	Scope                  v1beta1.PeerScope       `json:"scope,omitempty"`
}

// RuleName returns the name that an Antrea rule without one is given: the direction ("ingress" or "egress"), the action
// and a hash of the rule.
func RuleName(direction string, r *v1beta1.Rule) string {
	raw, err := json.Marshal(namedRule{
		Action: r.Action, Ports: r.Ports, Protocols: r.Protocols, L7Protocols: r.L7Protocols,
		From: namedPeers(r.From), To: namedPeers(r.To), ToServices: r.ToServices, Name: r.Name,
		EnableLogging: r.EnableLogging, LogLabel: r.LogLabel, AppliedTo: r.AppliedTo,
	})
	if err != nil {
		panic("a rule cannot be written as JSON: " + err.Error())
	}
	sum := sha1.Sum(raw)
	return direction + "-" + strings.ToLower(string(r.Action)) + "-" + hex.EncodeToString(sum[:])[:7]
}

func namedPeers(in []v1beta1.NetworkPolicyPeer) []namedPeer {
	var out []namedPeer
	for _, p := range in {
		out = append(out, namedPeer{
			IPBlock: p.IPBlock, PodSelector: p.PodSelector, NamespaceSelector: p.NamespaceSelector, Namespaces: p.Namespaces,
			ExternalEntitySelector: p.ExternalEntitySelector, Group: p.Group, FQDN: p.FQDN, ServiceAccount: p.ServiceAccount,
			NodeSelector: p.NodeSelector, Scope: p.Scope,
		})
	}
	return out
}
