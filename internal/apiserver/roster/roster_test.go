package roster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/roster"
	"github.com/nephele-io/nephele/internal/seed"
)

// informers have one informer, which a test plays.
type informers struct {
	ctrlcache.Informer
	handler cache.ResourceEventHandler
	synced  bool
}

func (i *informers) GetInformer(context.Context, client.Object, ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	return i, nil
}

func (i *informers) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = h
	return i, nil
}

func (i *informers) HasSynced() bool                     { return i.synced }
func (i *informers) HasSyncedChecker() cache.DoneChecker { return nil }
func (i *informers) LastSyncResourceVersion() string     { return "77" }

func newIndex(t *testing.T) (*roster.Index, *informers) {
	t.Helper()
	b, in := roster.New(time.Now()), &informers{}
	if err := b.Follow(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return b, in
}

func pod(node, name, address string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID("u-" + name), ResourceVersion: "5"},
		Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}}}
}

// agent is what a receiver holds of a Node.
type agent struct {
	node, position string
	holds          map[string]string
	watch          watch.Interface
	relists        int
}

func (a *agent) list(b *roster.Index) error {
	l, err := b.List(a.node)
	if err != nil {
		return err
	}
	a.holds, a.position = map[string]string{}, l.ResourceVersion
	for i := range l.Items {
		a.holds[l.Items[i].Name] = fmt.Sprint(l.Items[i].UID, l.Items[i].Addresses)
	}
	a.relists++
	return nil
}

// take takes so many events, or all that there are.
func (a *agent) take(t *testing.T, b *roster.Index, most int) {
	t.Helper()
	for range most {
		if a.watch == nil {
			w, err := b.Watch(t.Context(), a.node, roster.WatchOptions{Position: a.position, Ended: func() {}})
			if errors.Is(err, roster.ErrExpired) {
				if err := a.list(b); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			a.watch = w
		}
		synctest.Wait()
		select {
		case e := <-a.watch.ResultChan():
			if e.Type == watch.Error {
				if !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
					t.Fatalf("an error: %+v", e.Object)
				}
				a.watch.Stop()
				a.watch, a.position = nil, "1"
				continue
			}
			p := e.Object.(*analysis.LocalPod)
			_, has := a.holds[p.Name]
			if has && e.Type == watch.Added {
				t.Fatalf("%s %s, which it holds", e.Type, p.Name)
			}
			if a.holds[p.Name] = fmt.Sprint(p.UID, p.Addresses); e.Type == watch.Deleted {
				delete(a.holds, p.Name)
			}
			a.position = p.ResourceVersion
		default:
			return
		}
	}
}

// TestWatchesFollow plays random changes of the Pods of four Nodes to receivers that stop, resume,
// and lag: each comes to hold what its own Node has, and nothing of another.
func TestWatchesFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed.Of(t), 1))
		b, in := newIndex(t)
		in.synced = true
		truth := map[string]*corev1.Pod{}
		var agents []*agent
		for i := range 8 {
			a := &agent{node: fmt.Sprint("node", i%4)}
			if err := a.list(b); err != nil {
				t.Fatal(err)
			}
			agents = append(agents, a)
		}
		for range 20_000 {
			name := fmt.Sprint("p", r.IntN(30))
			old := truth[name]
			switch now := pod(fmt.Sprint("node", r.IntN(4)), name, fmt.Sprint("10.0.0.", r.IntN(9))); {
			case old == nil:
				truth[name] = now
				in.handler.OnAdd(now, false)
			case r.IntN(3) == 0:
				delete(truth, name)
				if r.IntN(2) == 0 {
					in.handler.OnDelete(old)
				} else {
					in.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "n/" + name, Obj: old})
				}
			default:
				// Most stay where they are; one that was made anew meanwhile may be elsewhere.
				if r.IntN(4) > 0 {
					now.Spec.NodeName = old.Spec.NodeName
				}
				switch r.IntN(8) {
				case 0:
					now.Status.Phase = corev1.PodFailed
				case 1:
					now.Spec.HostNetwork = true
				case 2:
					now.UID = types.UID(fmt.Sprint(r.IntN(1000)))
				}
				truth[name] = now
				in.handler.OnUpdate(old, now)
			}
			a := agents[r.IntN(len(agents))]
			switch r.IntN(40) {
			case 0:
				if a.watch != nil {
					a.watch.Stop()
					a.watch = nil
				}
			default:
				a.take(t, b, r.IntN(4))
			}
		}
		for _, a := range agents {
			a.take(t, b, 1000)
			want := map[string]string{}
			for name, p := range truth {
				if p.Spec.NodeName == a.node && !p.Spec.HostNetwork && p.Status.Phase != corev1.PodFailed {
					want[name] = fmt.Sprint(p.UID, []string{p.Status.PodIP})
				}
			}
			if got := fmt.Sprint(a.holds); got != fmt.Sprint(want) {
				t.Errorf("%s holds %s, want %v", a.node, got, want)
			}
			if a.relists > 400 {
				t.Errorf("%s listed %d times", a.node, a.relists)
			}
			if a.watch != nil {
				a.watch.Stop()
			}
		}
	})
}

