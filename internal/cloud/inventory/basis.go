package inventory

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
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
	tally     selection.Tally
	// ends is when the first release ends by itself; zero if none does.
	ends time.Time
}

// lasts reports whether no release has ended since.
func (b *basis) lasts(now time.Time) bool {
	return b != nil && (b.ends.IsZero() || now.Before(b.ends))
}

// version identifies an object at one moment. The sum over objects identifies them all, which takes
// a hash without structure: with FNV the versions of two objects that were edited one after the
// other had the same sum as before in one of two hundred cases, and the edits were lost.
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
	text := make([]byte, 0, 256)
	for _, part := range [...]string{kind, o.GetNamespace(), o.GetName(), o.GetResourceVersion()} {
		text = append(append(text, part...), 0)
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}

// wrote notes that an object has another version now; 0 means that it does not exist.
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
	return fmt.Sprint(p.cloud(), p.deleting(), identities(p.selectors), p.accountInputs(), len(a.regions), unread, stale)
}

// changes returns the VMs that are not shown as in the basis; false if more than VMs differs, so
// that everything has to be looked at.
func (b *basis) changes(objects uint64, inputs string, v selection.View) (map[string]bool, bool) {
	if b == nil || b.objects != objects || b.inputs != inputs || len(b.snapshots) != len(v.Snapshots) {
		return nil, false
	}
	changed := map[string]bool{}
	for i, snap := range v.Snapshots {
		if b.snapshots[i].Scope != snap.Scope || !changedVMs(b.snapshots[i], snap, changed) || touches(v, b.snapshots[i], snap, changed) {
			return nil, false
		}
	}
	return changed, true
}

// fetch reads the objects of these VMs, and the networks, instead of all. sum is that of all
// objects, as it was left.
func (s *syncer) fetch(ctx context.Context, v selection.View, ids map[string]bool, sum uint64) error {
	s.reset()
	namespaces := map[string]bool{}
	for i := range v.Selectors {
		namespaces[v.Selectors[i].Namespace] = true
	}
	for id := range ids {
		name := cloud.ObjectName(id)
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
	err := s.loop.opts.Client.Get(ctx, key, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %T %s: %w", o, key, err)
	}
	pick(s, into, o)
	return nil
}

// only restricts the objects that are looked at to the objects of the VMs in either of two states,
// and the networks.
func (s *syncer) only(a, b selection.Desired) {
	vms, rest := map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
	for _, d := range []selection.Desired{a, b} {
		for key := range d.VMs {
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

// touches reports whether what differs between two snapshots may concern an interface that
// selectors select: itself, or the VM that it is attached to.
func touches(v selection.View, before, after *cloud.Snapshot, vms map[string]bool) bool {
	if !v.SelectsInterfaces() {
		return false
	}
	found := false
	look := func(snap *cloud.Snapshot, n *cloud.Interface) { found = found || v.SelectsInterface(snap, n) }
	eachDifference(before.Interfaces, after.Interfaces, func(n *cloud.Interface) string { return n.ID }, sameInterface,
		func(n *cloud.Interface) { look(after, n) })
	for _, snap := range []*cloud.Snapshot{before, after} {
		for i := range snap.Interfaces {
			if n := &snap.Interfaces[i]; n.VMID != "" && vms[n.VMID] {
				look(snap, n)
			}
		}
	}
	return found
}
