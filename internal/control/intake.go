package control

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// kind names a watched kind.
type kind string

const (
	kindNamespace     kind = "Namespace"
	kindPod           kind = "Pod"
	kindNode          kind = "Node"
	kindService       kind = "Service"
	kindEntity        kind = "ExternalEntity"
	kindExternalNode  kind = "ExternalNode"
	kindTier          kind = "Tier"
	kindGroup         kind = "Group"
	kindClusterGroup  kind = "ClusterGroup"
	kindPolicy        kind = "NetworkPolicy (crd.antrea.io)"
	kindClusterPolicy kind = "ClusterNetworkPolicy"
	kindK8sPolicy     kind = "NetworkPolicy (networking.k8s.io)"
	// kindRemote are workloads of other clusters, and kindOwnLabels what this one is called by its
	// hub: see set.go.
	kindRemote    kind = "remote address"
	kindOwnLabels kind = "labels of this cluster"
)

// nameOf returns how a kind is called here: as people say, with its group where it takes one.
func nameOf(k kinds.Kind) kind {
	switch {
	case k.Is(kinds.Optional):
		return kind(k.Kind + " (" + k.Group + ")")
	case k.Kind == "NetworkPolicy":
		return kind(k.Kind + " (" + k.Group + ")")
	}
	return kind(k.Kind)
}

// watched are the kinds that are always there, with an object of each. See upstream for the others.
func watched() map[kind]client.Object {
	out := map[kind]client.Object{}
	for _, k := range kinds.Of(kinds.Computed) {
		if !k.Is(kinds.Optional) {
			out[nameOf(k)] = k.New()
		}
	}
	return out
}

// isPolicy tells the kinds that are identified by uid: one that is deleted and made again is
// another one.
func (k kind) isPolicy() bool {
	return k == kindPolicy || k == kindClusterPolicy || k == kindK8sPolicy || k.isUpstream()
}

// hasStatus tells the policies whose status says how far they are realized.
func (k kind) hasStatus() bool { return k.isPolicy() && k != kindK8sPolicy }

// input is news of one object. Inputs wait in great numbers while all there is is read for the
// first time, so they are small.
type input struct {
	kind kind
	// object is a client.Object, or a *convert.TrimmedPod.
	object any
	// gone tells which object is gone; nil: object is the new one.
	gone *inputKey
}

type inputKey struct {
	kind kind
	types.NamespacedName
	// uid is set for policies only.
	uid types.UID
}

func keyOf(k kind, o client.Object) inputKey {
	key := inputKey{kind: k, NamespacedName: client.ObjectKeyFromObject(o)}
	if k.isPolicy() {
		key.uid = o.GetUID()
	}
	return key
}

// intake collects inputs until the loop takes them. Of several about one object it keeps all: the
// loop is never away for long, and an input costs the engine less than finding out that another one
// follows.
type intake struct {
	wake chan struct{}

	mu sync.Mutex
	// heard counts the inputs there ever were.
	heard atomic.Uint64
	// pending are the inputs in order of arrival, in pieces, so that a great number is never
	// copied.
	pending [][]input
	// spare are pieces that are used again.
	spare [][]input
}

// pieceSize is the number of inputs in a piece, spares that of the pieces that are used again.
const (
	pieceSize = 512
	spares    = 8
)

func newIntake() *intake { return &intake{wake: make(chan struct{}, 1)} }

func (q *intake) add(in input) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.heard.Add(1)
	last := len(q.pending) - 1
	if last < 0 || len(q.pending[last]) == pieceSize {
		q.pending = append(q.pending, q.piece())
		last++
	}
	q.pending[last] = append(q.pending[last], in)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// put adds an object that is new or has changed, remove one that is gone.
func (q *intake) put(k kind, o any) { q.add(input{kind: k, object: o}) }

func (q *intake) remove(key inputKey) { q.add(input{kind: key.kind, gone: &key}) }

// piece returns an empty piece. The caller holds the lock.
func (q *intake) piece() []input {
	last := len(q.spare) - 1
	if last < 0 {
		return make([]input, 0, pieceSize)
	}
	p := q.spare[last]
	q.spare = q.spare[:last]
	return p
}

// take appends the pieces that wait to an empty list.
func (q *intake) take(to [][]input) [][]input {
	q.mu.Lock()
	defer q.mu.Unlock()
	to = append(to, q.pending...)
	clear(q.pending)
	if q.pending = q.pending[:0]; cap(q.pending) > spares {
		q.pending = nil
	}
	return to
}

// done gives back a piece that take has returned.
func (q *intake) done(piece []input) {
	clear(piece)
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.spare) < spares {
		q.spare = append(q.spare, piece[:0])
	}
}

// source is an informer that feeds the intake; synced is closed once it has delivered what it began
// with.
type source struct {
	name   kind
	synced <-chan struct{}
}

