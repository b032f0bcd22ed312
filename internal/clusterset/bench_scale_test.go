package clusterset_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/claims"
	"github.com/nephele-io/nephele/internal/clusterset/feed"
	"github.com/nephele-io/nephele/internal/clusterset/outbox"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/remote"
	"github.com/nephele-io/nephele/internal/clusterset/union"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// made is a member that is nothing but a feed, and connects again as a real one does.
type made struct {
	*set
	name      string
	feed      *feed.Feed
	transport *http.Transport
	stream    string
	heard     uint64
	up, down  int64
	close     func()
}

// newMade lets one join, without connecting it.
func newMade(s *set, name string, n int, f *feed.Feed) *made {
	s.Helper()
	c := &setv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: setv1alpha1.ClusterSpec{Addresses: setv1alpha1.ClusterAddresses{Pods: []string{fmt.Sprintf("10.%d.0.0/16", n)}}}}
	s.must(s.hub.Create(s.Context(), c))
	token, _, err := enroll.InviteCluster(s.Context(), s.hub, c, s.server.Listener.Addr().String(), time.Hour, s.clock.Now())
	s.must(err)
	key, err := credential.NewKey()
	s.must(err)
	papers, err := credential.Join(s.Context(), s.server.URL, token, nil, key)
	s.must(err)
	pair, err := tls.X509KeyPair([]byte(papers.Certificate), key.Private)
	s.must(err)
	m := &made{set: s, name: name, feed: f, transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}}}
	s.Cleanup(func() {
		if m.close != nil {
			m.close()
		}
	})
	return m
}

// connect begins a stream, and tells all that there is to tell. It returns false if the hub does
// not know the member yet.
func (m *made) connect(synced func()) bool {
	body, up := io.Pipe()
	out := counted{up, &m.up}
	sent := make(chan error, 1)
	response, err := (&http.Client{Transport: m.transport}).Post(m.server.URL+credential.FeedPath, "", body)
	if err != nil || response.StatusCode != http.StatusOK {
		return false
	}
	go func() {
		sent <- wire.Write(out, &wire.Up{Hello: &wire.Hello{Version: wire.Version, Oldest: wire.Oldest, Epoch: m.name, Stream: m.stream, Heard: m.heard}})
	}()
	in, first := wire.NewReader(io.TeeReader(response.Body, counted{io.Discard, &m.down})), wire.Down{}
	if err := in.Read(&first); err != nil || first.Welcome == nil || first.Welcome.Error != "" {
		_ = up.Close()
		return false
	}
	if err := <-sent; err != nil {
		return false
	}
	if m.stream = first.Welcome.Stream; !first.Welcome.Resumed || !m.feed.Resume(first.Welcome.Taken) {
		m.heard = 0
		m.feed.Begin()
	}
	var hearing sync.WaitGroup
	hearing.Go(func() {
		for {
			var d wire.Down
			if in.Read(&d) != nil {
				return
			}
			m.heard = max(m.heard, d.Sequence)
			if d.Sync != nil && synced != nil {
				synced()
			}
		}
	})
	m.close = func() { _ = up.Close(); _ = response.Body.Close(); hearing.Wait(); m.close = nil }
	for u := m.feed.Next(); u != nil; u = m.feed.Next() {
		if wire.Write(out, u) != nil {
			return false
		}
	}
	return true
}

