package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// writers bounds the objects of an account that are written at the same time.
const writers = 8

// syncer brings the objects of one account into the desired state. It is used once.
type syncer struct {
	loop    *Inventory
	account types.NamespacedName
	// stale says of the regions whose snapshot is too old what to put on their objects.
	stale map[string]string

	vms      map[types.NamespacedName]*v1alpha1.VirtualMachine
	vpcs     map[types.NamespacedName]*v1alpha1.Vpc
	natives  map[types.NamespacedName]*v1alpha1.CloudNativeService
	ports    map[types.NamespacedName]*v1alpha1.NetworkInterface
	entities map[types.NamespacedName]*antreav1alpha2.ExternalEntity
	nodes    map[types.NamespacedName]*antreav1alpha1.ExternalNode
	groups   map[types.NamespacedName]*antreav1beta1.Group

	mu sync.Mutex
	// sum identifies the objects as they stand, what was written included.
	sum uint64
	// again says that an object was newer than we knew, so that another sync is needed.
	again bool
	// left says that an object stays that is not wanted any more. gone says that the account does
	// not exist any more, so that none does.
	left, gone bool
	// taken maps objects that we would write but that are not the account's to what is to be said
	// about it.
	taken map[types.NamespacedName]string
}

// reset forgets all objects.
func (s *syncer) reset() {
	s.sum = 0
	s.vms, s.vpcs = map[types.NamespacedName]*v1alpha1.VirtualMachine{}, map[types.NamespacedName]*v1alpha1.Vpc{}
	s.natives = map[types.NamespacedName]*v1alpha1.CloudNativeService{}
	s.ports = map[types.NamespacedName]*v1alpha1.NetworkInterface{}
	s.entities = map[types.NamespacedName]*antreav1alpha2.ExternalEntity{}
	s.nodes = map[types.NamespacedName]*antreav1alpha1.ExternalNode{}
	s.groups = map[types.NamespacedName]*antreav1beta1.Group{}
	s.taken = map[types.NamespacedName]string{}
}

// list reads the objects of the account that exist.
func (s *syncer) list(ctx context.Context) error {
	s.reset()
	var vms v1alpha1.VirtualMachineList
	var entities antreav1alpha2.ExternalEntityList
	var nodes antreav1alpha1.ExternalNodeList
	var natives v1alpha1.CloudNativeServiceList
	var ports v1alpha1.NetworkInterfaceList
	var groups antreav1beta1.GroupList
	err := s.listVpcs(ctx)
	for _, into := range []client.ObjectList{&vms, &natives, &ports, &entities, &nodes, &groups} {
		err = errors.Join(err, s.listOf(ctx, into))
	}
	if err != nil {
		return err
	}
	for i := range vms.Items {
		pick(s, s.vms, &vms.Items[i])
	}
	for i := range natives.Items {
		pick(s, s.natives, &natives.Items[i])
	}
	for i := range ports.Items {
		pick(s, s.ports, &ports.Items[i])
	}
	for i := range entities.Items {
		pick(s, s.entities, &entities.Items[i])
	}
	for i := range nodes.Items {
		pick(s, s.nodes, &nodes.Items[i])
	}
	for i := range groups.Items {
		pick(s, s.groups, &groups.Items[i])
	}
	return nil
}

// listVpcs reads the networks of the account that exist.
func (s *syncer) listVpcs(ctx context.Context) error {
	var vpcs v1alpha1.VpcList
	if err := s.listOf(ctx, &vpcs); err != nil {
		return err
	}
	for i := range vpcs.Items {
		pick(s, s.vpcs, &vpcs.Items[i])
	}
	return nil
}

// listOf reads the objects of one kind that are marked as the account's. Labels do not tell:
// anybody may have taken them away.
func (s *syncer) listOf(ctx context.Context, into client.ObjectList) error {
	marked := client.MatchingFields{FieldAccount: cloud.AccountKey(s.account.Namespace, s.account.Name)}
	// The objects are only read: what is changed is a copy (see put). Copying them all would be
	// most of the work.
	if err := s.loop.opts.Client.List(ctx, into, marked, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the objects of account %s: %w", s.account, err)
	}
	return nil
}

