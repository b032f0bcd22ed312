package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
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
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/flows/archive"
	"github.com/nephele-io/nephele/internal/flows/export"
	"github.com/nephele-io/nephele/internal/flows/live"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/review"
)

// FlowOptions say how much is kept of the connections that agents have reported.
type FlowOptions struct {
	// Memory bounds the bytes of memory for the last hour; 0 is live.DefaultBytes.
	Memory int
	// Dir is the folder that keeps them for longer; empty for none. Disk bounds the bytes of its
	// files; 0 is archive.DefaultBytes.
	Dir  string
	Disk int
	// Log is a file for a line of JSON for every entry of a report; empty for none.
	Log string
	// Syslog is the address of a server, IPFIX and OTLP are those of collectors; empty for none.
	// OTLPHeaders are what the one of OpenTelemetry wants to be told.
	Syslog, IPFIX, OTLP, OTLPHeaders string
}

// traffic holds what enforcers have seen of connections, and knows who had which address then.
type traffic struct {
	store  *live.Store
	owners *live.Owners
	clock  clock.PassiveClock
	// past is what memory does not hold any more; nil if nothing is kept of it.
	past *archive.Archive
	// exporters hand what comes to other systems.
	exporters []*export.Exporter
}

// newTraffic follows who has which address.
func newTraffic(ctx context.Context, in informers, clk clock.PassiveClock, o Options) (*traffic, error) {
	owners := live.NewOwners()
	t := &traffic{store: live.New(owners, o.Flows.Memory, clk.Now()), owners: owners, clock: clk}
	if o.Flows.Dir != "" {
		var err error
		if t.past, err = archive.Open(o.Flows.Dir, int64(o.Flows.Disk)); err != nil {
			return nil, err
		}
	}
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
			return nil, fmt.Errorf("traffic: watch who has which address: %w", err)
		}
	}
	return t, nil
}

