package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/api/stats/v1alpha1"
)

func newBook() (*Book, *clocktesting.FakePassiveClock) {
	c := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC))
	return New(c), c
}

func counted(uid string, packets int64, rules ...string) v1beta2.NetworkPolicyStats {
	s := v1beta2.NetworkPolicyStats{NetworkPolicy: v1beta2.NetworkPolicyReference{UID: types.UID(uid)}}
	traffic := v1beta2.TrafficStats{Packets: packets, Bytes: 100 * packets, Sessions: 1}
	if len(rules) == 0 {
		s.TrafficStats = traffic
	}
	for _, r := range rules {
		s.RuleTrafficStats = append(s.RuleTrafficStats, v1beta2.RuleTrafficStats{Name: r, TrafficStats: traffic})
	}
	return s
}

// rules are the names of the rules of every policy; all policies concern everybody.
type rules []string

func (r rules) Concerns(string, types.UID) bool { return true }
func (r rules) Rules(types.UID) []string        { return r }

func TestCountersAreAddedUp(t *testing.T) {
	b, c := newBook()
	began := metav1.NewTime(c.Now()).Rfc3339Copy()
	b.Begin(Policy{v1beta2.K8sNetworkPolicy, "n", "k", "1"})
	b.Begin(Policy{v1beta2.AntreaNetworkPolicy, "n", "a", "2"})
	b.Begin(Policy{v1beta2.AntreaClusterNetworkPolicy, "", "c", "3"})
	c.SetTime(c.Now().Add(time.Hour))
	b.Begin(Policy{v1beta2.K8sNetworkPolicy, "n", "k", "1"})
	for _, node := range []string{"a", "b"} {
		b.Add(node, &v1beta2.NodeStatsSummary{
			NetworkPolicies:              []v1beta2.NetworkPolicyStats{counted("1", 5), counted("unknown", 5), counted("2", 7)},
			AntreaNetworkPolicies:        []v1beta2.NetworkPolicyStats{counted("2", 3, "y", "x")},
			AntreaClusterNetworkPolicies: []v1beta2.NetworkPolicyStats{counted("3", 2), counted("3", 1, "r")},
		}, rules{"x", "y", "r"})
	}
	traffic := func(packets, sessions int64) v1alpha1.TrafficStats {
		return v1alpha1.TrafficStats{Packets: packets, Bytes: 100 * packets, Sessions: sessions}
	}
	for _, want := range []Counters{
		{Policy: Policy{v1beta2.K8sNetworkPolicy, "n", "k", "1"}, Since: began, Total: traffic(10, 2)},
		{Policy: Policy{v1beta2.AntreaNetworkPolicy, "n", "a", "2"}, Since: began, Total: traffic(12, 4),
			Rules: []v1alpha1.RuleTrafficStats{{Name: "x", TrafficStats: traffic(6, 2)}, {Name: "y", TrafficStats: traffic(6, 2)}}},
		{Policy: Policy{v1beta2.AntreaClusterNetworkPolicy, "", "c", "3"}, Since: began, Total: traffic(6, 4),
			Rules: []v1alpha1.RuleTrafficStats{{Name: "r", TrafficStats: traffic(2, 2)}}},
	} {
		got, ok := b.Get(want.Kind, want.Namespace, want.Name)
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s (-want +got)\n%s", want.Name, diff)
		}
		if list := b.List(want.Kind, want.Namespace); len(list) != 1 || !cmp.Equal(list[0], want) {
			t.Errorf("list of %s: %+v", want.Kind, list)
		}
	}
	if got := b.List(v1beta2.K8sNetworkPolicy, "other"); len(got) != 0 {
		t.Errorf("other namespace: %v", got)
	}
}

func TestCountersLiveAsLongAsThePolicy(t *testing.T) {
	b, c := newBook()
	h := b.Handler()
	first := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "k", UID: "1"}}
	second := first.DeepCopy()
	second.UID = "2"
	h.OnAdd(first, true)
	b.Add("a", &v1beta2.NodeStatsSummary{NetworkPolicies: []v1beta2.NetworkPolicyStats{counted("1", 5)}}, rules{})
	h.OnUpdate(first, first)
	if got, _ := b.Get(v1beta2.K8sNetworkPolicy, "n", "k"); got.Total.Packets != 5 {
		t.Errorf("after an update: %+v", got)
	}
	c.SetTime(c.Now().Add(time.Hour))
	h.OnUpdate(first, second)
	b.Add("a", &v1beta2.NodeStatsSummary{NetworkPolicies: []v1beta2.NetworkPolicyStats{counted("1", 5), counted("2", 1)}}, rules{})
	if got, _ := b.Get(v1beta2.K8sNetworkPolicy, "n", "k"); got.Total.Packets != 1 || got.UID != "2" || !got.Since.Time.Equal(c.Now().Truncate(time.Second)) {
		t.Errorf("of the successor: %+v", got)
	}
	b.End("1")
	if _, ok := b.Get(v1beta2.K8sNetworkPolicy, "n", "k"); !ok {
		t.Error("the late end of the predecessor ended the successor")
	}
	h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: second})
	if _, ok := b.Get(v1beta2.K8sNetworkPolicy, "n", "k"); ok || len(b.List(v1beta2.K8sNetworkPolicy, "")) != 0 {
		t.Error("still there")
	}
	h.OnAdd(&v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "k", UID: "3"}}, false)
	h.OnAdd(&v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "k", UID: "4"}}, false)
	if len(b.List(v1beta2.AntreaNetworkPolicy, "")) != 1 || len(b.List(v1beta2.AntreaClusterNetworkPolicy, "")) != 1 {
		t.Error("Antrea policies are not counted")
	}
}

