package traceflow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// world is a cluster with a controller that looks when it is told to.
type world struct {
	*Controller
	t     *testing.T
	clock *clocktesting.FakeClock
}

func newWorld(t *testing.T) *world {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1beta1.Traceflow{}, &v1alpha1.PacketCapture{}).
		WithIndex(&corev1.Pod{}, "metadata.name", byName).WithIndex(&corev1.Service{}, "metadata.name", byName).Build()
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	w := &world{&Controller{Client: c, Reader: c, Clock: clock, Log: logr.Discard(), given: map[types.UID]int8{}, assigned: map[types.UID]string{}}, t, clock}
	pod := func(name, node string, ips ...string) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: node, HostNetwork: name == "host"}}
		for _, ip := range ips {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
		}
		w.create(p)
	}
	pod("web", "node0", "10.244.0.2", "fd00::2")
	pod("db", "node1", "10.244.1.2", "fd00:1::2")
	pod("six", "node1", "fd00:1::3")
	pod("new", "")
	pod("host", "node1", "192.168.1.2")
	w.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.7"},
		Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolSCTP, Port: 1}, {Protocol: corev1.ProtocolUDP, Port: 53}, {Protocol: corev1.ProtocolTCP, Port: 5432}}}})
	return w
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.Client.Create(context.Background(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) make(name string, spec v1beta1.TraceflowSpec) {
	w.t.Helper()
	w.create(&v1beta1.Traceflow{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(w.clock.Now())}, Spec: spec})
}

func (w *world) status(name string) v1beta1.TraceflowStatus {
	w.t.Helper()
	var o v1beta1.Traceflow
	if err := w.Client.Get(context.Background(), client.ObjectKey{Name: name}, &o); err != nil {
		w.t.Fatal(err)
	}
	return o.Status
}

