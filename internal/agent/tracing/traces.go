package tracing

import (
	"cmp"
	"context"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// lookInterval is how often running Traceflows are looked after.
	lookInterval = 250 * time.Millisecond
	// firstAttempt is how long after a Traceflow is heard of its packet is sent: the Node of the
	// receiver must have heard of it, too. Until it tells of the packet, another one is sent
	// every nextAttempt.
	firstAttempt = 500 * time.Millisecond
	nextAttempt  = 1500 * time.Millisecond
	maxAttempts  = 8
	// storyLimit is how long the kernel may take to tell all about one packet, and maxStories how
	// many are listened to at once.
	storyLimit = 5 * time.Second
	maxStories = 256
	// maxWaiting bounds what the kernel has told and was not taken in yet.
	maxWaiting = 4096
	writeLimit = 5 * time.Second
)

// Tracer lets the kernel trace packets; a kernel.Tracer does.
type Tracer interface {
	Set(list []kernel.Traced) error
	Run(each func(kernel.TraceEvent)) error
	Close()
}

// Injector lets packets come to the Node; a kernel.Injector does.
type Injector interface {
	Send(packet []byte) error
	Close() error
}

// Options are what Traces need.
type Options struct {
	Node string
	// Traceflows lists and watches the Traceflows of the cluster.
	Traceflows cache.ListerWatcher
	// Write changes the status of a Traceflow, as it is now, by change; if that returns false
	// nothing is written.
	Write func(ctx context.Context, name string, change func(*v1beta1.Traceflow) bool) error
	// Trace and Inject open what belongs to the kernel of the Node.
	Trace  func() (Tracer, error)
	Inject func() (Injector, error)
	Place  Place
	// OfPod reports whether a link leads to a Pod.
	OfPod func(index int) bool
	Clock clock.WithTicker
	Log   logr.Logger
}

// Traces follows the Traceflows of a cluster.
type Traces struct {
	Options
	store   cache.Store
	run     cache.Controller
	changes chan struct{}
	events  chan kernel.TraceEvent

	running map[types.UID]*running
	stories map[uint32]*story
	since   map[uint32]time.Time
	tracer  Tracer
	set     []kernel.Traced
}

// running is a Traceflow that runs.
type running struct {
	of       *v1beta1.Traceflow
	began    time.Time
	attempts int
	next     time.Time
	// result is what this Node has to tell, and written that it was told.
	result  *v1beta1.TraceflowNodeResult
	packet  *v1beta1.TraceflowPacket
	written bool
	problem string
	// refused says that the kernel does not trace its packets.
	refused bool
}

// traces reports whether packets of a Traceflow are to be traced now.
func (t *Traces) traces(r *running) bool {
	return !r.refused && (r.result == nil && !r.written || t.again(r))
}

// New returns what follows Traceflows once it runs.
func New(o Options) *Traces {
	t := &Traces{Options: o, changes: make(chan struct{}, 1), events: make(chan kernel.TraceEvent, maxWaiting), running: map[types.UID]*running{},
		stories: map[uint32]*story{}, since: map[uint32]time.Time{}}
	changed := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { t.wake() }, UpdateFunc: func(any, any) { t.wake() }, DeleteFunc: func(any) { t.wake() }}
	t.store, t.run = cache.NewInformerWithOptions(cache.InformerOptions{ObjectType: &v1beta1.Traceflow{}, Handler: changed, ListerWatcher: o.Traceflows})
	return t
}

func (t *Traces) wake() {
	select {
	case t.changes <- struct{}{}:
	default:
	}
}

// Run follows Traceflows until ctx ends.
func (t *Traces) Run(ctx context.Context) {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { t.run.RunWithContext(ctx) })
	defer t.close()
	tick := t.Clock.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		turn := func() { t.look(ctx) }
		select {
		case <-ctx.Done():
			return
		case e := <-t.events:
			turn = func() { t.receive(e) }
		case <-t.changes:
		case <-tick.C():
			if len(t.running) == 0 {
				continue
			}
		}
		if fault := recovered.Do(turn); fault != nil {
			t.Log.Error(fault, "A panic was recovered while packets were traced", "stack", recovered.StackOf(fault))
			clear(t.stories)
			clear(t.since)
		}
	}
}

// close lets nothing be traced.
func (t *Traces) close() {
	if t.tracer != nil {
		t.tracer.Close()
	}
	t.tracer, t.set = nil, nil
}

