package traffic

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/flows/archive"
	"github.com/nephele-io/nephele/internal/flows/live"
	"github.com/nephele-io/nephele/internal/review"
)

// The size of BenchmarkWhatIf: workloads that talk, and rows of a minute each on disk.
const (
	whatIfPods = 300
	whatIfRows = 10_000_000
)

// BenchmarkWhatIf asks what a change of policies would cut or open of a week of flows, of which
// there are ten million rows on disk, and tells how many bytes a row takes there.
func BenchmarkWhatIf(b *testing.B) {
	until := time.Date(2030, 1, 9, 0, 0, 0, 0, time.UTC)
	since := until.Add(-7 * 24 * time.Hour)
	past, err := archive.Open(b.TempDir(), 1<<40)
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	const files = 7 * 24 * 6
	for i := range files {
		from := since.Add(time.Duration(i) * 10 * time.Minute)
		if err := past.Write(whatIfEntries(random, from, whatIfRows*(i+1)/files-whatIfRows*i/files), from, from.Add(10*time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	clk := clocktesting.NewFakeClock(until)
	tr := New(0, past, clk)
	clk.Step(time.Minute)
	before, after := explain.Compute(whatIfObjects(8080)), explain.Compute(whatIfObjects(8081))
	b.ResetTimer()
	for range b.N {
		begun, busy := time.Now(), processorTime(b)
		// One file less than there are: more than ten million rows are refused.
		q := &analysis.FlowQuery{Spec: analysis.FlowQuerySpec{Since: &metav1.MicroTime{Time: since.Add(10 * time.Minute)}, Limit: 5000}}
		if err := tr.Query(b.Context(), q, live.Sight{All: true}); err != nil {
			b.Fatal(err)
		}
		read := time.Since(begun)
		effects, err := review.Effects(b.Context().Err, before, after, q.Status.Flows)
		if err != nil || effects.Cut+effects.Opened == 0 {
			b.Fatalf("%+v, %v", effects, err)
		}
		b.ReportMetric(read.Seconds(), "s-read")
		b.ReportMetric(time.Since(begun).Seconds(), "s-whole")
		b.ReportMetric((processorTime(b) - busy).Seconds(), "cpu-s")
		b.ReportMetric(float64(len(q.Status.Flows)), "flows")
		b.ReportMetric(float64(past.Stats().Bytes)/whatIfRows, "bytes/row")
	}
}

// processorTime is what the process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func whatIfPod(i int) (name string, a netip.Addr) {
	return fmt.Sprintf("app-%d-7d9f8b6c5-x%dz", i, i), netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
}

// whatIfEntries draws rows of ten minutes: few workloads talk much, as in a cluster.
func whatIfEntries(r *rand.Rand, from time.Time, n int) []*live.Entry {
	zipf := rand.NewZipf(r, 1.2, 4, whatIfPods-1)
	owner := func(i int) (live.Owner, netip.Addr) {
		name, a := whatIfPod(i)
		return live.Owner{Kind: "Pod", Namespace: fmt.Sprintf("team-%d", i%20), Name: name, Enforcer: fmt.Sprintf("worker-%d", i%50)}, a
	}
	out := make([]*live.Entry, n)
	for i := range out {
		start := from.Add(time.Duration(i*10/n) * time.Minute)
		c, s := int(zipf.Uint64()), int(zipf.Uint64())
		e := &live.Entry{Start: start, First: start.Add(time.Duration(r.IntN(60000)) * time.Millisecond), Direction: "Through", Protocol: 6, Port: uint16(8080 + s%3), Verdict: "Allow", Connections: int64(1 + r.IntN(20))}
		e.Last = e.First.Add(time.Duration(r.IntN(60000)) * time.Millisecond)
		e.ClientOwner, e.Client = owner(c)
		e.ServerOwner, e.Server = owner(s)
		e.Enforcer = e.ServerOwner.Enforcer
		e.Cause = analysis.TrafficCause{Cause: "Policy", Type: "K8sNetworkPolicy", Namespace: e.ServerOwner.Namespace, Name: "in", UID: "0000-" + e.ServerOwner.Namespace, Direction: "In", Index: -1}
		e.Bytes, e.ReplyBytes = int64(r.IntN(1<<20)), int64(r.IntN(1<<22))
		out[i] = e
	}
	slices.SortFunc(out, func(a, b *live.Entry) int { // as the archive keeps them
		if c := a.Server.Compare(b.Server); c != 0 {
			return c
		}
		if c := a.Client.Compare(b.Client); c != 0 {
			return c
		}
		return a.Start.Compare(b.Start)
	})
	return out
}

// whatIfObjects are Pods of 20 teams, each of which lets others in by one port.
func whatIfObjects(port int) *input.Objects {
	o := &input.Objects{}
	p, tcp := intstr.FromInt(port), corev1.ProtocolTCP
	for i := range 20 {
		name := fmt.Sprintf("team-%d", i)
		o.Namespaces = append(o.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		o.K8sPolicies = append(o.K8sPolicies, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "in", UID: types.UID("0000-" + name)}, Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &p, Protocol: &tcp}}}}}})
	}
	for i := range whatIfPods {
		name, a := whatIfPod(i)
		o.Pods = append(o.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%d", i%20), Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: fmt.Sprintf("worker-%d", i%50)},
			Status: corev1.PodStatus{PodIP: a.String(), PodIPs: []corev1.PodIP{{IP: a.String()}}},
		})
	}
	return o
}
