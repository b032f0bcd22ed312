// Package infos keeps the objects by which controller and agents show that they live.
//
// It owns which AntreaControllerInfo and AntreaAgentInfos there are, and what they are called; an
// agent fills in its own. A Keeper is a manager.Runnable.
package infos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/registration"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

const (
	// interval is how often the controller reports, retry how soon again after a failure.
	interval = time.Minute
	retry    = 5 * time.Second
	// expiry is how old a heartbeat may be that counts as a sign of life of another controller.
	expiry = 3 * interval
	// agentsInterval is how often the infos of agents are looked after, agentsSettle how soon after
	// Nodes have come or gone.
	agentsInterval = 10 * time.Minute
	agentsSettle   = time.Second
)

// Keeper keeps the kinds of crd.antrea.io by which controller and agents show that they live: the
// one AntreaControllerInfo, unless another controller keeps it, and an AntreaAgentInfo for the
// agent of each Node and ExternalNode, which may fill it in but not make it. Where the kinds are
// not installed it does nothing but try again. All fields are required; use New.
type Keeper struct {
	// Client reads Nodes and ExternalNodes, from a cache if it likes, and writes.
	Client client.Client
	// Reader reads what Infos writes. It should not be a cache: agents write every minute.
	Reader client.Reader
	// Server describes the controller.
	Server Server
	Clock  clock.WithTicker
	Logger logr.Logger

	// changed holds a token after Nodes or ExternalNodes have come or gone.
	changed chan struct{}
}

// Server is what the controller serves with.
type Server interface {
	// Info is what is true of the controller now.
	Info() *v1beta1.AntreaControllerInfo
}

// New makes i ready.
func New(i Keeper) *Keeper {
	i.changed = make(chan struct{}, 1)
	return &i
}

// Informers gives out informers; a cache.Cache does.
type Informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// Follow listens for Nodes and ExternalNodes that come and go.
func (i *Keeper) Follow(ctx context.Context, informers Informers) error {
	wake := func(any) {
		select {
		case i.changed <- struct{}{}:
		default:
		}
	}
	for _, object := range []client.Object{&corev1.Node{}, &v1alpha1.ExternalNode{}} {
		informer, err := informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("infos of agents: watch %T: %w", object, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: wake, DeleteFunc: wake}); err != nil {
			return fmt.Errorf("infos of agents: watch %T: %w", object, err)
		}
	}
	return nil
}