// listen registers with the informers of all kinds.
func (c *Controller) listen(ctx context.Context) ([]source, error) {
	var sources []source
	for k, object := range watched() {
		informer, err := c.Options.Informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", k, err)
		}
		registration, err := informer.AddEventHandler(c.handler(k))
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", k, err)
		}
		sources = append(sources, source{k, registration.HasSyncedChecker().Done()})
	}
	return append(sources, c.upstream.begin(ctx)...), nil
}

// Warm begins to watch what policies are computed from, so that a process that is not to compute
// yet has read it all when it is. It does not wait.
func (c *Controller) Warm(ctx context.Context) error {
	for k, object := range watched() {
		if _, err := c.Options.Informers.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching %s: %w", k, err)
		}
	}
	return nil
}

// Heard counts what has been heard of the objects that policies are computed from. While it stands
// still, none of them has changed.
func (c *Controller) Heard() uint64 { return c.intake.heard.Load() }

func (c *Controller) handler(k kind) toolscache.ResourceEventHandler {
	gone := func(o any) {
		switch o := o.(type) {
		case *convert.TrimmedPod:
			c.intake.remove(inputKey{kind: k, NamespacedName: types.NamespacedName{Namespace: o.Namespace, Name: o.Name}})
		case client.Object:
			c.intake.remove(keyOf(k, o))
			c.tellHistory(k, o, true)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			c.intake.put(k, o)
			c.tellHistory(k, o, false)
		},
		UpdateFunc: func(before, after any) {
			if k.isPolicy() && before.(client.Object).GetUID() != after.(client.Object).GetUID() {
				gone(before)
			}
			c.intake.put(k, after)
			c.tellHistory(k, after, false)
		},
		DeleteFunc: func(o any) {
			if d, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = d.Obj
			}
			gone(o)
		},
	}
}

// apply gives one input to the engine.
func (c *Controller) apply(in input) {
	switch {
	case in.gone != nil:
		c.applyDeletion(in.gone)
	case in.kind.isPolicy():
		c.applyPolicy(in)
	case !c.applyObject(in):
		c.Options.Logger.Error(nil, "An object has no part in policies, though its kind is watched", "kind", in.kind)
	}
}

func (c *Controller) applyPolicy(in input) {
	var p policy.Policy
	uid := in.object.(client.Object).GetUID()
	switch o := in.object.(type) {
	case *v1beta1.NetworkPolicy:
		p = convert.NetworkPolicy(o)
	case *v1beta1.ClusterNetworkPolicy:
		p = convert.ClusterNetworkPolicy(o)
	case *networkingv1.NetworkPolicy:
		if selector, spread := convert.Spread(o); spread { // it is for members of the set
			c.engine.DeletePolicy(string(uid))
			converted := convert.KubernetesNetworkPolicy(o)
			if errs := peers.Check(selector, &converted); len(errs) > 0 {
				c.event(o, corev1.EventTypeWarning, "PolicyProblem", "ComputePolicies", "it is enforced nowhere: "+policy.JoinErrors(errs))
			}
			return
		}
		if convert.FromHub(o) {
			c.book.copy(uid, convert.KubernetesNetworkPolicy(o))
		}
		// There is nothing to refuse: the API server has validated it. The engine converts it when
		// it computes it.
		c.engine.PutPolicySource((*convert.KubernetesSource)(o))
		return
	default:
		object := in.object.(client.Object)
		p, _ = convert.Upstream(object)
		c.upstream.hold(object)
	}
	var refused []policy.FieldError
	if p.Kind.Upstream() {
		refused = admission.ValidateUpstream(&p)
	} else {
		admission.Default(&p)
		// Whether the tier exists is for the engine to say: it may come later.
		refused = admission.ValidatePolicy(&p, map[string]int32{p.Tier: 0})
		p.Warnings = append(admission.Warnings(&p), admission.Pitfalls(&p, true)...)
	}
	selector, spread := convert.Spread(in.object.(client.Object))
	if spread {
		refused = append(refused, peers.Check(selector, &p)...)
	} else if !p.Kind.Upstream() {
		if !p.Set {
			p.Warnings = append(p.Warnings, peers.CheckPeers(&p)...)
		}
		p = peers.Localize(p)
	}
	// A change of the status alone is no input, but it may be somebody else's, which is to be
	// corrected. An invalid version does not reach the engine: the last valid one, if this process
	// has seen one, stays in force, so that a slip opens nothing. A staged one is as good as
	// deleted to everybody who enforces, also if it is invalid.
	staged := convert.Staged(in.object)
	switch fresh := c.book.declare(uid, in.kind, p, refused, staged, spread); {
	case fresh && (staged || spread):
		c.engine.DeletePolicy(string(uid))
	case fresh && len(refused) == 0:
		c.engine.PutPolicy(p)
	}
	if in.kind.hasStatus() || len(refused) > 0 {
		c.later(task{kind: taskPolicy, name: string(uid)})
	}
}