// here reports whether a Traceflow is about this Node.
func (t *Traces) here(f *v1beta1.Traceflow) bool {
	at := f.Status.Traced
	return f.Status.Phase == v1beta1.TraceflowRunning && f.DeletionTimestamp == nil && at != nil && f.Status.DataplaneTag > 0 &&
		(at.Node == t.Node || at.Receiver == "" || at.Receiver == t.Node)
}

// look does what is to be done now.
func (t *Traces) look(ctx context.Context) {
	now, there := t.Clock.Now(), map[types.UID]bool{}
	for _, o := range t.store.List() {
		f, ok := o.(*v1beta1.Traceflow)
		if !ok || !t.here(f) {
			continue
		}
		there[f.UID] = true
		r := t.running[f.UID]
		if r == nil {
			r = &running{began: now, next: now.Add(firstAttempt)}
			t.running[f.UID] = r
			r.written = slices.ContainsFunc(f.Status.Results, func(x v1beta1.TraceflowNodeResult) bool { return x.Node == t.Node })
		}
		r.of = f
	}
	for uid := range t.running {
		if !there[uid] {
			delete(t.running, uid)
		}
	}
	for id, since := range t.since {
		if now.Sub(since) > storyLimit {
			delete(t.since, id)
			delete(t.stories, id)
		}
	}
	if t.choose() {
		t.send(now)
	}
	t.write(ctx)
}

// sorted are the Traceflows that run.
func (t *Traces) sorted() []*running {
	out := make([]*running, 0, len(t.running))
	for _, r := range t.running {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *running) int { return cmp.Compare(a.of.Status.DataplaneTag, b.of.Status.DataplaneTag) })
	return out
}

// choose says which packets are traced, and reports whether they are.
func (t *Traces) choose() bool {
	var want []kernel.Traced
	for _, r := range t.sorted() {
		if t.traces(r) {
			want = append(want, t.chosen(r.of)...)
		}
	}
	if len(want) == 0 {
		t.close()
		return false
	}
	if reflect.DeepEqual(want, t.set) {
		return true
	}
	err := t.open()
	if err == nil {
		if err = t.tracer.Set(want); err != nil {
			if want = t.taken(); len(want) > 0 {
				err = t.tracer.Set(want)
			}
		}
	}
	if err != nil {
		for _, r := range t.running {
			t.fail(r, err)
		}
		t.close()
		return false
	}
	t.set = want
	return true
}

// taken are the packets of the Traceflows that the kernel takes one by one. The others end.
func (t *Traces) taken() (want []kernel.Traced) {
	for _, r := range t.sorted() {
		if !t.traces(r) {
			continue
		}
		packets := t.chosen(r.of)
		if err := t.tracer.Set(packets); err != nil {
			r.refused = true
			t.fail(r, err)
		} else {
			want = append(want, packets...)
		}
	}
	return want
}

// again reports whether this Node sends or marks more packets of a Traceflow: the Node that they go
// to may not have heard of it in time.
func (t *Traces) again(r *running) bool {
	if r.refused || r.of.Status.Traced.Node != t.Node || !r.of.Spec.LiveTraffic && r.attempts >= maxAttempts {
		return false
	}
	return r.result == nil && !r.written || r.result != nil && r.result.Observations[len(r.result.Observations)-1].TunnelDstIP != ""
}

func (t *Traces) open() error {
	if t.tracer != nil {
		return nil
	}
	tracer, err := t.Trace()
	if err != nil {
		return err
	}
	t.tracer = tracer
	go func() {
		err := tracer.Run(func(e kernel.TraceEvent) {
			select {
			case t.events <- e:
			default:
			}
		})
		if err != nil {
			t.Log.Error(err, "Packets are not traced any more until no Traceflow runs")
		}
	}()
	return nil
}

// fail makes a Traceflow end here with the reason, in the result of this Node if it sends.
func (t *Traces) fail(r *running, err error) {
	if text := err.Error(); r.problem != text {
		r.problem = text
		t.Log.Error(err, "A packet cannot be traced", "traceflow", r.of.Name)
	}
	if r.of.Status.Traced.Node == t.Node && r.result == nil && !r.written {
		r.result = &v1beta1.TraceflowNodeResult{Node: t.Node, Role: t.role(r.of), Timestamp: t.Clock.Now().Unix(), Observations: []v1beta1.TraceflowObservation{
			{Component: v1beta1.ComponentForwarding, ComponentInfo: bounded(v1beta1.TraceflowNotTraced + err.Error()), Action: v1beta1.ActionDropped}}}
	}
}

