package egress

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// missingInterval is how often it is looked whether there are the kinds, that the cluster may
	// lack after an upgrade of the program alone.
	missingInterval = time.Minute
	// lookInterval is how often it is looked whether something has changed, at most: a computation
	// is followed by a rest of restTimes as long.
	lookInterval = 200 * time.Millisecond
	restTimes    = 10
)

// Informers give out informers; a cache.Cache does.
type Informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// Follower computes Groups from what informers know. All fields are required.
type Follower struct {
	Groups    *Groups
	Informers Informers
	Clock     clock.WithTicker
	Log       logr.Logger

	// dirty tells that something has changed, used that there are Egresses.
	dirty, used atomic.Bool
}

// source is an informer with what it keeps.
type source interface {
	cache.Informer
	GetStore() toolscache.Store
}

// follow notes when an object of a kind changes; of Pods and Nodes, where that matters and there
// are Egresses.
func (f *Follower) follow(ctx context.Context, kind client.Object) (source, error) {
	informer, err := f.Informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	s, ok := informer.(source)
	if !ok {
		return nil, fmt.Errorf("follow %T: the informer keeps nothing", kind)
	}
	note := func(any) { f.dirty.Store(true) }
	_, err = s.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: note, DeleteFunc: note,
		UpdateFunc: func(old, now any) {
			if !f.used.Load() {
				return
			}
			a, ok1 := old.(*corev1.Node)
			b, ok2 := now.(*corev1.Node)
			if ok1 && ok2 && equalLabels(a.Labels, b.Labels) {
				return
			}
			f.dirty.Store(true)
		},
	})
	return s, err
}

func equalLabels(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, there := b[k]; !there || v != w {
			return false
		}
	}
	return true
}

// Start computes until ctx ends. It is a manager.Runnable.
func (f *Follower) Start(ctx context.Context) error {
	tick := f.Clock.NewTicker(lookInterval)
	defer tick.Stop()
	var sources []source
	var next time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		}
		now := f.Clock.Now()
		if now.Before(next) {
			continue
		}
		if sources == nil {
			var err error
			if sources, err = f.begin(ctx); err != nil {
				next = now.Add(missingInterval)
				if meta.IsNoMatchError(err) { // then there are none
					f.Groups.Set(&World{})
				} else {
					f.Log.Error(err, "Egresses cannot be followed, trying again")
				}
				continue
			}
		}
		synced := true
		for _, s := range sources {
			synced = synced && s.HasSynced()
		}
		if !synced || !f.dirty.Swap(false) {
			continue
		}
		if fault := recovered.Do(func() { f.Groups.Set(f.world(sources)) }); fault != nil {
			f.dirty.Store(true)
			f.Log.Error(fault, "A panic was recovered while it was computed which Pods Egresses apply to", "stack", recovered.StackOf(fault))
		}
		next = f.Clock.Now().Add(restTimes * f.Clock.Since(now))
	}
}

// begin follows all that groups are computed from, Egresses first.
func (f *Follower) begin(ctx context.Context) ([]source, error) {
	var out []source
	for _, kind := range []client.Object{&v1beta1.Egress{}, &v1beta1.ExternalIPPool{}, &corev1.Namespace{}, &corev1.Node{}, &corev1.Pod{}} {
		s, err := f.follow(ctx, kind)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	f.dirty.Store(true)
	return out, nil
}

// world is what there is.
func (f *Follower) world(sources []source) *World {
	w := &World{Namespaces: map[string]map[string]string{}, Nodes: map[string]map[string]string{}}
	f.used.Store(true) // what changes from here on is seen
	for _, s := range sources {
		for _, o := range s.GetStore().List() {
			switch o := o.(type) {
			case *v1beta1.Egress:
				w.Egresses = append(w.Egresses, *o)
			case *v1beta1.ExternalIPPool:
				w.Pools = append(w.Pools, *o)
			case *corev1.Namespace:
				w.Namespaces[o.Name] = o.Labels
			case *corev1.Node:
				w.Nodes[o.Name] = o.Labels
			case *corev1.Pod:
				w.add(convert.TrimPod(o))
			case *convert.TrimmedPod:
				w.add(o)
			}
		}
		if len(w.Egresses) == 0 {
			f.used.Store(false)
			return w
		}
	}
	return w
}

func (w *World) add(p *convert.TrimmedPod) {
	if p.Node != "" && !p.HostNetwork && !p.Ended && p.IP != "" {
		w.Pods = append(w.Pods, Pod{p.Namespace, p.Name, p.Node, p.Labels, p.Addresses(nil)})
	}
}
