package compute_test

import (
	"context"
	"reflect"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/control"
	"github.com/nephele-io/nephele/internal/control/trim"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// worlds are the rows of the performance table.
var worlds = []struct {
	name string
	make func(n int) *policytest.Scale
	n    int
}{
	{"SmallNamespaces", policytest.SmallNamespaces, 25_000},
	{"LargeNamespaces", policytest.LargeNamespaces, 100},
	{"OneNamespace", policytest.OneNamespace, 10_000},
	{"PolicyPerPod", policytest.PolicyPerPod, 10_000},
	{"PolicyPerEntity", policytest.PolicyPerEntity, 10_000},
	{"ClusterScoped", policytest.ClusterScoped, 1_000},
	{"PolicyPerEntity100k", policytest.PolicyPerEntity, 100_000},
	{"Hub10k", policytest.Hub, 100},
	{"Hub100k", policytest.Hub, 1_000},
	{"Hub1M", policytest.Hub, 10_000},
}

// BenchmarkCompute measures a world from the start of a Controller whose informers hold all
// objects, decoded, to the last event received by one subscriber for every enforcer key and kind.
// It reports the heap that the objects alone take (inputs-MB), all that is in use at the end
// (live-MB, inputs included) and the most that there was at any time, garbage included (peak-MB).
func BenchmarkCompute(b *testing.B) {
	for _, world := range worlds {
		b.Run(world.name, func(b *testing.B) {
			s := world.make(world.n)
			objects, keys := decoded(s), keysOf(s)
			s = nil
			inputs := heap()
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				heap()
				peak := watchHeap()
				r := newRig(b, objects, keys)
				b.StartTimer()
				spent := processorTime()
				r.run()
				r.synced.Wait()
				b.StopTimer()
				b.ReportMetric((processorTime() - spent).Seconds(), "cpu-s")
				b.ReportMetric(float64(peak())/1e6, "peak-MB")
				b.ReportMetric(float64(heap())/1e6, "live-MB")
				b.ReportMetric(float64(r.events.Load()), "events")
				r.stop()
				b.StartTimer()
			}
			b.ReportMetric(float64(inputs)/1e6, "inputs-MB")
			runtime.KeepAlive(objects)
		})
	}
	b.Run("Churn", churn)
}

// BenchmarkStored is BenchmarkCompute that ends when the store has everything and nobody watches:
// where Antrea's own benchmarks end. It goes through the inputs with one goroutine, as these do.
func BenchmarkStored(b *testing.B) {
	for _, world := range worlds {
		b.Run(world.name, func(b *testing.B) {
			s := world.make(world.n)
			objects := decoded(s)
			s = nil
			for b.Loop() {
				b.StopTimer()
				heap()
				r := newRig(b, objects, []string{"nobody"})
				b.StartTimer()
				spent := processorTime()
				r.run()
				r.synced.Wait()
				b.StopTimer()
				b.ReportMetric((processorTime() - spent).Seconds(), "cpu-s")
				r.stop()
				b.StartTimer()
			}
			runtime.KeepAlive(objects)
		})
	}
}

// churn measures single changes in the steady state of each world, from the informer's call to the
// last event received by the last subscriber: a label of an entity, an entity more or less, the
// ports of a policy.
func churn(b *testing.B) {
	for _, world := range worlds {
		b.Run(world.name, func(b *testing.B) {
			s := world.make(world.n)
			objects, keys := decoded(s), keysOf(s)
			r := newRig(b, objects, keys)
			defer r.stop()
			r.run()
			r.synced.Wait()
			for _, c := range changes(s, objects) {
				turn := 0 // goes on where the last, shorter run ended
				b.Run(c.name, func(b *testing.B) {
					b.ReportAllocs()
					took := make([]time.Duration, 0, b.N)
					steps := make([]step, b.N)
					for i := range steps {
						steps[i] = c.step(turn)
						turn++
					}
					before := r.events.Load()
					b.ResetTimer()
					for i := range steps {
						took = append(took, r.change(steps[i]))
					}
					slices.Sort(took)
					b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-us")
					b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-us")
					b.ReportMetric(float64(r.events.Load()-before)/float64(b.N), "events/op")
				})
			}
		})
	}
}

