package policy

import (
	"math"
	"slices"
	"strings"
)

// defaultTier is the tier of policies that name none.
const defaultTier = "application"

// knpRulePriority is the priority of the rules of Kubernetes NetworkPolicies.
const knpRulePriority = -1

// translation is one policy on its way from input to computed form.
type translation struct {
	e           *Engine
	in          *Policy
	out         *ComputedPolicy
	errs, warns errorList
	// serial marks the groups that are in atgs and ags already.
	serial    uint64
	atgs, ags []*group
	defs      []*groupDef
	fences    []*fence
	tier      string
	// paths are kept; otherwise they are empty.
	paths bool
	// relative policies have rules per Namespace.
	relative bool
	// spaces are, for relative policies with appliedTo in their spec, the Namespaces that it
	// reaches into.
	spaces []space
}

// translate computes the policy. The groups in the result have been acquired. If anything is wrong,
// out is nil.
func (e *Engine) translate(in *Policy) translation {
	t := e.attempt(in, false)
	if len(t.errs.list)+len(t.warns.list) > len(in.Warnings) {
		t.abandon()
		t = e.attempt(in, true)
	}
	if len(t.errs.list) > 0 {
		t.out = nil
		t.releaseGroups()
	}
	return t
}

// attempt translates the policy, and keeps paths for what is to be told only if that is asked for.
func (e *Engine) attempt(in *Policy, paths bool) translation {
	e.translations++
	t := translation{e: e, in: in, serial: e.translations, paths: paths, atgs: e.atgScratch[:0]}
	t.out = one(&e.slabs, &e.slabs.computed)
	t.out.Source, t.out.Generation = PolicyRef{in.Kind, in.Namespace, in.Name, in.UID}, in.Generation
	t.warns.list = slices.Clip(in.Warnings)
	if in.UID == "" {
		t.errs.add("metadata.uid", "", "a unique id")
	}
	if in.Kind == KubernetesNetworkPolicy {
		t.kubernetes()
	} else {
		t.antrea()
	}
	return t
}

// at returns a path to begin with: nothing unless paths are kept.
func (t *translation) at(path string) string {
	if t.paths {
		return path
	}
	return ""
}

// abandon gives up all that the translation has acquired.
func (t *translation) abandon() {
	t.releaseGroups()
	for _, f := range t.fences {
		t.e.releaseFence(f)
	}
}

func (t *translation) releaseGroups() {
	for _, g := range t.atgs {
		t.e.releaseGroup(g)
	}
	for _, g := range t.ags {
		t.e.releaseGroup(g)
	}
	t.atgs, t.ags = nil, nil
}

// antrea translates a policy with tier, priority and actions.
func (t *translation) antrea() {
	t.rank()
	t.relative = t.isRelative(t.in.Ingress) || t.isRelative(t.in.Egress)
	perRule := t.checkAppliedTo()
	if t.relative && !perRule {
		t.spaces = t.affected(t.in.AppliedTo, t.at("spec.appliedTo"))
		for _, s := range t.spaces {
			if t.e.options.ReferenceNamespacePeers {
				t.groupsOf(s) // there the policy is for all of them, whether or not a rule is
			}
		}
	}
	if !perRule && !t.relative {
		for i := range t.in.AppliedTo {
			t.appliedGroup(&t.in.AppliedTo[i], indexed(t.at("spec.appliedTo"), i))
		}
		t.out.AppliedToGroups = t.groupNames(t.atgs)
	}
	for i := range t.in.Ingress {
		t.rules(Ingress, i, &t.in.Ingress[i], indexed(t.at("spec.ingress"), i))
	}
	for i := range t.in.Egress {
		t.rules(Egress, i, &t.in.Egress[i], indexed(t.at("spec.egress"), i))
	}
}

// rank sets the tier and priority.
func (t *translation) rank() {
	priority := t.in.Priority
	if math.IsNaN(priority) || math.IsInf(priority, 0) {
		t.errs.add("spec.priority", "not finite", "a number from 1 to 10000")
	}
	t.out.Priority = &priority
	if t.in.TierPriority != nil {
		t.out.TierPriority = t.in.TierPriority
		return
	}
	t.tier = t.in.Tier
	if t.tier == "" {
		t.tier = defaultTier
	}
	if legacy, ok := legacyTiers[t.tier]; ok {
		t.tier = legacy
	}
	p, ok := t.e.tiers[t.tier]
	if !ok {
		t.errs.add("spec.tier", t.in.Tier, "the name of an existing Tier")
	}
	t.out.TierPriority = &p
}

