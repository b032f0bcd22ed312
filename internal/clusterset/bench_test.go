package clusterset_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/claims"
	"github.com/nephele-io/nephele/internal/clusterset/feed"
	"github.com/nephele-io/nephele/internal/clusterset/union"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/policy"
)

// podsOf is what a synthetic member has: Pods of 333 workloads in 50 Namespaces, with the labels
// that such Pods have. Its addresses are in 10.N.0.0/16.
func podsOf(n, pods int) *feed.Feed {
	f := feed.New()
	for i := range 50 {
		name := fmt.Sprintf("team-%d", i)
		f.PutNamespace(name, map[string]string{"kubernetes.io/metadata.name": name, "team": name})
	}
	for i := range pods {
		w := i % 333
		f.PutEntity(&policy.Entity{
			EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: fmt.Sprintf("team-%d", w%50), Name: fmt.Sprintf("workload-%d-5d8f7c6b9-%05d", w, i)},
			Labels:    map[string]string{"app": fmt.Sprintf("workload-%d", w), "app.kubernetes.io/part-of": "shop", "tier": []string{"web", "db", "api"}[w%3], "pod-template-hash": "5d8f7c6b9"},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(n), byte(i / 250), byte(1 + i%250)})}, ServiceAccount: "default", Host: "node",
		})
	}
	return f
}

// counted counts what is written.
type counted struct {
	io.Writer
	n *int64
}

func (c counted) Write(b []byte) (int, error) {
	*c.n += int64(len(b))
	return c.Writer.Write(b)
}

// synthetic joins a member that is nothing but a feed. It returns what it has sent when its listing
// has ended, and what sends more.
func (s *set) synthetic(name string, n int, f *feed.Feed) (bytes int64, send func()) {
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
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}}
	body, up := io.Pipe()
	s.Cleanup(func() { _ = up.Close(); transport.CloseIdleConnections() })
	out := counted{up, &bytes}
	opened := make(chan error, 1)
	s.until(name+" is known to the hub", func() (bool, any) { // its Cluster has just been made
		response, err := (&http.Client{Transport: transport}).Post(s.server.URL+credential.FeedPath, "", body)
		s.must(err)
		go func() {
			opened <- wire.Write(out, &wire.Up{Hello: &wire.Hello{Version: wire.Version, Oldest: wire.Oldest, Epoch: name}})
		}()
		var d wire.Down
		in := wire.NewReader(response.Body)
		s.must(in.Read(&d))
		s.must(<-opened)
		if d.Welcome.Error != "" {
			body, up = io.Pipe()
			out.Writer = up
			return false, d.Welcome.Error
		}
		go func() { _, _ = io.Copy(io.Discard, response.Body) }()
		return true, nil
	})
	send = func() {
		for u := f.Next(); u != nil; u = f.Next() {
			s.must(wire.Write(out, u))
		}
	}
	f.Begin()
	send()
	return bytes, send
}

// BenchmarkSet measures a set of ten members with 10,000 Pods each, of which one is a real one with
// a policy that means Pods of all. The label of a Pod of another member changes, and the time is
// that until the real one's enforcers know it.
func BenchmarkSet(b *testing.B) {
	const members, pods = 10, 10_000
	s := newSet(b, "west")
	s.must(s.hub.Create(b.Context(), fromWeb("p", "changed")))
	s.is("west", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	var feeds []*feed.Feed
	var sends []func()
	var joined time.Duration
	var up int64
	for n := range members {
		f := podsOf(n+10, pods)
		began := time.Now()
		bytes, send := s.synthetic(fmt.Sprintf("m%d", n), n+10, f)
		name := fmt.Sprintf("m%d", n)
		s.until("all is known", func() (bool, any) { c := s.cluster(name); return c.Status.Entities == pods, c.Status })
		joined, up = time.Since(began), bytes
		feeds, sends = append(feeds, f), append(sends, send)
	}
	west := s.sides["west"]
	var took []time.Duration
	i := 0
	for b.Loop() {
		n := i % members
		e := policy.Entity{
			EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "team-0", Name: fmt.Sprintf("changed-%d", i)}, Labels: map[string]string{"app": "changed"},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(n + 10), byte(200 + i/2500), byte(i / 10 % 250)})},
		}
		want := e.Addresses[0].String()
		began := time.Now()
		feeds[n].PutEntity(&e)
		sends[n]()
		for !west.has(want) {
			runtime.Gosched()
		}
		took = append(took, time.Since(began))
		i++
	}
	b.ReportMetric(joined.Seconds(), "s/join") // of the last one
	b.ReportMetric(float64(up), "bytes/up")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms/p99")
}

// has reports whether an address is in a peer.
func (k *knows) has(address string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, is := k.entities[policy.EntityRef{Kind: policy.KindRemote, Name: address}]
	return is
}

// BenchmarkUnion measures what the hub needs for 100,000 Pods of ten members.
func BenchmarkUnion(b *testing.B) {
	const members, pods = 10, 10_000
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	var grown float64
	for b.Loop() {
		before := heap()
		u := union.New()
		for n := range members {
			c := &setv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%d", n)}}
			c.Spec.Addresses.Pods = []string{fmt.Sprintf("10.%d.0.0/16", n+10)}
			u.PutCluster(c.Name, nil, claims.Of(c, nil))
			f := podsOf(n+10, pods)
			f.Begin()
			for r := f.Next(); r != nil; r = f.Next() {
				u.Apply(c.Name, r)
			}
		}
		u.Commit()
		grown = heap() - before
		if got := u.Counts("m0").Entities; got != pods {
			b.Fatal(got)
		}
	}
	b.ReportMetric(grown/(1<<20), "MiB/100k")
}
