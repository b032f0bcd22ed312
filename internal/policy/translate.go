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

// WantOwnNamespace is what an error says that is wanted of a Group to which a policy of its
// Namespace is applied: it may select elsewhere as a peer, but a policy reaches no further than its
// Namespace. The error comes and goes with what the Group selects.
const WantOwnNamespace = "a group that selects nothing outside the Namespace of the policy"

// Resolver answers what a policy refers to. The groups that it names are used by the policy from
// then on, and it notes what else an answer depends on.
type Resolver interface {
	// Restart begins the policy anew: nothing that was named or asked so far is used by it.
	Restart()
	// Tier returns the priority of a Tier; false if there is none with that name.
	Tier(name string) (int32, bool)
	// Logs reports whether the Kubernetes NetworkPolicies of a Namespace are logged.
	Logs(namespace string) bool
	// Namespaces calls f for every known Namespace that what the terms select may be in.
	Namespaces(t *terms, f func(name string, labels *labelSet))
	// Group returns the name of the group of what the terms select.
	Group(role GroupRole, t terms) string
	// ServiceGroup returns the name of the applied-to group of a Service.
	ServiceGroup(name NamespacedName) string
	// Definition returns what is known of a Group, or of a ClusterGroup if the name has no
	// Namespace.
	Definition(name NamespacedName) Definition
	// DefinedGroup returns the name of the group that is made of it; false if that has no members
	// to list.
	DefinedGroup(role GroupRole, name NamespacedName) (string, bool)
	// Foreign reports whether the terms select anything outside a Namespace.
	Foreign(t *terms, home string) bool
}

// Definition is what is known of a Group or ClusterGroup.
type Definition interface {
	// Exists reports whether there is such an object, and Usable whether it is valid, too:
	// otherwise it is as if it did not exist.
	Exists() bool
	Usable() bool
	// Nested reports whether it is made of other groups.
	Nested() bool
	// Leaves are the terms, and IPBlocks the ipBlocks, that it is made of in the end.
	Leaves() []*terms
	IPBlocks() []CIDRBlock
}

// Translator translates policies. It keeps what many of them have in common.
type Translator struct {
	// reference is Options.ReferenceNamespacePeers.
	reference bool
	// everything selects all; simple are selectors by one label; denials are rules that many
	// policies have, contents what their rules say.
	everything *selector
	simple     map[label]*selector
	denials    map[denial][]ComputedRule
	contents   contents

	arena     *arena
	computed  slab[ComputedPolicy]
	ruleLists slab[ComputedRule]
	nameLists slab[string]
}

// newTranslator returns a Translator that makes what it makes in the arena.
func newTranslator(reference bool, in *arena) *Translator {
	return &Translator{
		reference: reference, arena: in,
		everything: &selector{}, simple: make(map[label]*selector), denials: make(map[denial][]ComputedRule),
	}
}

// Translated is what a policy translates to.
type Translated struct {
	// Policy is nil if anything is wrong.
	Policy           *ComputedPolicy
	Errors, Warnings []FieldError
	// Tier is the name of the Tier that the policy is in; empty if it is in none that has an
	// object.
	Tier string
	// Relative policies have rules per Namespace: they depend on the labels of all Namespaces.
	Relative bool
}

// translation is one policy on its way from input to computed form.
type translation struct {
	*Translator
	resolver    Resolver
	in          *Policy
	out         *ComputedPolicy
	errs, warns errorList
	tier        string
	// paths are kept; otherwise they are empty.
	paths bool
	// relative policies have rules per Namespace.
	relative bool
	// spaces are, for relative policies with appliedTo in their spec, the Namespaces that it
	// reaches into.
	spaces []space
}

// Translate translates a policy. What is wrong is found again, with its path, in a second attempt,
// for which the resolver restarts.
func (tr *Translator) Translate(in *Policy, by Resolver) Translated {
	t := tr.attempt(in, by, false)
	if len(t.errs.list)+len(t.warns.list) > len(in.Warnings) {
		by.Restart()
		t = tr.attempt(in, by, true)
	}
	out := Translated{Policy: t.out, Errors: t.errs.list, Warnings: t.warns.list, Tier: t.tier, Relative: t.relative}
	if len(t.errs.list) > 0 {
		out.Policy = nil
	}
	return out
}