// report adds what a Node tells.
func (w *world) report(name, node string, o v1beta1.TraceflowObservation) {
	w.t.Helper()
	var f v1beta1.Traceflow
	err := w.Client.Get(context.Background(), client.ObjectKey{Name: name}, &f)
	if err == nil {
		f.Status.Results = append(f.Status.Results, v1beta1.TraceflowNodeResult{Node: node, Observations: []v1beta1.TraceflowObservation{o}})
		err = w.Client.Status().Update(context.Background(), &f)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

var web = v1beta1.TraceflowSource{Namespace: "shop", Pod: "web"}

func to(pod string) v1beta1.TraceflowDestination {
	return v1beta1.TraceflowDestination{Namespace: "shop", Pod: pod}
}

func TestResolve(t *testing.T) {
	w := newWorld(t)
	onTCP := v1beta1.TraceflowPacket{TransportHeader: v1beta1.TransportHeader{TCP: &v1beta1.TCPHeader{SrcPort: 1000, DstPort: 80}}}
	six := v1beta1.TraceflowPacket{IPv6Header: &v1beta1.IPv6Header{}}
	service := v1beta1.TraceflowDestination{Namespace: "shop", Service: "db"}
	for _, c := range []struct {
		spec v1beta1.TraceflowSpec
		want string
	}{
		{v1beta1.TraceflowSpec{Source: web, Destination: to("db")}, "node0 node1 10.244.0.2 10.244.1.2 1 0 0"},
		{v1beta1.TraceflowSpec{Source: web, Destination: to("db"), Packet: six}, "node0 node1 fd00::2 fd00:1::2 58 0 0"},
		{v1beta1.TraceflowSpec{Source: web, Destination: to("six"), Packet: onTCP}, "node0 node1 fd00::2 fd00:1::3 6 1000 80"},
		{v1beta1.TraceflowSpec{Source: web, Destination: v1beta1.TraceflowDestination{IP: "192.0.2.1"}}, "node0  10.244.0.2 192.0.2.1 1 0 0"},
		{v1beta1.TraceflowSpec{Source: web, Destination: service}, "node0  10.244.0.2 10.96.0.7 17 0 53"},
		{v1beta1.TraceflowSpec{Source: web, Destination: service, Packet: v1beta1.TraceflowPacket{IPHeader: &v1beta1.IPHeader{Protocol: 6}}}, "node0  10.244.0.2 10.96.0.7 6 0 5432"},
		{v1beta1.TraceflowSpec{Source: web, LiveTraffic: true}, "node0  10.244.0.2  0 0 0"},
		{v1beta1.TraceflowSpec{Source: v1beta1.TraceflowSource{IP: "192.0.2.1"}, Destination: to("db"), LiveTraffic: true}, "node1 node1 192.0.2.1 10.244.1.2 0 0 0"},
		{v1beta1.TraceflowSpec{Source: web, Destination: v1beta1.TraceflowDestination{IP: "192.0.2.1"}, Packet: six}, "no address of the same family"},
		{v1beta1.TraceflowSpec{Source: web, Destination: v1beta1.TraceflowDestination{IP: "192.0.2.256"}}, `destination.ip: "192.0.2.256" is no IPv4 or IPv6 address`},
		{v1beta1.TraceflowSpec{Source: v1beta1.TraceflowSource{IP: "fe80::1%eth0"}, Destination: to("db"), LiveTraffic: true}, `source.ip: "fe80::1%eth0" is no`},
		{v1beta1.TraceflowSpec{Source: web, Destination: to("none")}, "there is no Pod shop/none"},
		{v1beta1.TraceflowSpec{Source: web, Destination: to("new")}, "Pod shop/new has no address yet"},
		{v1beta1.TraceflowSpec{Source: web, Destination: to("host")}, "Pod shop/host has the network of its Node"},
		{v1beta1.TraceflowSpec{Source: web, Destination: v1beta1.TraceflowDestination{Namespace: "shop", Service: "web"}}, "there is no Service shop/web with a ClusterIP"},
		{v1beta1.TraceflowSpec{Source: web, Destination: to("db"), Packet: v1beta1.TraceflowPacket{TransportHeader: v1beta1.TransportHeader{UDP: &v1beta1.UDPHeader{}}}}, "want the port"},
	} {
		got, err := resolve(t.Context(), w.Reader, &v1beta1.Traceflow{Spec: c.spec})
		text := fmt.Sprint(err)
		if err == nil {
			text = fmt.Sprintf("%s %s %s %s %d %d %d", got.Node, got.Receiver, got.SourceIP, got.DestinationIP, got.Protocol, got.SourcePort, got.DestinationPort)
		}
		if err == nil && text != c.want || err != nil && !strings.Contains(text, c.want) {
			t.Errorf("%+v: %q, want %q", c.spec, text, c.want)
		}
	}
}

// TestTags runs more Traceflows than there are tags, through a controller that is replaced.
func TestTags(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		w.make(fmt.Sprintf("t%02d", i), v1beta1.TraceflowSpec{Source: web, Destination: to("db")})
	}
	seen := func() (tags map[int8]bool, running, waiting int) {
		tags = map[int8]bool{}
		for i := range 20 {
			switch s := w.status(fmt.Sprintf("t%02d", i)); {
			case s.Phase == v1beta1.TraceflowRunning:
				if tags[s.DataplaneTag] || s.DataplaneTag < firstTag || s.DataplaneTag > lastTag {
					t.Fatalf("tag %d", s.DataplaneTag)
				}
				tags[s.DataplaneTag] = true
				running++
			case strings.Contains(s.Reason, "waits"):
				waiting++
			}
		}
		return tags, running, waiting
	}
	w.look(t.Context())
	if _, running, waiting := seen(); running != 14 || waiting != 6 {
		t.Fatalf("%d run, %d wait", running, waiting)
	}
	w.given = map[types.UID]int8{} // another process
	w.report("t03", "node0", v1beta1.TraceflowObservation{Action: v1beta1.ActionDropped})
	w.look(t.Context())
	w.look(t.Context())
	if s := w.status("t03"); s.Phase != v1beta1.TraceflowSucceeded || s.DataplaneTag != 0 {
		t.Errorf("%+v", s)
	}
	if _, running, waiting := seen(); running != 14 || waiting != 5 {
		t.Errorf("%d run, %d wait", running, waiting)
	}
	if s := w.status("t14"); s.Phase != v1beta1.TraceflowRunning {
		t.Errorf("the next one is %+v", s)
	}
	w.clock.Step(time.Minute)
	for w.look(t.Context()) {
		w.clock.Step(time.Minute)
	}
	if s := w.status("t00"); s.Phase != v1beta1.TraceflowFailed || !strings.Contains(s.Reason, "the agent of Node node0 told nothing") {
		t.Errorf("%+v", s)
	}
}

// TestTagsGoRound: what begins after a Traceflow has ended does not get its tag, while there are
// others.
func TestTagsGoRound(t *testing.T) {
	w := newWorld(t)
	var tags []int8
	for i := range 2 * tagCount {
		name := fmt.Sprintf("t%02d", i)
		w.make(name, v1beta1.TraceflowSpec{Source: web, Destination: to("db")})
		w.look(t.Context())
		tag := w.status(name).DataplaneTag
		if i > 0 && slices.Contains(tags[max(0, i-tagCount+1):], tag) {
			t.Fatalf("tag %d after %v", tag, tags)
		}
		tags = append(tags, tag)
		w.report(name, "node0", v1beta1.TraceflowObservation{Action: v1beta1.ActionDropped})
		w.look(t.Context())
		if s := w.status(name); s.Phase != v1beta1.TraceflowSucceeded {
			t.Fatalf("%+v", s)
		}
	}
}

// TestEnds ends Traceflows when every part was reported, by an enforcer that may report it.
func TestEnds(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"here", "far", "lost", "wrong", "not"} {
		w.make(name, v1beta1.TraceflowSpec{Source: web, Destination: to("db"), Timeout: 5})
	}
	w.look(t.Context())
	forwarded := v1beta1.TraceflowObservation{Action: v1beta1.ActionForwarded, TunnelDstIP: "192.168.1.2"}
	delivered := v1beta1.TraceflowObservation{Action: v1beta1.ActionDelivered}
	w.report("here", "node0", delivered)
	for _, name := range []string{"far", "lost", "wrong"} {
		w.report(name, "node0", forwarded)
	}
	w.report("far", "node1", delivered)
	w.report("wrong", "node7", delivered)
	w.report("not", "node0", v1beta1.TraceflowObservation{Action: v1beta1.ActionDropped, ComponentInfo: v1beta1.TraceflowNotTraced + "no device"})
	w.look(t.Context())
	want := map[string]string{"here": "Succeeded", "far": "Succeeded", "lost": "Running", "wrong": "Running", "not": "Failed"}
	for name, phase := range want {
		if s := w.status(name); string(s.Phase) != phase {
			t.Errorf("%s: %+v, want %s", name, s, phase)
		}
	}
	w.make("there", v1beta1.TraceflowSpec{Source: web, Destination: to("db"), LiveTraffic: true, DroppedOnly: true})
	w.look(t.Context())
	w.report("there", "node1", v1beta1.TraceflowObservation{Action: v1beta1.ActionDropped})
	w.look(t.Context())
	if s := w.status("there"); s.Phase != v1beta1.TraceflowSucceeded {
		t.Errorf("dropped by the other Node: %+v", s)
	}
	w.clock.Step(5 * time.Second)
	w.look(t.Context())
	if s := w.status("lost"); s.Phase != v1beta1.TraceflowFailed || !strings.Contains(s.Reason, "lost between the Nodes") {
		t.Errorf("%+v", s)
	}
}