// legacyTiers are the names that the system tiers once had.
var legacyTiers = map[string]string{
	"Emergency": "emergency", "SecurityOps": "securityops", "NetworkOps": "networkops",
	"Platform": "platform", "Application": "application", "Baseline": "baseline",
}

// checkAppliedTo reports whether appliedTo stands in the rules.
func (t *translation) checkAppliedTo() (perRule bool) {
	with, without := 0, 0
	for _, rules := range [][]Rule{t.in.Ingress, t.in.Egress} {
		for i := range rules {
			if len(rules[i].AppliedTo) > 0 {
				with++
			} else {
				without++
			}
		}
	}
	switch {
	case len(t.in.AppliedTo) > 0 && with > 0:
		t.errs.given("spec.appliedTo", "appliedTo in spec and in rules", "appliedTo either in spec or in every rule, not in both")
	case len(t.in.AppliedTo) == 0 && (without > 0 || with == 0):
		t.errs.given("spec.appliedTo", "nothing", "appliedTo in spec or in every rule")
	}
	return with > 0
}

// rules translates one rule, into several if it has peers relative to a Namespace.
func (t *translation) rules(d Direction, index int, in *Rule, path string) {
	out := RuleContent{
		Direction: d, Priority: int32(index), Action: in.Action, EnableLogging: in.EnableLogging,
		Name: in.Name, L7Protocols: in.L7Protocols, LogLabel: in.LogLabel,
	}
	switch in.Action {
	case Allow, Drop, Reject, Pass:
	default:
		t.errs.add(below(path, ".action"), string(in.Action), "one of Allow, Drop, Reject, Pass")
	}
	var named bool
	out.Services, named = t.services(in, path)

	var plain, self, same []indexedPeer
	for i := range in.Peers {
		p := indexedPeer{&in.Peers[i], indexed(peerPath(d, path), i)}
		switch ns := in.Peers[i].Namespaces; {
		case ns == nil:
			plain = append(plain, p)
		case len(ns.SameLabels) > 0:
			same = append(same, p)
		default:
			self = append(self, p)
		}
	}
	if len(plain) > 0 || len(in.Peers) == 0 {
		t.plainRule(out, in, plain, path, named)
	}
	if len(self)+len(same) == 0 {
		return
	}
	spaces := t.spaces
	if len(in.AppliedTo) > 0 {
		spaces = t.affected(in.AppliedTo, below(path, ".appliedTo"))
	}
	t.selfRules(out, self, spaces)
	for _, p := range same {
		t.sameLabelRules(out, p, spaces)
	}
}

// plainRule adds the rule for peers that do not depend on the Namespace.
func (t *translation) plainRule(out RuleContent, in *Rule, plain []indexedPeer, path string, named bool) {
	applied := in.AppliedTo
	at := below(path, ".appliedTo")
	if t.relative && len(t.in.AppliedTo) > 0 {
		applied, at = t.in.AppliedTo, t.at("spec.appliedTo")
	}
	var groups []*group
	for i := range applied {
		if g := t.appliedGroup(&applied[i], indexed(at, i)); g != nil {
			groups = append(groups, g)
		}
	}
	appliedTo := t.groupNames(groups)
	switch {
	case out.Direction == Egress && len(in.ToServices) > 0:
		t.serviceRules(out, in.ToServices, appliedTo)
	case in.NoPeers && len(in.Peers) == 0:
		t.addRule(out, ComputedPeer{}, appliedTo)
	default:
		t.addRule(out, t.indexedPeers(out.Direction, plain, named), appliedTo)
	}
}

// serviceRules adds the rule for Services of this cluster, and one of the same rank for Services of
// the set. A name of ports is one that only members of its own group have.
func (t *translation) serviceRules(out RuleContent, in []ServicePeer, appliedTo []string) {
	var here []ServicePeer
	var groups []indexedPeer
	var ports []ServiceMatch
	for i := range in {
		if in[i].RemoteGroup == "" {
			here = append(here, in[i])
			continue
		}
		groups = append(groups, indexedPeer{&Peer{RemoteGroup: in[i].RemoteGroup}, ""})
		ports = append(ports, ServiceMatch{Port: &PortRef{Name: in[i].RemotePort}})
	}
	if len(here) > 0 {
		t.addRule(out, ComputedPeer{ToServices: t.toServices(here)}, appliedTo)
	}
	if len(groups) > 0 {
		out.Services = ports
		t.addRule(out, t.indexedPeers(Egress, groups, true), appliedTo)
	}
}