// together lets all connect at once.
func together(all []*made) {
	var connecting sync.WaitGroup
	for _, m := range all {
		connecting.Go(func() {
			for !m.connect(nil) {
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	connecting.Wait()
}

func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// BenchmarkRejoin measures a hundred members that come back at once: after a break, from which they
// go on, and to a hub that has begun anew, to which they tell all. A Pod of each has changed
// meanwhile, and the time is that until a real member's enforcers know the Pod of the last.
func BenchmarkRejoin(b *testing.B) {
	for _, pods := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) { benchmarkRejoin(b, 100, pods) })
	}
}

func benchmarkRejoin(b *testing.B, members, pods int) {
	s := newSet(b, "west")
	s.must(s.hub.Create(b.Context(), fromWeb("p", "changed")))
	s.is("west", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	var all []*made
	for n := range members {
		all = append(all, newMade(s, fmt.Sprintf("m%d", n), n+10, podsOf(n+10, pods)))
	}
	// Time goes by as it does: members that say nothing for long are taken for gone.
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				s.clock.Step(5 * time.Millisecond)
			}
		}
	}()
	began := time.Now()
	together(all)
	joined := time.Since(began)
	west, round := s.sides["west"], 0
	rejoin := func(between func()) (first, last time.Duration, up int64) {
		for _, m := range all { // all that was told before has been taken
			for int(s.cluster(m.name).Status.Entities) < pods+round {
				time.Sleep(10 * time.Millisecond)
			}
		}
		for _, m := range all {
			m.close()
		}
		between()
		round++
		for n, m := range all {
			m.up = 0
			m.feed.PutEntity(&policy.Entity{
				EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "team-0", Name: fmt.Sprintf("changed-%d", round)}, Labels: map[string]string{"app": "changed"},
				Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(n + 10), 250, byte(round)})},
			})
		}
		began := time.Now()
		var took []time.Duration
		done := make(chan struct{})
		go func() { defer close(done); together(all) }()
		waits := map[string]bool{}
		for n := range all {
			waits[fmt.Sprintf("10.%d.250.%d", n+10, round)] = true
		}
		for len(waits) > 0 {
			for address := range waits {
				if west.has(address) {
					delete(waits, address)
					took = append(took, time.Since(began))
				}
			}
			time.Sleep(time.Millisecond)
		}
		<-done
		for _, m := range all {
			up += m.up
		}
		return took[0], took[len(took)-1], up
	}
	for b.Loop() {
		first, last, up := rejoin(func() {})
		b.ReportMetric(joined.Seconds(), "s/join")
		b.ReportMetric(last.Seconds(), "s/resume")
		b.ReportMetric(float64(up), "bytes/resume")
		_ = first
		first, last, up = rejoin(func() { s.kill(); s.run() })
		b.ReportMetric(first.Seconds(), "s/anew-first")
		b.ReportMetric(last.Seconds(), "s/anew-last")
		b.ReportMetric(float64(up), "bytes/anew")
	}
}

// peerPolicies are policies of the hub, each about the Pods of one workload of all clusters.
func peerPolicies(n int) []policy.Policy {
	var out []policy.Policy
	for i := range n {
		out = append(out, policy.Policy{Kind: policy.AntreaClusterNetworkPolicy, Name: fmt.Sprintf("p%d", i), UID: fmt.Sprintf("u%d", i), Priority: 5, Set: true,
			AppliedTo: []policy.AppliedTo{{PodSelector: &policy.Selector{MatchLabels: map[string]string{"tier": "db"}}, NamespaceSelector: &policy.Selector{}}},
			Ingress: []policy.Rule{{Name: "r", Action: policy.Allow, Peers: []policy.Peer{{
				PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": fmt.Sprintf("workload-%d", i)}}, NamespaceSelector: &policy.Selector{}, Scope: peers.ScopeClusterSet,
			}}}}})
	}
	return out
}

// BenchmarkMillion measures a hub with a million Pods of a hundred members and 200 policies with a
// peer of 3,000 Pods each, and what one member more is told when it joins. With 17 members these
// are 510 Pods each, for which 3 MB are the bound.
func BenchmarkMillion(b *testing.B) {
	for _, members := range []int{17, 100} {
		b.Run(fmt.Sprint(members), func(b *testing.B) { benchmarkMany(b, members) })
	}
}