// bounded cuts a text that is too long for the field.
func bounded(text string) string { return text[:min(len(text), 256)] }

// chosen are the packets of a Traceflow that are traced here.
func (t *Traces) chosen(f *v1beta1.Traceflow) []kernel.Traced {
	at := f.Status.Traced
	source, _ := netip.ParseAddr(at.SourceIP)
	destination, _ := netip.ParseAddr(at.DestinationIP)
	six := source.Is6() || destination.Is6()
	tagged := kernel.Traced{Source: source, Six: six, Tag: uint8(f.Status.DataplaneTag), Protocol: uint8(at.Protocol)}
	if at.Node != t.Node || !f.Spec.LiveTraffic {
		return []kernel.Traced{tagged}
	}
	header := &f.Spec.Packet.TransportHeader
	marked := tagged
	marked.Destination, marked.SourcePort, marked.Port, marked.Mark, marked.Many = destination, uint16(at.SourcePort), uint16(at.DestinationPort), true, f.Spec.DroppedOnly
	marked.Begins = header.TCP == nil || header.TCP.Flags == nil
	return []kernel.Traced{marked}
}

// send sends the packets that are due.
func (t *Traces) send(now time.Time) {
	for _, r := range t.sorted() {
		if r.of.Spec.LiveTraffic || !t.again(r) || now.Before(r.next) {
			continue
		}
		b := packet(r.of, r.attempts)
		r.attempts++
		r.next = now.Add(nextAttempt)
		injector, err := t.Inject()
		if err == nil {
			err = injector.Send(b)
			// The packet is taken in before the call returns.
			if closed := injector.Close(); err == nil {
				err = closed
			}
		}
		if err != nil {
			t.fail(r, err)
		}
	}
}

func (t *Traces) role(f *v1beta1.Traceflow) string {
	if f.Status.Traced.Node == t.Node && f.Spec.Source.Pod != "" {
		return "sender"
	}
	return "receiver"
}

// withTag is the Traceflow that runs with a tag; empty for none.
func (t *Traces) withTag(tag uint8) types.UID {
	for uid, r := range t.running {
		if uint8(r.of.Status.DataplaneTag) == tag {
			return uid
		}
	}
	return ""
}

// receive takes in what the kernel has told.
func (t *Traces) receive(e kernel.TraceEvent) {
	s := t.stories[e.ID]
	if s == nil {
		if e.Table != kernel.TracerTable || e.Chain != kernel.TraceEnters || len(t.stories) >= maxStories {
			return // its beginning was lost
		}
		s = &story{}
		t.stories[e.ID], t.since[e.ID] = s, t.Clock.Now()
	}
	if h, ok := parseHeader(e.Network, e.Transport); ok && !s.known {
		s.of = t.withTag(h.tag)
	}
	of := t.running[s.of]
	if of == nil {
		delete(t.stories, e.ID)
		delete(t.since, e.ID)
		return
	}
	s.receive(e, t.role(of.of) == "sender", e.In != 0 && t.OfPod(e.In), t.Place)
	if !s.over {
		return
	}
	delete(t.stories, e.ID)
	delete(t.since, e.ID)
	if of.result != nil || of.written || len(s.observations) == 0 || of.of.Spec.DroppedOnly && !s.dropped {
		return
	}
	of.result = &v1beta1.TraceflowNodeResult{Node: t.Node, Role: t.role(of.of), Timestamp: t.Clock.Now().Unix(), Observations: s.observations}
	if of.of.Spec.LiveTraffic && of.of.Status.Traced.Node == t.Node {
		of.packet = s.captured()
	}
	t.wake()
}

// write tells what was found.
func (t *Traces) write(ctx context.Context) {
	for _, r := range t.sorted() {
		if r.result == nil || r.written {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, writeLimit)
		err := t.Write(ctx, r.of.Name, func(f *v1beta1.Traceflow) bool {
			reported := slices.ContainsFunc(f.Status.Results, func(x v1beta1.TraceflowNodeResult) bool { return x.Node == t.Node })
			if f.UID != r.of.UID || f.Status.Phase != v1beta1.TraceflowRunning || reported {
				return false
			}
			f.Status.Results = append(f.Status.Results, *r.result)
			if r.packet != nil {
				f.Status.CapturedPacket = r.packet
			}
			return true
		})
		cancel()
		if err == nil {
			r.written = true
		} else if text := err.Error(); text != r.problem {
			r.problem = text
			t.Log.Error(err, "What became of a packet could not be told, trying again", "traceflow", r.of.Name)
		}
	}
}
