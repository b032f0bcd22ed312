package translate

import (
	"math"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
	"github.com/nephele-io/nephele/internal/policy/slab"
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
	Namespaces(t *selectors.Terms, f func(name string, labels *selectors.Set))
	// Group returns the name of the group of what the terms select.
	Group(role policy.GroupRole, t selectors.Terms) string
	// ServiceGroup returns the name of the applied-to group of a Service.
	ServiceGroup(name policy.NamespacedName) string
	// Definition returns what is known of a Group, or of a ClusterGroup if the name has no
	// Namespace.
	Definition(name policy.NamespacedName) Definition
	// DefinedGroup returns the name of the group that is made of it; false if that has no members
	// to list.
	DefinedGroup(role policy.GroupRole, name policy.NamespacedName) (string, bool)
	// Foreign reports whether the terms select anything outside a Namespace.
	Foreign(t *selectors.Terms, home string) bool
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
	Leaves() []*selectors.Terms
	IPBlocks() []policy.CIDRBlock
}

// Translator translates policies. It keeps what many of them have in common.
type Translator struct {
	// reference is Options.ReferenceNamespacePeers.
	reference bool
	// everything selects all; simple are selectors by one label; denials are rules that many
	// policies have, contents what their rules say.
	everything *selectors.Selector
	simple     map[selectors.Label]*selectors.Selector
	denials    map[denial][]policy.ComputedRule
	contents   contents

	arena     *slab.Arena
	computed  slab.Slab[policy.ComputedPolicy]
	ruleLists slab.Slab[policy.ComputedRule]
	nameLists slab.Slab[string]
}

// newTranslator returns a Translator that makes what it makes in the arena.
func New(reference bool, in *slab.Arena) *Translator {
	return &Translator{
		reference: reference, arena: in,
		everything: &selectors.Selector{}, simple: make(map[selectors.Label]*selectors.Selector), denials: make(map[denial][]policy.ComputedRule),
	}
}

