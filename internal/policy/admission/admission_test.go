package admission_test

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

func TestRuleName(t *testing.T) {
	ssh := policy.Rule{
		Action: policy.Drop, Ports: []policy.Port{{Port: &policy.PortRef{Number: 22}}},
		Peers: []policy.Peer{{ExternalEntitySelector: &policy.Selector{MatchLabels: map[string]string{"role": "front"}}}},
	}
	for _, c := range []struct {
		direction policy.Direction
		rule      policy.Rule
		want      string
	}{
		{policy.Ingress, policy.Rule{Action: policy.Drop}, "ingress-drop-742ade5"},
		{policy.Egress, policy.Rule{Action: policy.Allow}, "egress-allow-216bba8"},
		{policy.Ingress, ssh, "ingress-drop-e04ea98"},
	} {
		if got := admission.RuleName(c.direction, &c.rule); got != c.want {
			t.Errorf("%+v is named %s, want %s", c.rule, got, c.want)
		}
	}
}

func TestDefaultLeavesTheInputAlone(t *testing.T) {
	rules := []policy.Rule{{Action: policy.Drop}, {Name: "mine", Action: policy.Drop}}
	p := policy.Policy{Ingress: rules}
	admission.Default(&p)
	if p.Tier != "application" || p.Ingress[0].Name != "ingress-drop-742ade5" || p.Ingress[1].Name != "mine" {
		t.Errorf("completed: %+v", p)
	}
	if rules[0].Name != "" {
		t.Error("the list that was handed in has been changed")
	}
}

// all is a valid policy with one rule in each direction.
func all() policy.Policy {
	every := &policy.Selector{}
	return policy.Policy{
		Kind: policy.AntreaClusterNetworkPolicy, Name: "p", Tier: "application", Priority: 5,
		AppliedTo: []policy.AppliedTo{{PodSelector: every}},
		Ingress:   []policy.Rule{{Name: "in", Action: policy.Allow, Peers: []policy.Peer{{PodSelector: every}}}},
		Egress:    []policy.Rule{{Name: "out", Action: policy.Drop, Peers: []policy.Peer{{PodSelector: every}}}},
	}
}

