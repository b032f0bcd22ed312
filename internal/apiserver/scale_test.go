package apiserver_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// BenchmarkWatchers has 2,000 nodes watch address groups over protobuf, each group of 100 Pods being of interest to 20 of
// them, and measures how long it takes until all have everything, and until a change has reached the 20 whom it concerns.
// Clients and server share the machine; 100 connections carry all watches.
func BenchmarkWatchers(b *testing.B) {
	const nodes, groups, readers = 2000, 2000, 20
	for range b.N {
		store := watchstore.New(watchstore.Options{})
		w := serve(b, store, "127.0.0.1:0")
		var c watchstore.Changes
		for g := range groups {
			change := watchstore.GroupChange{Name: fmt.Sprint("g", g)}
			for m := range 100 {
				change.Added = append(change.Added, pod(m, ""))
			}
			for r := range readers {
				change.SpanAdded = append(change.SpanAdded, fmt.Sprint("node-", (g*7+r*101)%nodes))
			}
			c.AddressGroups = append(c.AddressGroups, change)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		ctx, cancel := context.WithCancel(context.Background())
		var synced, patched atomic.Int64
		var running sync.WaitGroup
		begin := time.Now()
		for i := range nodes {
			running.Go(func() {
				s, err := w.client(b, "agent", apiruntime.ContentTypeProtobuf).Get().Resource("addressgroups").Param("watch", "true").
					Param("fieldSelector", fmt.Sprint("nodeName=node-", i)).Watch(ctx)
				if err != nil {
					b.Error(err)
					return
				}
				for e := range s.ResultChan() {
					switch e.Type {
					case watch.Bookmark:
						synced.Add(1)
					case watch.Modified:
						_ = e.Object.(*v1beta2.AddressGroupPatch)
						patched.Add(1)
					}
				}
			})
		}
		store.Publish(c)
		for synced.Load() < nodes {
			time.Sleep(time.Millisecond)
		}
		b.ReportMetric(time.Since(begin).Seconds(), "s/all-synced")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/nodes/1024, "KiB/watch")
		begin = time.Now()
		store.Publish(watchstore.Changes{AddressGroups: []watchstore.GroupChange{{Name: "g0", Added: []*watchstore.Member{pod(200, "")}}}})
		for patched.Load() < readers {
			time.Sleep(50 * time.Microsecond)
		}
		b.ReportMetric(float64(time.Since(begin).Microseconds())/1000, "ms/change")
		cancel()
		running.Wait()
		w.stop()
	}
}
