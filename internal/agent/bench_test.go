package agent_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/conntrack"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/agent/nodenetwork"
	"github.com/nephele-io/nephele/internal/agent/pods"
	"github.com/nephele-io/nephele/internal/agent/services"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// played is a source whose events a benchmark sends.
type played map[enforcer.Resource]chan watch.Event

func (p played) Watch(_ context.Context, r enforcer.Resource, _ string) (enforcer.Stream, error) {
	return playing(p[r]), nil
}

type playing chan watch.Event

func (p playing) Next(ctx context.Context) (watch.Event, error) {
	select {
	case ev := <-p:
		return ev, nil
	case <-ctx.Done():
		return watch.Event{}, ctx.Err()
	}
}

func (p playing) Stop() {}

// watched is a table that tells when something was written, and how much processor time the thread
// of the agent had used by then.
type watched struct {
	*kernel.Table
	written chan time.Duration
}

func (w watched) Apply(want *ruleset.Program) (kernel.Written, error) {
	out, err := w.Table.Apply(want)
	if err == nil && out.Messages > 0 {
		w.written <- used(unix.RUSAGE_THREAD)
	}
	return out, err
}

// used is the processor time of this process or thread.
func used(who int) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(who, &u); err != nil {
		panic(err) // it is one of the two
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benched is an agent in the large world, with all that one on a VM has but a server.
type benched struct {
	source  played
	written chan time.Duration
	world   enforcer.Computed
}

func newBenched(b *testing.B) *benched {
	b.Helper()
	return newBenchedOf(b, nfttest.World(), func(*agent.Options) {})
}

// newBenchedOf is one in another world, with other options.
func newBenchedOf(b *testing.B, world enforcer.Computed, with func(*agent.Options)) *benched {
	b.Helper()
	out := &benched{played{}, make(chan time.Duration, 1), world}
	for _, r := range enforcer.Resources() {
		out.source[r] = make(chan watch.Event, 100)
	}
	host := nfttest.NewHost(b)
	var table *kernel.Table
	var connections *conntrack.Connections
	if err := host.Do(func() (err error) {
		if table, err = kernel.Open(kernel.DefaultTable); err == nil {
			connections, err = conntrack.Open()
		}
		return err
	}); err != nil {
		b.Fatal(err)
	}
	store, err := disk.Open(filepath.Join(b.TempDir(), "state"))
	if err != nil {
		b.Fatal(err)
	}
	options := agent.Options{
		Key: hostKey, Reports: &reports{last: map[string]v1beta2.NetworkPolicyNodeStatus{}}, Table: watched{table, out.written}, Connections: connections,
		Store: store, Clock: clock.RealClock{}, Log: logr.Discard(), Follower: enforcer.Follower{Source: out.source, Clock: clock.RealClock{}, Log: logr.Discard()},
	}
	with(&options)
	a := agent.New(options)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // so that its processor time can be told
		defer runtime.UnlockOSThread()
		done <- a.Run(ctx)
	}()
	b.Cleanup(func() {
		cancel()
		for running := true; running; {
			select {
			case <-out.written:
			case err := <-done:
				running = false
				if err != nil {
					b.Error(err)
				}
			}
		}
		_, _ = table.Close(), connections.Close()
	})
	begin := func(r enforcer.Resource, kind apiruntime.Object, objects ...apiruntime.Object) {
		for _, o := range objects {
			out.source[r] <- watch.Event{Type: watch.Added, Object: o}
		}
		out.source[r] <- watch.Event{Type: watch.Bookmark, Object: kind}
	}
	begin(enforcer.AppliedToGroups, &v1beta2.AppliedToGroup{}, objects(out.world.AppliedToGroups)...)
	begin(enforcer.AddressGroups, &v1beta2.AddressGroup{}, objects(enforcer.Objects(out.world.AddressGroups))...)
	begin(enforcer.NetworkPolicies, &v1beta2.NetworkPolicy{}, objects(out.world.Policies)...)
	<-out.written
	return out
}

func objects[T apiruntime.Object](list []T) []apiruntime.Object {
	out := make([]apiruntime.Object, len(list))
	for i, o := range list {
		out[i] = o
	}
	return out
}

// usage returns the processor time of this process, and how much of its memory is resident now.
func usage(b *testing.B) (time.Duration, float64) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		b.Fatal(err)
	}
	return used(unix.RUSAGE_SELF), float64(resident*int64(os.Getpagesize())) / 1e6
}

// events sends events one after the other, and reports how long it takes until each is in the
// kernel; what processor time that costs the thread of the agent, which is how long it takes where
// nothing else runs; and what it costs the process, collections of garbage and writes to the disk
// included.
func (x *benched) events(b *testing.B, resource enforcer.Resource, event func(i int) apiruntime.Object) {
	x.changes(b, func(i int) { x.source[resource] <- watch.Event{Type: watch.Modified, Object: event(i)} })
}

// changes does so for changes of any kind.
func (x *benched) changes(b *testing.B, change func(i int)) {
	const each = 300
	var took, cpu, loop []time.Duration
	var last time.Duration
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range each * b.N {
		busy, _ := usage(b)
		begun := time.Now()
		change(i)
		at := <-x.written
		if i > 0 { // the first one also has what followed the last write
			loop = append(loop, at-last)
		}
		last = at
		took = append(took, time.Since(begun))
		now, _ := usage(b)
		cpu = append(cpu, now-busy)
	}
	runtime.ReadMemStats(&after)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	for name, list := range map[string][]time.Duration{"ms": took, "thread-ms": loop, "cpu-ms": cpu} {
		slices.Sort(list)
		b.ReportMetric(ms(list[len(list)/2]), "p50-"+name)
		b.ReportMetric(ms(list[len(list)*99/100]), "p99-"+name)
	}
	_, resident := usage(b)
	b.ReportMetric(resident, "resident-MB")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(each*b.N)/1e3, "KB/event")
	b.ReportMetric(float64(after.NumGC-before.NumGC), "collections")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAgentMembers changes the addresses of one group after the other, from the event of the
