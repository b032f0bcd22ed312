package apiserver_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	statsv1alpha1 "github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// Enforcers post at the same time, in both encodings; nothing is lost and nothing is counted twice.
func TestStatisticsOfManyEnforcers(t *testing.T) {
	t.Parallel()
	w, _ := newFullWorld(t)
	const nodes, rounds, policies = 6, 10, 5
	for i := range policies {
		w.book.Begin(stats.Policy{Kind: v1beta2.AntreaNetworkPolicy, Namespace: "n", Name: fmt.Sprintf("p%d", i), UID: types.UID(fmt.Sprint(i))})
	}
	w.book.Begin(stats.Policy{Kind: v1beta2.K8sNetworkPolicy, Namespace: "n", Name: "k", UID: "k"})
	w.spans(policies, nodes)
	var running sync.WaitGroup
	for n := range nodes {
		contentType := []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf}[n%2]
		c := w.client(t, "agent", contentType)
		running.Go(func() {
			for range rounds {
				one := v1beta2.TrafficStats{Packets: 3, Bytes: 100, Sessions: 1}
				s := &v1beta2.NodeStatsSummary{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", n)},
					NetworkPolicies: []v1beta2.NetworkPolicyStats{{NetworkPolicy: v1beta2.NetworkPolicyReference{UID: "k"}, TrafficStats: one}}}
				for i := range policies + 1 {
					s.AntreaNetworkPolicies = append(s.AntreaNetworkPolicies, v1beta2.NetworkPolicyStats{
						NetworkPolicy: v1beta2.NetworkPolicyReference{UID: types.UID(fmt.Sprint(i))}, RuleTrafficStats: []v1beta2.RuleTrafficStats{{Name: "r", TrafficStats: one}}})
				}
				var answer v1beta2.NodeStatsSummary
				if err := c.Post().Resource("nodestatssummaries").Body(s).Do(t.Context()).Into(&answer); err != nil {
					t.Error(err)
				} else if answer.Name != "" || len(answer.NetworkPolicies) != 0 {
					t.Errorf("answered %+v", answer)
				}
			}
		})
	}
	running.Wait()
	want := statsv1alpha1.TrafficStats{Packets: 3 * nodes * rounds, Bytes: 100 * nodes * rounds, Sessions: nodes * rounds}
	for _, contentType := range encodings {
		c := w.statsClient(t, "agent", contentType)
		var list statsv1alpha1.AntreaNetworkPolicyStatsList
		if err := c.Get().Namespace("n").Resource("antreanetworkpolicystats").Do(t.Context()).Into(&list); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != policies {
			t.Fatalf("got %+v", list)
		}
		for i, p := range list.Items {
			if p.Name != fmt.Sprintf("p%d", i) || p.Namespace != "n" || p.TrafficStats != want || len(p.RuleTrafficStats) != 1 ||
				p.RuleTrafficStats[0].TrafficStats != want || time.Since(p.CreationTimestamp.Time) > time.Hour {
				t.Errorf("got %+v", p)
			}
		}
		var one statsv1alpha1.NetworkPolicyStats
		if err := c.Get().Namespace("n").Resource("networkpolicystats").Name("k").Do(t.Context()).Into(&one); err != nil || one.TrafficStats != want {
			t.Errorf("got %+v, %v", one, err)
		}
		if err := c.Get().Namespace("n").Resource("networkpolicystats").Name("x").Do(t.Context()).Error(); !apierrors.IsNotFound(err) {
			t.Errorf("got %v", err)
		}
	}
	w.book.End("k")
	if err := w.statsClient(t, "agent", "").Get().Namespace("n").Resource("networkpolicystats").Name("k").Do(t.Context()).Error(); !apierrors.IsNotFound(err) {
		t.Errorf("of a policy that is gone: %v", err)
	}
}

// spans publishes policies named by number, with the rule r, and k, which concern the Nodes n0 and
// so on.
func (w *world) spans(policies, nodes int) {
	var keys []string
	for n := range nodes {
		keys = append(keys, fmt.Sprintf("n%d", n))
	}
	changes := watchstore.Changes{Policies: []watchstore.PolicyChange{policyChange("k", 1, keys...)}}
	for i := range policies {
		p := policyChange(fmt.Sprint(i), 1, keys...)
		p.Policy.Rules[0].Name = "r"
		changes.Policies = append(changes.Policies, p)
	}
	w.store.Publish(changes)
}

// An enforcer reports about policies that concern it, unless anybody may say anything.
func TestStatisticsOfOtherPolicies(t *testing.T) {
	t.Parallel()
	for access, want := range map[apiserver.EnforcerAccess]int64{apiserver.OwnKey: 2, apiserver.AnyKey: 4} {
		w := newGuardedWorld(t, access, granted())
		w.book.Begin(stats.Policy{Kind: v1beta2.AntreaNetworkPolicy, Namespace: "n", Name: "p", UID: "0"})
		w.spans(1, 2)
		for _, name := range []string{"n1", "stranger"} {
			s := &v1beta2.NodeStatsSummary{ObjectMeta: metav1.ObjectMeta{Name: name}, AntreaNetworkPolicies: []v1beta2.NetworkPolicyStats{{
				NetworkPolicy: v1beta2.NetworkPolicyReference{UID: "0"}, RuleTrafficStats: []v1beta2.RuleTrafficStats{
					{Name: "r", TrafficStats: v1beta2.TrafficStats{Packets: 1}}, {Name: "made up", TrafficStats: v1beta2.TrafficStats{Packets: 1}}},
			}}}
			if err := w.client(t, "admin", runtime.ContentTypeJSON).Post().Resource("nodestatssummaries").Body(s).Do(t.Context()).Error(); err != nil {
				t.Fatal(err)
			}
		}
		var got statsv1alpha1.AntreaNetworkPolicyStats
		err := w.statsClient(t, "admin", "").Get().Namespace("n").Resource("antreanetworkpolicystats").Name("p").Do(t.Context()).Into(&got)
		if err != nil || got.TrafficStats.Packets != want || len(got.RuleTrafficStats) != 1 || got.RuleTrafficStats[0].TrafficStats.Packets != want/2 {
			t.Errorf("%s: %+v, %v; want %d packets", access, got, err, want)
		}
	}
}