func peerPath(d Direction, path string) string {
	if d == Ingress {
		return below(path, ".from")
	}
	return below(path, ".to")
}

// use keeps a group that has been acquired for the policy: once, however often it is named.
func (t *translation) use(g *group) *group {
	if g.mark == t.serial {
		t.e.releaseGroup(g)
		return g
	}
	g.mark = t.serial
	if g.role == AddressGroup {
		if t.ags == nil {
			t.ags = roomFor(&t.e.slabs, &t.e.slabs.groupLists, 1)
		}
		t.ags = append(t.ags, g)
	} else {
		t.atgs = append(t.atgs, g)
	}
	return g
}

// def keeps the def of a group named by the policy, and warns if there is no such group.
func (t *translation) def(name, path string) *groupDef {
	d := t.e.groupDefNamed(NamespacedName{t.in.Namespace, name})
	if !slices.Contains(t.defs, d) {
		t.defs = append(t.defs, d)
	}
	if d.in == nil {
		t.warns.add(path, name, "an existing group")
	}
	return d
}

// appliedGroup acquires the group for one appliedTo; nil if it names a group that has no members to
// list.
func (t *translation) appliedGroup(at *AppliedTo, path string) *group {
	switch {
	case at.Group != "":
		d := t.def(at.Group, below(path, ".group"))
		t.fence(d, below(path, ".group"))
		g := t.e.groupOf(AppliedToGroup, d)
		if g != nil {
			t.use(g)
		}
		return g
	case at.Service != nil:
		return t.use(t.e.acquireServiceGroup(*at.Service))
	}
	selection := t.appliedTerms(at, path)
	return t.use(t.e.acquireGroup(AppliedToGroup, &selection))
}

// appliedTerms compiles the selectors of one appliedTo.
func (t *translation) appliedTerms(at *AppliedTo, path string) terms {
	switch {
	case at.ServiceAccount != nil:
		return *serviceAccountTerms(at.ServiceAccount)
	case at.NodeSelector != nil:
		return terms{node: t.e.selector(at.NodeSelector, below(path, ".nodeSelector"), &t.errs)}
	}
	return terms{
		namespace:  t.in.Namespace,
		namespaces: t.e.selector(at.NamespaceSelector, below(path, ".namespaceSelector"), &t.errs),
		pod:        t.e.selector(at.PodSelector, below(path, ".podSelector"), &t.errs),
		external:   t.e.selector(at.ExternalEntitySelector, below(path, ".externalEntitySelector"), &t.errs),
	}
}

func serviceAccountTerms(account *NamespacedName) *terms {
	l := requirement{key: serviceAccountLabel, op: opEquals, values: []string{account.Name}}
	return &terms{namespace: account.Namespace, pod: &selector{text: selectorText([]requirement{l}), reqs: []requirement{l}}}
}

// acquireServiceGroup counts a policy's reference to the applied-to group of a Service.
func (e *Engine) acquireServiceGroup(name NamespacedName) *group {
	full := groupUUID(name.Namespace + "/" + name.Name)
	if g := e.serviceGroups[full]; g != nil {
		g.refs++
		return g
	}
	g := e.newGroup(AppliedToGroup, full, &origin{
		service: &Member{EntityRef: EntityRef{KindService, name.Namespace, name.Name}, Everywhere: true},
	})
	e.serviceGroups[full] = g
	return g
}

// groupNames returns the distinct names in the order in which the policy has them: agents make the
// identities of rules from it.
func (t *translation) groupNames(groups []*group) []string {
	if len(groups) == 0 {
		return nil
	}
	names := roomFor(&t.e.slabs, &t.e.slabs.names, len(groups))
	for _, g := range groups {
		if !slices.Contains(names, g.name) {
			names = append(names, g.name)
		}
	}
	return names
}

func (t *translation) toServices(in []ServicePeer) []NamespacedName {
	out := make([]NamespacedName, len(in))
	for i, s := range in {
		if s.Namespace == "" {
			s.Namespace = t.in.Namespace
		}
		if s.Scope == "ClusterSet" && !strings.HasPrefix(s.Name, multiclusterPrefix) {
			s.Name = multiclusterPrefix + s.Name
		}
		out[i] = NamespacedName{s.Namespace, s.Name}
	}
	return out
}

// multiclusterPrefix begins the names of Services imported from other clusters of a ClusterSet.
const multiclusterPrefix = "antrea-mc-"
