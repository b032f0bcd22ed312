package compute_test

import (
	"flag"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// members is the size of the one group of TestHugeGroup and BenchmarkHugeGroup.
var members = flag.Int("members", 50_000, "members of a huge group")

// hugeEntity is the nth of the entities of a huge group: half of them share their labels, half have
// some of their own.
func hugeEntity(n int, role string) policy.Entity {
	labels := map[string]string{"role": role}
	if n%2 == 1 {
		labels["own"] = fmt.Sprint(n)
	}
	return policy.Entity{
		EntityRef: policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "vms", Name: fmt.Sprint("e", n)},
		Labels:    labels, Host: fmt.Sprint("h", n%100),
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})},
	}
}

// huge is an engine in which one policy is applied to, and names as its peer, everything that there
// is.
func huge(n int) *compute.Engine {
	e := compute.New(compute.Options{})
	all := &policy.Selector{MatchLabels: map[string]string{"role": "all"}}
	e.PutPolicy(policy.Policy{
		Kind: policy.AntreaNetworkPolicy, Namespace: "vms", Name: "p", UID: "p", Priority: 1,
		AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: all}},
		Ingress:   []policy.Rule{{Name: "r", Action: policy.Allow, Peers: []policy.Peer{{ExternalEntitySelector: all}}}},
	})
	for i := range n {
		e.PutEntity(hugeEntity(i, "all"))
	}
	return e
}

// One group with very many members: a change of one is told as one, and costs no more than in a
// small group.
func TestHugeGroup(t *testing.T) {
	n := *members
	e := huge(n)
	d := e.Commit()
	if len(d.AddressGroups) != 1 || len(d.AddressGroups[0].Added) != n || len(d.AppliedToGroups[0].SpanAdded) != 100 {
		t.Fatalf("%d groups", len(d.AddressGroups))
	}
	one := func(step string, added, removed int) {
		t.Helper()
		start := time.Now()
		d := e.Commit()
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s: the commit takes %s", step, took)
		}
		for _, g := range append(d.AddressGroups, d.AppliedToGroups...) {
			if len(g.Added) != added || len(g.Removed) != removed {
				t.Errorf("%s: %d added, %d removed, want %d and %d", step, len(g.Added), len(g.Removed), added, removed)
			}
		}
		if len(d.AddressGroups) != 1 || len(d.AppliedToGroups) != 1 {
			t.Errorf("%s: %+v", step, d)
		}
	}
	e.PutEntity(hugeEntity(7, "other"))
	one("one leaves", 0, 1)
	e.PutEntity(hugeEntity(7, "all"))
	one("it comes back", 1, 0)
	e.PutEntity(hugeEntity(n, "all"))
	one("one more", 1, 0)
	for i := range n + 1 {
		e.DeleteEntity(hugeEntity(i, "all").EntityRef)
	}
	if d := e.Commit(); len(d.AddressGroups) != 1 || len(d.AddressGroups[0].Removed) != n+1 || len(d.Policies) != 1 || len(d.Policies[0].SpanRemoved) != 100 {
		t.Error("all of them leave, but are not told")
	}
}

func BenchmarkHugeGroup(b *testing.B) {
	for b.Loop() {
		e := huge(*members)
		e.Commit()
		b.StopTimer()
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/float64(*members), "B/member")
		start := time.Now()
		for i := range 1000 {
			e.PutEntity(hugeEntity(i, "other"))
			e.Commit()
		}
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "us/change")
		b.StartTimer()
	}
}

// Which Pods are members of which groups.
func TestPodMembership(t *testing.T) {
	for _, c := range []struct {
		name          string
		spoil         func(*policy.Entity)
		peer, applied bool
	}{
		{"ordinary", func(*policy.Entity) {}, true, true},
		{"host network", func(e *policy.Entity) { e.HostNetwork = true }, false, false},
		{"terminated", func(e *policy.Entity) { e.Terminated = true }, false, false},
		{"no address yet", func(e *policy.Entity) { e.Addresses = nil }, false, true},
		{"not scheduled", func(e *policy.Entity) { e.Host = "" }, true, false},
	} {
		pod := policy.Entity{
			EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "app", Name: "p"}, Labels: map[string]string{"role": "all"}, Host: "n1",
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Ports: []policy.NamedPort{{Name: "http", Port: 80}},
		}
		later := pod
		c.spoil(&later)
		e := compute.New(compute.Options{})
		all := &policy.Selector{}
		e.PutPolicy(policy.Policy{
			Kind: policy.AntreaNetworkPolicy, Namespace: "app", Name: "p", UID: "p", Priority: 1,
			AppliedTo: []policy.AppliedTo{{PodSelector: all}},
			Ingress:   []policy.Rule{{Name: "r", Action: policy.Allow, Peers: []policy.Peer{{PodSelector: all}}}},
		})
		for _, step := range []struct {
			name          string
			entity        policy.Entity
			peer, applied bool
		}{{"at once", later, c.peer, c.applied}, {"before", pod, true, true}, {"then", later, c.peer, c.applied}} {
			e.PutEntity(step.entity)
			e.Commit()
			l := e.Listing()
			peers, applied := l.AddressGroups[0].Members, l.AppliedToGroups[0].Members
			if (len(peers) == 1) != step.peer || (len(applied) == 1) != step.applied {
				t.Errorf("%s, %s: peers %v, applied to %v", c.name, step.name, peers, applied)
			}
			if len(peers) == 1 && (len(peers[0].IPs) != 1 || len(peers[0].Ports) != 1) ||
				len(applied) == 1 && (applied[0].As(policy.AppliedToGroup).IPs != nil || applied[0].Host != "n1") {
				t.Errorf("%s, %s: peers have addresses and ports, others a host and no addresses: %+v, %+v", c.name, step.name, peers, applied)
			}
		}
	}
}