// watch to the kernel, through the whole agent.
func BenchmarkAgentMembers(b *testing.B) {
	x := newBenched(b)
	x.events(b, enforcer.AddressGroups, func(i int) apiruntime.Object {
		g := i * 7919 % nfttest.WorldGroups
		from, to := nfttest.WorldGroup(g, 0), nfttest.WorldGroup(g, 1+i%3)
		return &v1beta2.AddressGroupPatch{ObjectMeta: metav1.ObjectMeta{Name: to.Name}, AddedGroupMembers: to.GroupMembers, RemovedGroupMembers: from.GroupMembers}
	})
}

// BenchmarkAgentPolicies changes the rules of one policy after the other.
func BenchmarkAgentPolicies(b *testing.B) {
	x := newBenched(b)
	x.events(b, enforcer.NetworkPolicies, func(i int) apiruntime.Object {
		p := nfttest.WorldPolicy(i*7%nfttest.WorldPolicies, 9000+i%5*100)
		p.Generation = int64(i + 2)
		return p
	})
}

// still is a cluster in which nothing changes but slices of endpoints.
type still struct {
	lists  map[string]apiruntime.Object
	slices *watch.RaceFreeFakeWatcher
}

// Follow implements agent.Cluster.
func (s still) Follow(of schema.GroupVersionResource, _ string, _ func(*metav1.ListOptions)) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (apiruntime.Object, error) { return s.lists[of.Resource], nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			if of.Resource == "endpointslices" {
				return s.slices, nil
			}
			return watch.NewRaceFreeFake(), nil
		},
	}, s)
}

// IsWatchListSemanticsUnSupported says that lists are read as lists.
func (still) IsWatchListSemanticsUnSupported() bool { return true }

// noLinks are the links of a Node without Pods.
type noLinks struct{}

// Shape implements agent.Links.
func (noLinks) Shape(map[string]network.Shape) (int, error) { return 0, nil }

func (noLinks) Observe(network.Look) (*network.State, network.Underlay, error) {
	return network.NewState(), network.Underlay{Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}, Toward: []network.Hop{{Link: "eth0", MTU: 1500}}, IPv6: true}, nil
}
func (noLinks) End(string) (*network.State, bool, error) { return network.NewState(), false, nil }
func (noLinks) Apply([]network.Step) error               { return nil }

// BenchmarkAgentServices changes one endpoint of one Service after the other, from the event of the
// watch to the kernel, through the whole agent of a Node that leads to 10,000 Services with two
// endpoints each.
func BenchmarkAgentServices(b *testing.B) {
	const many = 10000
	all, endpoints := &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}
	port, tcp, web := int32(8080), corev1.ProtocolTCP, "web"
	sliceOf := func(i, change int) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprintf("s%d", i), ResourceVersion: fmt.Sprint(change + 1), Labels: map[string]string{discoveryv1.LabelServiceName: fmt.Sprintf("s%d", i)}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &web, Port: &port, Protocol: &tcp}}}
		for k := range 2 {
			n := i*2 + k
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 100+k*min(change, 1)*(1+change%50), n>>8&255, n&255)}})
		}
		return s
	}
	for i := range many {
		all.Items = append(all.Items, corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprintf("s%d", i)}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIP: fmt.Sprintf("10.96.%d.%d", i>>8, i&255), Ports: []corev1.ServicePort{{Name: web, Protocol: tcp, Port: 80, NodePort: int32(20000 + i)}}}})
		endpoints.Items = append(endpoints.Items, *sliceOf(i, 0))
	}
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.0.0/24"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	cluster := still{map[string]apiruntime.Object{"services": all, "endpointslices": endpoints, "nodes": &corev1.NodeList{Items: []corev1.Node{node}}, "pods": &corev1.PodList{}}, watch.NewRaceFreeFake()}
	x := newBenchedOf(b, enforcer.Computed{}, func(o *agent.Options) {
		o.Key = "node"
		o.Pods = pods.New(pods.Options{Node: "node", Cluster: cluster, Log: logr.Discard()})
		o.Network = nodenetwork.New(nodenetwork.Options{Node: "node", Cluster: cluster, Config: network.Config{Mode: network.Encap}, Links: noLinks{}, Clock: clock.RealClock{}, Log: logr.Discard()})
		o.Balancing = services.NewBalancing("node", cluster)
	})
	for quiet := false; !quiet; { // until all of them are in the kernel
		select {
		case <-x.written:
		case <-time.After(3 * time.Second):
			quiet = true
		}
	}
	b.ResetTimer()
	x.changes(b, func(i int) { cluster.slices.Modify(sliceOf(i*7919%many, i+1)) })
}

// BenchmarkAgentIdle lets the agent be for half a minute.
func BenchmarkAgentIdle(b *testing.B) {
	newBenched(b)
	for range b.N {
		<-time.After(10 * time.Second) // until what has come is kept
		busy, _ := usage(b)
		<-time.After(30 * time.Second)
		now, resident := usage(b)
		b.ReportMetric(float64(now-busy)/float64(30*time.Second)*100, "percent")
		b.ReportMetric(resident, "resident-MB")
	}
	b.ReportMetric(0, "ns/op")
}