// TestRefusals spoils a valid policy in one place each.
func TestRefusals(t *testing.T) {
	every := &policy.Selector{}
	service := []policy.AppliedTo{{Service: &policy.NamespacedName{Namespace: "n", Name: "s"}}}
	n := func(v int32) *int32 { return &v }
	tiers := map[string]int32{"application": 250, "baseline": 253}
	for _, c := range []struct {
		want  string
		spoil func(p *policy.Policy)
	}{
		{`spec.priority: invalid value "0.5": want a number from 1 to 10000`, func(p *policy.Policy) { p.Priority = 0.5 }},
		{`spec.tier: invalid value "gold"`, func(p *policy.Policy) { p.Tier = "gold" }},
		{`spec.ingress[0].action: invalid value "Pass": want Allow, Drop or Reject in the baseline tier`, func(p *policy.Policy) {
			p.Tier, p.Ingress[0].Action = "baseline", policy.Pass
		}},
		{`spec.egress[0].name: invalid value "in"`, func(p *policy.Policy) { p.Egress[0].Name = "in" }},
		{`spec.appliedTo: got nothing, want appliedTo in spec or in every rule`, func(p *policy.Policy) { p.AppliedTo = nil }},
		{`spec.ingress[0].appliedTo: got appliedTo in the rule and in spec, want appliedTo either in spec or in rules`, func(p *policy.Policy) {
			p.Ingress[0].AppliedTo = p.AppliedTo
		}},
		{`spec.egress[0].appliedTo: got nothing, want appliedTo in every rule`, func(p *policy.Policy) {
			p.Ingress[0].AppliedTo, p.AppliedTo = p.AppliedTo, nil
		}},
		{`spec.appliedTo[0]: got group and podSelector, want group, serviceAccount, service or nodeSelector alone`, func(p *policy.Policy) {
			p.AppliedTo[0].Group = "g"
		}},
		{`spec.appliedTo[0].service: invalid value "s": want no service`, func(p *policy.Policy) {
			p.AppliedTo, p.Ingress[0].Peers = service, nil
		}},
		{`spec.ingress[0].from[0]: got another kind of peer, want ipBlock only`, func(p *policy.Policy) {
			p.AppliedTo, p.Egress = service, nil
		}},
		{`spec.appliedTo: got service and other entries, want either services only`, func(p *policy.Policy) {
			p.AppliedTo, p.Egress, p.Ingress[0].Peers = append(p.AppliedTo, service...), nil, nil
		}},
		{`spec.ingress[0].from[0]: got group and podSelector, want group, serviceAccount or nodeSelector alone`, func(p *policy.Policy) {
			p.Ingress[0].Peers[0].Group = "g"
		}},
		{`spec.ingress[0].from[0]: got podSelector and externalEntitySelector, want either podSelector or externalEntitySelector`, func(p *policy.Policy) {
			p.Ingress[0].Peers[0].PodSelector, p.Ingress[0].Peers[0].ExternalEntitySelector = every, every
		}},
		{`spec.appliedTo[0]: got podSelector and externalEntitySelector, want either podSelector or externalEntitySelector`, func(p *policy.Policy) {
			p.AppliedTo[0].PodSelector, p.AppliedTo[0].ExternalEntitySelector = every, every
		}},
		{`spec.ingress[0].from[0]: got namespaces and namespaceSelector, want either namespaces or namespaceSelector`, func(p *policy.Policy) {
			p.Ingress[0].Peers[0].Namespaces = &policy.PeerNamespaces{Match: "Self"}
			p.Ingress[0].Peers[0].NamespaceSelector = every
		}},
		{`spec.ingress[0].from[0].namespaces.sameLabels[0]: invalid value "a b"`, func(p *policy.Policy) {
			p.Ingress[0].Peers[0].Namespaces = &policy.PeerNamespaces{SameLabels: []string{"a b"}}
		}},
		{`spec.ingress[0].from[0]: got group, namespaces and ipBlock, want group,`, func(p *policy.Policy) {
			p.Ingress[0].Peers[0] = policy.Peer{Group: "g", Namespaces: &policy.PeerNamespaces{Match: "Self"}, IPBlock: &policy.IPBlock{CIDR: "10.0.0.0/8"}}
		}},
		{`spec.egress[0].to[0].fqdn: invalid value "a_b"`, func(p *policy.Policy) { p.Egress[0].Peers = []policy.Peer{{FQDN: "a_b"}} }},
		{"spec.egress[0].toServices: invalid value \"s\": want no `toServices` together with `to`", func(p *policy.Policy) {
			p.Egress[0].ToServices = []policy.ServicePeer{{Name: "s"}}
		}},
		{`spec.ingress[0].ports[0].endPort: invalid value "3": want no endPort without port`, func(p *policy.Policy) {
			p.Ingress[0].Ports = []policy.Port{{EndPort: n(3)}}
		}},
		{`spec.ingress[0].ports[0].port: invalid value "80": want a number without quotes`, func(p *policy.Policy) {
			p.Ingress[0].Ports = []policy.Port{{Port: &policy.PortRef{Name: "80"}}}
		}},
		{`spec.ingress[0].ports[0].sourceEndPort: invalid value "3"`, func(p *policy.Policy) {
			p.Ingress[0].Ports = []policy.Port{{SourceEndPort: n(3)}}
		}},
		{`spec.egress[0].to: got multicast ipBlocks and other peers, want either multicast ipBlocks only`, func(p *policy.Policy) {
			p.Egress[0].Peers = append(p.Egress[0].Peers, policy.Peer{IPBlock: &policy.IPBlock{CIDR: "224.0.0.0/24"}})
		}},
		{`spec.ingress[0].protocols[0].igmp.groupAddress: invalid value "10.0.0.1"`, func(p *policy.Policy) {
			p.Ingress[0].Peers = nil
			p.Ingress[0].Protocols = []policy.RuleProtocol{{IGMP: &policy.IGMPMatch{GroupAddress: "10.0.0.1"}}}
		}},
		{`spec.ingress[0].protocols[0].igmp.igmpType: invalid value "22"`, func(p *policy.Policy) {
			p.Ingress[0].Peers = nil
			p.Ingress[0].Protocols = []policy.RuleProtocol{{IGMP: &policy.IGMPMatch{Type: n(22)}}}
		}},
		{`spec.ingress[0].protocols[0].icmp.icmpType: invalid value "256"`, func(p *policy.Policy) {
			p.Ingress[0].Protocols = []policy.RuleProtocol{{ICMP: &policy.ICMPMatch{Type: n(256)}}}
		}},
		{`spec.egress[0].l7Protocols: got l7Protocols with the action Drop, want l7Protocols only with the action Allow`, func(p *policy.Policy) {
			p.Egress[0].L7Protocols = []policy.L7Protocol{{TLS: &policy.TLSMatch{}}}
		}},
		{`spec.ingress[0].l7Protocols[0].http.method: invalid value "FETCH"`, func(p *policy.Policy) {
			p.Ingress[0].L7Protocols = []policy.L7Protocol{{HTTP: &policy.HTTPMatch{Method: "FETCH"}}}
		}},
		{`spec.ingress[0].logLabel: invalid value "a b"`, func(p *policy.Policy) { p.Ingress[0].LogLabel = "a b" }},
	} {
		p := all()
		c.spoil(&p)
		errs := append(admission.Schema(&p), admission.ValidatePolicy(&p, tiers)...)
		if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), c.want) {
			t.Errorf("got  %s\nwant %s", policy.JoinErrors(errs), c.want)
		}
	}
	p := all()
	if errs := append(admission.Schema(&p), admission.ValidatePolicy(&p, tiers)...); len(errs) > 0 {
		t.Errorf("a valid policy is refused: %s", policy.JoinErrors(errs))
	}
}

