package review_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/classes"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/reach"
	"github.com/nephele-io/nephele/internal/review"
	"github.com/nephele-io/nephele/internal/seed"
)

// TestMapAgreesWithReach: between any two machines of any two classes the map says what a question
// about the two says.
func TestMapAgreesWithReach(t *testing.T) {
	seed := seed.Of(t)
	compared, passed, grouped := 0, 0, 0
	for n := range uint64(30) {
		r := rand.New(rand.NewPCG(seed+n, 31))
		w := randomComputation(seed+n, 90).World(false)
		m := review.Map(w, nil, review.MapQuestion{})
		all := classes.Of(w, nil)
		if len(all) != int(m.Total) || m.MoreEdges > 0 {
			t.Fatalf("world %d: %d classes, %d told, %d edges left out", seed+n, len(all), m.Total, m.MoreEdges)
		}
		for range 60 {
			a, b := all[r.IntN(len(all))], all[r.IntN(len(all))]
			from, to := a.Now[r.IntN(len(a.Now))], b.Now[r.IntN(len(b.Now))]
			if from == to || from.Kind == policy.KindNode && to.Kind == policy.KindPod {
				continue
			}
			if len(a.Now) > 1 || len(b.Now) > 1 {
				grouped++
			}
			one := func(e *reach.Endpoint) reach.Party {
				return reach.Party{Chosen: func(o *reach.Endpoint) bool { return o == e }}
			}
			for _, service := range [][2]int{{6, 79}, {6, 80}, {6, 81}, {17, 80}, {6, 443}} {
				want, got := map[string]bool{}, map[string]bool{} // a machine may have several addresses
				for _, f := range w.Reach(reach.Question{From: one(from), To: one(to)}) {
					for _, source := range from.Addresses {
						for _, destination := range to.Addresses {
							if source.Is4() == destination.Is4() && f.Holds(from, to, source, destination, reach.Service(service[0], service[1])) {
								want[string(f.Outcome)] = true
							}
						}
					}
				}
				for _, e := range m.Edges {
					if e.From == a.Key && e.To == b.Key && holds(e, service[0], service[1]) {
						got[e.Verdict] = true
					}
				}
				compared++
				if len(got) > 0 {
					passed++
				}
				if !maps.Equal(got, want) {
					t.Fatalf("world %d: %s (of %v) -> %s (of %v), %v: the map says %v, a question %v", seed+n, from.Name, a.Names, to.Name, b.Names, service, got, want)
				}
			}
		}
	}
	if compared < 1000 || passed < 100 || grouped < 10 {
		t.Errorf("%d flows were compared, of which %d pass, %d pairs of classes with several machines: want more", compared, passed, grouped)
	}
}

func holds(e v1alpha1.MapEdge, protocol, port int) bool {
	in := slices.ContainsFunc(e.Ranges, func(r v1alpha1.ReachRange) bool {
		return int(r.Protocol) == protocol && int(r.From) <= port && port <= int(r.To)
	})
	return in != e.Except
}

// estate is n machines of 250 apps in 25 Namespaces, each with a policy of six rules.
func estate(n int, port int32) *explain.World {
	const apps, perNamespace = 250, 10
	e := compute.New(compute.Options{})
	namespace := func(app int) string { return fmt.Sprintf("team-%d", app/perNamespace) }
	app := func(i int) *policy.Selector {
		return &policy.Selector{MatchLabels: map[string]string{"app": fmt.Sprint(i % apps)}}
	}
	tcp := func(port int32) []policy.Port {
		return []policy.Port{{Protocol: policy.TCP, Port: &policy.PortRef{Number: port}}}
	}
	peer := func(i int) policy.Peer {
		return policy.Peer{ExternalEntitySelector: app(i), NamespaceSelector: &policy.Selector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace(i % apps)}}}
	}
	for i := range apps {
		if i%perNamespace == 0 {
			e.PutNamespace(policy.Namespace{Name: namespace(i), Labels: map[string]string{"kubernetes.io/metadata.name": namespace(i)}})
		}
		e.PutPolicy(policy.Policy{
			Kind: policy.AntreaNetworkPolicy, Namespace: namespace(i), Name: fmt.Sprintf("app-%d", i), UID: fmt.Sprint("uid-", i), Priority: 5,
			AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: app(i)}},
			Ingress: []policy.Rule{
				{Name: "a", Action: policy.Allow, Peers: []policy.Peer{peer(i + 1)}, Ports: tcp(port + int32(i))},
				{Name: "b", Action: policy.Allow, Peers: []policy.Peer{peer(i + 2)}, Ports: tcp(443)},
				{Name: "c", Action: policy.Allow, Peers: []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: "198.51.100.0/24"}}}, Ports: tcp(22)},
			},
			Egress: []policy.Rule{
				{Name: "d", Action: policy.Allow, Peers: []policy.Peer{peer(i + apps - 1)}, Ports: tcp(port + int32((i+apps-1)%apps))},
				{Name: "e", Action: policy.Allow, Peers: []policy.Peer{peer(i + apps - 2)}, Ports: tcp(443)},
				{Name: "f", Action: policy.Allow, Peers: []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: "10.0.0.2/32"}}}, Ports: []policy.Port{{Protocol: policy.UDP}}},
			},
		})
	}
	c := &explain.Computation{Objects: &input.Objects{}, Ends: map[policy.EntityRef]policy.Entity{}}
	for i := range n {
		x := policy.Entity{
			EntityRef: policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: namespace(i % apps), Name: fmt.Sprintf("vm-%05d", i)},
			Labels:    map[string]string{"app": fmt.Sprint(i % apps)}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(1 + i>>16), byte(i >> 8), byte(i)})},
			Host: "cloud/team-0/aws",
		}
		e.PutEntity(x)
		c.Ends[x.EntityRef] = x
	}
	e.Commit()
	c.Listing = e.Listing()
	return c.World(false)
}

// TestMapOfManyMachines: the size of the answer depends on the number of classes, not of their
// members.
func TestMapOfManyMachines(t *testing.T) {
	small, large := review.Map(estate(500, 1000), nil, review.MapQuestion{}), review.Map(estate(1500, 1000), nil, review.MapQuestion{})
	machines := func(m *v1alpha1.ReachMap) (n int) {
		for _, x := range m.Nodes {
			n += int(x.Count)
		}
		return n
	}
	if len(small.Nodes) != len(large.Nodes) || len(small.Edges) != len(large.Edges) || small.Total != 250 || machines(small) != 500 || machines(large) != 1500 {
		t.Errorf("%d nodes with %d machines and %d edges, want %d, 1500 and %d", len(large.Nodes), machines(large), len(large.Edges), len(small.Nodes), len(small.Edges))
	}
}

// BenchmarkMap measures the map of 10,000 machines in 250 classes; docs/performance.md has the
// figures.
func BenchmarkMap(b *testing.B) {
	now, then := estate(10_000, 1000), estate(10_000, 2000)
	for _, c := range []struct {
		name string
		then *explain.World
	}{{"now", nil}, {"difference", then}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m := review.Map(now, c.then, review.MapQuestion{})
				b.ReportMetric(float64(len(m.Edges)), "edges")
			}
		})
	}
}
