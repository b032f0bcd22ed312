package admission

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// RuleName returns the name that an unnamed rule is given: direction, action, and the beginning of
// a hash over the rule as its API encodes it. Equal rules get equal names, so two of them in one
// policy collide and one must be named.
func RuleName(d policy.Direction, r *policy.Rule) string {
	unnamed := jsonRule{
		Action: string(r.Action), EnableLogging: r.EnableLogging, LogLabel: r.LogLabel,
		Ports: jsonPorts(r.Ports), Protocols: jsonProtocols(r.Protocols), L7Protocols: jsonL7(r.L7Protocols),
		AppliedTo: jsonAppliedTo(r.AppliedTo),
	}
	prefix := "ingress"
	if d == policy.Ingress {
		unnamed.From = jsonPeers(r.Peers)
	} else {
		prefix = "egress"
		unnamed.To = jsonPeers(r.Peers)
	}
	for _, s := range r.ToServices {
		unnamed.ToServices = append(unnamed.ToServices, jsonService{s.Name, s.Namespace, s.Scope})
	}
	var text bytes.Buffer
	// The fields are strings, numbers and lists of them: encoding cannot fail.
	_ = json.NewEncoder(&text).Encode(unnamed)
	sum := sha1.Sum(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
	return prefix + "-" + strings.ToLower(string(r.Action)) + "-" + hex.EncodeToString(sum[:])[:7]
}

// The json types encode a rule with the fields, and in the order, of crd.antrea.io/v1beta1.
type jsonRule struct {
	Action        string         `json:"action,omitempty"`
	Ports         []jsonPort     `json:"ports,omitempty"`
	Protocols     []jsonProtocol `json:"protocols,omitempty"`
	L7Protocols   []jsonL7Rule   `json:"l7Protocols,omitempty"`
	From          []jsonPeer     `json:"from,omitempty"`
	To            []jsonPeer     `json:"to,omitempty"`
	ToServices    []jsonService  `json:"toServices,omitempty"`
	EnableLogging bool           `json:"enableLogging"`
	LogLabel      string         `json:"logLabel,omitempty"`
	AppliedTo     []jsonApplied  `json:"appliedTo,omitempty"`
}

type jsonPort struct {
	Protocol      *string `json:"protocol,omitempty"`
	Port          any     `json:"port,omitempty"`
	EndPort       *int32  `json:"endPort,omitempty"`
	SourcePort    *int32  `json:"sourcePort,omitempty"`
	SourceEndPort *int32  `json:"sourceEndPort,omitempty"`
}

type jsonProtocol struct {
	ICMP *jsonICMP `json:"icmp,omitempty"`
	IGMP *jsonIGMP `json:"igmp,omitempty"`
}

type jsonICMP struct {
	Type *int32 `json:"icmpType,omitempty"`
	Code *int32 `json:"icmpCode,omitempty"`
}

type jsonIGMP struct {
	Type         *int32 `json:"igmpType,omitempty"`
	GroupAddress string `json:"groupAddress,omitempty"`
}

type jsonL7Rule struct {
	HTTP *jsonHTTP `json:"http,omitempty"`
	TLS  *jsonTLS  `json:"tls,omitempty"`
}

type jsonHTTP struct {
	Host   string `json:"host,omitempty"`
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
}

type jsonTLS struct {
	SNI string `json:"sni,omitempty"`
}

type jsonPeer struct {
	IPBlock                *jsonIPBlock    `json:"ipBlock,omitempty"`
	PodSelector            *jsonSelector   `json:"podSelector,omitempty"`
	NamespaceSelector      *jsonSelector   `json:"namespaceSelector,omitempty"`
	Namespaces             *jsonNamespaces `json:"namespaces,omitempty"`
	ExternalEntitySelector *jsonSelector   `json:"externalEntitySelector,omitempty"`
	Group                  string          `json:"group,omitempty"`
	FQDN                   string          `json:"fqdn,omitempty"`
	ServiceAccount         *jsonName       `json:"serviceAccount,omitempty"`
	NodeSelector           *jsonSelector   `json:"nodeSelector,omitempty"`
	Scope                  string          `json:"scope,omitempty"`
}

type jsonIPBlock struct {
	CIDR   string   `json:"cidr"`
	Except []string `json:"except,omitempty"`
}

type jsonNamespaces struct {
	Match      string   `json:"match,omitempty"`
	SameLabels []string `json:"sameLabels,omitempty"`
}

type jsonApplied struct {
	PodSelector            *jsonSelector `json:"podSelector,omitempty"`
	NamespaceSelector      *jsonSelector `json:"namespaceSelector,omitempty"`
	ExternalEntitySelector *jsonSelector `json:"externalEntitySelector,omitempty"`
	Group                  string        `json:"group,omitempty"`
	ServiceAccount         *jsonName     `json:"serviceAccount,omitempty"`
	Service                *jsonName     `json:"service,omitempty"`
	NodeSelector           *jsonSelector `json:"nodeSelector,omitempty"`
}

type jsonName struct {
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

type jsonService struct {
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Scope     string `json:"scope,omitempty"`
}

type jsonSelector struct {
	MatchLabels      map[string]string `json:"matchLabels,omitempty"`
	MatchExpressions []jsonRequirement `json:"matchExpressions,omitempty"`
}

type jsonRequirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

func jsonPorts(in []policy.Port) (out []jsonPort) {
	for _, p := range in {
		j := jsonPort{EndPort: p.EndPort, SourcePort: p.SourcePort, SourceEndPort: p.SourceEndPort}
		if p.Protocol != "" {
			protocol := string(p.Protocol)
			j.Protocol = &protocol
		}
		if p.Port != nil && p.Port.Name != "" {
			j.Port = p.Port.Name
		} else if p.Port != nil {
			j.Port = p.Port.Number
		}
		out = append(out, j)
	}
	return out
}

func jsonProtocols(in []policy.RuleProtocol) (out []jsonProtocol) {
	for _, p := range in {
		var j jsonProtocol
		if p.ICMP != nil {
			j.ICMP = &jsonICMP{p.ICMP.Type, p.ICMP.Code}
		}
		if p.IGMP != nil {
			j.IGMP = &jsonIGMP{p.IGMP.Type, p.IGMP.GroupAddress}
		}
		out = append(out, j)
	}
	return out
}

func jsonL7(in []policy.L7Protocol) (out []jsonL7Rule) {
	for _, p := range in {
		var j jsonL7Rule
		if p.HTTP != nil {
			j.HTTP = &jsonHTTP{p.HTTP.Host, p.HTTP.Method, p.HTTP.Path}
		}
		if p.TLS != nil {
			j.TLS = &jsonTLS{p.TLS.SNI}
		}
		out = append(out, j)
	}
	return out
}

func jsonPeers(in []policy.Peer) (out []jsonPeer) {
	for i := range in {
		p := &in[i]
		j := jsonPeer{
			PodSelector: toJSON(p.PodSelector), NamespaceSelector: toJSON(p.NamespaceSelector),
			ExternalEntitySelector: toJSON(p.ExternalEntitySelector), NodeSelector: toJSON(p.NodeSelector),
			Group: p.Group, FQDN: p.FQDN, ServiceAccount: jsonNamed(p.ServiceAccount), Scope: p.Scope,
		}
		if p.IPBlock != nil {
			j.IPBlock = &jsonIPBlock{p.IPBlock.CIDR, p.IPBlock.Except}
		}
		if p.Namespaces != nil {
			j.Namespaces = &jsonNamespaces{p.Namespaces.Match, p.Namespaces.SameLabels}
		}
		out = append(out, j)
	}
	return out
}

func jsonAppliedTo(in []policy.AppliedTo) (out []jsonApplied) {
	for i := range in {
		a := &in[i]
		out = append(out, jsonApplied{
			PodSelector: toJSON(a.PodSelector), NamespaceSelector: toJSON(a.NamespaceSelector),
			ExternalEntitySelector: toJSON(a.ExternalEntitySelector), NodeSelector: toJSON(a.NodeSelector),
			Group: a.Group, ServiceAccount: jsonNamed(a.ServiceAccount), Service: jsonNamed(a.Service),
		})
	}
	return out
}

func jsonNamed(n *policy.NamespacedName) *jsonName {
	if n == nil {
		return nil
	}
	return &jsonName{n.Name, n.Namespace}
}

func toJSON(s *policy.Selector) *jsonSelector {
	if s == nil {
		return nil
	}
	out := &jsonSelector{MatchLabels: s.MatchLabels}
	for _, r := range s.MatchExpressions {
		out.MatchExpressions = append(out.MatchExpressions, jsonRequirement(r))
	}
	return out
}