// pick keeps an object if it is the account's.
func pick[T client.Object](s *syncer, into map[types.NamespacedName]T, o T) {
	if s.owns(o) {
		into[client.ObjectKeyFromObject(o)] = o
		s.sum += version(o)
	}
}

func (s *syncer) owns(o client.Object) bool {
	return o.GetAnnotations()[selection.AnnotationAccount] == cloud.AccountKey(s.account.Namespace, s.account.Name)
}

// sync writes what differs. keep tells which objects stay although they are not desired. One object
// that cannot be written does not stop the others.
func (s *syncer) sync(ctx context.Context, d selection.Desired, keep func(region, namespace string) bool) error {
	var errs []error
	run := func(keys []types.NamespacedName, do func(types.NamespacedName) error) {
		errs = append(errs, inParallel(ctx, keys, do))
	}
	// Entities come first: policies wait for them, people for the rest.
	run(selection.SortedKeys(s.entities), func(k types.NamespacedName) error {
		e := s.entities[k]
		if d.Entities[k] != nil || keep(e.Labels[v1alpha1.LabelCloudRegion], k.Namespace) {
			return nil
		}
		return s.remove(ctx, e)
	})
	run(selection.SortedKeys(s.nodes), func(k types.NamespacedName) error {
		n := s.nodes[k]
		if d.Nodes[k] != nil || d.Entities[k] == nil && keep(n.Labels[v1alpha1.LabelCloudRegion], k.Namespace) || s.letsIn(k) {
			return nil
		}
		return s.remove(ctx, n)
	})
	run(selection.SortedKeys(s.groups), func(k types.NamespacedName) error {
		g := s.groups[k]
		if d.Groups[k] != nil || d.Services[k] == nil && keep(g.Labels[v1alpha1.LabelCloudRegion], k.Namespace) {
			return nil
		}
		return s.remove(ctx, g)
	})
	run(selection.SortedKeys(d.Entities), func(k types.NamespacedName) error { return s.putEntity(ctx, d.Entities[k], s.entities[k]) })
	run(selection.SortedKeys(d.Nodes), func(k types.NamespacedName) error { return s.putNode(ctx, d.Nodes[k], s.nodes[k]) })
	run(selection.SortedKeys(d.Groups), func(k types.NamespacedName) error { return s.putGroup(ctx, d.Groups[k], s.groups[k]) })
	run(selection.SortedKeys(d.Vpcs), func(k types.NamespacedName) error { return s.putVpc(ctx, d.Vpcs[k], s.vpcs[k]) })
	run(selection.SortedKeys(d.Services), func(k types.NamespacedName) error { return s.putNative(ctx, d.Services[k], s.natives[k]) })
	run(selection.SortedKeys(d.Interfaces), func(k types.NamespacedName) error { return s.putInterface(ctx, d.Interfaces[k], s.ports[k]) })
	run(selection.SortedKeys(d.VMs), func(k types.NamespacedName) error { return s.putVM(ctx, d.VMs[k], s.vms[k]) })
	run(selection.SortedKeys(s.vms), func(k types.NamespacedName) error {
		switch vm := s.vms[k]; {
		case d.VMs[k] != nil:
			return nil
		case keep(vm.Status.Region, k.Namespace):
			return s.markVMStale(ctx, vm)
		default:
			return s.remove(ctx, vm)
		}
	})
	run(selection.SortedKeys(s.natives), func(k types.NamespacedName) error {
		switch n := s.natives[k]; {
		case d.Services[k] != nil:
			return nil
		case keep(n.Status.Region, k.Namespace):
			return s.markNativeStale(ctx, n)
		default:
			return s.remove(ctx, n)
		}
	})
	run(selection.SortedKeys(s.ports), func(k types.NamespacedName) error {
		switch n := s.ports[k]; {
		case d.Interfaces[k] != nil:
			return nil
		case keep(n.Status.Region, k.Namespace):
			return s.markInterfaceStale(ctx, n)
		default:
			return s.remove(ctx, n)
		}
	})
	run(selection.SortedKeys(s.vpcs), func(k types.NamespacedName) error {
		switch vpc := s.vpcs[k]; {
		case d.Vpcs[k] != nil:
			return nil
		case keep(vpc.Status.Region, ""):
			return s.markVpcStale(ctx, vpc)
		default:
			return s.remove(ctx, vpc)
		}
	})
	return errors.Join(errs...)
}