func benchmarkMany(b *testing.B, members int) {
	const pods, policies = 10_000, 200
	for b.Loop() {
		before := heap()
		u, began := union.New(), time.Now()
		put := func(n int) string {
			c := &setv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%d", n)}}
			c.Spec.Addresses.Pods = []string{fmt.Sprintf("10.%d.0.0/16", n+10)}
			u.PutCluster(c.Name, nil, claims.Of(c, nil))
			return c.Name
		}
		for n := range members {
			name, f := put(n), podsOf(n+10, pods)
			f.Begin()
			for r := f.Next(); r != nil; r = f.Next() {
				u.Apply(name, r)
			}
		}
		u.Commit()
		b.ReportMetric(time.Since(began).Seconds(), "s/all")
		b.ReportMetric(heap()-before, "MiB")
		wanted := map[string]*wire.Policy{}
		for _, p := range peerPolicies(policies) {
			w := &wire.Policy{UID: p.UID}
			for _, g := range peers.Groups(&p) {
				u.Want(g)
				w.Groups = append(w.Groups, g.ID)
			}
			wanted[p.UID] = w
		}
		began = time.Now()
		u.Commit()
		b.ReportMetric(time.Since(began).Seconds(), "s/groups")
		b.ReportMetric(heap()-before, "MiB/groups")
		o, down, began := outbox.New(put(members)), int64(0), time.Now()
		for d := o.Next(u, outbox.Wanted{Policies: wanted}); d != nil; d = o.Next(u, outbox.Wanted{Policies: wanted}) {
			if err := wire.Write(counted{io.Discard, &down}, d); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/down")
		b.ReportMetric(float64(down), "bytes/down")
		if n := u.Size(wanted["u0"].Groups[0]); n < 30*members {
			b.Fatal(n)
		}
	}
}

// BenchmarkMember measures what a member of 10,000 Pods needs for the set: what it reports, and 200
// remote groups of 300 Pods in ten other clusters, with what they make in its engine, each part and
// all of it; and how long a local label takes to be computed with them and without.
func BenchmarkMember(b *testing.B) {
	const pods, policies = 10_000, 200
	ids := []string{}
	for _, p := range peerPolicies(policies) {
		ids = append(ids, peers.Groups(&p)[0].ID)
	}
	for b.Loop() {
		before := heap()
		f := podsOf(10, pods)
		f.Begin()
		for r := f.Next(); r != nil; r = f.Next() {
		}
		fed := heap()
		b.ReportMetric(fed-before, "MiB/feed")
		book := remote.New(peers.Allows)
		for n := range 10 {
			for i, id := range ids {
				part := wire.Part{Group: id, Cluster: fmt.Sprintf("m%d", n), Whole: true}
				for j := range 30 {
					part.Add = append(part.Add, fmt.Sprintf("10.%d.%d.%d", n+11, i, j))
				}
				if err := book.Apply(&part); err != nil {
					b.Fatal(err)
				}
			}
		}
		booked := heap()
		alone, member := engineOf(pods, policies, false), engineOf(pods, policies, true)
		engines := heap()
		taken, _ := book.Take()
		for _, e := range taken.Put {
			member.PutEntity(e)
		}
		member.Commit()
		taken = remote.Change{}
		b.ReportMetric(heap()-engines, "MiB/engine")
		b.ReportMetric(heap()-before-(engines-booked), "MiB/all")
		b.ReportMetric(relabel(alone), "ms/alone")
		b.ReportMetric(relabel(member), "ms/member")
		runtime.KeepAlive(f)
		alone, member = nil, nil
		kept := heap()
		runtime.KeepAlive(book)
		book = nil
		b.ReportMetric(kept-heap(), "MiB/book")
	}
}

// engineOf is the engine of a cluster with Pods and policies, perhaps with the Pods and policies of
// a set.
func engineOf(pods, policies int, member bool) *compute.Engine {
	e := compute.New(compute.Options{})
	for i := range 50 {
		name := fmt.Sprintf("team-%d", i)
		e.PutNamespace(policy.Namespace{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name}})
	}
	for i := range pods {
		e.PutEntity(localPod(i, "db"))
	}
	for _, p := range peerPolicies(policies) {
		if member {
			p = peers.Localize(p)
		}
		e.PutPolicy(p)
	}
	e.Commit()
	return e
}

func localPod(i int, tier string) policy.Entity {
	w := i % 333
	return policy.Entity{
		EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: fmt.Sprintf("team-%d", w%50), Name: fmt.Sprintf("p%d", i)}, Host: fmt.Sprintf("node-%d", i%100),
		Labels:    map[string]string{"app": fmt.Sprintf("workload-%d", w), "tier": tier},
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 10, byte(i / 250), byte(1 + i%250)})},
	}
}

// relabel is how long it takes to compute that a Pod has another label, in ms: 1 in 100 takes
// longer.
func relabel(e *compute.Engine) float64 {
	var took []time.Duration
	for i := range 200 {
		began := time.Now()
		e.PutEntity(localPod(i, "web"))
		d := e.Commit()
		took = append(took, time.Since(began))
		if len(d.AppliedToGroups) == 0 {
			panic("the label has changed nothing")
		}
	}
	slices.Sort(took)
	return float64(took[len(took)*99/100].Nanoseconds()) / 1e6
}
