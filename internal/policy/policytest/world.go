package policytest

import (
	"fmt"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// Put gives one object to the engine.
func Put(e *compute.Engine, o Object) {
	switch o := o.(type) {
	case policy.Namespace:
		e.PutNamespace(o)
	case policy.Entity:
		e.PutEntity(o)
	case policy.Service:
		e.PutService(o)
	case policy.Tier:
		e.PutTier(o)
	case policy.Group:
		e.PutGroup(o)
	case policy.Policy:
		e.PutPolicy(o)
	default:
		panic(fmt.Sprintf("not an input of the engine: %T", o))
	}
}

// Delete takes one object, of which only the identity counts, from the engine.
func Delete(e *compute.Engine, o Object) {
	switch o := o.(type) {
	case policy.Namespace:
		e.DeleteNamespace(o.Name)
	case policy.Entity:
		e.DeleteEntity(o.EntityRef)
	case policy.Service:
		e.DeleteService(policy.NamespacedName{Namespace: o.Namespace, Name: o.Name})
	case policy.Tier:
		e.DeleteTier(o.Name)
	case policy.Group:
		e.DeleteGroup(policy.NamespacedName{Namespace: o.Namespace, Name: o.Name})
	case policy.Policy:
		e.DeletePolicy(o.UID)
	default:
		panic(fmt.Sprintf("not an input of the engine: %T", o))
	}
}

// Put adds or replaces the object in the world.
func (w *World) Put(o Object) {
	switch o := o.(type) {
	case policy.Namespace:
		w.Namespaces[o.Name] = o
	case policy.Entity:
		w.Entities[o.EntityRef] = o
	case policy.Service:
		w.Services[policy.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o
	case policy.Tier:
		w.Tiers[o.Name] = o
	case policy.Group:
		w.Groups[policy.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o
	case policy.Policy:
		w.Policies[o.UID] = o
	}
}

// Delete takes the object from the world.
func (w *World) Delete(o Object) {
	switch o := o.(type) {
	case policy.Namespace:
		delete(w.Namespaces, o.Name)
	case policy.Entity:
		delete(w.Entities, o.EntityRef)
	case policy.Service:
		delete(w.Services, policy.NamespacedName{Namespace: o.Namespace, Name: o.Name})
	case policy.Tier:
		delete(w.Tiers, o.Name)
	case policy.Group:
		delete(w.Groups, policy.NamespacedName{Namespace: o.Namespace, Name: o.Name})
	case policy.Policy:
		delete(w.Policies, o.UID)
	}
}
