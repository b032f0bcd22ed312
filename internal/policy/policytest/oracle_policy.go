package policytest

import (
	"slices"
	"sort"

	"github.com/nephele-io/nephele/internal/policy"
)

// policy computes one policy. If anything in it is wrong, it leaves no trace.
func (o *oracle) policy(in policy.Policy) {
	p := &oraclePolicy{in: in, atgs: map[*oracleGroup]bool{}}
	p.out.Source = policy.PolicyRef{Kind: in.Kind, Namespace: in.Namespace, Name: in.Name, UID: in.UID}
	p.out.Generation = in.Generation
	if in.Kind == policy.KubernetesNetworkPolicy {
		o.kubernetes(p)
	} else {
		o.antrea(p)
	}
	if p.invalid {
		return
	}
	o.policies = append(o.policies, p)
	for _, use := range p.pendings {
		use()
	}
}

// use notes that the policy uses the group, once it turns out to be valid.
func (p *oraclePolicy) use(role policy.GroupRole, g *oracleGroup) string {
	p.pendings = append(p.pendings, func() {
		if !slices.Contains(g.users, p) {
			g.users = append(g.users, p)
		}
		if role == policy.AppliedToGroup {
			p.atgs[g] = true
		}
	})
	return g.name
}

func (p *oraclePolicy) check(selectors ...*policy.Selector) {
	for _, s := range selectors {
		if s == nil {
			continue
		}
		for _, r := range s.MatchExpressions {
			needsValues := r.Operator == "In" || r.Operator == "NotIn"
			known := needsValues || r.Operator == "Exists" || r.Operator == "DoesNotExist"
			if !known || needsValues != (len(r.Values) > 0) {
				p.invalid = true
			}
		}
	}
}

func (o *oracle) kubernetes(p *oraclePolicy) {
	in := p.in
	for _, a := range in.AppliedTo {
		p.out.AppliedToGroups = append(p.out.AppliedToGroups, o.applied(p, a)...)
	}
	p.out.AppliedToGroups = unique(p.out.AppliedToGroups)
	types := in.PolicyTypes
	if len(types) == 0 {
		types = []policy.Direction{policy.Ingress}
		if len(in.Egress) > 0 {
			types = append(types, policy.Egress)
		}
	}
	logging := o.w.Namespaces[in.Namespace].LogNetworkPolicies
	var last []policy.ComputedRule
	for _, d := range []policy.Direction{policy.Ingress, policy.Egress} {
		rules := in.Ingress
		if d == policy.Egress {
			rules = in.Egress
		}
		if !slices.Contains(types, d) {
			continue
		}
		for _, r := range rules {
			out := policy.RuleContent{Direction: d, Priority: -1, Action: policy.Allow, EnableLogging: logging, Services: services(p, r)}
			p.out.Rules = append(p.out.Rules, policy.NewRule(out, o.peer(p, d, r.Peers, r), nil))
		}
		if len(rules) == 0 {
			last = append(last, policy.NewRule(policy.RuleContent{Direction: d, EnableLogging: logging}, policy.ComputedPeer{}, nil))
		}
	}
	p.out.Rules = append(p.out.Rules, last...)
}

func (o *oracle) antrea(p *oraclePolicy) {
	in := p.in
	tier := in.Tier
	if tier == "" {
		tier = "application"
	}
	priorities := map[string]int32{
		"emergency": 50, "securityops": 100, "networkops": 150, "platform": 200, "application": 250, "baseline": 253,
	}
	for name, t := range o.w.Tiers {
		priorities[name] = t.Priority
	}
	n, ok := priorities[tier]
	if in.TierPriority != nil {
		n, ok = *in.TierPriority, true
	}
	if !ok {
		p.invalid = true
	}
	priority := in.Priority
	p.out.TierPriority, p.out.Priority = &n, &priority
	all := append(append([]policy.Rule(nil), in.Ingress...), in.Egress...)
	inRules, relative := 0, false
	for _, r := range all {
		if len(r.AppliedTo) > 0 {
			inRules++
		}
		for _, x := range r.Peers {
			relative = relative || x.Namespaces != nil
		}
	}
	if len(in.AppliedTo) > 0 && inRules > 0 || len(in.AppliedTo) == 0 && (inRules == 0 || inRules < len(all)) {
		p.invalid = true
	}
	if !relative && inRules == 0 {
		for _, a := range in.AppliedTo {
			p.out.AppliedToGroups = append(p.out.AppliedToGroups, o.applied(p, a)...)
		}
		p.out.AppliedToGroups = unique(p.out.AppliedToGroups)
	}
	for i, r := range in.Ingress {
		o.rule(p, policy.Ingress, i, r, relative)
	}
	for i, r := range in.Egress {
		o.rule(p, policy.Egress, i, r, relative)
	}
}

