package aws

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// overlay is a sorted list of objects with changes over it; nil is an object that is gone.
type overlay[T any] struct {
	base    []T
	id      func(*T) string
	changed map[string]*T
}

func over[T any](base []T, id func(*T) string) overlay[T] {
	return overlay[T]{base: base, id: id, changed: map[string]*T{}}
}

// get returns the object as it is now known; nil if there is none.
func (o *overlay[T]) get(id string) *T {
	if x, ok := o.changed[id]; ok {
		return x
	}
	return cloud.Find(o.base, id, o.id)
}

func (o *overlay[T]) put(all []T) {
	for i := range all {
		o.changed[o.id(&all[i])] = &all[i]
	}
}

// merged returns the objects, sorted; the base itself if nothing has changed.
func (o *overlay[T]) merged() []T {
	if len(o.changed) == 0 {
		return o.base
	}
	out := make([]T, 0, len(o.base)+len(o.changed))
	fresh := slices.Sorted(maps.Keys(o.changed))
	add := func(id string) {
		if x := o.changed[id]; x != nil {
			out = append(out, *x)
		}
	}
	for i := range o.base {
		id := o.id(&o.base[i])
		for len(fresh) > 0 && fresh[0] < id {
			add(fresh[0])
			fresh = fresh[1:]
		}
		if len(fresh) > 0 && fresh[0] == id {
			add(id)
			fresh = fresh[1:]
			continue
		}
		out = append(out, o.base[i])
	}
	for _, id := range fresh {
		add(id)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
