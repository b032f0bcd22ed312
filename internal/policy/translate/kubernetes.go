package translate

import (
	"slices"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/slab"
)

// kubernetes translates a Kubernetes NetworkPolicy.
func (t *translation) kubernetes() {
	for _, other := range t.in.OtherTypes {
		t.errs.Add("spec.policyTypes", other, "Ingress or Egress")
	}
	for i := range t.in.AppliedTo {
		t.out.AppliedToGroups = t.addName(t.out.AppliedToGroups, t.appliedGroup(&t.in.AppliedTo[i], t.at("spec")))
	}
	isolates := func(d policy.Direction) bool {
		if len(t.in.PolicyTypes) > 0 {
			return slices.Contains(t.in.PolicyTypes, d)
		}
		return d == policy.Ingress || len(t.in.Egress) > 0
	}
	logging := t.resolver.Logs(t.in.Namespace)
	each := func(d policy.Direction, rules []policy.Rule, path string) {
		for i := range rules {
			at := policy.Indexed(path, i)
			out := policy.RuleContent{Direction: d, Priority: knpRulePriority, Action: policy.Allow, EnableLogging: logging}
			t.kubernetesPeers(rules[i].Peers, peerPath(d, at))
			var named bool
			out.Services, named = t.services(&rules[i], at)
			t.addRule(out, t.peers(d, rules[i].Peers, peerPath(d, at), named), nil)
		}
	}
	// A direction that is not in policyTypes is not restricted, whatever rules are written for it.
	ingress, egress := isolates(policy.Ingress), isolates(policy.Egress)
	deny := denial{ingress: ingress && len(t.in.Ingress) == 0, egress: egress && len(t.in.Egress) == 0, logging: logging}
	if deny.ingress == ingress && deny.egress == egress {
		t.out.Rules = t.denyAll(deny)
		return
	}
	t.out.Rules = slab.Room(t.arena, &t.ruleLists, len(t.in.Ingress)+len(t.in.Egress)+1)
	if ingress {
		each(policy.Ingress, t.in.Ingress, t.at("spec.ingress"))
	}
	if egress {
		each(policy.Egress, t.in.Egress, t.at("spec.egress"))
	}
	t.out.Rules = append(t.out.Rules, t.denyAll(deny)...)
}

// denyAll returns the deny-all rules of some directions. Policies of nothing else, of which there
// is one in most Namespaces, share them.
func (t *translation) denyAll(d denial) []policy.ComputedRule {
	rules, known := t.denials[d]
	if !known {
		if d.ingress {
			rules = append(rules, t.rule(policy.RuleContent{Direction: policy.Ingress, EnableLogging: d.logging}, policy.ComputedPeer{}, nil))
		}
		if d.egress {
			rules = append(rules, t.rule(policy.RuleContent{Direction: policy.Egress, EnableLogging: d.logging}, policy.ComputedPeer{}, nil))
		}
		t.denials[d] = slices.Clip(rules)
	}
	return t.denials[d]
}

// denial identifies deny-all rules.
type denial struct{ ingress, egress, logging bool }

// kubernetesPeers refuses peers that a Kubernetes NetworkPolicy cannot have, and of which some
// reading would be wider than meant.
func (t *translation) kubernetesPeers(peers []policy.Peer, path string) {
	for i := range peers {
		p := &peers[i]
		switch selects := p.PodSelector != nil || p.NamespaceSelector != nil; {
		case p.IPBlock == nil && !selects:
			t.errs.Given(policy.Indexed(path, i), "nothing", "podSelector, namespaceSelector or ipBlock")
		case p.IPBlock != nil && selects:
			t.errs.Given(policy.Indexed(path, i), "ipBlock and a selector", "either ipBlock or selectors")
		}
	}
}