// change is one kind of single change. Every second step takes back the one before, and each brings
// at least one event.
type change struct {
	name string
	step func(i int) step
}

// step is a change to make: what the informer of a kind is told.
type step struct {
	kind reflect.Type
	tell func(toolscache.ResourceEventHandler)
}

func changes(s *policytest.Scale, objects []held) []change {
	var entities, policies []int
	for i, o := range s.Objects {
		switch o.(type) {
		case policy.Entity:
			entities = append(entities, i)
		case policy.Policy:
			policies = append(policies, i)
		}
	}
	trimmer := trim.NewTrimmer()
	// far spreads what is changed over all there is.
	far := func(i int, list []int) int { return list[i/2*7919%len(list)] }
	update := func(before, after held, back bool) func(toolscache.ResourceEventHandler) {
		if back {
			before, after = after, before
		}
		return func(h toolscache.ResourceEventHandler) { h.OnUpdate(before.object, after.object) }
	}
	return []change{
		{"label", func(i int) step {
			at := far(i, entities)
			changed := apiObject(s.Objects[at], at)
			changed.SetLabels(map[string]string{"app": "other"})
			after := trimmed(trimmer, changed)
			return step{after.kind, update(objects[at], after, i%2 == 1)}
		}},
		{"entity", func(i int) step {
			at := far(i, entities)
			added := apiObject(s.Objects[at], at)
			added.SetName("new")
			o := trimmed(trimmer, added)
			if i%2 == 0 {
				return step{o.kind, func(h toolscache.ResourceEventHandler) { h.OnAdd(o.object, false) }}
			}
			return step{o.kind, func(h toolscache.ResourceEventHandler) { h.OnDelete(o.object) }}
		}},
		{"policy", func(i int) step {
			at := far(i, policies)
			after := apiObject(s.Objects[at], at)
			after.SetGeneration(int64(2 + i))
			port := intstr.FromInt32(80)
			switch p := after.(type) {
			case *networkingv1.NetworkPolicy:
				p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}}}
			case *v1beta1.NetworkPolicy:
				p.Spec.Ingress[0].Ports = []v1beta1.NetworkPolicyPort{{Port: &port}}
			}
			return step{objects[at].kind, update(objects[at], trimmed(trimmer, after), i%2 == 1)}
		}},
	}
}

// rig is a Controller with informers that hold given objects, and subscribers to all it publishes.
type rig struct {
	controller *control.Controller
	feed       *feed
	ctx        context.Context
	cancel     context.CancelFunc
	running    sync.WaitGroup
	// synced counts the subscribers that wait for their bookmark; events are those that all have
	// received.
	synced sync.WaitGroup
	events atomic.Int64
	// quiet receives when there may be nothing left to receive.
	quiet chan struct{}
	// patience ends when a change has brought nothing for long.
	patience *time.Timer
}

func newRig(tb testing.TB, objects []held, keys []string) *rig {
	r := &rig{feed: newFeed(), quiet: make(chan struct{}, 1), patience: time.NewTimer(0)}
	counts := map[reflect.Type]int{}
	for _, o := range objects {
		counts[o.kind]++
	}
	for kind, n := range counts {
		r.feed.objects[kind] = make([]any, 0, n)
	}
	for _, o := range objects {
		r.feed.objects[o.kind] = append(r.feed.objects[o.kind], o.object)
	}
	c, err := control.New(control.Options{Informers: r.feed, Client: nothingThere{}, Recorder: noEvents{}, Clock: clock.RealClock{}, Logger: logr.Discard()})
	if err != nil {
		tb.Fatal(err)
	}
	r.controller = c
	r.ctx, r.cancel = context.WithCancel(context.Background())
	for _, key := range keys {
		for _, resource := range watchstore.Resources() {
			w, err := c.Store().Watch(resource, key)
			if err != nil {
				tb.Fatal(err)
			}
			r.synced.Add(1)
			r.running.Go(func() { r.subscribe(w) })
		}
	}
	return r
}

