package policy_test

import (
	"context"
	"reflect"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/control"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// worlds are those of the performance table.
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
}

// BenchmarkCompute measures a world from the start of a Controller whose informers hold all objects, decoded, to the last event
// received by one subscriber for every enforcer key and kind. It reports the heap that the objects alone take (inputs-MB), all
// that is in use at the end (live-MB, inputs included) and the most that there was at any time, garbage included (peak-MB).
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
}

// rig is a Controller with informers that hold given objects, and subscribers to all it publishes.
type rig struct {
	controller *control.Controller
	feed       *feed
	ctx        context.Context
	cancel     context.CancelFunc
	running    sync.WaitGroup
	// synced counts the subscribers that wait for their bookmark; events are those that any has received, arrived is signalled
	// with each.
	synced sync.WaitGroup
	events atomic.Int64
}

func newRig(tb testing.TB, objects []client.Object, keys []string) *rig {
	r := &rig{feed: &feed{objects: map[reflect.Type][]client.Object{}}}
	for _, o := range objects {
		t := reflect.TypeOf(o)
		r.feed.objects[t] = append(r.feed.objects[t], o)
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

func (r *rig) subscribe(w *watchstore.Watcher) {
	defer w.Stop()
	into := make([]watchstore.Event, 64)
	for {
		n, err := w.Take(r.ctx, into)
		if err != nil {
			return
		}
		for i := range into[:n] {
			if into[i].Type == watch.Bookmark {
				r.synced.Done()
			}
		}
		r.events.Add(int64(n))
		clear(into)
	}
}

func (r *rig) run() {
	r.running.Go(func() { _ = r.controller.Start(r.ctx) })
}

func (r *rig) stop() {
	r.cancel()
	r.running.Wait()
}

// feed are informers that hold everything already: each gives its handler all its objects, in a goroutine of its own.
type feed struct {
	objects map[reflect.Type][]client.Object
}

type fedInformer struct {
	cache.Informer
	objects []client.Object
	done    chan struct{}
}

func (f *feed) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return &fedInformer{objects: f.objects[reflect.TypeOf(o)], done: make(chan struct{})}, nil
}

// RemoveInformer implements control.Informers.
func (f *feed) RemoveInformer(context.Context, client.Object) error { return nil }

func (f *fedInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	go func() {
		for _, o := range f.objects {
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

// watchHeap begins to note the heap in use; the function it returns ends that and returns the largest there was.
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
