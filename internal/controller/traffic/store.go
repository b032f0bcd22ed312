// Package traffic keeps what enforcers have seen of connections, and says where it is not as
// policies say.
//
// It owns the Store: an hour in memory, weeks on disk where a folder is given, which workload had
// which address when, and the way of every entry to other systems. The Alarm watches the Store for
// traffic that differs from the rules in force. A Store and its Metrics may be used from anywhere;
// an Alarm is a manager.Runnable.
package traffic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/flows/archive"
	"github.com/nephele-io/nephele/internal/flows/export"
	"github.com/nephele-io/nephele/internal/flows/live"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/review"
)

// Options say how much is kept of the connections that agents have reported.
type Options struct {
	// Memory bounds the bytes of memory for the last hour; 0 is live.DefaultBytes.
	Memory int
	// Dir is the folder that keeps them for longer; empty for none. Disk bounds the bytes of its
	// files; 0 is archive.DefaultBytes.
	Dir  string
	Disk int
	// Log is a file for a line of JSON for every entry of a report; empty for none.
	Log string
	// Syslog is the address of a server, IPFIX and OTLP are addresses of collectors; empty for
	// none. OTLPHeaders are headers for the collector of OpenTelemetry.
	Syslog, IPFIX, OTLP, OTLPHeaders string
}

// Store keeps what enforcers have seen of connections, and knows which workload had which address
// then. A nil *Store answers that no enforcer reports anything.
type Store struct {
	memory *live.Store
	owners *live.Owners
	clock  clock.PassiveClock
	// past is what memory does not hold any more; nil if nothing is kept of it.
	past *archive.Archive
	// exporters hand what comes to other systems.
	exporters []*export.Exporter
}

// Informers gives out informers; a cache.Cache does.
type Informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// New returns a store with a bound of bytes in memory, 0 being live.DefaultBytes, over an archive,
// which may be nil.
func New(memory int, past *archive.Archive, clk clock.PassiveClock) *Store {
	owners := live.NewOwners()
	return &Store{memory: live.New(owners, memory, clk.Now()), owners: owners, clock: clk, past: past}
}

// Open returns a store that follows which workload has which address.
func Open(ctx context.Context, in Informers, clk clock.PassiveClock, o Options) (*Store, error) {
	var past *archive.Archive
	if o.Dir != "" {
		var err error
		if past, err = archive.Open(o.Dir, int64(o.Disk)); err != nil {
			return nil, err
		}
	}
	t := New(o.Memory, past, clk)
	for _, k := range []struct {
		object client.Object
		owner  func(any) (live.Owner, []netip.Addr)
	}{
		{&corev1.Pod{}, ownerPod}, {&corev1.Node{}, ownerNode}, {&corev1.Service{}, ownerService}, {&v1alpha2.ExternalEntity{}, ownerEntity},
	} {
		informer, err := in.GetInformer(ctx, k.object, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc:    func(x any) { t.set(k.owner(x)) },
				UpdateFunc: func(_, x any) { t.set(k.owner(x)) },
				DeleteFunc: func(x any) {
					if gone, is := x.(toolscache.DeletedFinalStateUnknown); is {
						x = gone.Obj
					}
					owner, _ := k.owner(x)
					t.set(owner, nil)
				},
			})
		}
		if err != nil && !meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("traffic: watch which workload has which address: %w", err)
		}
	}
	return t, nil
}