// scratches are where subscribers look at the objects that they receive.
var scratches = sync.Pool{New: func() any { return new(watchstore.Scratch) }}

func (r *rig) subscribe(w *watchstore.Watcher) {
	defer w.Stop()
	into := make([]watchstore.Event, 32) // as the server does
	for {
		events, err := w.Take(r.ctx, into)
		if err != nil {
			return
		}
		scratch := scratches.Get().(*watchstore.Scratch)
		for i := range events {
			if object, _ := events[i].View(scratch); object == nil {
				panic("an event without an object")
			}
			if events[i].Type == watch.Bookmark {
				r.synced.Done()
			}
		}
		scratches.Put(scratch)
		r.events.Add(int64(len(events)))
		if len(events) < len(into) {
			clear(into)
		}
		if _, behind := r.controller.Store().Progress(); behind == 0 {
			select {
			case r.quiet <- struct{}{}:
			default:
			}
		}
	}
}

func (r *rig) run() {
	r.running.Go(func() { _ = r.controller.Start(r.ctx) })
}

// change makes a change and waits until everybody has received what it brought.
func (r *rig) change(s step) time.Duration {
	before, _ := r.controller.Store().Progress()
	r.patience.Reset(10 * time.Second)
	start := time.Now()
	s.tell(r.feed.handlers[s.kind])
	for {
		select {
		case <-r.quiet:
		case <-r.patience.C:
			panic("the change brings nothing")
		}
		if now, behind := r.controller.Store().Progress(); now > before && behind == 0 {
			return time.Since(start)
		}
	}
}

func (r *rig) stop() {
	r.cancel()
	r.running.Wait()
}

// feed are informers that hold everything already: each gives its handler all its objects, in a
// goroutine of its own.
type feed struct {
	objects map[reflect.Type][]any
	// handlers are the first for each kind: the loop's.
	mu       sync.Mutex
	handlers map[reflect.Type]toolscache.ResourceEventHandler
}

func newFeed() *feed {
	return &feed{objects: map[reflect.Type][]any{}, handlers: map[reflect.Type]toolscache.ResourceEventHandler{}}
}

type fedInformer struct {
	cache.Informer
	feed *feed
	kind reflect.Type
	done chan struct{}
}

// GetInformer implements control.Informers.
func (f *feed) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return &fedInformer{feed: f, kind: reflect.TypeOf(o), done: make(chan struct{})}, nil
}

// RemoveInformer implements control.Informers.
func (f *feed) RemoveInformer(context.Context, client.Object) error { return nil }

func (f *fedInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	f.feed.mu.Lock()
	defer f.feed.mu.Unlock()
	if f.feed.handlers[f.kind] == nil {
		f.feed.handlers[f.kind] = h
	}
	go func() {
		for _, o := range f.feed.objects[f.kind] {
			h.OnAdd(o, true)
		}
		close(f.done)
	}()
	return f, nil
}

func (f *fedInformer) HasSynced() bool                          { <-f.done; return true }
func (f *fedInformer) HasSyncedChecker() toolscache.DoneChecker { return f }
func (f *fedInformer) Name() string                             { return "fed" }
func (f *fedInformer) Done() <-chan struct{}                    { return f.done }

// nothingThere is an API in which there is nothing, and which takes everything.
type nothingThere struct{ client.Client }

func (nothingThere) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, "")
}

func (nothingThere) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (nothingThere) Create(context.Context, client.Object, ...client.CreateOption) error { return nil }

type noEvents struct{}

func (noEvents) Eventf(apiruntime.Object, apiruntime.Object, string, string, string, string, ...any) {
}

// processorTime is what the process has used of all processors together.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heap returns what is in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// watchHeap begins to note the heap in use; the function it returns ends that and returns the
// largest there was.
func watchHeap() func() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		var peak uint64
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(sample)
			peak = max(peak, sample[0].Value.Uint64())
			select {
			case <-tick.C:
			case <-stop:
				most <- peak
				return
			}
		}
	}()
	return func() uint64 { close(stop); return <-most }
}