// Start keeps the infos until ctx ends. They stay when it does. It is a manager.Runnable.
func (i *Keeper) Start(ctx context.Context) error {
	var reportAt, agentsAt time.Time
	for ctx.Err() == nil {
		if now := i.Clock.Now(); !now.Before(reportAt) {
			info := i.Server.Info()
			reportAt = now.Add(i.next(i.report(ctx, info), reportInterval(info)))
		}
		if now := i.Clock.Now(); !now.Before(agentsAt) {
			agentsAt = now.Add(i.next(i.keepAgents(ctx), agentsInterval))
		}
		until := reportAt
		if agentsAt.Before(until) {
			until = agentsAt
		}
		timer := i.Clock.NewTimer(until.Sub(i.Clock.Now()))
		select {
		case <-timer.C():
		case <-i.changed:
			if soon := i.Clock.Now().Add(agentsSettle); soon.Before(agentsAt) {
				agentsAt = soon
			}
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// next is how long to wait after something that is done regularly.
func (i *Keeper) next(err error, every time.Duration) time.Duration {
	switch {
	case err == nil:
		return every
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || errors.Is(err, context.Canceled):
		return interval // not installed, or the end
	}
	i.Logger.Error(err, "Telling about the controller and its agents failed, trying again")
	return retry
}

// reportInterval is how soon to report again: a controller that is still starting has more to
// report soon.
func reportInterval(info *v1beta1.AntreaControllerInfo) time.Duration {
	for _, c := range info.ControllerConditions {
		if c.Status != metav1.ConditionTrue {
			return retry
		}
	}
	return interval
}

// report writes what is true of the controller now.
func (i *Keeper) report(ctx context.Context, want *v1beta1.AntreaControllerInfo) error {
	want.Labels = map[string]string{registration.ManagedBy: registration.Nephele}
	present := &v1beta1.AntreaControllerInfo{}
	err := i.Reader.Get(ctx, client.ObjectKeyFromObject(want), present)
	switch {
	case apierrors.IsNotFound(err):
		err = i.Client.Create(ctx, want)
	case err == nil && present.Labels[registration.ManagedBy] != registration.Nephele && i.Clock.Since(lastHeartbeat(present)) < expiry:
		i.Logger.V(1).Info("Another controller keeps the AntreaControllerInfo", "name", want.Name)
	case err == nil:
		want.ObjectMeta = present.ObjectMeta
		metav1.SetMetaDataLabel(&want.ObjectMeta, registration.ManagedBy, registration.Nephele)
		err = i.Client.Update(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("keep AntreaControllerInfo %s: %w", want.Name, err)
	}
	return nil
}

func lastHeartbeat(info *v1beta1.AntreaControllerInfo) time.Time {
	var last time.Time
	for _, c := range info.ControllerConditions {
		if c.Type == v1beta1.ControllerHealthy && c.LastHeartbeatTime.After(last) {
			last = c.LastHeartbeatTime.Time
		}
	}
	return last
}

// Owners are the Nodes and ExternalNodes that may have an info, counted by name.
type Owners struct {
	count map[string]int
	nodes map[string]bool
	hosts []credential.Host
}

// List lists the Nodes and ExternalNodes that are there to stay.
func List(ctx context.Context, c client.Reader) (Owners, error) {
	b := Owners{count: map[string]int{}, nodes: map[string]bool{}}
	for _, list := range []client.ObjectList{&corev1.NodeList{}, &v1alpha1.ExternalNodeList{}} {
		if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return b, err
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error {
			n := o.(client.Object)
			if !n.GetDeletionTimestamp().IsZero() {
				return nil
			}
			b.count[n.GetName()]++
			if n.GetNamespace() == "" {
				b.nodes[n.GetName()] = true
			} else {
				b.hosts = append(b.hosts, credential.Host{Namespace: n.GetNamespace(), Name: n.GetName()})
			}
			return nil
		}); err != nil {
			return b, err
		}
	}
	return b, nil
}

// InfoName is how the info of a host is called: as the host, if nothing else is called so, or was
// when the host came. Else it is called NAMESPACE.NAME, and stays so. No two hosts ever share one.
// Function there says which infos exist, and ref returns the owner of one, empty if there is none.
// The name is empty if a Node or host is called NAMESPACE.NAME.
func (b Owners) InfoName(h credential.Host, there func(string) bool, ref func(string) v1beta1.ObjectReference) string {
	own := h.InfoName()
	switch {
	case b.count[own] == 0 && there(own):
		return own
	case b.count[h.Name] == 1 || !b.nodes[h.Name] && ref(h.Name) == NodeRef(h):
		return h.Name
	case b.count[own] == 0:
		return own
	}
	return ""
}

// keepAgents keeps infos of agents for exactly the Nodes and ExternalNodes.
func (i *Keeper) keepAgents(ctx context.Context) error {
	b, err := List(ctx, i.Client)
	if err != nil {
		return fmt.Errorf("keep the infos of agents: %w", err)
	}
	present := &metav1.PartialObjectMetadataList{}
	present.SetGroupVersionKind(v1beta1.GroupVersion().WithKind("AntreaAgentInfoList"))
	if err := i.Reader.List(ctx, present); err != nil {
		return fmt.Errorf("keep the infos of agents: %w", err)
	}
	there := map[string]bool{}
	for k := range present.Items {
		there[present.Items[k].Name] = true
	}
	var errs []error
	wanted := maps.Clone(b.nodes)
	for _, h := range b.hosts {
		name := b.InfoName(h, func(n string) bool { return there[n] }, func(n string) v1beta1.ObjectReference {
			info := &v1beta1.AntreaAgentInfo{}
			if err := i.Reader.Get(ctx, client.ObjectKey{Name: n}, info); client.IgnoreNotFound(err) != nil {
				errs = append(errs, err)
			}
			return info.NodeRef
		})
		if name != "" {
			wanted[name] = true
		}
	}
	if err := errors.Join(errs...); err != nil { // nothing goes because of what we could not read
		return fmt.Errorf("keep the infos of agents: %w", err)
	}
	for k := range present.Items {
		o := &present.Items[k]
		if !wanted[o.Name] {
			errs = append(errs, client.IgnoreNotFound(i.Client.Delete(ctx, o, client.Preconditions{UID: &o.UID})))
		}
		delete(wanted, o.Name)
	}
	for name := range wanted {
		err := i.Client.Create(ctx, &v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if !apierrors.IsAlreadyExists(err) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("keep the infos of agents: %w", err)
	}
	return nil
}

// NodeRef is how the info of a host refers to it.
func NodeRef(host credential.Host) v1beta1.ObjectReference {
	return v1beta1.ObjectReference{Kind: "ExternalNode", Namespace: host.Namespace, Name: host.Name}
}
