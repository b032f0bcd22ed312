package controller

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/control/convert"
	"github.com/nephele-io/nephele/internal/flows/live"
	"github.com/nephele-io/nephele/internal/policy"
)

// traffic holds what enforcers have seen of connections, and knows who had which address then.
type traffic struct {
	store  *live.Store
	owners *live.Owners
	clock  clock.PassiveClock
}

// newTraffic follows who has which address.
func newTraffic(ctx context.Context, in informers, clk clock.PassiveClock, o Options) (*traffic, error) {
	owners := live.NewOwners()
	t := &traffic{live.New(owners, o.FlowBytes, clk.Now()), owners, clk}
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

func (t *traffic) set(owner live.Owner, addresses []netip.Addr) {
	if owner.Name != "" {
		t.owners.Set(owner, addresses, t.clock.Now())
	}
}

// Add implements apiserver.Traffic.
func (t *traffic) Add(enforcer string, r *analysis.TrafficReportSpec, concerns func(uid string) bool) error {
	_, err := t.store.Add(enforcer, r, concerns, t.clock.Now())
	return err
}

// query answers a FlowQuery.
func (t *traffic) query(q *analysis.FlowQuery, sight apiserver.Sight) error {
	if t == nil {
		return errors.New("no enforcer reports what it has seen here")
	}
	status, err := t.store.Query(&q.Spec, live.Sight{All: sight.All, Cluster: sight.Cluster, Namespace: sight.Namespace}, t.clock.Now())
	if err != nil {
		return wrongQuestion{err}
	}
	q.Status = *status
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
	store                        *live.Store
	held, bytes, enforcers, lost *prometheus.Desc
}

func newTrafficMetrics(s *live.Store) *trafficMetrics {
	return &trafficMetrics{
		store:     s,
		held:      prometheus.NewDesc("nephele_flows_held", "Entries of flows within the last hour.", nil, nil),
		bytes:     prometheus.NewDesc("nephele_flows_held_bytes", "Memory that they take, about.", nil, nil),
		enforcers: prometheus.NewDesc("nephele_flows_enforcers", "Enforcers that have reported flows within the last hour.", nil, nil),
		lost:      prometheus.NewDesc("nephele_flows_lost_total", "What is missing of flows, by what it is.", []string{"what"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *trafficMetrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.held, m.bytes, m.enforcers, m.lost} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (m *trafficMetrics) Collect(c chan<- prometheus.Metric) {
	s := m.store.Stats()
	for d, n := range map[*prometheus.Desc]int{m.held: s.Flows, m.bytes: s.Bytes, m.enforcers: s.Enforcers} {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	for what, n := range map[string]int64{
		"connections": s.Losses.Connections, "packets": s.Losses.Packets, "overruns": s.Losses.Overruns, "forgotten": s.Losses.Forgotten, "refused": s.Losses.Refused,
	} {
		c <- prometheus.MustNewConstMetric(m.lost, prometheus.CounterValue, float64(n), what)
	}
}