// TestCaptures assigns PacketCaptures to Nodes: which, how many at once, and until when.
func TestCaptures(t *testing.T) {
	w := newWorld(t)
	pod := func(name string) v1alpha1.CaptureEnd {
		return v1alpha1.CaptureEnd{Pod: &v1alpha1.CapturePod{Namespace: "shop", Name: name}}
	}
	status := func(name string) v1alpha1.PacketCaptureStatus {
		var o v1alpha1.PacketCapture
		if err := w.Client.Get(t.Context(), client.ObjectKey{Name: name}, &o); err != nil {
			t.Fatal(err)
		}
		return o.Status
	}
	capture := func(name string, s v1alpha1.PacketCaptureSpec) {
		s.CaptureConfig.FirstN.Number = 5
		w.create(&v1alpha1.PacketCapture{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(w.clock.Now())}, Spec: s})
	}
	address := "192.0.2.1"
	for _, c := range []struct {
		name string
		spec v1alpha1.PacketCaptureSpec
		want string
	}{
		{"source", v1alpha1.PacketCaptureSpec{Source: pod("web"), Destination: pod("db")}, "node0 10.244.0.2 10.244.1.2 false"},
		{"destination", v1alpha1.PacketCaptureSpec{Source: pod("web"), Destination: pod("db"), CapturePoint: v1alpha1.CaptureAtDestination}, "node1 10.244.0.2 10.244.1.2 true"},
		{"from", v1alpha1.PacketCaptureSpec{Source: v1alpha1.CaptureEnd{IP: &address}, Destination: pod("db")}, "node1 192.0.2.1 10.244.1.2 true"},
		{"all", v1alpha1.PacketCaptureSpec{Source: pod("web"), Packet: &v1alpha1.CapturePacket{IPFamily: "IPv6"}}, "node0 fd00::2  false"},
		{"family", v1alpha1.PacketCaptureSpec{Source: pod("web"), Destination: pod("six")}, "packet.ipFamily"},
		{"none", v1alpha1.PacketCaptureSpec{Source: pod("none")}, "there is no Pod shop/none"},
	} {
		capture(c.name, c.spec)
		w.lookCaptures(t.Context())
		s := status(c.name)
		text := ""
		if a := s.Assigned; a != nil {
			text = fmt.Sprintf("%s %s %s %t", a.Node, a.SourceIP, a.DestinationIP, a.AtDestination)
		} else if started := s.Condition(v1alpha1.PacketCaptureStarted); started != nil && started.Status == metav1.ConditionFalse {
			text = started.Message
		}
		if text != c.want && (s.Assigned != nil || !strings.Contains(text, c.want)) {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
	}
	for _, name := range []string{"third", "fourth", "waits"} {
		capture(name, v1alpha1.PacketCaptureSpec{Source: pod("web")})
	}
	w.lookCaptures(t.Context())
	if status("fourth").Assigned == nil || status("waits").Assigned != nil {
		t.Errorf("%+v\n%+v", status("fourth"), status("waits"))
	}
	w.assigned = map[types.UID]string{} // another process
	w.lookCaptures(t.Context())
	if status("waits").Assigned != nil {
		t.Error("five at once")
	}
	w.clock.Step(91 * time.Second)
	w.lookCaptures(t.Context())
	w.lookCaptures(t.Context())
	if s := status("source"); !s.Over() || s.Condition(v1alpha1.PacketCaptureComplete).Reason != "AgentSilent" || status("waits").Assigned == nil {
		t.Errorf("%+v\n%+v", s, status("waits"))
	}
}