// TestPitfallsAndWarnings: what a policy says that is not done is refused in a new one; what may
// not be meant is told.
func TestPitfallsAndWarnings(t *testing.T) {
	every := &policy.Selector{}
	self := &policy.PeerNamespaces{Match: "Self"}
	for _, c := range []struct {
		spoil            func(p *policy.Policy)
		refused, warning string
	}{
		{func(*policy.Policy) {}, "", ""},
		{func(p *policy.Policy) { p.Ingress[0].Peers[0].Namespaces = self }, "", ""},
		{func(p *policy.Policy) { p.AppliedTo[0] = policy.AppliedTo{NodeSelector: every} }, "", ""},
		{func(p *policy.Policy) {
			p.Egress[0].Peers[0].Namespaces = self
			p.AppliedTo = append(p.AppliedTo, policy.AppliedTo{NodeSelector: every})
		}, "spec.appliedTo[1]: got nodeSelector, want no nodeSelector where a rule has peers with namespaces (spec.egress[0].to[0]): it is in no Namespace, " +
			"and the rule would not apply to it", ""},
		{func(p *policy.Policy) {
			p.Ingress[0].Peers[0].Namespaces = self
			p.AppliedTo, p.Ingress[0].AppliedTo, p.Egress[0].AppliedTo = nil, []policy.AppliedTo{{NodeSelector: every}}, []policy.AppliedTo{{NodeSelector: every}}
		}, "spec.ingress[0].appliedTo[0]: got nodeSelector, want no nodeSelector", ""},
		{func(p *policy.Policy) {
			p.Ingress[0].Peers[0] = policy.Peer{Namespaces: self, IPBlock: &policy.IPBlock{CIDR: "10.0.0.0/8"}}
		}, "spec.ingress[0].from[0]: got namespaces and ipBlock, want either namespaces or ipBlock", ""},
		{func(p *policy.Policy) { p.Egress[0].Peers[0] = policy.Peer{Namespaces: self, FQDN: "a.com"} }, "spec.egress[0].to[0]: got namespaces and fqdn", ""},
		{func(p *policy.Policy) { p.Ingress[0].Peers[0].Scope = "ClusterSet" }, `spec.ingress[0].from[0].scope: invalid value "ClusterSet": want Cluster`, ""},
		{func(p *policy.Policy) { p.Ingress[0].Peers[0].Scope = "Cluster" }, "", ""},
		{func(p *policy.Policy) {
			p.Egress[0] = policy.Rule{ToServices: []policy.ServicePeer{{Namespace: "n", Name: "s", Scope: "ClusterSet"}}}
		}, "", `spec.egress[0].toServices[0].scope: invalid value "ClusterSet": want Cluster, unless clusters of a set that this one is in export the Service, ` +
			"or Antrea Multi-cluster has imported it as antrea-mc-s"},
		{func(p *policy.Policy) { p.AppliedTo[0] = policy.AppliedTo{} }, "",
			"spec.appliedTo[0]: got nothing, want a field that selects; without any, the entry means nothing"},
		{func(p *policy.Policy) {
			p.Namespace = "n"
			p.Ingress[0].Peers[0] = policy.Peer{Scope: "Cluster"}
		}, "", "spec.ingress[0].from[0]: got nothing, want a field that selects; without any, the entry means all Pods of the Namespace"},
	} {
		p := all()
		c.spoil(&p)
		for _, x := range []struct{ got, want string }{{policy.JoinErrors(admission.Pitfalls(&p, false)), c.refused}, {policy.JoinErrors(admission.Warnings(&p)), c.warning}} {
			if x.want == "" && x.got != "" || !strings.HasPrefix(x.got, x.want) || strings.Contains(x.got, "; spec.") {
				t.Errorf("got  %q\nwant %q", x.got, x.want)
			}
		}
	}
	for g, want := range map[*policy.Group]string{
		{Name: "g"}:                                             "spec: got nothing, want a field that selects; without any, the group is empty",
		{Name: "g", Namespace: "n"}:                             "spec: got nothing, want a field that selects; without any, the group is all Pods of its Namespace",
		{Name: "g", NamespaceSelector: every}:                   "",
		{Name: "g", Namespace: "n", ChildGroups: []string{"h"}}: "",
	} {
		if got := policy.JoinErrors(admission.GroupWarnings(g)); got != want {
			t.Errorf("%+v: %q, want %q", g, got, want)
		}
	}
}