// Export returns what hands flows to other systems until its context ends.
func (t *Store) Export(o Options, version, cluster string, clk clock.WithTicker, log logr.Logger) (manager.RunnableFunc, error) {
	add := func(name string, sink export.Sink) {
		t.exporters = append(t.exporters, &export.Exporter{Name: name, Sink: sink, Clock: clk, Log: log})
	}
	if o.Log != "" {
		add("file", export.NewFile(o.Log))
	}
	if o.Syslog != "" {
		sink, err := export.NewSyslog(o.Syslog, cluster)
		if err != nil {
			return nil, fmt.Errorf("--flow-syslog: %w", err)
		}
		add("syslog", sink)
	}
	if o.IPFIX != "" {
		sink, err := export.NewIPFIX(o.IPFIX, cluster)
		if err != nil {
			return nil, fmt.Errorf("--flow-ipfix: %w", err)
		}
		add("ipfix", sink)
	}
	if o.OTLP != "" {
		sink, err := export.NewOTLP(o.OTLP, o.OTLPHeaders, version, cluster)
		if err != nil {
			return nil, fmt.Errorf("--flow-otlp: %w", err)
		}
		add("otlp", sink)
	}
	taps := make([]<-chan *live.Entry, len(t.exporters))
	for i := range taps {
		taps[i] = t.memory.Tap()
	}
	return func(ctx context.Context) error {
		var running sync.WaitGroup
		for i, e := range t.exporters {
			running.Go(func() { e.Run(ctx, taps[i]) })
		}
		running.Wait()
		return nil
	}, nil
}

// Keep returns what writes the entries to the folder, if there is one, until its context ends.
func (t *Store) Keep(log logr.Logger, clk clock.WithTicker) manager.RunnableFunc {
	return func(ctx context.Context) error {
		if t.past != nil {
			t.past.Keep(ctx, t.memory, clk, log)
		}
		return nil
	}
}

func (t *Store) set(owner live.Owner, addresses []netip.Addr) {
	if owner.Name != "" {
		t.owners.Set(owner, addresses, t.clock.Now())
	}
}

// Owners know which workload had which address when.
func (t *Store) Owners() *live.Owners { return t.owners }

// Add implements apiserver.Traffic.
func (t *Store) Add(enforcer string, r *analysis.TrafficReportSpec, policy func(uid string) (kind, namespace, name string, known bool)) error {
	_, err := t.memory.Add(enforcer, r, policy, t.clock.Now())
	return err
}

// Put takes in entries of flow logs. What comes after its time was written to disk is written once
// more, besides.
func (t *Store) Put(enforcer string, entries []*live.Entry) (err error) {
	now := t.clock.Now()
	if t.past == nil {
		t.memory.Put(enforcer, entries, false, now)
		return nil
	}
	t.past.Hold(func(written time.Time) {
		late := t.memory.Put(enforcer, entries, true, now)
		older := make(map[*live.Entry]bool, len(late))
		for _, e := range late {
			older[e] = true
		}
		for _, e := range entries {
			if e.Start.Before(written) && !older[e] {
				late = append(late, e)
			}
		}
		err = t.past.Late(late)
	})
	return err
}

// Query answers a FlowQuery, until ctx ends. The error is a *live.Problem if the question is wrong.
func (t *Store) Query(ctx context.Context, q *analysis.FlowQuery, sight live.Sight) error {
	if t == nil {
		return errors.New("no enforcer reports what it has seen here")
	}
	status, err := t.memory.Query(&q.Spec, sight, t.older(ctx), t.clock.Now())
	if err != nil {
		return err
	}
	q.Status = *status
	return nil
}

// older is what memory does not hold any more, until ctx ends. An archive that is nil is not
// nothing.
func (t *Store) older(ctx context.Context) live.Past {
	if t.past == nil {
		return nil
	}
	return cancellable{ctx, t.past}
}

// cancellable ends reading when its context ends: weeks take a while.
type cancellable struct {
	ctx  context.Context // of one question
	past live.Past
}

// entriesAtOnce is how many entries are read between two looks at the context.
const entriesAtOnce = 1000

// Scan implements live.Past.
func (g cancellable) Scan(since, until time.Time, each func(*live.Entry) bool) (time.Time, error) {
	return g.read(g.past.Scan, since, until, each)
}

// ScanDecided implements live.Past.
func (g cancellable) ScanDecided(since, until time.Time, each func(*live.Entry) bool) (time.Time, error) {
	return g.read(g.past.ScanDecided, since, until, each)
}

