package control

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/internal/control/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// directory finds entities by address. It follows the informers on their own goroutines, beside the loop, so that
// looking an address up costs the loop nothing. It may be a moment ahead of the engine, or behind it.
type directory struct {
	mu sync.RWMutex
	// first holds one entity per address, more the others of the few addresses that several have.
	first map[netip.Addr]policy.EntityRef
	more  map[netip.Addr][]policy.EntityRef
}

func newDirectory() *directory {
	return &directory{first: map[netip.Addr]policy.EntityRef{}, more: map[netip.Addr][]policy.EntityRef{}}
}

// at returns the entities that have the address, in no order.
func (d *directory) at(a netip.Addr) []policy.EntityRef {
	a = a.Unmap().WithZone("")
	d.mu.RLock()
	defer d.mu.RUnlock()
	ref, ok := d.first[a]
	if !ok {
		return nil
	}
	return append([]policy.EntityRef{ref}, d.more[a]...)
}

// move notes that an entity has other addresses than before.
func (d *directory) move(ref policy.EntityRef, before, now []netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range before {
		d.remove(a.Unmap().WithZone(""), ref)
	}
	for _, a := range now {
		d.insert(a.Unmap().WithZone(""), ref)
	}
}

func (d *directory) insert(a netip.Addr, ref policy.EntityRef) {
	switch first, taken := d.first[a]; {
	case !taken:
		d.first[a] = ref
	case first != ref && !slices.Contains(d.more[a], ref):
		d.more[a] = append(d.more[a], ref)
	}
}

func (d *directory) remove(a netip.Addr, ref policy.EntityRef) {
	others := slices.DeleteFunc(d.more[a], func(x policy.EntityRef) bool { return x == ref })
	if first, ok := d.first[a]; ok && first == ref {
		delete(d.first, a)
		if last := len(others) - 1; last >= 0 {
			d.first[a], others = others[last], others[:last]
		}
	}
	if len(others) == 0 {
		delete(d.more, a)
		return
	}
	d.more[a] = others
}

// follow registers the directory with the informers of everything that has addresses.
func (d *directory) follow(ctx context.Context, informers Informers) error {
	for _, k := range []kind{kindPod, kindNode, kindEntity} {
		informer, err := informers.GetInformer(ctx, watched()[k], cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("follow the addresses of %s: %w", k, err)
		}
		if _, err := informer.AddEventHandler(d.handler()); err != nil {
			return fmt.Errorf("follow the addresses of %s: %w", k, err)
		}
	}
	return nil
}

func (d *directory) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			now := entityOf(o)
			d.move(now.EntityRef, nil, now.Addresses)
		},
		UpdateFunc: func(old, o any) {
			before, now := entityOf(old), entityOf(o)
			if !slices.Equal(before.Addresses, now.Addresses) {
				d.move(now.EntityRef, before.Addresses, now.Addresses)
			}
		},
		DeleteFunc: func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			before := entityOf(o)
			d.move(before.EntityRef, before.Addresses, nil)
		},
	}
}

// entityOf converts an object that is an entity. What is wrong with it is told by the loop.
func entityOf(o any) policy.Entity {
	var e policy.Entity
	switch o := o.(type) {
	case *corev1.Pod:
		e, _ = convert.Pod(o)
	case *corev1.Node:
		e, _ = convert.Node(o)
	case *v1alpha2.ExternalEntity:
		e, _ = convert.ExternalEntity(o)
	}
	return e
}