func TestDishonestCounters(t *testing.T) {
	b, _ := newBook()
	b.Begin(Policy{v1beta2.AntreaClusterNetworkPolicy, "", "c", "3"})
	has := rules{"r"}
	report := func(s v1beta2.NetworkPolicyStats) {
		b.Add("a", &v1beta2.NodeStatsSummary{AntreaClusterNetworkPolicies: []v1beta2.NetworkPolicyStats{s}}, has)
	}
	report(counted("3", 4, "r"))
	report(counted("3", -9, "r"))
	report(counted("3", math.MaxInt64/100, "r"))
	report(counted("3", math.MaxInt64/100, "r"))
	for i := range 2 * maxRules {
		has = rules{"r", fmt.Sprint(i)}
		report(counted("3", 1, fmt.Sprint(i)))
	}
	got, _ := b.Get(v1beta2.AntreaClusterNetworkPolicy, "", "c")
	if got.Total.Bytes != math.MaxInt64 || got.Total.Packets < 0 || len(got.Rules) > maxRules {
		t.Errorf("got %+v with %d rules", got.Total, len(got.Rules))
	}
	if last := fmt.Sprint(2*maxRules - 1); !slices.ContainsFunc(got.Rules, func(r v1alpha1.RuleTrafficStats) bool { return r.Name == last }) ||
		!slices.ContainsFunc(got.Rules, func(r v1alpha1.RuleTrafficStats) bool { return r.Name == "r" }) {
		t.Error("rules that the policy had have taken the place of those that it has")
	}
}

// spans are keys by the uid of a policy that has the rule "r".
type spans map[types.UID]string

func (s spans) Concerns(key string, policy types.UID) bool { return s[policy] == key }
func (s spans) Rules(types.UID) []string                   { return []string{"r"} }

// TestReportsOfOthers: an enforcer counts for the policies that concern it, and cannot take the
// room of their rules with names it has made up.
func TestReportsOfOthers(t *testing.T) {
	b, _ := newBook()
	b.Begin(Policy{v1beta2.AntreaNetworkPolicy, "n", "mine", "1"})
	b.Begin(Policy{v1beta2.AntreaNetworkPolicy, "n", "other", "2"})
	b.Begin(Policy{v1beta2.K8sNetworkPolicy, "n", "k", "3"})
	given := spans{"1": "me", "2": "you", "3": "you"}
	made := &v1beta2.NodeStatsSummary{NetworkPolicies: []v1beta2.NetworkPolicyStats{counted("3", 7)}}
	for i := range 30_000 {
		made.AntreaNetworkPolicies = append(made.AntreaNetworkPolicies, counted("1", 1, fmt.Sprint("r", i)), counted("2", 1, fmt.Sprint("r", i)))
	}
	b.Add("me", made, given)
	honest := &v1beta2.NodeStatsSummary{AntreaNetworkPolicies: []v1beta2.NetworkPolicyStats{counted("1", 5, "r"), counted("2", 5, "r")}}
	b.Add("me", honest, given)
	b.Add("you", honest, given)
	one := func(name string) Counters {
		c, _ := b.Get(v1beta2.AntreaNetworkPolicy, "n", name)
		return c
	}
	for name, total := range map[string]int64{"mine": 30_005, "other": 5} {
		if c := one(name); c.Total.Packets != total || len(c.Rules) != 1 || c.Rules[0].Name != "r" || c.Rules[0].TrafficStats.Packets != 5 {
			t.Errorf("%s: %+v, want %d packets, 5 of them in rule r", name, c, total)
		}
	}
	if c, _ := b.Get(v1beta2.K8sNetworkPolicy, "n", "k"); c.Total.Packets != 0 {
		t.Errorf("a report about a policy of others is taken: %+v", c)
	}
}