func TestSelectionsOfStatistics(t *testing.T) {
	t.Parallel()
	w, _ := newFullWorld(t)
	w.book.Begin(stats.Policy{Kind: v1beta2.K8sNetworkPolicy, Namespace: "n", Name: "a", UID: "1"})
	w.book.Begin(stats.Policy{Kind: v1beta2.K8sNetworkPolicy, Namespace: "m", Name: "a", UID: "2"})
	w.book.Begin(stats.Policy{Kind: v1beta2.K8sNetworkPolicy, Namespace: "m", Name: "b", UID: "3"})
	c := w.statsClient(t, "agent", runtime.ContentTypeJSON)
	for selector, want := range map[string]int{"": 3, "metadata.name=a": 2, "metadata.namespace=m": 2, "metadata.name=a,metadata.namespace=m": 1, "metadata.name!=a": 1} {
		var list statsv1alpha1.NetworkPolicyStatsList
		if err := c.Get().Resource("networkpolicystats").Param("fieldSelector", selector).Do(t.Context()).Into(&list); err != nil || len(list.Items) != want {
			t.Errorf("%s: %d %v, want %d", selector, len(list.Items), err, want)
		}
	}
	for _, selector := range []string{"spec.tier=x", "nodeName=a"} {
		if err := c.Get().Resource("networkpolicystats").Param("fieldSelector", selector).Do(t.Context()).Error(); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v", selector, err)
		}
	}
	var list statsv1alpha1.NetworkPolicyStatsList
	if err := c.Get().Resource("networkpolicystats").Param("labelSelector", "a=b").Do(t.Context()).Into(&list); err != nil || len(list.Items) != 0 {
		t.Errorf("labels: %v %v", list, err)
	}
	if err := c.Get().Resource("networkpolicystats").Param("watch", "true").Do(t.Context()).Error(); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("watch: %v", err)
	}
}

func TestLatencies(t *testing.T) {
	t.Parallel()
	w, _ := newFullWorld(t)
	for _, contentType := range encodings {
		c := w.statsClient(t, "agent", contentType)
		at := metav1.NewTime(time.Now().Truncate(time.Second))
		in := &statsv1alpha1.NodeLatencyStats{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, PeerNodeLatencyStats: []statsv1alpha1.PeerNodeLatencyStats{{
			NodeName: "n2", TargetIPLatencyStats: []statsv1alpha1.TargetIPLatencyStats{
				{TargetIP: "10.0.0.2", LastSendTime: at, LastRecvTime: at, LastMeasuredRTTNanoseconds: 1_000_000}, {TargetIP: "10.0.0.3", LastMeasuredRTTNanoseconds: 3_000_000}}}}}
		for range 2 {
			var out statsv1alpha1.NodeLatencyStats
			if err := c.Post().Resource("nodelatencystats").Body(in).Do(t.Context()).Into(&out); err != nil || out.Name != "n1" {
				t.Fatalf("got %+v, %v", out, err)
			}
		}
		var got statsv1alpha1.NodeLatencyStats
		if err := c.Get().Resource("nodelatencystats").Name("n1").Do(t.Context()).Into(&got); err != nil {
			t.Fatal(err)
		}
		if first := got.PeerNodeLatencyStats[0].TargetIPLatencyStats[0]; !first.LastSendTime.Equal(&at) || first.LastMeasuredRTTNanoseconds != 1_000_000 {
			t.Errorf("got %+v", first)
		}
		rows := table(t, w.statsClient(t, "agent", "").Get().Resource("nodelatencystats")).Rows
		if len(rows) != 1 || fmt.Sprint(rows[0].Cells) != "[n1 1 2ms 3ms]" {
			t.Errorf("got %+v", rows)
		}
		if err := c.Delete().Resource("nodelatencystats").Name("n1").Do(t.Context()).Error(); err != nil {
			t.Error(err)
		}
		if err := c.Delete().Resource("nodelatencystats").Name("n1").Do(t.Context()).Error(); !apierrors.IsNotFound(err) {
			t.Errorf("deleted twice: %v", err)
		}
		in.Name = ""
		if err := c.Post().Resource("nodelatencystats").Body(in).Do(t.Context()).Error(); !apierrors.IsBadRequest(err) {
			t.Errorf("without a name: %v", err)
		}
	}
}

// anyPolicy concerns everybody.
type anyPolicy struct{}

func (anyPolicy) Concerns(string, types.UID) bool { return true }
func (anyPolicy) Rules(types.UID) []string        { return nil }