// informersOf are the informers of a cluster that has some kinds.
type informersOf struct {
	cache.Cache
	has   func(client.Object) bool
	asked chan string
	added atomic.Int32
}

func (i *informersOf) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	i.asked <- fmt.Sprintf("%T", o)
	if !i.has(o) {
		return nil, &meta.NoKindMatchError{}
	}
	return &countedInformer{added: &i.added}, nil
}

// countedInformer tells each handler at once that there is something.
type countedInformer struct {
	cache.Informer
	added *atomic.Int32
}

func (i *countedInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.added.Add(1)
	h.OnAdd(nil, true)
	return nil, nil
}

// TestKindThatIsMissing runs Traceflows in a cluster that has no PacketCaptures, and registers once
// for them however often the other kind is looked for.
func TestKindThatIsMissing(t *testing.T) {
	w := newWorld(t)
	w.make("t", v1beta1.TraceflowSpec{Source: web, Destination: to("db")})
	i := &informersOf{asked: make(chan string), has: func(o client.Object) bool { _, ok := o.(*v1beta1.Traceflow); return ok }}
	w.Informers = i
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Start(ctx) }()
	for _, want := range []string{"*v1beta1.Traceflow", "*v1alpha1.PacketCapture", "*v1alpha1.PacketCapture", "*v1alpha1.PacketCapture"} {
		for got := ""; got == ""; {
			select {
			case got = <-i.asked:
			case <-time.After(time.Millisecond):
				w.clock.Step(missingInterval / 4)
				continue
			}
			if got != want {
				t.Fatalf("asked for %s, want %s", got, want)
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if s := w.status("t"); s.StartTime == nil || i.added.Load() != 1 {
		t.Fatalf("phase %q, registered %d times", s.Phase, i.added.Load())
	}
}