func TestConcurrentReports(t *testing.T) {
	b, _ := newBook()
	const nodes, rounds, policies = 8, 50, 20
	var running sync.WaitGroup
	for i := range policies {
		b.Begin(Policy{v1beta2.AntreaNetworkPolicy, "n", fmt.Sprint(i), types.UID(fmt.Sprint(i))})
	}
	for n := range nodes {
		running.Go(func() {
			for range rounds {
				s := &v1beta2.NodeStatsSummary{}
				for i := range policies {
					s.AntreaNetworkPolicies = append(s.AntreaNetworkPolicies, counted(fmt.Sprint(i), 1, "r"))
				}
				b.Add(fmt.Sprint(n), s, rules{"r"})
				b.List(v1beta2.AntreaNetworkPolicy, "")
			}
		})
	}
	running.Wait()
	for _, c := range b.List(v1beta2.AntreaNetworkPolicy, "") {
		if c.Total.Packets != nodes*rounds || c.Rules[0].TrafficStats.Packets != nodes*rounds {
			t.Errorf("%s: %+v", c.Name, c)
		}
	}
}

func TestStatesOfNodes(t *testing.T) {
	b, c := newBook()
	joined := func(group string, pods ...string) v1beta2.MulticastGroupInfo {
		g := v1beta2.MulticastGroupInfo{Group: group}
		for _, p := range pods {
			g.Pods = append(g.Pods, v1beta2.PodReference{Namespace: "n", Name: p})
		}
		return g
	}
	b.Add("a", &v1beta2.NodeStatsSummary{Multicast: []v1beta2.MulticastGroupInfo{joined("225.1.2.3", "q", "p"), joined("225.1.2.4", "p")}}, rules{})
	b.Add("b", &v1beta2.NodeStatsSummary{Multicast: []v1beta2.MulticastGroupInfo{joined("225.1.2.3", "r")}}, rules{})
	groups := b.MulticastGroups()
	if len(groups) != 2 || groups[0].Name != "225.1.2.3" || len(groups[0].Pods) != 3 || groups[0].Pods[0].Name != "p" {
		t.Errorf("got %+v", groups)
	}
	b.Add("a", &v1beta2.NodeStatsSummary{}, rules{})
	if groups = b.MulticastGroups(); len(groups) != 1 || len(groups[0].Pods) != 1 {
		t.Errorf("got %+v", groups)
	}
	put := func(s *v1alpha1.NodeLatencyStats) {
		if err := b.PutLatency(s); err != nil {
			t.Error(err)
		}
	}
	one := &v1alpha1.NodeLatencyStats{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	put(one)
	began := c.Now().Truncate(time.Second)
	c.SetTime(c.Now().Add(time.Minute))
	one.PeerNodeLatencyStats = []v1alpha1.PeerNodeLatencyStats{{NodeName: "x"}}
	put(one)
	got, ok := b.Latency("b")
	if !ok || len(got.PeerNodeLatencyStats) != 1 || !got.CreationTimestamp.Time.Equal(began) || len(b.Latencies()) != 1 {
		t.Errorf("got %+v", got)
	}
	b.Handler().OnDelete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	if len(b.Latencies())+len(b.MulticastGroups()) != 0 || b.ForgetLatency("b") {
		t.Error("a Node that is gone is still there")
	}
}

// TestStatesAreBounded: enforcers that invent Nodes, groups and measurements fill so much and no
// more, and what a Node gives up is room for another.
func TestStatesAreBounded(t *testing.T) {
	b, _ := newBook()
	groups := make([]v1beta2.MulticastGroupInfo, 1000)
	for i := range groups {
		groups[i] = v1beta2.MulticastGroupInfo{Group: fmt.Sprint(i), Pods: make([]v1beta2.PodReference, 9)}
	}
	measured := func(node string) *v1alpha1.NodeLatencyStats {
		peers := make([]v1alpha1.PeerNodeLatencyStats, 1000)
		for i := range peers {
			peers[i].TargetIPLatencyStats = make([]v1alpha1.TargetIPLatencyStats, 9)
		}
		return &v1alpha1.NodeLatencyStats{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"a": "label"}}, PeerNodeLatencyStats: peers}
	}
	for i := range 30 {
		b.Add(fmt.Sprint("m", i), &v1beta2.NodeStatsSummary{Multicast: groups}, rules{})
	}
	refused := 0
	for i := range 40 {
		if errors.Is(b.PutLatency(measured(fmt.Sprint("n", i))), ErrFull) {
			refused++
		}
	}
	if kept := len(b.Latencies()); refused == 0 || kept+refused != 40 || b.stated > maxStated {
		t.Errorf("%d refused and %d kept, %d in all", refused, kept, b.stated)
	}
	if got, _ := b.Latency("n0"); len(got.Labels) != 0 {
		t.Errorf("kept %v", got.Labels)
	}
	if err := b.PutLatency(measured("n0")); err != nil {
		t.Errorf("what takes the place of what was stated: %v", err)
	}
	for i := range 30 {
		b.ForgetNode(fmt.Sprint("m", i))
		b.Add(fmt.Sprint("m", i), &v1beta2.NodeStatsSummary{}, rules{})
	}
	if err := b.PutLatency(measured("n39")); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	for i := range 40 {
		b.ForgetLatency(fmt.Sprint("n", i))
	}
	if b.stated != 0 {
		t.Errorf("%d are left", b.stated)
	}
}
