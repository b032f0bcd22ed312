package reach_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/reach"
)

// estate is n machines of 250 apps in 25 namespaces. Every app has a policy: two apps may reach it
// on one port each, an office on another, and it may reach three others and the resolver.
func estate(n int) (*policy.Listing, []reach.Endpoint) {
	const apps, perNamespace = 250, 10
	e := compute.New(compute.Options{})
	namespace := func(app int) string { return fmt.Sprintf("team-%d", app/perNamespace) }
	app := func(i int) *policy.Selector {
		return &policy.Selector{MatchLabels: map[string]string{"app": fmt.Sprint(i % apps)}}
	}
	peer := func(i int) policy.Peer {
		return policy.Peer{ExternalEntitySelector: app(i), NamespaceSelector: &policy.Selector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace(i % apps)}}}
	}
	for i := range apps {
		if i%perNamespace == 0 {
			e.PutNamespace(policy.Namespace{Name: namespace(i), Labels: map[string]string{"kubernetes.io/metadata.name": namespace(i)}})
		}
		port := int32(1000 + i)
		e.PutPolicy(policy.Policy{
			Kind: policy.AntreaNetworkPolicy, Namespace: namespace(i), Name: fmt.Sprintf("app-%d", i), UID: fmt.Sprint("uid-", i), Priority: 5,
			AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: app(i)}},
			Ingress: []policy.Rule{
				{Name: "a", Action: policy.Allow, Peers: []policy.Peer{peer(i + 1)}, Ports: tcp(port, port)},
				{Name: "b", Action: policy.Allow, Peers: []policy.Peer{peer(i + 2)}, Ports: tcp(443, 443)},
				{Name: "c", Action: policy.Allow, Peers: []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: "198.51.100.0/24"}}}, Ports: tcp(22, 22)},
			},
			Egress: []policy.Rule{
				{Name: "d", Action: policy.Allow, Peers: []policy.Peer{peer(i + apps - 1)}, Ports: tcp(int32(1000+(i+apps-1)%apps), int32(1000+(i+apps-1)%apps))},
				{Name: "e", Action: policy.Allow, Peers: []policy.Peer{peer(i + apps - 2)}, Ports: tcp(443, 443)},
				{Name: "f", Action: policy.Allow, Peers: []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: "10.0.0.2/32"}}}, Ports: []policy.Port{{Protocol: policy.UDP}}},
			},
		})
	}
	var ends []reach.Endpoint
	for i := range n {
		x := policy.Entity{
			EntityRef: policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: namespace(i % apps), Name: fmt.Sprintf("vm-%05d", i)},
			Labels:    map[string]string{"app": fmt.Sprint(i % apps)}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(1 + i>>16), byte(i >> 8), byte(i)})},
			Host: "cloud/team-0/aws",
		}
		e.PutEntity(x)
		ends = append(ends, reach.Endpoint{EntityRef: x.EntityRef, Name: x.Name, Addresses: x.Addresses, Semantics: evaluate.VMSemantics, Grouped: true})
	}
	e.Commit()
	return e.Listing(), ends
}

// BenchmarkReach measures questions about 10,000 machines; docs/performance.md has the figures.
func BenchmarkReach(b *testing.B) {
	listing, ends := estate(10_000)
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	w := reach.New(reach.Input{Listing: listing, Endpoints: ends})
	held := live() - before
	one := reach.Party{Chosen: func(e *reach.Endpoint) bool { return e == &ends[42] }}
	app := reach.Party{Chosen: func(e *reach.Endpoint) bool { return e.Namespace == "team-3" }}
	web := []flow.Service{reach.Service(cloud.TCP, 443)}
	b.Run("New", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			reach.New(reach.Input{Listing: listing, Endpoints: ends})
		}
		b.ReportMetric(float64(held)/(1<<20), "held-MB")
	})
	for _, c := range []struct {
		name string
		q    reach.Question
		want bool
	}{
		{"anybody-to-one-port", reach.Question{From: reach.Everybody(), To: one, Services: web}, true},
		{"anybody-to-one", reach.Question{From: reach.Everybody(), To: one}, true},
		{"anybody-to-a-namespace", reach.Question{From: reach.Everybody(), To: app}, true},
		{"anybody-to-anybody-port", reach.Question{From: reach.Everybody(), To: reach.Everybody(), Services: web}, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := w.Reach(c.q); (len(got) > 0) != c.want {
					b.Fatalf("%d flows", len(got))
				}
			}
		})
	}
	b.Run("RuleUses", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if got := w.RuleUses(); len(got) != 1500 {
				b.Fatalf("%d rules", len(got))
			}
		}
	})
	b.Run("Overrides", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.Overrides("")
		}
	})
	b.Run("Effective", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.Effective(&ends[42])
		}
	})
}
