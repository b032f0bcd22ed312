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
	"github.com/nephele-io/nephele/internal/table"
)

// directory finds entities by address. It follows the informers on their own goroutines, beside the
// loop, so that looking an address up costs the loop nothing. It may be a moment ahead of the
// engine, or behind it.
type directory struct {
	mu sync.Mutex
	// places holds one entity per address, more the others of the few addresses that several have.
	// room are places that are not used.
	places table.Table[place]
	more   map[[16]byte][]holder
	room   []*place
}

// place is an address, in IPv6 form, which holds IPv4 as well, with an entity that has it.
type place struct {
	address [16]byte
	holder
}

// manyPlaces is how many places are made at a time.
const manyPlaces = 64

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

func newDirectory() *directory { return &directory{more: map[[16]byte][]holder{}} }

// find returns the place of an address, nil if there is none, and the hash of the address.
func (d *directory) find(a [16]byte) (*place, uint32) {
	hash := d.places.HashBytes(a[:])
	return d.places.Find(hash, func(p *place) bool { return p.address == a }), hash
}

// at returns the entities that have the address, in no order.
func (d *directory) at(a netip.Addr) []policy.EntityRef {
	key := a.As16()
	d.mu.Lock()
	defer d.mu.Unlock()
	first, _ := d.find(key)
	if first == nil {
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
	first, hash := d.find(a)
	if first == nil {
		d.places.Insert(hash, d.newPlace(a, h))
		return
	}
	if first.Ref() == ref {
		first.holder = h
		return
	}
	others := d.more[a]
	if i := slices.IndexFunc(others, func(x holder) bool { return x.Ref() == ref }); i >= 0 {
		others[i] = h
		return
	}
	d.more[a] = append(others, h)
}

func (d *directory) newPlace(a [16]byte, h holder) *place {
	if len(d.room) == 0 {
		made := make([]place, manyPlaces)
		for i := range made {
			d.room = append(d.room, &made[i])
		}
	}
	last := len(d.room) - 1
	p := d.room[last]
	d.room = d.room[:last]
	p.address, p.holder = a, h
	return p
}

func (d *directory) remove(a [16]byte, ref policy.EntityRef) {
	others := slices.DeleteFunc(d.more[a], func(x holder) bool { return x.Ref() == ref })
	if first, hash := d.find(a); first != nil && first.Ref() == ref {
		if last := len(others) - 1; last >= 0 {
			first.holder, others = others[last], others[:last]
		} else {
			d.places.Remove(hash, first)
			*first = place{}
			d.room = append(d.room, first)
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

// holderOf returns an object that is an entity, and its addresses; nil for any other. The loop
// reports what is wrong with it.
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