func (g cancellable) read(
	scan func(since, until time.Time, each func(*live.Entry) bool) (time.Time, error), since, until time.Time, each func(*live.Entry) bool,
) (time.Time, error) {
	n := 0
	from, err := scan(since, until, func(e *live.Entry) bool {
		if n++; n%entriesAtOnce == 0 && g.ctx.Err() != nil {
			return false
		}
		return each(e)
	})
	return from, cmp.Or(err, g.ctx.Err())
}

// Decided adds to an answer about all rules what they have decided.
func (t *Store) Decided(ctx context.Context, q *analysis.EffectiveRules, sight live.Sight) error {
	if t == nil {
		return errors.New("no enforcer reports what it has seen here")
	}
	hits, err := t.memory.Hits(q.Spec.Since.Time, sight, t.older(ctx), t.clock.Now())
	if err != nil {
		return err
	}
	q.Status.Traffic = &analysis.RuleTraffic{Since: metav1.NewMicroTime(hits.Since), Enforcers: int32(hits.Enforcers), More: hits.More}
	q.Status.Rules = review.Decided(q.Status.Rules, q.Spec.Unused, func(r analysis.Rule) (int64, time.Time) {
		k := live.RuleKey{Type: r.Policy.Type, Namespace: r.Policy.Namespace, Name: r.Policy.Name, Direction: r.Direction, Rule: r.Name, Index: r.Index}
		if k.Type == string(policy.KubernetesNetworkPolicy) {
			k.Rule, k.Index = "", -1
		}
		hit := hits.Rules[k]
		return hit.Connections, hit.Last
	})
	return nil
}

// ownerPod: a Pod on the network of its Node has no addresses of its own, and one that has ended
// has none any more. Informers hold of Pods what policies need.
func ownerPod(x any) (live.Owner, []netip.Addr) {
	var e policy.Entity
	switch p := x.(type) {
	case *convert.TrimmedPod:
		e, _ = p.Entity()
	case *corev1.Pod:
		e, _ = convert.Pod(p)
	default:
		return live.Owner{}, nil
	}
	owner := live.Owner{Kind: policy.KindPod.String(), Namespace: e.Namespace, Name: e.Name, Enforcer: e.Host}
	if e.HostNetwork || e.Terminated {
		return owner, nil
	}
	return owner, e.Addresses
}

func ownerNode(x any) (live.Owner, []netip.Addr) {
	n, ok := x.(*corev1.Node)
	if !ok {
		return live.Owner{}, nil
	}
	e, _ := convert.Node(n)
	return live.Owner{Kind: policy.KindNode.String(), Name: n.Name, Enforcer: n.Name}, e.Addresses
}

func ownerService(x any) (live.Owner, []netip.Addr) {
	s, ok := x.(*corev1.Service)
	if !ok {
		return live.Owner{}, nil
	}
	texts := append([]string{s.Spec.ClusterIP}, s.Spec.ClusterIPs...)
	texts = append(texts, s.Spec.ExternalIPs...)
	for _, i := range s.Status.LoadBalancer.Ingress {
		texts = append(texts, i.IP)
	}
	return live.Owner{Kind: policy.KindService.String(), Namespace: s.Namespace, Name: s.Name}, addressesIn(texts)
}

func ownerEntity(x any) (live.Owner, []netip.Addr) {
	e, ok := x.(*v1alpha2.ExternalEntity)
	if !ok {
		return live.Owner{}, nil
	}
	converted, _ := convert.ExternalEntity(e)
	return live.Owner{Kind: policy.KindExternalEntity.String(), Namespace: e.Namespace, Name: e.Name, Enforcer: converted.Host}, converted.Addresses
}

// addressesIn are the texts that are addresses: a Service without one says None.
func addressesIn(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, a.Unmap())
		}
	}
	return out
}
