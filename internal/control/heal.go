package control

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/platform/recovered"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

const (
	// healAgain is the pause before a new engine is tried once more where none would do.
	healAgain = time.Minute
	// healAttempts bounds how often everything is computed to find out what computing panics about;
	// then all that is suspected is left out.
	healAttempts = 100
)

// suspect is an object that came, changed or went since the last round that ended well.
type suspect struct {
	in input
	// former gives an engine the object as it was.
	former func(*compute.Engine)
}

// suspecting notes what an input is about to change, in case computing it panics.
func (c *Controller) suspecting(in input) {
	if !c.begun() {
		return // then everything is suspected
	}
	ref, known := inputRef(in)
	if !known {
		return
	}
	s, noted := c.suspects[ref]
	if !noted {
		s.former = compute.Held(c.engine, ref)
	}
	s.in = in
	c.suspects[ref] = s
}

// inputRef is what the engine calls an object.
func inputRef(in input) (compute.Input, bool) {
	key := in.gone
	if key == nil {
		var k inputKey
		switch o := in.object.(type) {
		case *convert.TrimmedPod:
			k = inputKey{kind: in.kind, NamespacedName: types.NamespacedName{Namespace: o.Namespace, Name: o.Name}}
		case client.Object:
			k = keyOf(in.kind, o)
		default:
			return compute.Input{}, false
		}
		key = &k
	}
	ref := compute.Input{Namespace: key.Namespace, Name: key.Name}
	switch {
	case key.kind.isPolicy():
		ref = compute.Input{Kind: compute.InputPolicy, Name: string(key.uid)}
	case key.kind == kindNamespace:
		ref.Kind = compute.InputNamespace
	case key.kind == kindPod:
		ref.Kind, ref.Entity = compute.InputEntity, policy.KindPod
	case key.kind == kindNode:
		ref.Kind, ref.Entity = compute.InputEntity, policy.KindNode
	case key.kind == kindEntity:
		ref.Kind, ref.Entity = compute.InputEntity, policy.KindExternalEntity
	case key.kind == kindRemote:
		ref.Kind, ref.Entity = compute.InputEntity, policy.KindRemote
	case key.kind == kindService:
		ref.Kind = compute.InputService
	case key.kind == kindTier:
		ref.Kind = compute.InputTier
	case key.kind == kindGroup || key.kind == kindClusterGroup:
		ref.Kind = compute.InputGroup
	default:
		return compute.Input{}, false
	}
	return ref, true
}

// heal goes on after a round that panicked. The state of the engine is unknown then, but its inputs
// are known. They are given to a new engine, except the objects that make it panic, which stay as
// they were when it did not. It fails if there is no such engine.
func (c *Controller) heal(fault error) error {
	h := &healing{from: c.engine, suspects: c.suspects}
	for ref := range compute.Inputs(c.engine) {
		if !c.begun() && (ref.Kind == compute.InputPolicy || ref.Kind == compute.InputGroup) {
			h.order = append(h.order, ref)
		}
	}
	for ref := range c.suspects {
		h.order = append(h.order, ref)
	}
	// Objects that refer to others come last, and are blamed for what goes wrong between them.
	slices.SortFunc(h.order, func(a, b compute.Input) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	guilty := h.guilty()
	engine, changes, err := h.compute(guilty)
	if err != nil {
		return err
	}
	c.engine, c.suspects = engine, map[compute.Input]suspect{}
	c.due = c.book.restart(c.due, changes)
	for _, ref := range guilty {
		c.leftOut(ref, h.suspects[ref].in, fault)
	}
	c.Options.Store.Replace(c.parts.Of(changes))
	c.queueDue()
	return nil
}

// leftOut reports an object that makes computing panic.
func (c *Controller) leftOut(ref compute.Input, in input, fault error) {
	c.Options.Logger.Error(fault, "An object stays as it was, because computing it panics", "kind", ref.Kind, "namespace", ref.Namespace, "name", ref.Name)
	if o, is := in.object.(client.Object); is && in.gone == nil {
		c.event(o, corev1.EventTypeWarning, "NotComputed", "ComputePolicies", "it stays as it was before, if it was: "+fault.Error())
	}
	if ref.Kind == compute.InputPolicy {
		c.book.fails(types.UID(ref.Name), fault)
		c.later(task{kind: taskPolicy, name: ref.Name})
	}
}

// healing looks for the objects that computing panics about.
type healing struct {
	from     *compute.Engine
	suspects map[compute.Input]suspect
	order    []compute.Input
	attempts int
}

// guilty are the objects that have to stay as they were, so that everything can be computed.
func (h *healing) guilty() []compute.Input {
	switch {
	case h.try(nil) == nil:
		return nil // computing it anew is all that was needed
	case h.try(h.order) == nil:
		return h.search(nil, h.order)
	}
	return h.order
}

// compute computes everything, with some objects as they were.
func (h *healing) compute(former []compute.Input) (engine *compute.Engine, changes *compute.Changes, err error) {
	out := make(map[compute.Input]bool, len(former))
	for _, ref := range former {
		out[ref] = true
	}
	err = recovered.Do(func() {
		engine = compute.Again(h.from, func(ref compute.Input) bool { return out[ref] })
		for _, ref := range former {
			if s, known := h.suspects[ref]; known {
				s.former(engine)
			}
		}
		changes = engine.CommitChanges()
	})
	return engine, changes, err
}

func (h *healing) try(former []compute.Input) error {
	if h.attempts++; h.attempts > healAttempts {
		return fmt.Errorf("computing panics about too much")
	}
	_, _, err := h.compute(former)
	return err
}

// search returns the inputs of the list that have to stay as they were, together with others that
// do: with all of the list computing panics, with none of it it does not.
func (h *healing) search(others, list []compute.Input) []compute.Input {
	if len(list) <= 1 || h.attempts > healAttempts {
		return list
	}
	first, second := list[:len(list)/2], list[len(list)/2:]
	var guilty []compute.Input
	if h.try(slices.Concat(others, second)) != nil {
		guilty = h.search(slices.Concat(others, second), first)
	}
	if others = slices.Concat(others, guilty); h.try(others) != nil {
		guilty = slices.Concat(guilty, h.search(others, second))
	}
	return guilty
}
