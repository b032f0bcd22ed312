package tracing

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
)

// picky is a kernel that does not trace packets with one tag.
type picky struct {
	set    chan []kernel.Traced
	closed chan struct{}
}

func (p *picky) Set(list []kernel.Traced) error {
	if slices.ContainsFunc(list, func(x kernel.Traced) bool { return x.Tag == 1 }) {
		return errors.New("not this one")
	}
	p.set <- list
	return nil
}

func (p *picky) Run(func(kernel.TraceEvent)) error { <-p.closed; return nil }
func (p *picky) Close()                            { close(p.closed) }

// wire takes every packet.
type wire struct{ sent chan []byte }

func (w wire) Send(b []byte) error { w.sent <- b; return nil }
func (wire) Close() error          { return nil }

// TestOneThatIsRefused: a Traceflow that the kernel does not take ends with its reason, and the
// packet of another one that runs at the same time is traced and sent.
func TestOneThatIsRefused(t *testing.T) {
	var mu sync.Mutex
	objects, source := map[string]*v1beta1.Traceflow{}, cachetesting.NewFakeControllerSource()
	for tag, name := range map[int8]string{1: "bad", 2: "good"} {
		o := &v1beta1.Traceflow{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Status: v1beta1.TraceflowStatus{
			Phase: v1beta1.TraceflowRunning, DataplaneTag: tag,
			Traced: &v1beta1.TraceflowTraced{Node: "node", SourceIP: "10.0.0.1", DestinationIP: "10.0.0.2", Protocol: 6, DestinationPort: 80}}}
		objects[name] = o
		source.Add(o.DeepCopy())
	}
	sent, set := make(chan []byte, 100), make(chan []kernel.Traced, 100)
	traces := New(Options{Node: "node", Traceflows: source, Clock: clock.RealClock{}, Log: logr.Discard(),
		Trace: func() (Tracer, error) { return &picky{set, make(chan struct{})}, nil }, Inject: func() (Injector, error) { return wire{sent}, nil },
		Write: func(_ context.Context, name string, change func(*v1beta1.Traceflow) bool) error {
			mu.Lock()
			defer mu.Unlock()
			if change(objects[name]) {
				source.Modify(objects[name].DeepCopy())
			}
			return nil
		}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); traces.Run(ctx) }()
	defer func() { stop(); <-ended }()
	select {
	case <-sent:
	case <-time.After(time.Minute):
		t.Fatal("no packet is sent")
	}
	last := []kernel.Traced{}
	for len(set) > 0 {
		last = <-set
	}
	if len(last) != 1 || last[0].Tag != 2 {
		t.Errorf("traced is %+v", last)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := objects["bad"].Status.Results; len(got) != 1 || !strings.Contains(got[0].Observations[0].ComponentInfo, "not this one") {
		t.Errorf("the refused one: %+v", got)
	}
	if got := objects["good"].Status.Results; len(got) != 0 {
		t.Errorf("the other one has ended, too: %+v", got)
	}
}

// TestTagThatIsGivenAgain: a late event about a packet does not count for the Traceflow that has
// the packet's tag by then.
func TestTagThatIsGivenAgain(t *testing.T) {
	of := func(name string) *running {
		return &running{of: &v1beta1.Traceflow{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Status: v1beta1.TraceflowStatus{
			Phase: v1beta1.TraceflowRunning, DataplaneTag: 7, Traced: &v1beta1.TraceflowTraced{Node: "other", SourceIP: "10.0.0.1"}}}}
	}
	traces := New(Options{Node: "node", Clock: clock.RealClock{}, Log: logr.Discard()})
	network := append([]byte{0x45, 7 << 2, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0}, 10, 0, 0, 1, 10, 0, 0, 2)
	transport := append([]byte{0x30, 0x39, 0, 80}, make([]byte, 16)...)
	begins := func(packet uint32) kernel.TraceEvent {
		return kernel.TraceEvent{ID: packet, Table: kernel.TracerTable, Chain: kernel.TraceEnters, Network: network, Transport: transport}
	}
	drops := func(packet uint32) kernel.TraceEvent {
		return kernel.TraceEvent{ID: packet, Table: "firewall", Chain: "forward", Drops: true}
	}
	old, next := of("old"), of("next")
	traces.running = map[types.UID]*running{"old": old}
	traces.receive(begins(1))
	traces.running = map[types.UID]*running{"next": next}
	traces.receive(drops(1))
	if next.result != nil {
		t.Errorf("it has the result of another Traceflow: %+v", next.result)
	}
	traces.receive(begins(2))
	traces.receive(drops(2))
	if next.result == nil || len(next.result.Observations) != 2 || len(traces.stories) != 0 {
		t.Errorf("the result of its own packet is %+v", next.result)
	}
}
