package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/kinds"
)

// The upstream kinds, of policy.networking.k8s.io. Their definitions are not ours, and need not be
// installed.
const (
	kindAdmin         kind = "AdminNetworkPolicy (policy.networking.k8s.io)"
	kindBaselineAdmin kind = "BaselineAdminNetworkPolicy (policy.networking.k8s.io)"
	kindUpstream      kind = "ClusterNetworkPolicy (policy.networking.k8s.io)"
)

func (k kind) isUpstream() bool { return k == kindAdmin || k == kindBaselineAdmin || k == kindUpstream }

// Discovery says what an API server serves. It need not be safe for concurrent use.
type Discovery interface {
	// ServerResourcesForGroupVersion lists the resources of "group/version". An error that is a
	// NotFound says that nothing of it is served; any other, that it is not known.
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

const (
	// discoverEvery is how often it is looked whether the upstream kinds are served.
	discoverEvery = 2 * time.Second
	// missesUntilGone is how often in a row a kind is not found until it counts as removed: a
	// server that just starts may miss kinds that it has.
	missesUntilGone = 3
)

// upstream watches those upstream kinds that are served. begin comes before follow, which one
// goroutine runs; the rest is safe for concurrent use.
type upstream struct {
	c       *Controller
	watches []*upstreamWatch

	mu sync.Mutex
	// held are the policies as last seen, for their status; they may not be in any cache any more.
	held map[types.UID]client.Object
}

// upstreamWatch is one kind.
type upstreamWatch struct {
	kind     kind
	version  schema.GroupVersion
	resource string
	object   client.Object
	misses   int
	// feed is nil while the kind is not watched.
	feed *feed
}

func newUpstream(c *Controller) *upstream {
	u := &upstream{c: c, held: map[types.UID]client.Object{}}
	for _, k := range kinds.Of(kinds.Computed | kinds.Optional) {
		u.watches = append(u.watches, &upstreamWatch{kind: nameOf(k), version: k.GroupVersion(), resource: k.Resource, object: k.New()})
	}
	return u
}

// begin starts to watch the kinds that are served now, and returns them as sources: what they begin
// with is part of the first computation. It tries until it knows, or ctx ends.
func (u *upstream) begin(ctx context.Context) []source {
	if u.c.Options.Discovery == nil {
		return nil
	}
	ticker := u.c.Options.Clock.NewTicker(discoverEvery)
	defer ticker.Stop()
	var sources []source
	for {
		started, err := u.look(ctx)
		sources = append(sources, started...)
		if err == nil {
			return sources
		}
		u.c.Options.Logger.Error(err, "Cannot tell whether the policy kinds of policy.networking.k8s.io are served, trying again")
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// follow notices kinds that are installed and removed, until ctx ends.
func (u *upstream) follow(ctx context.Context) {
	if u.c.Options.Discovery == nil {
		return
	}
	ticker := u.c.Options.Clock.NewTicker(discoverEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
		if _, err := u.look(ctx); err != nil && ctx.Err() == nil {
			u.c.Options.Logger.V(1).Info("Cannot tell whether the policy kinds of policy.networking.k8s.io are served", "error", err.Error())
		}
	}
}

// look brings the watches in line with what is served and returns those it has started. What is not
// known stays as it is.
func (u *upstream) look(ctx context.Context) ([]source, error) {
	served := map[schema.GroupVersion]*metav1.APIResourceList{}
	var started []source
	for _, w := range u.watches {
		list, known := served[w.version]
		if !known {
			var err error
			list, err = u.c.Options.Discovery.ServerResourcesForGroupVersion(w.version.String())
			if err != nil && !apierrors.IsNotFound(err) {
				return started, fmt.Errorf("discovering %s: %w", w.version, err)
			}
			if err != nil {
				list = &metav1.APIResourceList{}
			}
			served[w.version] = list
		}
		found := slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == w.resource })
		w.misses++
		if found {
			w.misses = 0
		}
		switch {
		case found && w.feed == nil:
			s, err := u.start(ctx, w)
			if err != nil {
				return started, err
			}
			started = append(started, s)
		case w.misses >= missesUntilGone && w.feed != nil:
			u.stop(ctx, w)
		}
	}
	return started, nil
}

func (u *upstream) start(ctx context.Context, w *upstreamWatch) (source, error) {
	informer, err := u.c.Options.Informers.GetInformer(ctx, w.object, cache.BlockUntilSynced(false))
	if err != nil {
		return source{}, fmt.Errorf("watching %s: %w", w.kind, err)
	}
	f := &feed{to: u.c.handler(w.kind), kind: w.kind, known: map[inputKey]struct{}{}}
	registration, err := informer.AddEventHandler(f)
	if err != nil {
		return source{}, fmt.Errorf("watching %s: %w", w.kind, err)
	}
	w.feed = f
	u.c.Options.Logger.Info("Computing policies of this kind as well", "kind", w.kind)
	return source{w.kind, registration.HasSyncedChecker().Done()}, nil
}

// stop ends the watch of a kind that is gone, and its policies with it.
func (u *upstream) stop(ctx context.Context, w *upstreamWatch) {
	if err := u.c.Options.Informers.RemoveInformer(ctx, w.object); err != nil {
		u.c.Options.Logger.Error(err, "Cannot stop watching a kind that is not served any more", "kind", w.kind)
	}
	for _, key := range w.feed.close() {
		u.c.intake.remove(key)
	}
	w.feed = nil
	u.c.Options.Logger.Info("Not computing policies of this kind any more: it is not served", "kind", w.kind)
}

// hold keeps a policy as it was last seen.
func (u *upstream) hold(o client.Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.held[o.GetUID()] = o
}

func (u *upstream) forget(uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.held, uid)
}

// lastSeen returns a policy as it was last seen, nil if it is gone. It must not be modified.
func (u *upstream) lastSeen(uid types.UID) client.Object {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.held[uid]
}

// feed passes the events of an informer on until it is closed. An informer that is removed says no
// word about the objects it had, and may still be delivering.
type feed struct {
	to   toolscache.ResourceEventHandler
	kind kind

	mu     sync.Mutex
	closed bool
	known  map[inputKey]struct{}
}

// pass delivers one event about o, if there are to be any.
func (f *feed) pass(o any, gone bool, deliver func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	if d, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = d.Obj
	}
	if o, ok := o.(client.Object); ok && gone {
		delete(f.known, keyOf(f.kind, o))
	} else if ok {
		f.known[keyOf(f.kind, o)] = struct{}{}
	}
	deliver()
}

// OnAdd, OnUpdate and OnDelete make a feed a handler.
func (f *feed) OnAdd(o any, initial bool) { f.pass(o, false, func() { f.to.OnAdd(o, initial) }) }
func (f *feed) OnDelete(o any)            { f.pass(o, true, func() { f.to.OnDelete(o) }) }
func (f *feed) OnUpdate(before, after any) {
	if before.(client.Object).GetUID() != after.(client.Object).GetUID() {
		f.pass(before, true, func() {})
	}
	f.pass(after, false, func() { f.to.OnUpdate(before, after) })
}

// close ends the feed and returns the objects that were there.
func (f *feed) close() []inputKey {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return slices.SortedFunc(maps.Keys(f.known), func(a, b inputKey) int { return strings.Compare(a.Name, b.Name) })
}