// unique keeps the first of each, in the order as written.
func unique(in []string) []string {
	var out []string
	for _, name := range in {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func (o *oracle) rule(p *oraclePolicy, d policy.Direction, index int, in policy.Rule, relative bool) {
	base := policy.RuleContent{
		Direction: d, Priority: int32(index), Action: in.Action, EnableLogging: in.EnableLogging, Name: in.Name,
		L7Protocols: in.L7Protocols, LogLabel: in.LogLabel, Services: services(p, in),
	}
	appliedTo := in.AppliedTo
	if relative && len(appliedTo) == 0 {
		appliedTo = p.in.AppliedTo
	}
	var plain, self, same []policy.Peer
	for _, x := range in.Peers {
		switch {
		case x.Namespaces == nil:
			plain = append(plain, x)
		case x.Namespaces.Match != "":
			self = append(self, x)
		default:
			same = append(same, x)
		}
	}
	if len(plain) > 0 || len(in.Peers) == 0 {
		var applied []string
		for _, a := range appliedTo {
			applied = append(applied, o.applied(p, a)...)
		}
		peer := o.peer(p, d, plain, in)
		if d == policy.Egress && len(in.ToServices) > 0 {
			peer = policy.ComputedPeer{}
			for _, s := range in.ToServices {
				if s.Namespace == "" {
					s.Namespace = p.in.Namespace
				}
				peer.ToServices = append(peer.ToServices, policy.NamespacedName{Namespace: s.Namespace, Name: s.Name})
			}
		}
		p.out.Rules = append(p.out.Rules, policy.NewRule(base, peer, unique(applied)))
	}
	if len(self)+len(same) == 0 {
		return
	}
	for _, x := range self {
		p.check(x.PodSelector, x.ExternalEntitySelector)
	}
	spaces := o.spaces(p, appliedTo)
	names := make([]string, 0, len(spaces))
	for n := range spaces {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		if len(self) > 0 {
			o.sameNamespace(p, base, self, n, spaces[n])
		}
	}
	for _, x := range same {
		o.sameLabels(p, base, x, spaces, names)
	}
}

// sameNamespace adds the copy of a rule for one Namespace.
func (o *oracle) sameNamespace(p *oraclePolicy, base policy.RuleContent, peers []policy.Peer, namespace string, applied []*oracleGroup) {
	names := unique(p.useAll(applied))
	var peer policy.ComputedPeer
	for _, x := range peers {
		g := o.group(policy.AddressGroup, pick{namespace: namespace, pod: x.PodSelector, ee: x.ExternalEntitySelector})
		peer.AddressGroups = append(peer.AddressGroups, p.use(policy.AddressGroup, g))
	}
	p.out.Rules = append(p.out.Rules, policy.NewRule(base, peer, names))
}

func (o *oracle) sameLabels(p *oraclePolicy, base policy.RuleContent, x policy.Peer, spaces map[string][]*oracleGroup, names []string) {
	p.check(x.PodSelector, x.ExternalEntitySelector)
	classes := map[string][]string{}
	values := map[string]map[string]string{}
	for _, n := range names {
		id, labels := "", map[string]string{}
		for _, k := range x.Namespaces.SameLabels {
			v, ok := o.w.Namespaces[n].Labels[k]
			if !ok {
				labels = nil
				break
			}
			labels[k] = v
			id += v + "\x00"
		}
		if labels != nil {
			classes[id], values[id] = append(classes[id], p.useAll(spaces[n])...), labels
		}
	}
	ids := make([]string, 0, len(classes))
	for id := range classes {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	for _, id := range ids {
		g := o.group(policy.AddressGroup, pick{
			nsSel: &policy.Selector{MatchLabels: values[id]}, pod: x.PodSelector, ee: x.ExternalEntitySelector,
		})
		peer := policy.ComputedPeer{AddressGroups: []string{p.use(policy.AddressGroup, g)}}
		p.out.Rules = append(p.out.Rules, policy.NewRule(base, peer, unique(classes[id])))
	}
}

// spaces returns the applied-to groups per known Namespace.
func (o *oracle) spaces(p *oraclePolicy, appliedTo []policy.AppliedTo) map[string][]*oracleGroup {
	out := map[string][]*oracleGroup{}
	for _, a := range appliedTo {
		var picks []pick
		switch {
		case a.Service != nil || a.NodeSelector != nil:
		case a.Group != "":
			picks = o.picks(policy.NamespacedName{Namespace: p.in.Namespace, Name: a.Group})
		case a.ServiceAccount != nil:
			picks = []pick{accountPick(a.ServiceAccount)}
		default:
			p.check(a.NamespaceSelector, a.PodSelector, a.ExternalEntitySelector)
			picks = []pick{{p.in.Namespace, a.NamespaceSelector, a.PodSelector, a.ExternalEntitySelector, nil}}
		}
		for _, s := range picks {
			if s == (pick{}) {
				continue // selects nothing
			}
			for name, n := range o.w.Namespaces {
				elsewhere := s.nsSel != nil && !selects(s.nsSel, n.Labels) ||
					s.nsSel == nil && s.namespace != "" && s.namespace != name
				if elsewhere || s.node != nil && s.ee == nil {
					continue
				}
				out[name] = append(out[name], o.group(policy.AppliedToGroup, pick{namespace: name, pod: s.pod, ee: s.ee}))
			}
		}
	}
	return out
}

// useAll makes the policy use the groups, and returns their names.
func (p *oraclePolicy) useAll(groups []*oracleGroup) []string {
	var out []string
	for _, g := range groups {
		out = append(out, p.use(policy.AppliedToGroup, g))
	}
	return out
}

func accountPick(a *policy.NamespacedName) pick {
	return pick{namespace: a.Namespace, pod: &policy.Selector{
		MatchLabels: map[string]string{"internal.antrea.io/service-account": a.Name},
	}}
}

// applied returns the names of the groups of one appliedTo: one or none.
func (o *oracle) applied(p *oraclePolicy, a policy.AppliedTo) []string {
	var g *oracleGroup
	switch {
	case a.Group != "":
		o.stayHome(p, a.Group)
		if g = o.fromGroup(policy.AppliedToGroup, policy.NamespacedName{Namespace: p.in.Namespace, Name: a.Group}); g == nil {
			return nil
		}
	case a.Service != nil:
		name := uuid(a.Service.Namespace + "/" + a.Service.Name)
		g = o.named(policy.AppliedToGroup, name, name, nil)
		g.service = a.Service
	case a.ServiceAccount != nil:
		g = o.group(policy.AppliedToGroup, accountPick(a.ServiceAccount))
	case a.NodeSelector != nil:
		p.check(a.NodeSelector)
		g = o.group(policy.AppliedToGroup, pick{node: a.NodeSelector})
	default:
		p.check(a.NamespaceSelector, a.PodSelector, a.ExternalEntitySelector)
		g = o.group(policy.AppliedToGroup, pick{p.in.Namespace, a.NamespaceSelector, a.PodSelector, a.ExternalEntitySelector, nil})
	}
	return []string{p.use(policy.AppliedToGroup, g)}
}

// stayHome finds a policy invalid that is applied to a Group with anything in another Namespace.
func (o *oracle) stayHome(p *oraclePolicy, group string) {
	if p.in.Namespace == "" {
		return
	}
	for _, s := range o.picks(policy.NamespacedName{Namespace: p.in.Namespace, Name: group}) {
		for _, e := range o.w.Entities {
			if e.Namespace != p.in.Namespace && o.has(s, e) {
				p.invalid = true
			}
		}
	}
}
