package computecmd

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/preview"
)

// computedOutput is what `policy compute` prints: the computed objects in a form for comparison.
// Addresses are text, lists are sorted, groups have no metadata but their name and policies have
// none.
type computedOutput struct {
	AddressGroups   []computedGroup         `json:"addressgroups"`
	AppliedToGroups []computedGroup         `json:"appliedtogroups"`
	NetworkPolicies []computedPolicy        `json:"networkpolicies"`
	Rejected        []computedRefusal       `json:"rejected"`
	Span            map[string]computedSpan `json:"span"`
}

type computedGroup struct {
	Metadata     computedName     `json:"metadata"`
	GroupMembers []computedMember `json:"groupMembers,omitempty"`
}

type computedName struct {
	Name string `json:"name"`
}

// computedMember has its fields in the order of their names: members are sorted by their JSON.
type computedMember struct {
	ExternalEntity *v1beta2.ExternalEntityReference `json:"externalEntity,omitempty"`
	IPs            []string                         `json:"ips,omitempty"`
	Node           *v1beta2.NodeReference           `json:"node,omitempty"`
	Pod            *v1beta2.PodReference            `json:"pod,omitempty"`
	Ports          []v1beta2.NamedPort              `json:"ports,omitempty"`
	Service        *v1beta2.ServiceReference        `json:"service,omitempty"`
}

type computedPolicy struct {
	AppliedToGroups []string                       `json:"appliedToGroups,omitempty"`
	Priority        *float64                       `json:"priority,omitempty"`
	Rules           []computedRule                 `json:"rules,omitempty"`
	SourceRef       v1beta2.NetworkPolicyReference `json:"sourceRef"`
	TierPriority    *int32                         `json:"tierPriority,omitempty"`
}

type computedRule struct {
	Action          *v1beta2.RuleAction  `json:"action,omitempty"`
	AppliedToGroups []string             `json:"appliedToGroups,omitempty"`
	Direction       v1beta2.Direction    `json:"direction"`
	EnableLogging   bool                 `json:"enableLogging"`
	From            computedPeer         `json:"from"`
	L7Protocols     []v1beta2.L7Protocol `json:"l7Protocols,omitempty"`
	LogLabel        string               `json:"logLabel,omitempty"`
	Name            string               `json:"name,omitempty"`
	Priority        int32                `json:"priority,omitempty"`
	Services        []computedService    `json:"services,omitempty"`
	To              computedPeer         `json:"to"`
}

type computedPeer struct {
	AddressGroups []string                   `json:"addressGroups,omitempty"`
	IPBlocks      []computedBlock            `json:"ipBlocks,omitempty"`
	FQDNs         []string                   `json:"fqdns,omitempty"`
	ToServices    []v1beta2.ServiceReference `json:"toServices,omitempty"`
}

type computedBlock struct {
	CIDR   computedNet   `json:"cidr"`
	Except []computedNet `json:"except,omitempty"`
}

type computedNet struct {
	IP           string `json:"ip"`
	PrefixLength int32  `json:"prefixLength,omitempty"`
}

type computedService struct {
	Protocol     *v1beta2.Protocol   `json:"protocol,omitempty"`
	Port         *intstr.IntOrString `json:"port,omitempty"`
	EndPort      *int32              `json:"endPort,omitempty"`
	ICMPType     *int32              `json:"icmpType,omitempty"`
	ICMPCode     *int32              `json:"icmpCode,omitempty"`
	IGMPType     *int32              `json:"igmpType,omitempty"`
	GroupAddress string              `json:"groupAddress,omitempty"`
	SrcPort      *int32              `json:"srcPort,omitempty"`
	SrcEndPort   *int32              `json:"srcEndPort,omitempty"`
}