// export returns what hands flows to other systems until its context ends.
func (t *traffic) export(o FlowOptions, version, cluster string, clk clock.WithTicker, log logr.Logger) (manager.RunnableFunc, error) {
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
		taps[i] = t.store.Tap()
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

// keep writes what is seen to the folder, if there is one, until ctx ends.
func (t *traffic) keep(log logr.Logger, clk clock.WithTicker) manager.RunnableFunc {
	return func(ctx context.Context) error {
		if t.past != nil {
			t.past.Keep(ctx, t.store, clk, log)
		}
		return nil
	}
}

func (t *traffic) set(owner live.Owner, addresses []netip.Addr) {
	if owner.Name != "" {
		t.owners.Set(owner, addresses, t.clock.Now())
	}
}

// Add implements apiserver.Traffic.
func (t *traffic) Add(enforcer string, r *analysis.TrafficReportSpec, policy func(uid string) (kind, namespace, name string, known bool)) error {
	_, err := t.store.Add(enforcer, r, policy, t.clock.Now())
	return err
}

// put takes in entries of flow logs. What comes after its time was written to disk is written once
// more, besides.
func (t *traffic) put(enforcer string, entries []*live.Entry) (err error) {
	now := t.clock.Now()
	if t.past == nil {
		t.store.Put(enforcer, entries, false, now)
		return nil
	}
	t.past.Hold(func(written time.Time) {
		late := t.store.Put(enforcer, entries, true, now)
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

// query answers a FlowQuery, as long as somebody waits for that.
func (t *traffic) query(ctx context.Context, q *analysis.FlowQuery, sight apiserver.Sight) error {
	if t == nil {
		return errors.New("no enforcer reports what it has seen here")
	}
	status, err := t.store.Query(&q.Spec, live.Sight{All: sight.All, Cluster: sight.Cluster, Namespace: sight.Namespace}, t.older(ctx), t.clock.Now())
	if about := (*live.Problem)(nil); errors.As(err, &about) {
		return wrongQuestion{err}
	}
	if err != nil {
		return err
	}
	q.Status = *status
	return nil
}

// older is what memory does not hold any more, until ctx ends. An archive that is nil is not
// nothing.
func (t *traffic) older(ctx context.Context) live.Past {
	if t.past == nil {
		return nil
	}
	return given{ctx, t.past}
}

// given ends reading when nobody waits for the answer any more: weeks take a while.
type given struct {
	ctx  context.Context // of one question
	past live.Past
}

// entriesAtOnce is how many are read before it is looked whether anybody waits.
const entriesAtOnce = 1000

// Scan implements live.Past.
func (g given) Scan(since, until time.Time, each func(*live.Entry) bool) (time.Time, error) {
	return g.read(g.past.Scan, since, until, each)
}

// ScanDecided implements live.Past.
func (g given) ScanDecided(since, until time.Time, each func(*live.Entry) bool) (time.Time, error) {
	return g.read(g.past.ScanDecided, since, until, each)
}

func (g given) read(scan func(since, until time.Time, each func(*live.Entry) bool) (time.Time, error), since, until time.Time, each func(*live.Entry) bool) (time.Time, error) {
	n := 0
	from, err := scan(since, until, func(e *live.Entry) bool {
		if n++; n%entriesAtOnce == 0 && g.ctx.Err() != nil {
			return false
		}
		return each(e)
	})
	return from, cmp.Or(err, g.ctx.Err())
}

// decided says in an answer about all rules what they have decided.
func (t *traffic) decided(ctx context.Context, q *analysis.EffectiveRules, sight apiserver.Sight) error {
	if t == nil {
		return errors.New("no enforcer reports what it has seen here")
	}
	hits, err := t.store.Hits(q.Spec.Since.Time, live.Sight{All: sight.All, Cluster: sight.Cluster, Namespace: sight.Namespace}, t.older(ctx), t.clock.Now())
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

// trafficMetrics show what is held.
type trafficMetrics struct {
	*traffic
	held, bytes, disk, enforcers, differing, connections, carried, exported, failing, lost *prometheus.Desc
}

func newTrafficMetrics(t *traffic) *trafficMetrics {
	return &trafficMetrics{
		traffic:     t,
		held:        prometheus.NewDesc("nephele_flows_held", "Entries of flows within the last hour.", nil, nil),
		bytes:       prometheus.NewDesc("nephele_flows_held_bytes", "Memory that they take, about.", nil, nil),
		disk:        prometheus.NewDesc("nephele_flows_disk_bytes", "Size of the files of flows.", nil, nil),
		enforcers:   prometheus.NewDesc("nephele_flows_enforcers", "Enforcers that have reported flows within the last hour.", nil, nil),
		differing:   prometheus.NewDesc("nephele_flows_differing", "Rules, each at one enforcer, of which traffic was seen within ten minutes that is not as they say, by how.", []string{"differs"}, nil),
		connections: prometheus.NewDesc("nephele_flows_connections_total", "Connections and denied packets that were reported, by verdict; of those that both ends see, two.", []string{"verdict"}, nil),
		carried:     prometheus.NewDesc("nephele_flows_bytes_total", "What connections that have ended carried both ways, by verdict.", []string{"verdict"}, nil),
		exported:    prometheus.NewDesc("nephele_flows_exported_total", "Entries that were handed to other systems, by system and result.", []string{"to", "result"}, nil),
		failing:     prometheus.NewDesc("nephele_flows_export_failing", "1 while another system does not take flows.", []string{"to"}, nil),
		lost:        prometheus.NewDesc("nephele_flows_lost_total", "What is missing of flows, by what it is.", []string{"what"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *trafficMetrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.held, m.bytes, m.disk, m.enforcers, m.differing, m.connections, m.carried, m.exported, m.failing, m.lost} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (m *trafficMetrics) Collect(c chan<- prometheus.Metric) {
	s := m.store.Stats()
	lost := map[string]int64{
		"connections": s.Losses.Connections, "packets": s.Losses.Packets, "overruns": s.Losses.Overruns, "ends": s.Losses.Ends, "forgotten": s.Losses.Forgotten, "refused": s.Losses.Refused, "unlogged": s.Losses.Unlogged,
		"unalarmed": s.Unalarmed,
	}
	differing := map[string]int{"Leaks": 0, "Cut": 0}
	for _, d := range m.store.Disagreements(m.clock.Now()) {
		differing[d.Differs]++
	}
	for how, n := range differing {
		c <- prometheus.MustNewConstMetric(m.differing, prometheus.GaugeValue, float64(n), how)
	}
	for verdict, n := range s.Passed {
		c <- prometheus.MustNewConstMetric(m.connections, prometheus.CounterValue, float64(n.Connections), verdict)
		c <- prometheus.MustNewConstMetric(m.carried, prometheus.CounterValue, float64(n.Bytes), verdict)
	}
	for _, e := range m.exporters {
		sent, refused, failing := e.Counts()
		c <- prometheus.MustNewConstMetric(m.exported, prometheus.CounterValue, float64(sent), e.Name, "sent")
		c <- prometheus.MustNewConstMetric(m.exported, prometheus.CounterValue, float64(refused), e.Name, "refused")
		c <- prometheus.MustNewConstMetric(m.failing, prometheus.GaugeValue, map[bool]float64{true: 1}[failing], e.Name)
	}
	gauge := func(d *prometheus.Desc, n float64) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n)
	}
	gauge(m.held, float64(s.Flows))
	gauge(m.bytes, float64(s.Bytes))
	gauge(m.enforcers, float64(s.Enforcers))
	if m.past != nil {
		kept := m.past.Stats()
		gauge(m.disk, float64(kept.Bytes))
		lost["unread_files"] = int64(kept.Unread)
	}
	for what, n := range lost {
		c <- prometheus.MustNewConstMetric(m.lost, prometheus.CounterValue, float64(n), what)
	}
}
