package compute

import (
	"iter"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
	"github.com/nephele-io/nephele/internal/policy/world"
)

// Input names an object that an Engine was given. Entity is for entities only; of policies Name is
// the UID.
type Input struct {
	Kind            InputKind
	Entity          policy.EntityKind
	Namespace, Name string
}

// InputKind is what an Input is.
type InputKind uint8

// The kinds of inputs, in the order in which one refers to another.
const (
	InputNamespace InputKind = iota
	InputEntity
	InputService
	InputTier
	InputGroup
	InputPolicy
)

// Again gives another Engine, which it makes, everything that one was given, except what is left
// out. It looks at nothing that a Commit computes, so it can be asked after one that panicked.
func Again(e *Engine, leftOut func(Input) bool) *Engine {
	out := New(e.options)
	for in := range Inputs(e) {
		if !leftOut(in) {
			Held(e, in)(out)
		}
	}
	return out
}

// Inputs returns what an Engine was given.
func Inputs(e *Engine) iter.Seq[Input] {
	return func(yield func(Input) bool) {
		if !e.world.AllNamespaces(func(n *world.Namespace) bool { return yield(Input{Kind: InputNamespace, Name: n.Name}) }) {
			return
		}
		if !e.world.AllEntities(func(x *world.Entity) bool { return yield(Input{InputEntity, x.Kind, x.Namespace, x.Name}) }) {
			return
		}
		for name := range e.definitions.services {
			if !yield(Input{InputService, 0, name.Namespace, name.Name}) {
				return
			}
		}
		for name := range e.tiers {
			if !yield(Input{Kind: InputTier, Name: name}) {
				return
			}
		}
		for name, d := range e.definitions.byName {
			if d.in != nil && !yield(Input{InputGroup, 0, name.Namespace, name.Name}) {
				return
			}
		}
		for p := range e.policies.All() {
			if p.alive && !yield(Input{Kind: InputPolicy, Name: p.source.Ref().UID}) {
				return
			}
		}
	}
}

// Held returns what gives another Engine an object as an Engine has it now; it does nothing if it
// has none.
func Held(e *Engine, in Input) func(to *Engine) {
	name := policy.NamespacedName{Namespace: in.Namespace, Name: in.Name}
	switch in.Kind {
	case InputNamespace:
		if n := e.world.Namespace(in.Name); n != nil {
			labels, logs := n.Labels, n.Logged
			return func(to *Engine) {
				to.PutNamespace(policy.Namespace{Name: in.Name, Labels: labels.AsMap(), LogNetworkPolicies: logs})
			}
		}
	case InputEntity:
		if x := e.world.Entity(policy.EntityRef{Kind: in.Entity, Namespace: in.Namespace, Name: in.Name}); x != nil && x.Alive {
			m, labels, excluded := x.Member, x.Cell.Labels, x.Excluded
			return func(to *Engine) { to.PutEntity(asInput(m, labels, excluded)) }
		}
	case InputService:
		if s := e.definitions.services[name]; s != nil {
			return func(to *Engine) { to.PutService(*s) }
		}
	case InputTier:
		if priority, known := e.tiers[in.Name]; known {
			return func(to *Engine) { to.PutTier(policy.Tier{Name: in.Name, Priority: priority}) }
		}
	case InputGroup:
		if d := e.definitions.byName[name]; d != nil && d.in != nil {
			given := *d.in
			return func(to *Engine) { to.PutGroup(given) }
		}
	case InputPolicy:
		if p := e.policies.named(in.Name); p != nil && p.alive {
			source := p.source
			return func(to *Engine) { to.PutPolicySource(source) }
		}
	}
	return func(*Engine) {}
}

// asInput is an entity as it was given, as far as it counts.
func asInput(m *policy.Member, of *selectors.Set, excluded bool) policy.Entity {
	labels := of.AsMap()
	account := labels[selectors.ServiceAccountLabel]
	delete(labels, selectors.ServiceAccountLabel)
	return policy.Entity{
		EntityRef: m.EntityRef, Labels: labels, ServiceAccount: account, Addresses: m.IPs, Ports: m.Ports, Host: m.Host, HostNetwork: excluded,
	}
}
