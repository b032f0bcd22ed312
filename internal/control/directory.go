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
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// directory finds entities by address. It follows the informers on their own goroutines, beside the
// loop, so that looking an address up costs the loop nothing. It may be a moment ahead of the
// engine, or behind it.
type directory struct {
	mu sync.RWMutex
	// first holds one entity per address, more the others of the few addresses that several have.
	// Addresses are in IPv6 form, which holds IPv4 as well, in half the space of a netip.Addr.
	first map[[16]byte]holder
	more  map[[16]byte][]holder
}

// holder is an object that has an address, as the informer holds it anyway.
type holder interface{ Ref() policy.EntityRef }

// heldPod, heldNode and heldEntity are holders of the kinds that are not trimmed.
type (
	heldPod    corev1.Pod
	heldNode   corev1.Node
	heldEntity v1alpha2.ExternalEntity
)

// Ref implements holder.
func (p *heldPod) Ref() policy.EntityRef {
	return policy.EntityRef{Kind: policy.KindPod, Namespace: p.Namespace, Name: p.Name}
}

// Ref implements holder.
func (n *heldNode) Ref() policy.EntityRef {
	return policy.EntityRef{Kind: policy.KindNode, Name: n.Name}
}

// Ref implements holder.
func (x *heldEntity) Ref() policy.EntityRef {
	return policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: x.Namespace, Name: x.Name}
}

func newDirectory() *directory {
	return &directory{first: map[[16]byte]holder{}, more: map[[16]byte][]holder{}}
}

// at returns the entities that have the address, in no order.
func (d *directory) at(a netip.Addr) []policy.EntityRef {
	key := a.As16()
	d.mu.RLock()
	defer d.mu.RUnlock()
	first, ok := d.first[key]
	if !ok {
		return nil
	}
	out := []policy.EntityRef{first.Ref()}
	for _, h := range d.more[key] {
		out = append(out, h.Ref())
	}
	return out
}

// move notes that an entity has other addresses than before, or is held by another object.
func (d *directory) move(h holder, before, now []netip.Addr) {
	ref := h.Ref()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range before {
		if !slices.Contains(now, a) {
			d.remove(a.As16(), ref)
		}
	}
	for _, a := range now {
		d.insert(a.As16(), h, ref)
	}
}

// insert notes that an entity has an address. Of one that has it already, the former object is
// given up.
func (d *directory) insert(a [16]byte, h holder, ref policy.EntityRef) {
	first, taken := d.first[a]
	if !taken || first.Ref() == ref {
		d.first[a] = h
		return
	}
	others := d.more[a]
	if i := slices.IndexFunc(others, func(x holder) bool { return x.Ref() == ref }); i >= 0 {
		others[i] = h
		return
	}
	d.more[a] = append(others, h)
}

func (d *directory) remove(a [16]byte, ref policy.EntityRef) {
	others := slices.DeleteFunc(d.more[a], func(x holder) bool { return x.Ref() == ref })
	if first, ok := d.first[a]; ok && first.Ref() == ref {
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
			var list [4]netip.Addr
			if h, now := holderOf(o, list[:0]); h != nil {
				d.move(h, nil, now)
			}
		},
		UpdateFunc: func(old, o any) {
			var former, list [4]netip.Addr
			_, before := holderOf(old, former[:0])
			if h, now := holderOf(o, list[:0]); h != nil {
				d.move(h, before, now)
			}
		},
		DeleteFunc: func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			var list [4]netip.Addr
			if h, before := holderOf(o, list[:0]); h != nil {
				d.move(h, before, nil)
			}
		},
	}
}

// holderOf returns an object that is an entity, and its addresses; nil for any other. What is wrong
// with it is told by the loop.
func holderOf(o any, list []netip.Addr) (holder, []netip.Addr) {
	switch o := o.(type) {
	case *convert.TrimmedPod:
		return o, o.Addresses(list)
	case *corev1.Pod:
		e, _ := convert.Pod(o)
		return (*heldPod)(o), e.Addresses
	case *corev1.Node:
		e, _ := convert.Node(o)
		return (*heldNode)(o), e.Addresses
	case *v1alpha2.ExternalEntity:
		e, _ := convert.ExternalEntity(o)
		return (*heldEntity)(o), e.Addresses
	}
	return nil, nil
}