type computedRefusal struct {
	Code      int    `json:"code"`
	Kind      string `json:"kind"`
	Message   string `json:"message"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// computedSpan is what one enforcer key is given.
type computedSpan struct {
	AddressGroups   []string                         `json:"addressgroups"`
	AppliedToGroups []spanGroup                      `json:"appliedtogroups"`
	NetworkPolicies []v1beta2.NetworkPolicyReference `json:"networkpolicies"`
}

type spanGroup struct {
	Members int    `json:"members"`
	Name    string `json:"name"`
}

// output puts a view into the printed form, without spans.
func outputOf(v preview.View, refused []manifest.Refusal) computedOutput {
	out := computedOutput{
		AddressGroups: []computedGroup{}, AppliedToGroups: []computedGroup{}, NetworkPolicies: []computedPolicy{},
		Rejected: []computedRefusal{}, Span: map[string]computedSpan{},
	}
	for _, g := range v.AddressGroups {
		out.AddressGroups = append(out.AddressGroups, computedGroup{computedName{g.Name}, outputMembers(g.GroupMembers)})
	}
	for _, g := range v.AppliedToGroups {
		out.AppliedToGroups = append(out.AppliedToGroups, computedGroup{computedName{g.Name}, outputMembers(g.GroupMembers)})
	}
	for _, p := range v.Policies {
		out.NetworkPolicies = append(out.NetworkPolicies, outputPolicy(p))
	}
	slices.SortFunc(out.NetworkPolicies, func(a, b computedPolicy) int { return compareSources(a.SourceRef, b.SourceRef) })
	for _, r := range refused {
		out.Rejected = append(out.Rejected, computedRefusal{r.Code, r.Kind, r.Text, r.Name, r.Namespace})
	}
	return out
}

func spanOf(v preview.View) computedSpan {
	s := computedSpan{AddressGroups: []string{}, AppliedToGroups: []spanGroup{}, NetworkPolicies: []v1beta2.NetworkPolicyReference{}}
	for _, g := range v.AddressGroups {
		s.AddressGroups = append(s.AddressGroups, g.Name)
	}
	for _, g := range v.AppliedToGroups {
		s.AppliedToGroups = append(s.AppliedToGroups, spanGroup{len(g.GroupMembers), g.Name})
	}
	for _, p := range v.Policies {
		s.NetworkPolicies = append(s.NetworkPolicies, sourceOf(p))
	}
	slices.SortFunc(s.NetworkPolicies, compareSources)
	return s
}

// sourceOf is the source of a policy without its uid, which says nothing offline.
func sourceOf(p *v1beta2.NetworkPolicy) v1beta2.NetworkPolicyReference {
	return v1beta2.NetworkPolicyReference{Type: p.SourceRef.Type, Namespace: p.SourceRef.Namespace, Name: p.SourceRef.Name}
}

// compareSources orders by name, then namespaced policies by namespace before cluster-wide ones,
// then by type.
func compareSources(a, b v1beta2.NetworkPolicyReference) int {
	wide := func(r v1beta2.NetworkPolicyReference) int {
		if r.Namespace == "" {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(wide(a), wide(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Type, b.Type))
}

func outputMembers(in []v1beta2.GroupMember) []computedMember {
	type keyed struct {
		computedMember
		text string
	}
	list := make([]keyed, 0, len(in))
	for _, m := range in {
		c := computedMember{ExternalEntity: m.ExternalEntity, Pod: m.Pod, Node: m.Node, Service: m.Service, Ports: m.Ports}
		for _, ip := range m.IPs {
			c.IPs = append(c.IPs, addressText(ip))
		}
		slices.Sort(c.IPs)
		text, err := json.Marshal(c)
		if err != nil {
			panic("a group member cannot be written as JSON: " + err.Error())
		}
		list = append(list, keyed{c, string(text)})
	}
	slices.SortFunc(list, func(a, b keyed) int { return cmp.Compare(a.text, b.text) })
	var out []computedMember
	for _, k := range list {
		out = append(out, k.computedMember)
	}
	return out
}

func outputPolicy(p *v1beta2.NetworkPolicy) computedPolicy {
	out := computedPolicy{AppliedToGroups: inOrder(p.AppliedToGroups), Priority: p.Priority, SourceRef: sourceOf(p), TierPriority: p.TierPriority}
	for _, r := range p.Rules {
		c := computedRule{
			Action: r.Action, AppliedToGroups: inOrder(r.AppliedToGroups), Direction: r.Direction, EnableLogging: r.EnableLogging,
			From: outputPeer(r.From), L7Protocols: r.L7Protocols, LogLabel: r.LogLabel, Name: r.Name, Priority: r.Priority, To: outputPeer(r.To),
		}
		for _, s := range r.Services {
			c.Services = append(c.Services, computedService{
				Protocol: s.Protocol, Port: s.Port, EndPort: s.EndPort, ICMPType: s.ICMPType, ICMPCode: s.ICMPCode,
				IGMPType: s.IGMPType, GroupAddress: s.GroupAddress, SrcPort: s.SrcPort, SrcEndPort: s.SrcEndPort,
			})
		}
		out.Rules = append(out.Rules, c)
	}
	return out
}

func outputPeer(p v1beta2.NetworkPolicyPeer) computedPeer {
	out := computedPeer{AddressGroups: inOrder(p.AddressGroups), FQDNs: p.FQDNs, ToServices: p.ToServices}
	for _, b := range p.IPBlocks {
		block := computedBlock{CIDR: outputNet(b.CIDR)}
		for _, e := range b.Except {
			block.Except = append(block.Except, outputNet(e))
		}
		out.IPBlocks = append(out.IPBlocks, block)
	}
	return out
}

// inOrder returns names sorted: what is printed is compared, and enforcers get them as the policy
// is written.
func inOrder(names []string) []string { return slices.Sorted(slices.Values(names)) }

func outputNet(n v1beta2.IPNet) computedNet {
	return computedNet{addressText(n.IP), n.PrefixLength}
}

func addressText(ip v1beta2.IPAddress) string {
	a, ok := netip.AddrFromSlice(ip)
	if !ok {
		return ""
	}
	return a.Unmap().String()
}
