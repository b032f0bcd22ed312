package policy

import "slices"

// kubernetes translates a Kubernetes NetworkPolicy.
func (t *translation) kubernetes() {
	for _, other := range t.in.OtherTypes {
		t.errs.add("spec.policyTypes", other, "Ingress or Egress")
	}
	for i := range t.in.AppliedTo {
		t.appliedGroup(&t.in.AppliedTo[i], t.at("spec"))
	}
	t.out.AppliedToGroups = t.groupNames(t.atgs)
	isolates := func(d Direction) bool {
		if len(t.in.PolicyTypes) > 0 {
			return slices.Contains(t.in.PolicyTypes, d)
		}
		return d == Ingress || len(t.in.Egress) > 0
	}
	logging := false
	if n := t.e.namespaces[t.in.Namespace]; n != nil {
		logging = n.logKNP
	}
	each := func(d Direction, rules []Rule, path string) {
		if t.out.Rules == nil && len(rules) > 0 {
			t.out.Rules = roomFor(&t.e.slabs, &t.e.slabs.rules, len(rules))
		}
		for i := range rules {
			at := indexed(path, i)
			out := ComputedRule{Direction: d, Priority: knpRulePriority, Action: Allow, EnableLogging: logging}
			t.kubernetesPeers(rules[i].Peers, peerPath(d, at))
			var named bool
			out.Services, named = t.services(&rules[i], at)
			t.setPeer(&out, t.peers(d, rules[i].Peers, peerPath(d, at), named))
			t.out.Rules = append(t.out.Rules, out)
		}
	}
	// A direction that is not in policyTypes is not restricted, whatever rules are written for it.
	if isolates(Ingress) {
		each(Ingress, t.in.Ingress, t.at("spec.ingress"))
	}
	if isolates(Egress) {
		each(Egress, t.in.Egress, t.at("spec.egress"))
	}
	if isolates(Ingress) && len(t.in.Ingress) == 0 {
		t.denyAll(Ingress, logging)
	}
	if isolates(Egress) && len(t.in.Egress) == 0 {
		t.denyAll(Egress, logging)
	}
}

// denyAll adds the deny-all rule of a direction. Policies of nothing else, of which there is one in
// most Namespaces, share it.
func (t *translation) denyAll(d Direction, logging bool) {
	if len(t.out.Rules) > 0 {
		t.out.Rules = append(t.out.Rules, ComputedRule{Direction: d, EnableLogging: logging})
		return
	}
	key := denial{d, logging}
	if t.e.denials[key] == nil {
		t.e.denials[key] = []ComputedRule{{Direction: d, EnableLogging: logging}}
	}
	t.out.Rules = slices.Clip(t.e.denials[key])
}

// denial identifies a deny-all rule.
type denial struct {
	direction Direction
	logging   bool
}

// kubernetesPeers refuses peers that a Kubernetes NetworkPolicy cannot have, and of which some
// reading would be wider than meant.
func (t *translation) kubernetesPeers(peers []Peer, path string) {
	for i := range peers {
		p := &peers[i]
		switch selects := p.PodSelector != nil || p.NamespaceSelector != nil; {
		case p.IPBlock == nil && !selects:
			t.errs.given(indexed(path, i), "nothing", "podSelector, namespaceSelector or ipBlock")
		case p.IPBlock != nil && selects:
			t.errs.given(indexed(path, i), "ipBlock and a selector", "either ipBlock or selectors")
		}
	}
}
