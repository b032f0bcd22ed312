package policytest

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nephele-io/nephele/internal/policy"
)

type peer struct {
	PodSelector            *selector `json:"podSelector"`
	NamespaceSelector      *selector `json:"namespaceSelector"`
	ExternalEntitySelector *selector `json:"externalEntitySelector"`
	NodeSelector           *selector `json:"nodeSelector"`
	IPBlock                *ipBlock  `json:"ipBlock"`
	Namespaces             *struct {
		Match      string   `json:"match"`
		SameLabels []string `json:"sameLabels"`
	} `json:"namespaces"`
	Group          string `json:"group"`
	ServiceAccount *named `json:"serviceAccount"`
	Service        *named `json:"service"`
	FQDN           string `json:"fqdn"`
	Scope          string `json:"scope"`
}

type port struct {
	Protocol      policy.Protocol `json:"protocol"`
	Port          json.RawMessage `json:"port"`
	EndPort       *int32          `json:"endPort"`
	SourcePort    *int32          `json:"sourcePort"`
	SourceEndPort *int32          `json:"sourceEndPort"`
}

type rule struct {
	Name       string        `json:"name"`
	Action     policy.Action `json:"action"`
	From       []peer        `json:"from"`
	To         []peer        `json:"to"`
	ToServices []struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Scope     string `json:"scope"`
	} `json:"toServices"`
	Ports     []port `json:"ports"`
	Protocols []struct {
		ICMP *struct {
			Type *int32 `json:"icmpType"`
			Code *int32 `json:"icmpCode"`
		} `json:"icmp"`
		IGMP *struct {
			Type         *int32 `json:"igmpType"`
			GroupAddress string `json:"groupAddress"`
		} `json:"igmp"`
	} `json:"protocols"`
	AppliedTo     []peer `json:"appliedTo"`
	EnableLogging bool   `json:"enableLogging"`
	LogLabel      string `json:"logLabel"`
}

func (m *manifest) policy(kind policy.PolicyKind) policy.Policy {
	uid := m.Metadata.UID
	if uid == "" {
		uid = fmt.Sprintf("%s/%s/%s", kind, m.Metadata.Namespace, m.Metadata.Name)
	}
	return policy.Policy{
		Kind: kind, Namespace: m.Metadata.Namespace, Name: m.Metadata.Name, UID: uid, Generation: m.Metadata.Generation,
	}
}

func (m *manifest) kubernetesPolicy() (Object, error) {
	var spec struct {
		PodSelector selector `json:"podSelector"`
		Ingress     []rule   `json:"ingress"`
		Egress      []rule   `json:"egress"`
		PolicyTypes []string `json:"policyTypes"`
	}
	if err := json.Unmarshal(m.Spec, &spec); err != nil {
		return nil, err
	}
	out := m.policy(policy.KubernetesNetworkPolicy)
	out.AppliedTo = []policy.AppliedTo{{PodSelector: spec.PodSelector.policy()}}
	for _, t := range spec.PolicyTypes {
		if t == "Ingress" {
			out.PolicyTypes = append(out.PolicyTypes, policy.Ingress)
		} else {
			out.PolicyTypes = append(out.PolicyTypes, policy.Egress)
		}
	}
	var err error
	if out.Ingress, err = convertRules(spec.Ingress); err != nil {
		return nil, err
	}
	out.Egress, err = convertRules(spec.Egress)
	return out, err
}

func (m *manifest) antreaPolicy(kind policy.PolicyKind) (Object, error) {
	var spec struct {
		Tier      string  `json:"tier"`
		Priority  float64 `json:"priority"`
		AppliedTo []peer  `json:"appliedTo"`
		Ingress   []rule  `json:"ingress"`
		Egress    []rule  `json:"egress"`
	}
	if err := json.Unmarshal(m.Spec, &spec); err != nil {
		return nil, err
	}
	out := m.policy(kind)
	out.Tier, out.Priority, out.AppliedTo = spec.Tier, spec.Priority, convertAppliedTo(spec.AppliedTo)
	var err error
	if out.Ingress, err = convertRules(spec.Ingress); err != nil {
		return nil, err
	}
	out.Egress, err = convertRules(spec.Egress)
	return out, err
}

func convertRules(in []rule) ([]policy.Rule, error) {
	var out []policy.Rule
	for _, r := range in {
		c := policy.Rule{
			Name: r.Name, Action: r.Action, Peers: convertPeers(append(r.From, r.To...)),
			AppliedTo: convertAppliedTo(r.AppliedTo), EnableLogging: r.EnableLogging, LogLabel: r.LogLabel,
		}
		for _, s := range r.ToServices {
			c.ToServices = append(c.ToServices, policy.ServicePeer{Namespace: s.Namespace, Name: s.Name, Scope: s.Scope})
		}
		for _, p := range r.Ports {
			q := policy.Port{Protocol: p.Protocol, EndPort: p.EndPort, SourcePort: p.SourcePort, SourceEndPort: p.SourceEndPort}
			if len(p.Port) > 0 {
				q.Port = &policy.PortRef{}
				if n, err := strconv.Atoi(string(p.Port)); err == nil {
					q.Port.Number = int32(n)
				} else if err := json.Unmarshal(p.Port, &q.Port.Name); err != nil {
					return nil, err
				}
			}
			c.Ports = append(c.Ports, q)
		}
		for _, p := range r.Protocols {
			var q policy.RuleProtocol
			if p.ICMP != nil {
				q.ICMP = &policy.ICMPMatch{Type: p.ICMP.Type, Code: p.ICMP.Code}
			}
			if p.IGMP != nil {
				q.IGMP = &policy.IGMPMatch{Type: p.IGMP.Type, GroupAddress: p.IGMP.GroupAddress}
			}
			c.Protocols = append(c.Protocols, q)
		}
		out = append(out, c)
	}
	return out, nil
}

func convertPeers(in []peer) []policy.Peer {
	var out []policy.Peer
	for _, p := range in {
		c := policy.Peer{
			PodSelector: p.PodSelector.policy(), NamespaceSelector: p.NamespaceSelector.policy(),
			ExternalEntitySelector: p.ExternalEntitySelector.policy(), NodeSelector: p.NodeSelector.policy(),
			Group: p.Group, ServiceAccount: p.ServiceAccount.policy(), FQDN: p.FQDN, Scope: p.Scope,
		}
		if p.IPBlock != nil {
			c.IPBlock = &policy.IPBlock{CIDR: p.IPBlock.CIDR, Except: p.IPBlock.Except}
		}
		if p.Namespaces != nil {
			c.Namespaces = &policy.PeerNamespaces{Match: p.Namespaces.Match, SameLabels: p.Namespaces.SameLabels}
		}
		out = append(out, c)
	}
	return out
}

func convertAppliedTo(in []peer) []policy.AppliedTo {
	var out []policy.AppliedTo
	for _, p := range in {
		out = append(out, policy.AppliedTo{
			PodSelector: p.PodSelector.policy(), NamespaceSelector: p.NamespaceSelector.policy(),
			ExternalEntitySelector: p.ExternalEntitySelector.policy(), NodeSelector: p.NodeSelector.policy(),
			Group: p.Group, ServiceAccount: p.ServiceAccount.policy(), Service: p.Service.policy(),
		})
	}
	return out
}