// inParallel calls do for every key, with bounded concurrency, and returns all errors.
func inParallel(ctx context.Context, keys []types.NamespacedName, do func(types.NamespacedName) error) error {
	var wg sync.WaitGroup
	errs := make([]error, min(writers, len(keys)))
	for w := range errs {
		wg.Go(func() {
			for i := w; i < len(keys) && ctx.Err() == nil; i += len(errs) {
				errs[w] = errors.Join(errs[w], recovered.Call(func() error { return do(keys[i]) }))
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// create creates an object and reports whether it did. An object of the same name that is not the
// account's is left alone and noted.
func (s *syncer) create(ctx context.Context, o client.Object) (bool, error) {
	key := client.ObjectKeyFromObject(o)
	err := s.loop.opts.Client.Create(ctx, o)
	if err == nil {
		s.wrote(0, version(o))
		return true, nil
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false, nil // the selector that asks for it is on its way out too
	}
	if !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("create %T %s: %w", o, key, err)
	}
	there, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return false, fmt.Errorf("create %T %s: %w", o, key, err)
	}
	err = s.loop.opts.Client.Get(ctx, key, there)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case apierrors.IsNotFound(err), err == nil && s.owns(there):
		s.again = true
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %T %s: %w", o, key, err)
	}
	owner := "nobody we know"
	if a := there.GetAnnotations()[selection.AnnotationAccount]; a != "" {
		owner = "account " + a
	}
	s.taken[key] = fmt.Sprintf("%s exists already and belongs to %s", key, owner)
	return false, nil
}

// remove deletes an object. One that is gone or being deleted already is fine.
func (s *syncer) remove(ctx context.Context, o client.Object) error {
	if !o.GetDeletionTimestamp().IsZero() {
		return nil
	}
	uid := o.GetUID()
	err := s.loop.opts.Client.Delete(ctx, o, client.Preconditions{UID: &uid})
	if err == nil {
		s.wrote(version(o), 0)
	}
	if err = s.newer(client.IgnoreNotFound(err)); err != nil {
		return fmt.Errorf("delete %T %s: %w", o, client.ObjectKeyFromObject(o), err)
	}
	return nil
}

// patch writes the difference between base and o, if the object is still the one that base was read
// as, and reads what it is then into o. A status is written whole, which is less work for the API
// server.
func (s *syncer) patch(ctx context.Context, o, base client.Object, status bool) error {
	before := version(base)
	var err error
	if status {
		o.SetLabels(nil) // the API server keeps these, and would decode them for nothing
		o.SetAnnotations(nil)
		err = s.loop.opts.Client.Status().Update(ctx, o)
	} else {
		err = s.loop.opts.Client.Patch(ctx, o, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	}
	if err == nil {
		s.wrote(before, version(o))
	}
	if err = s.newer(err); err != nil {
		return fmt.Errorf("update %T %s: %w", o, client.ObjectKeyFromObject(o), err)
	}
	return nil
}

// newer takes a conflict, or an object that is gone, for a reason to look again.
func (s *syncer) newer(err error) error {
	if err != nil && (apierrors.IsConflict(err) || apierrors.IsNotFound(err)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.again = true
		return nil
	}
	return err
}