// TestNotBeforeAllIsKnown: there is no list while Pods may be missing in it.
func TestNotBeforeAllIsKnown(t *testing.T) {
	b, in := newIndex(t)
	in.handler.OnAdd(pod("w", "a", "10.0.0.1"), true)
	_, err := b.List("w")
	_, watchErr := b.Watch(t.Context(), "w", roster.WatchOptions{})
	if !errors.Is(err, roster.ErrNotReady) || !errors.Is(watchErr, roster.ErrNotReady) {
		t.Errorf("before all is known: %v, %v", err, watchErr)
	}
	in.synced = true
	l, err := b.List("w")
	if err != nil || len(l.Items) != 1 || l.AsOf != "77" {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestMissedTooMuch: a watcher that has missed more than is remembered, or comes with a position of
// another Index, lists anew, and gets no part.
func TestMissedTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, in := newIndex(t)
		in.synced = true
		in.handler.OnAdd(pod("w", "stays", "10.0.0.1"), false)
		l, err := b.List("w")
		if err != nil {
			t.Fatal(err)
		}
		idle, err := b.Watch(t.Context(), "w", roster.WatchOptions{Position: l.ResourceVersion, Ended: func() {}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i := range 100 {
			p := pod("w", fmt.Sprint("p", i), "10.0.0.2")
			in.handler.OnAdd(p, false)
			in.handler.OnDelete(p)
		}
		synctest.Wait()
		first := <-idle.ResultChan()
		if first.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(first.Object)) {
			t.Errorf("got %+v", first)
		}
		if _, ok := <-idle.ResultChan(); ok {
			t.Error("it goes on")
		}
		for _, position := range []string{l.ResourceVersion, "1", "99999999999999999999", "18446744073709551615", "x"} {
			if _, err := b.Watch(t.Context(), "w", roster.WatchOptions{Position: position, Ended: func() {}}); !errors.Is(err, roster.ErrExpired) {
				t.Errorf("from %s: %v", position, err)
			}
		}
		later := roster.New(time.Now().Add(time.Second))
		if err := later.Follow(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if _, err := later.Watch(t.Context(), "w", roster.WatchOptions{Position: l.ResourceVersion, Ended: func() {}}); !errors.Is(err, roster.ErrExpired) {
			t.Errorf("with a position of another Index: %v", err)
		}
	})
}

// TestNodesAreForgotten: names of Nodes that Pods only claimed leave nothing behind.
func TestNodesAreForgotten(t *testing.T) {
	b, in := newIndex(t)
	in.synced = true
	for i := range 1000 {
		p := pod(fmt.Sprint("made-up-", i), "p", "")
		in.handler.OnAdd(p, false)
		in.handler.OnDelete(p)
		if _, err := b.List(fmt.Sprint("asked-", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.Nodes(); n != 0 {
		t.Errorf("%d Nodes are remembered", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	if _, err := b.Watch(ctx, "w", roster.WatchOptions{Ended: func() { close(ended) }}); err != nil || b.Nodes() != 1 {
		t.Fatal(err)
	}
	cancel()
	<-ended
	if n := b.Nodes(); n != 0 {
		t.Errorf("%d Nodes are remembered after the watch", n)
	}
}

// TestBeginsWithAll: a watch without position begins with all, and says so.
func TestBeginsWithAll(t *testing.T) {
	b, in := newIndex(t)
	in.synced = true
	for i := range 3 {
		in.handler.OnAdd(pod("w", fmt.Sprint("p", i), "10.0.0.1"), false)
	}
	w, err := b.Watch(t.Context(), "w", roster.WatchOptions{Bookmark: true, Marks: true, Ended: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 4 {
		e := <-w.ResultChan()
		p := e.Object.(*analysis.LocalPod)
		got = append(got, string(e.Type)+p.Name+p.Annotations[metav1.InitialEventsAnnotationKey])
	}
	if want := []string{"ADDEDp0", "ADDEDp1", "ADDEDp2", "BOOKMARKtrue"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	in.handler.OnUpdate(pod("w", "p1", "10.0.0.1"), pod("w", "p1", "10.0.0.1")) // nothing of ours
	in.handler.OnUpdate(pod("w", "p1", "10.0.0.1"), pod("w", "p1", "10.0.0.9"))
	if e := <-w.ResultChan(); e.Type != watch.Modified || e.Object.(*analysis.LocalPod).Addresses[0] != "10.0.0.9" {
		t.Errorf("then %+v", e)
	}
}