func TestFormsOfProtocols(t *testing.T) {
	for want, r := range map[string]policy.Rule{
		"spec.ingress[0].protocols[0]: got icmp and igmp, want exactly one":   {Protocols: []policy.RuleProtocol{{ICMP: &policy.ICMPMatch{}, IGMP: &policy.IGMPMatch{}}}},
		"spec.ingress[0].protocols[0]: got nothing, want exactly one":         {Protocols: []policy.RuleProtocol{{}}},
		"spec.ingress[0].l7Protocols[0]: got http and tls, want exactly one":  {L7Protocols: []policy.L7Protocol{{HTTP: &policy.HTTPMatch{}, TLS: &policy.TLSMatch{}}}},
		"spec.ingress[0].l7Protocols[0]: got nothing, want exactly one":       {L7Protocols: []policy.L7Protocol{{}}},
		"spec.ingress[0].from[0].namespaces: got match and sameLabels, want":  {Peers: []policy.Peer{{Namespaces: &policy.PeerNamespaces{Match: "Self", SameLabels: []string{"a"}}}}},
		"spec.ingress[0].from[0].namespaces: got nothing, want match or same": {Peers: []policy.Peer{{Namespaces: &policy.PeerNamespaces{}}}},
	} {
		p := all()
		r.Action = policy.Allow
		p.Ingress[0] = r
		if errs := admission.Schema(&p); len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) {
			t.Errorf("got  %s\nwant %s", policy.JoinErrors(errs), want)
		}
	}
}

func TestGroupsAndTiers(t *testing.T) {
	every := &policy.Selector{}
	for _, c := range []struct {
		name string
		got  []policy.FieldError
		want string
	}{
		{"two kinds", admission.ValidateGroup(&policy.Group{Name: "g", PodSelector: every, ChildGroups: []string{"h"}}, nil),
			`spec: got podSelector and childGroups, want at most one of`},
		{"own child", admission.ValidateGroup(&policy.Group{Name: "g", ChildGroups: []string{"g"}}, nil),
			`spec.childGroups[0]: invalid value "g": want another group`},
		{"nesting", admission.ValidateGroup(&policy.Group{Name: "g", ChildGroups: []string{"h"}},
			[]policy.Group{{Name: "h", ChildGroups: []string{"i"}}}), `spec.childGroups[0]: invalid value "h"`},
		{"nested", admission.ValidateGroup(&policy.Group{Name: "g", ChildGroups: []string{"h"}},
			[]policy.Group{{Name: "f", ChildGroups: []string{"g"}}}), `spec.childGroups: invalid value "h"`},
		{"cidr", admission.ValidateGroup(&policy.Group{Name: "g", IPBlocks: []policy.IPBlock{{CIDR: "x"}}}, nil),
			`spec.ipBlocks[0].cidr: invalid value "x"`},
		{"reserved priority", admission.ValidateNewTier(policy.Tier{Name: "t", Priority: 251}, nil),
			`spec.priority: invalid value "251"`},
		{"taken priority", admission.ValidateNewTier(policy.Tier{Name: "t", Priority: 250}, policy.SystemTiers()),
			`spec.priority: invalid value "250": want a priority that no other Tier has; application has it`},
		{"system priority", admission.ValidateNewTier(policy.Tier{Name: "t", Priority: 50}, policy.SystemTiers()),
			`spec.priority: invalid value "50": want a priority that no other Tier has; emergency has it`},
		{"too many", admission.ValidateNewTier(policy.Tier{Name: "t"}, make([]policy.Tier, 20)),
			`metadata.name: invalid value "t": want no more than 20 tiers`},
		{"fixed priority", admission.ValidateTierUpdate(policy.Tier{Name: "t", Priority: 1}, policy.Tier{Name: "t", Priority: 2}),
			`spec.priority: invalid value "2"`},
		{"system tier", admission.ValidateTierDelete("platform", nil), `metadata.name: invalid value "platform"`},
		{"tier in use", admission.ValidateTierDelete("t", []policy.Policy{{Tier: "t", Namespace: "n", Name: "p"}}),
			`metadata.name: invalid value "t": want a Tier to which no policy refers; NetworkPolicy n/p does`},
	} {
		if len(c.got) == 0 || !strings.HasPrefix(c.got[0].Error(), c.want) {
			t.Errorf("%s: got %s, want %s", c.name, policy.JoinErrors(c.got), c.want)
		}
	}
}
