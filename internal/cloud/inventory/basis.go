package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// basis is what the objects of an account were last brought in line with, in full. As long as it
// holds, what has not changed since need not be looked at again: the objects would come out the
// same, and they are as we left them.
type basis struct {
	// objects identifies the objects as we left them; see syncer.sum.
	objects uint64
	// inputs are all that the objects depend on, beside the snapshots.
	inputs string
	// snapshots are in the order of their regions.
	snapshots []*cloud.Snapshot
	refs      map[types.NamespacedName]VMRef
	matched   []int32

	serviceRefs     map[types.NamespacedName]ServiceRef
	services        map[string]int
	matchedServices []int32

	interfaces        map[string]int
	matchedInterfaces []int32

	unheeded  []int32
	counts    map[string]counts
	inNetwork map[objectID]int32
	clashes   map[types.NamespacedName]clash
	// ends is when the first release ends by itself; zero if none does.
	ends time.Time
}

// lasts reports whether no release has ended since.
func (b *basis) lasts(now time.Time) bool {
	return b != nil && (b.ends.IsZero() || now.Before(b.ends))
}

// version identifies an object at one moment. The sum over objects identifies them all.
func version(o client.Object) uint64 {
	kind := "?"
	switch o.(type) {
	case *v1alpha1.VirtualMachine:
		kind = "v"
	case *v1alpha1.Vpc:
		kind = "n"
	case *v1alpha1.CloudNativeService:
		kind = "s"
	case *v1alpha1.NetworkInterface:
		kind = "i"
	case *antreav1alpha2.ExternalEntity:
		kind = "e"
	case *antreav1alpha1.ExternalNode:
		kind = "x"
	}
	// FNV-1a, written out because hash/fnv wants every string copied.
	h := uint64(14695981039346656037)
	for _, part := range [...]string{kind, o.GetNamespace(), o.GetName(), o.GetResourceVersion()} {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
	}
	return h
}

// wrote notes that an object has another version now; 0 stands for one that is not there.
func (s *syncer) wrote(before, after uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum += after - before
}

// inputsOf is basis.inputs for this pass.
func (p *pass) inputsOf(stale map[string]string) string {
	a := p.account
	a.mu.Lock()
	defer a.mu.Unlock()
	unread := map[string]bool{}
	for name, r := range a.regions {
		unread[name] = r.snapshot == nil && r.left.IsZero()
	}
	return fmt.Sprint(p.cloud(), p.deleting(), selection(p.selectors), p.accountInputs(), len(a.regions), unread, stale)
}

// changes returns the VMs that are not shown as in the basis; false if more than VMs differs, so
// that everything has to be looked at.
func (b *basis) changes(objects uint64, inputs string, v view) (map[string]bool, bool) {
	if b == nil || b.objects != objects || b.inputs != inputs || len(b.snapshots) != len(v.snapshots) {
		return nil, false
	}
	changed := map[string]bool{}
	for i, snap := range v.snapshots {
		if b.snapshots[i].Scope != snap.Scope || !changedVMs(b.snapshots[i], snap, changed) || v.touches(b.snapshots[i], snap, changed) {
			return nil, false
		}
	}
	return changed, true
}

// part computes what the changed VMs should have become, and with it what there should be of
// everything that is counted. gone are the objects that the VMs had.
func (b *basis) part(v view, changed map[string]bool) (d, gone desired) {
	gone, d = newDesired(len(v.selectors)), newDesired(len(v.selectors))
	before := v
	before.snapshots = b.snapshots
	for i := range v.snapshots {
		gone.addMachines(before, b.snapshots[i], changed)
		d.addMachines(v, v.snapshots[i], changed)
	}
	for i := range d.matched {
		d.matched[i] += b.matched[i] - gone.matched[i]
		d.unheeded[i] += b.unheeded[i] - gone.unheeded[i]
	}
	total := maps.Clone(b.counts)
	for region, c := range total {
		c.vms += d.counts[region].vms - gone.counts[region].vms
		total[region] = c
	}
	inNetwork := maps.Clone(b.inNetwork)
	for id, n := range gone.inNetwork {
		inNetwork[id] -= n
	}
	for id, n := range d.inNetwork {
		inNetwork[id] += n
	}
	d.counts, d.inNetwork = total, inNetwork
	d.serviceRefs, d.services, d.matchedServices = b.serviceRefs, b.services, b.matchedServices
	d.interfaces, d.matchedInterfaces = b.interfaces, b.matchedInterfaces
	d.addNetworks(v)
	refs := maps.Clone(b.refs)
	for key := range gone.refs {
		delete(refs, key)
	}
	maps.Copy(refs, d.refs)
	d.refs = refs
	return d, gone
}

// fetch reads the objects of these VMs, and the networks, instead of all. sum is that of all
// objects, as it was left.
func (s *syncer) fetch(ctx context.Context, v view, ids map[string]bool, sum uint64) error {
	s.reset()
	namespaces := map[string]bool{}
	for i := range v.selectors {
		namespaces[v.selectors[i].Namespace] = true
	}
	for id := range ids {
		name := machine{vm: &cloud.VM{ID: id}}.objectName()
		for namespace := range namespaces {
			vm := types.NamespacedName{Namespace: namespace, Name: name}
			rest := types.NamespacedName{Namespace: namespace, Name: v1alpha1.EntityNamePrefix + name}
			err := errors.Join(fetch(ctx, s, s.vms, vm, &v1alpha1.VirtualMachine{}),
				fetch(ctx, s, s.entities, rest, &antreav1alpha2.ExternalEntity{}), fetch(ctx, s, s.nodes, rest, &antreav1alpha1.ExternalNode{}))
			if err != nil {
				return err
			}
		}
	}
	if err := s.listVpcs(ctx); err != nil {
		return err
	}
	s.sum = sum
	return nil
}

// fetch reads one object, if it exists and is the account's.
func fetch[T client.Object](ctx context.Context, s *syncer, into map[types.NamespacedName]T, key types.NamespacedName, o T) error {
	err := s.opts.Client.Get(ctx, key, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %T %s: %w", o, key, err)
	}
	pick(s, into, o)
	return nil
}

// only restricts the objects that are looked at to those of the VMs in either of two states, and
// the networks.
func (s *syncer) only(a, b desired) {
	vms, rest := map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
	for _, d := range []desired{a, b} {
		for key := range d.vms {
			vms[key] = true
			rest[types.NamespacedName{Namespace: key.Namespace, Name: v1alpha1.EntityNamePrefix + key.Name}] = true
		}
	}
	s.natives, s.ports, s.groups = nil, nil, nil
	s.vms, s.entities, s.nodes = pickKeys(s.vms, vms), pickKeys(s.entities, rest), pickKeys(s.nodes, rest)
}

func pickKeys[T any](all map[types.NamespacedName]T, keys map[types.NamespacedName]bool) map[types.NamespacedName]T {
	out := make(map[types.NamespacedName]T, len(keys))
	for key := range keys {
		if o, ok := all[key]; ok {
			out[key] = o
		}
	}
	return out
}