func (c *Controller) applyDeletion(in *inputKey) {
	name := policy.NamespacedName{Namespace: in.Namespace, Name: in.Name}
	if in.kind.isPolicy() {
		c.engine.DeletePolicy(string(in.uid))
		c.book.forgetPolicy(in.uid)
		c.upstream.forget(in.uid)
		return
	}
	switch in.kind {
	case kindNamespace:
		c.engine.DeleteNamespace(in.Name)
	case kindPod:
		c.engine.DeleteEntity(policy.EntityRef{Kind: policy.KindPod, Namespace: in.Namespace, Name: in.Name})
	case kindNode:
		c.engine.DeleteEntity(policy.EntityRef{Kind: policy.KindNode, Name: in.Name})
	case kindEntity:
		c.engine.DeleteEntity(policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: in.Namespace, Name: in.Name})
		// Only an ExternalNode may want it back, or its name. To look for one means to read all the
		// entities of the Namespace.
		if len(c.externalNodes[in.Namespace]) > 0 {
			c.later(task{kind: taskExternalNodes, namespace: in.Namespace})
		}
	case kindExternalNode:
		if delete(c.externalNodes[in.Namespace], in.Name); len(c.externalNodes[in.Namespace]) == 0 {
			delete(c.externalNodes, in.Namespace)
		}
		c.later(task{kind: taskExternalNodes, namespace: in.Namespace})
	case kindRemote:
		c.engine.DeleteEntity(policy.EntityRef{Kind: policy.KindRemote, Name: in.Name})
	case kindService:
		c.engine.DeleteService(name)
	case kindTier:
		c.engine.DeleteTier(in.Name)
		c.later(task{kind: taskTiers})
	case kindGroup, kindClusterGroup:
		c.engine.DeleteGroup(name)
		c.book.forgetGroup(name)
	}
}

// applyObject returns false for an object that means nothing to the engine.
func (c *Controller) applyObject(in input) bool {
	switch o := in.object.(type) {
	case *corev1.Namespace:
		c.engine.PutNamespace(c.named(convert.Namespace(o)))
	case *convert.TrimmedPod:
		e, errs := o.EntityWith(c.addresses[:0])
		c.addresses = e.Addresses
		c.putEntity(in)(e, errs)
	case *corev1.Pod:
		c.putEntity(in)(convert.Pod(o))
	case *corev1.Node:
		e, errs := convert.Node(o)
		e.Labels = c.own.with(e.Labels)
		c.putEntity(in)(e, errs)
	case *policy.Entity:
		c.engine.PutEntity(*o)
	case ownLabels:
		c.rename(o)
	case *v1alpha2.ExternalEntity:
		c.putEntity(in)(convert.ExternalEntity(o))
		if externalNodeOwner(o) != nil || len(o.OwnerReferences) > 0 && len(c.externalNodes[o.Namespace]) > 0 {
			c.later(task{kind: taskExternalNodes, namespace: o.Namespace})
		}
	case *v1alpha1.ExternalNode:
		if c.externalNodes[o.Namespace] == nil {
			c.externalNodes[o.Namespace] = map[string]struct{}{}
		}
		c.externalNodes[o.Namespace][o.Name] = struct{}{}
		c.later(task{kind: taskExternalNodes, namespace: o.Namespace})
	case *corev1.Service:
		c.engine.PutService(convert.Service(o))
	case *v1beta1.Tier:
		c.engine.PutTier(convert.Tier(o))
		c.later(task{kind: taskTiers})
	case *v1beta1.Group:
		c.engine.PutGroup(convert.Group(o))
		c.later(task{kind: taskGroup, namespace: o.Namespace, name: o.Name})
	case *v1beta1.ClusterGroup:
		c.engine.PutGroup(convert.ClusterGroup(o))
		c.later(task{kind: taskGroup, name: o.Name})
	default:
		return false
	}
	return true
}

// putEntity gives an entity to the engine. An invalid address is reported and left out: no packet
// carries it.
func (c *Controller) putEntity(in input) func(policy.Entity, []policy.FieldError) {
	return func(e policy.Entity, errs []policy.FieldError) {
		if len(errs) > 0 {
			c.event(regarding(in.object), corev1.EventTypeWarning, "InvalidAddress", "ComputePolicies", policy.JoinErrors(errs))
		}
		c.engine.PutEntity(e)
	}
}

// regarding returns the object that an Event is about.
func regarding(object any) client.Object {
	if p, ok := object.(*convert.TrimmedPod); ok {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, ResourceVersion: p.ResourceVersion}}
	}
	return object.(client.Object)
}