// Translated is what a policy translates to.
type Translated struct {
	// Policy is nil if anything is wrong.
	Policy           *policy.ComputedPolicy
	Errors, Warnings []policy.FieldError
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
	in          *policy.Policy
	out         *policy.ComputedPolicy
	errs, warns policy.ErrorList
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
func (tr *Translator) Translate(in *policy.Policy, by Resolver) Translated {
	t := tr.attempt(in, by, false)
	if len(t.errs.List)+len(t.warns.List) > len(in.Warnings) {
		by.Restart()
		t = tr.attempt(in, by, true)
	}
	out := Translated{Policy: t.out, Errors: t.errs.List, Warnings: t.warns.List, Tier: t.tier, Relative: t.relative}
	if len(t.errs.List) > 0 {
		out.Policy = nil
	}
	return out
}

// attempt translates the policy, and keeps paths for what is to be told only if that is asked for.
func (tr *Translator) attempt(in *policy.Policy, by Resolver, paths bool) translation {
	t := translation{Translator: tr, resolver: by, in: in, paths: paths}
	t.out = slab.One(tr.arena, &tr.computed)
	t.out.Source, t.out.Generation = policy.PolicyRef{Kind: in.Kind, Namespace: in.Namespace, Name: in.Name, UID: in.UID}, in.Generation
	t.warns.List = slices.Clip(in.Warnings)
	if in.UID == "" {
		t.errs.Add("metadata.uid", "", "a unique id")
	}
	if in.Kind == policy.KubernetesNetworkPolicy {
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
		t.rules(policy.Ingress, i, &t.in.Ingress[i], policy.Indexed(t.at("spec.ingress"), i))
	}
	for i := range t.in.Egress {
		t.rules(policy.Egress, i, &t.in.Egress[i], policy.Indexed(t.at("spec.egress"), i))
	}
}

// rank sets the tier and priority.
func (t *translation) rank() {
	priority := t.in.Priority
	if math.IsNaN(priority) || math.IsInf(priority, 0) {
		t.errs.Add("spec.priority", "not finite", "a number from 1 to 10000")
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
		t.errs.Add("spec.tier", t.in.Tier, "the name of an existing Tier")
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
	for _, rules := range [][]policy.Rule{t.in.Ingress, t.in.Egress} {
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
		t.errs.Given("spec.appliedTo", "appliedTo in spec and in rules", "appliedTo either in spec or in every rule, not in both")
	case len(t.in.AppliedTo) == 0 && (without > 0 || with == 0):
		t.errs.Given("spec.appliedTo", "nothing", "appliedTo in spec or in every rule")
	}
	return with > 0
}

// rules translates one rule, into several if it has peers relative to a Namespace.
func (t *translation) rules(d policy.Direction, index int, in *policy.Rule, path string) {
	out := policy.RuleContent{
		Direction: d, Priority: int32(index), Action: in.Action, EnableLogging: in.EnableLogging,
		Name: in.Name, L7Protocols: in.L7Protocols, LogLabel: in.LogLabel,
	}
	switch in.Action {
	case policy.Allow, policy.Drop, policy.Reject, policy.Pass:
	default:
		t.errs.Add(policy.Below(path, ".action"), string(in.Action), "one of Allow, Drop, Reject, Pass")
	}
	var named bool
	out.Services, named = t.services(in, path)

	var plain, self, same []indexedPeer
	for i := range in.Peers {
		p := indexedPeer{&in.Peers[i], policy.Indexed(peerPath(d, path), i)}
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
		spaces = t.affected(in.AppliedTo, policy.Below(path, ".appliedTo"))
	}
	t.selfRules(out, self, spaces)
	for _, p := range same {
		t.sameLabelRules(out, p, spaces)
	}
}

// plainRule adds the rule for peers that do not depend on the Namespace.
func (t *translation) plainRule(out policy.RuleContent, in *policy.Rule, plain []indexedPeer, path string, named bool) {
	applied := in.AppliedTo
	at := policy.Below(path, ".appliedTo")
	if t.relative && len(t.in.AppliedTo) > 0 {
		applied, at = t.in.AppliedTo, t.at("spec.appliedTo")
	}
	appliedTo := t.appliedGroups(applied, at)
	switch {
	case out.Direction == policy.Egress && len(in.ToServices) > 0:
		t.serviceRules(out, in.ToServices, appliedTo)
	case in.NoPeers && len(in.Peers) == 0:
		t.addRule(out, policy.ComputedPeer{}, appliedTo)
	default:
		t.addRule(out, t.indexedPeers(out.Direction, plain, named), appliedTo)
	}
}

// serviceRules adds the rule for Services of this cluster, and one of the same rank for Services of
// the set. A name of ports is one that only members of its own group have.
func (t *translation) serviceRules(out policy.RuleContent, in []policy.ServicePeer, appliedTo []string) {
	var here []policy.ServicePeer
	var groups []indexedPeer
	var ports []policy.ServiceMatch
	for i := range in {
		if in[i].RemoteGroup == "" {
			here = append(here, in[i])
			continue
		}
		groups = append(groups, indexedPeer{&policy.Peer{RemoteGroup: in[i].RemoteGroup}, ""})
		ports = append(ports, policy.ServiceMatch{Port: &policy.PortRef{Name: in[i].RemotePort}})
	}
	if len(here) > 0 {
		t.addRule(out, policy.ComputedPeer{ToServices: t.toServices(here)}, appliedTo)
	}
	if len(groups) > 0 {
		out.Services = ports
		t.addRule(out, t.indexedPeers(policy.Egress, groups, true), appliedTo)
	}
}

func peerPath(d policy.Direction, path string) string {
	if d == policy.Ingress {
		return policy.Below(path, ".from")
	}
	return policy.Below(path, ".to")
}

// definition returns the definition of a group named by the policy, and warns if there is none.
func (t *translation) definition(name, path string) Definition {
	d := t.resolver.Definition(policy.NamespacedName{Namespace: t.in.Namespace, Name: name})
	if !d.Exists() {
		t.warns.Add(path, name, "an existing group")
	}
	return d
}

// appliedGroups returns the distinct names of the groups of appliedTo, in the order in which it has
// them: agents make the identities of rules from it.
func (t *translation) appliedGroups(in []policy.AppliedTo, path string) (names []string) {
	for i := range in {
		names = t.addName(names, t.appliedGroup(&in[i], policy.Indexed(path, i)))
	}
	return names
}

// addName adds the name of a group to a list, unless it is empty or there already.
func (t *translation) addName(names []string, name string) []string {
	if name == "" || slices.Contains(names, name) {
		return names
	}
	if names == nil {
		names = slab.Room(t.arena, &t.nameLists, 1)
	}
	return append(names, name)
}

// appliedGroup returns the name of the group for one appliedTo; empty if it names a group that has
// no members to list.
func (t *translation) appliedGroup(at *policy.AppliedTo, path string) string {
	switch {
	case at.Group != "":
		d := t.definition(at.Group, policy.Below(path, ".group"))
		t.fence(d, at.Group, policy.Below(path, ".group"))
		name, _ := t.resolver.DefinedGroup(policy.AppliedToGroup, policy.NamespacedName{Namespace: t.in.Namespace, Name: at.Group})
		return name
	case at.Service != nil:
		return t.resolver.ServiceGroup(*at.Service)
	}
	return t.resolver.Group(policy.AppliedToGroup, t.appliedTerms(at, path))
}

// fence refuses a Group with members outside the policy's Namespace as what the policy is applied
// to.
func (t *translation) fence(d Definition, name, path string) {
	if t.in.Namespace == "" || !d.Usable() {
		return
	}
	foreign := false
	for _, leaf := range d.Leaves() {
		if leaf.Namespaces == nil && leaf.Namespace == t.in.Namespace || leaf.Normalized() == "" {
			continue
		}
		foreign = t.resolver.Foreign(leaf, t.in.Namespace) || foreign
	}
	if foreign {
		t.errs.Add(path, name, WantOwnNamespace)
	}
}

// appliedTerms compiles the selectors of one appliedTo.
func (t *translation) appliedTerms(at *policy.AppliedTo, path string) selectors.Terms {
	switch {
	case at.ServiceAccount != nil:
		return serviceAccountTerms(at.ServiceAccount)
	case at.NodeSelector != nil:
		return selectors.Terms{Node: t.selector(at.NodeSelector, policy.Below(path, ".nodeSelector"), &t.errs)}
	}
	return selectors.Terms{
		Namespace:  t.in.Namespace,
		Namespaces: t.selector(at.NamespaceSelector, policy.Below(path, ".namespaceSelector"), &t.errs),
		Pod:        t.selector(at.PodSelector, policy.Below(path, ".podSelector"), &t.errs),
		External:   t.selector(at.ExternalEntitySelector, policy.Below(path, ".externalEntitySelector"), &t.errs),
	}
}

func serviceAccountTerms(account *policy.NamespacedName) selectors.Terms {
	return selectors.Terms{Namespace: account.Namespace, Pod: selectors.OneLabel(selectors.Label{Key: selectors.ServiceAccountLabel, Value: account.Name})}
}

func (t *translation) toServices(in []policy.ServicePeer) []policy.NamespacedName {
	out := make([]policy.NamespacedName, len(in))
	for i, s := range in {
		if s.Namespace == "" {
			s.Namespace = t.in.Namespace
		}
		if s.Scope == "ClusterSet" && !strings.HasPrefix(s.Name, multiclusterPrefix) {
			s.Name = multiclusterPrefix + s.Name
		}
		out[i] = policy.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	}
	return out
}

// multiclusterPrefix begins the names of Services imported from other clusters of a ClusterSet.
const multiclusterPrefix = "antrea-mc-"

// maxSimple is the number of selectors by one label that an Engine remembers before it begins anew.
const maxSimple = 1 << 12

// selector is compileSelector that does not compile the simplest selectors, of which there are many
// alike, each time.
func (tr *Translator) selector(s *policy.Selector, path string, errs *policy.ErrorList) *selectors.Selector {
	if s == nil {
		return nil
	}
	var only selectors.Label
	if len(s.MatchExpressions) == 0 {
		if len(s.MatchLabels) == 0 {
			return tr.everything
		}
		if len(s.MatchLabels) == 1 {
			for only.Key, only.Value = range s.MatchLabels {
				if known := tr.simple[only]; known != nil {
					return known
				}
			}
		}
	}
	before := len(errs.List)
	out := selectors.Compile(s, path, errs)
	if only.Key != "" && len(errs.List) == before {
		if len(tr.simple) >= maxSimple {
			clear(tr.simple)
		}
		tr.simple[only] = out
	}
	return out
}
