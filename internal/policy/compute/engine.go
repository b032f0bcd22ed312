package compute

import (
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/slab"
	"github.com/nephele-io/nephele/internal/policy/span"
	"github.com/nephele-io/nephele/internal/policy/translate"
	"github.com/nephele-io/nephele/internal/policy/world"
)

// Options choose between readings of the policy language.
type Options struct {
	// ReferenceNamespacePeers reproduces the Antrea Controller's reading of rules with `namespaces`
	// peers whose appliedTo names a group (the rule then applies to all Pods of each Namespace of
	// the group, not to the group's members) or whose appliedTo entries overlap (the last one
	// wins). Off, the rule applies to exactly what appliedTo selects.
	ReferenceNamespacePeers bool
}

// Engine computes policies. See the package comment for its contract; use New.
//
// It is made of values that each own one step of the computation. What is to be done at the next
// Commit is listed in the value that it changes; Commit goes through these lists.
type Engine struct {
	options Options
	arena   *slab.Arena
	// What is given.
	world       world.World
	tiers       map[string]int32
	definitions definitions
	policies    policies
	// What follows from it.
	hosts   span.Hosts
	groups  groups
	reaches reaches
	fences  fences
	reports reports

	translator *translate.Translator
	uses       uses
	// scratch is where sources make policies.
	scratch policy.Policy
	// commits counts the Commits; last is what the last one returned, to be used again, if it is
	// small.
	commits uint32
	last    *Changes
}

// New returns an Engine that knows the system tiers and nothing else.
func New(options Options) *Engine {
	e := &Engine{options: options, arena: &slab.Arena{}, tiers: make(map[string]int32)}
	e.groups = groups{slabs: groupSlabs{arena: e.arena}, services: make(map[string]*group)}
	e.reaches = reaches{slabs: reachSlabs{arena: e.arena}, groups: &e.groups, byKey: make(map[string]*reach)}
	e.policies = policies{byTier: make(map[string]map[*policyState]struct{}), relative: make(map[*policyState]struct{})}
	e.fences = fences{
		policies: &e.policies, bySelection: make(map[*world.Selection][]*fence), byPolicy: make(map[*policyState][]*fence),
	}
	e.world = world.New(e.arena, &e.hosts)
	e.reports.sent = make(map[reportKey]report)
	e.definitions = definitions{
		world: &e.world, groups: &e.groups, policies: &e.policies, reports: &e.reports,
		services: make(map[policy.NamespacedName]*policy.Service), byService: make(map[policy.NamespacedName]map[*groupDef]struct{}),
		byName: make(map[policy.NamespacedName]*groupDef),
	}
	e.translator, e.uses.e = translate.New(options.ReferenceNamespacePeers, e.arena), e
	for _, t := range policy.SystemTiers() {
		e.tiers[t.Name] = t.Priority
	}
	return e
}

// PutNamespace adds or replaces a Namespace.
func (e *Engine) PutNamespace(in policy.Namespace) {
	relabelled, logs := e.world.PutNamespace(in)
	if logs {
		e.policies.touchKubernetes(in.Name)
	}
	if relabelled {
		e.policies.touchRelative()
	}
}

// DeleteNamespace forgets a Namespace. Its entities and policies stay until they are deleted
// themselves.
func (e *Engine) DeleteNamespace(name string) {
	was, logs := e.world.DeleteNamespace(name)
	if logs {
		e.policies.touchKubernetes(name)
	}
	if was {
		e.policies.touchRelative()
	}
}

// PutEntity adds or replaces an entity.
func (e *Engine) PutEntity(in policy.Entity) { e.world.Put(in) }

// DeleteEntity forgets an entity.
func (e *Engine) DeleteEntity(ref policy.EntityRef) { e.world.Drop(ref) }

// PutService adds or replaces a Service.
func (e *Engine) PutService(s policy.Service) {
	name := policy.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	e.definitions.services[name] = &s
	e.definitions.redefine(name)
}

// DeleteService forgets a Service.
func (e *Engine) DeleteService(name policy.NamespacedName) {
	if _, ok := e.definitions.services[name]; ok {
		delete(e.definitions.services, name)
		e.definitions.redefine(name)
	}
}

// PutTier adds or replaces a Tier.
func (e *Engine) PutTier(t policy.Tier) {
	if old, ok := e.tiers[t.Name]; ok && old == t.Priority {
		return
	}
	e.tiers[t.Name] = t.Priority
	e.policies.touchTier(t.Name)
}

// DeleteTier forgets a Tier; a system tier falls back to its built-in priority.
func (e *Engine) DeleteTier(name string) {
	if _, ok := e.tiers[name]; !ok {
		return
	}
	delete(e.tiers, name)
	for _, t := range policy.SystemTiers() {
		if t.Name == name {
			e.tiers[name] = t.Priority
		}
	}
	e.policies.touchTier(name)
}

// PutGroup adds or replaces a Group or ClusterGroup.
func (e *Engine) PutGroup(g policy.Group) {
	e.definitions.define(e.definitions.named(policy.NamespacedName{Namespace: g.Namespace, Name: g.Name}), &g)
}

// DeleteGroup forgets a Group, or with an empty Namespace a ClusterGroup.
func (e *Engine) DeleteGroup(name policy.NamespacedName) {
	if d := e.definitions.byName[name]; d != nil && d.in != nil {
		e.definitions.define(d, nil)
	}
}