// attempt translates the policy, and keeps paths for what is to be told only if that is asked for.
func (tr *Translator) attempt(in *Policy, by Resolver, paths bool) translation {
	t := translation{Translator: tr, resolver: by, in: in, paths: paths}
	t.out = one(tr.arena, &tr.computed)
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

// antrea translates a policy with tier, priority and actions.
func (t *translation) antrea() {
	t.rank()
	t.relative = t.isRelative(t.in.Ingress) || t.isRelative(t.in.Egress)
	perRule := t.checkAppliedTo()
	if t.relative && !perRule {
		t.spaces = t.affected(t.in.AppliedTo, t.at("spec.appliedTo"))
		for _, s := range t.spaces {
			if t.reference {
				t.groupsOf(&s) // there the policy is for all of them, whether or not a rule is
			}
		}
	}
	if !perRule && !t.relative {
		t.out.AppliedToGroups = t.appliedGroups(t.in.AppliedTo, t.at("spec.appliedTo"))
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
	p, ok := t.resolver.Tier(t.tier)
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
	appliedTo := t.appliedGroups(applied, at)
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

// definition returns the definition of a group named by the policy, and warns if there is none.
func (t *translation) definition(name, path string) Definition {
	d := t.resolver.Definition(NamespacedName{t.in.Namespace, name})
	if !d.Exists() {
		t.warns.add(path, name, "an existing group")
	}
	return d
}

// appliedGroups returns the distinct names of the groups of appliedTo, in the order in which it has
// them: agents make the identities of rules from it.
func (t *translation) appliedGroups(in []AppliedTo, path string) (names []string) {
	for i := range in {
		names = t.addName(names, t.appliedGroup(&in[i], indexed(path, i)))
	}
	return names
}

// addName adds the name of a group to a list, unless it is empty or there already.
func (t *translation) addName(names []string, name string) []string {
	if name == "" || slices.Contains(names, name) {
		return names
	}
	if names == nil {
		names = roomFor(t.arena, &t.nameLists, 1)
	}
	return append(names, name)
}

// appliedGroup returns the name of the group for one appliedTo; empty if it names a group that has
// no members to list.
func (t *translation) appliedGroup(at *AppliedTo, path string) string {
	switch {
	case at.Group != "":
		d := t.definition(at.Group, below(path, ".group"))
		t.fence(d, at.Group, below(path, ".group"))
		name, _ := t.resolver.DefinedGroup(AppliedToGroup, NamespacedName{t.in.Namespace, at.Group})
		return name
	case at.Service != nil:
		return t.resolver.ServiceGroup(*at.Service)
	}
	return t.resolver.Group(AppliedToGroup, t.appliedTerms(at, path))
}

// fence refuses a Group with members outside the policy's Namespace as what the policy is applied
// to.
func (t *translation) fence(d Definition, name, path string) {
	if t.in.Namespace == "" || !d.Usable() {
		return
	}
	foreign := false
	for _, leaf := range d.Leaves() {
		if leaf.namespaces == nil && leaf.namespace == t.in.Namespace || leaf.normalized() == "" {
			continue
		}
		foreign = t.resolver.Foreign(leaf, t.in.Namespace) || foreign
	}
	if foreign {
		t.errs.add(path, name, WantOwnNamespace)
	}
}

// appliedTerms compiles the selectors of one appliedTo.
func (t *translation) appliedTerms(at *AppliedTo, path string) terms {
	switch {
	case at.ServiceAccount != nil:
		return serviceAccountTerms(at.ServiceAccount)
	case at.NodeSelector != nil:
		return terms{node: t.selector(at.NodeSelector, below(path, ".nodeSelector"), &t.errs)}
	}
	return terms{
		namespace:  t.in.Namespace,
		namespaces: t.selector(at.NamespaceSelector, below(path, ".namespaceSelector"), &t.errs),
		pod:        t.selector(at.PodSelector, below(path, ".podSelector"), &t.errs),
		external:   t.selector(at.ExternalEntitySelector, below(path, ".externalEntitySelector"), &t.errs),
	}
}

func serviceAccountTerms(account *NamespacedName) terms {
	return terms{namespace: account.Namespace, pod: oneLabel(label{serviceAccountLabel, account.Name})}
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

// maxSimple is the number of selectors by one label that an Engine remembers before it begins anew.
const maxSimple = 1 << 12

// selector is compileSelector that does not compile the simplest selectors, of which there are many
// alike, each time.
func (tr *Translator) selector(s *Selector, path string, errs *errorList) *selector {
	if s == nil {
		return nil
	}
	var only label
	if len(s.MatchExpressions) == 0 {
		if len(s.MatchLabels) == 0 {
			return tr.everything
		}
		if len(s.MatchLabels) == 1 {
			for only.key, only.value = range s.MatchLabels {
				if known := tr.simple[only]; known != nil {
					return known
				}
			}
		}
	}
	before := len(errs.list)
	out := compileSelector(s, path, errs)
	if only.key != "" && len(errs.list) == before {
		if len(tr.simple) >= maxSimple {
			clear(tr.simple)
		}
		tr.simple[only] = out
	}
	return out
}
