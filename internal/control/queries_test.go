package control

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// someHolder is a holder that is nothing else.
type someHolder policy.EntityRef

func (h someHolder) Ref() policy.EntityRef { return policy.EntityRef(h) }

// asked is a Controller without sources whose loop only answers questions about what the test has
// put.
func asked(t *testing.T, objects ...policytest.Object) (*Controller, *policytest.World) {
	t.Helper()
	c := newTestWorld(t).Controller
	w := policytest.NewWorld()
	for _, o := range objects {
		policytest.Put(c.engine, o)
		w.Put(o)
	}
	for ref, e := range w.Entities {
		c.directory.move(someHolder(ref), nil, e.Addresses)
	}
	c.engine.Commit()
	close(c.computed)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case ask := <-c.questions:
				ask(c.engine)
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	return c, w
}

func podEntity(namespace, name, address string, labels ...string) policy.Entity {
	e := policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: namespace, Name: name}, Host: "node", Labels: map[string]string{}}
	if address != "" {
		e.Addresses = []netip.Addr{netip.MustParseAddr(address)}
	}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		e.Labels[k] = v
	}
	return e
}

func app(value string) *policy.Selector {
	return &policy.Selector{MatchLabels: map[string]string{"app": value}}
}

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func TestGroupMembersInPages(t *testing.T) {
	objects := []policytest.Object{
		policy.Namespace{Name: "n"},
		policy.Group{Namespace: "n", Name: "g", UID: "u", PodSelector: &policy.Selector{}},
		policy.Group{Namespace: "n", Name: "none", PodSelector: app("none")},
		policy.Group{Namespace: "n", Name: "blocks", IPBlocks: []policy.IPBlock{{CIDR: "10.0.0.0/30", Except: []string{"10.0.0.1/32"}}, {CIDR: "10.9.0.5/24"}}},
		policy.Group{Name: "cluster", ChildGroups: []string{"child"}},
		policy.Group{Name: "child", NamespaceSelector: &policy.Selector{}},
	}
	for i := range 25 {
		objects = append(objects, podEntity("n", fmt.Sprintf("p%02d", i), fmt.Sprintf("10.0.0.%d", i)))
	}
	c, _ := asked(t, objects...)
	for _, tt := range []struct {
		group         types.NamespacedName
		page, limit   int64
		first         string
		n             int
		total         int64
		pages, number int64
	}{
		{key("n", "g"), 0, 0, "p00", 25, 25, 1, 1},
		{key("n", "g"), 3, 0, "p00", 25, 25, 1, 1},
		{key("n", "g"), 1, 10, "p00", 10, 25, 3, 1},
		{key("n", "g"), 3, 10, "p20", 5, 25, 3, 3},
		{key("n", "g"), 4, 10, "", 0, 25, 3, 4},
		{key("n", "g"), 0, 10, "p00", 25, 25, 3, 0},
		{key("n", "g"), math.MaxInt64, math.MaxInt64, "", 0, 25, 1, math.MaxInt64},
		{key("n", "none"), 1, 10, "", 0, 0, 0, 0},
		{key("", "cluster"), 1, 30, "p00", 25, 25, 1, 1},
	} {
		got, err := c.GroupMembers(t.Context(), tt.group, v1beta2.PaginationGetOptions{Page: tt.page, Limit: tt.limit}, everywhere)
		if err != nil || got == nil {
			t.Fatalf("%+v: %v %v", tt, got, err)
		}
		first := ""
		if len(got.EffectiveMembers) > 0 {
			first = got.EffectiveMembers[0].Pod.Name
		}
		if first != tt.first || len(got.EffectiveMembers) != tt.n || got.TotalMembers != tt.total || got.TotalPages != tt.pages || got.CurrentPage != tt.number {
			t.Errorf("%+v: got %d from %q of %d, page %d of %d", tt, len(got.EffectiveMembers), first, got.TotalMembers, got.CurrentPage, got.TotalPages)
		}
	}
	blocks, err := c.GroupMembers(t.Context(), key("n", "blocks"), v1beta2.PaginationGetOptions{}, everywhere)
	if err != nil {
		t.Fatal(err)
	}
	var nets []string
	for _, n := range blocks.EffectiveIPBlocks {
		a, _ := netip.AddrFromSlice(n.IP)
		nets = append(nets, fmt.Sprintf("%s/%d", a.Unmap(), n.PrefixLength))
	}
	if !slices.Equal(nets, []string{"10.0.0.0/32", "10.0.0.2/31", "10.9.0.5/24"}) {
		t.Errorf("blocks %v", nets)
	}
	if got, err := c.GroupMembers(t.Context(), key("n", "other"), v1beta2.PaginationGetOptions{}, everywhere); got != nil || err != nil {
		t.Errorf("a group that is not there: %v %v", got, err)
	}
}

// everywhere is the view of a user that may see all Namespaces.
func everywhere(string) bool { return true }

// TestMembersThatMayNotBeSeen: members of Namespaces that the caller may not see are none for him,
// in lists and in counts.
func TestMembersThatMayNotBeSeen(t *testing.T) {
	w := newTestWorld(t)
	for i, name := range []string{"a/one", "a/two", "b/one", "b/two", "c/one"} {
		ns, name, _ := strings.Cut(name, "/")
		ip := fmt.Sprintf("10.0.0.%d", i+1)
		w.put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		w.put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(ip)}, Status: corev1.PodStatus{PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}})
	}
	w.put(decode[v1beta1.Group](t, `{metadata: {namespace: a, name: g}, spec: {namespaceSelector: {}, podSelector: {}}}`))
	close(w.computed)
	go func() {
		for ask := range w.questions {
			ask(w.engine)
		}
	}()
	defer close(w.questions)
	w.settle()
	asked := map[string]int{}
	got, err := w.GroupMembers(t.Context(), types.NamespacedName{Namespace: "a", Name: "g"}, v1beta2.PaginationGetOptions{Page: 2, Limit: 2},
		func(ns string) bool { asked[ns]++; return ns != "b" })
	if err != nil {
		t.Fatal(err)
	}
	if got.TotalMembers != 3 || got.TotalPages != 2 || len(got.EffectiveMembers) != 1 || got.EffectiveMembers[0].Pod.Namespace != "c" {
		t.Errorf("%+v", got)
	}
	for ns, n := range asked {
		if n != 1 {
			t.Errorf("asked %d times about %s", n, ns)
		}
	}
}

func TestGroupsOf(t *testing.T) {
	vm := podEntity("n", "vm", "10.1.0.1", "app=a")
	vm.Kind = policy.KindExternalEntity
	both := podEntity("n", "both", "10.1.0.2")
	both.Kind = policy.KindExternalEntity
	c, _ := asked(t,
		policy.Namespace{Name: "n"},
		podEntity("n", "p", "10.0.0.1", "app=a"), podEntity("n", "both", "10.0.0.2", "app=a"), vm, both,
		policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindNode, Name: "node"}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}},
		policy.Group{Namespace: "n", Name: "pods", UID: "1", PodSelector: app("a")},
		policy.Group{Namespace: "n", Name: "vms", UID: "2", ExternalEntitySelector: &policy.Selector{}},
		policy.Group{Name: "nodes", UID: "3", NodeSelector: &policy.Selector{}},
		policy.Group{Name: "parent", UID: "4", ChildGroups: []string{"net"}},
		policy.Group{Name: "net", UID: "5", IPBlocks: []policy.IPBlock{{CIDR: "10.0.0.0/16", Except: []string{"10.0.0.2/32"}}}},
	)
	groups := func(in []v1beta2.GroupReference) string {
		var out []string
		for _, g := range in {
			out = append(out, g.Namespace+"/"+g.Name+"="+string(g.UID))
		}
		return strings.Join(out, " ")
	}
	for name, want := range map[string]string{"p": "n/pods=1", "vm": "n/vms=2", "both": "n/pods=1"} {
		got, known, err := c.GroupsOf(t.Context(), key("n", name))
		if err != nil || !known || groups(got) != want {
			t.Errorf("%s: %s %t %v, want %s", name, groups(got), known, err, want)
		}
	}
	if _, known, err := c.GroupsOf(t.Context(), key("n", "x")); known || err != nil {
		t.Errorf("an unknown name: %t %v", known, err)
	}
	for a, want := range map[string]string{
		"10.0.0.1": "/net=5 /nodes=3 /parent=4 n/pods=1", "10.0.0.2": "n/pods=1", "10.1.0.1": "n/vms=2",
		"::ffff:10.0.9.9": "/net=5 /parent=4", "192.0.2.1": "",
	} {
		got, err := c.GroupsOfAddress(t.Context(), netip.MustParseAddr(a))
		if err != nil || groups(got) != want {
			t.Errorf("%s: %s %v, want %s", a, groups(got), err, want)
		}
	}
}

func TestDirectory(t *testing.T) {
	d := newDirectory()
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::ffff:10.0.0.1")
	one, two := someHolder{Name: "1"}, someHolder{Name: "2"}
	d.move(one, nil, []netip.Addr{a, b})
	d.move(two, nil, []netip.Addr{b})
	if got := d.at(b); len(got) != 2 {
		t.Errorf("got %v", got)
	}
	// Another object with the same address takes the place of the former.
	renewed := &renewedHolder{two}
	d.move(renewed, []netip.Addr{b}, []netip.Addr{b})
	if got := d.more[a.As16()]; len(got) != 1 || got[0] != holder(renewed) {
		t.Errorf("got %v", got)
	}
	d.move(one, []netip.Addr{a}, nil)
	if got := d.at(a); !slices.Equal(got, []policy.EntityRef{two.Ref()}) {
		t.Errorf("got %v", got)
	}
	d.move(two, []netip.Addr{a}, nil)
	if got := d.at(a); got != nil || d.places.Len()+len(d.more) != 0 {
		t.Errorf("got %v", got)
	}
}

// renewedHolder is another object for the same entity.
type renewedHolder struct{ someHolder }

func TestEndpoint(t *testing.T) {
	c, _ := asked(t,
		policy.Namespace{Name: "n"}, podEntity("n", "p", "10.0.0.1", "app=a"), podEntity("n", "q", "10.0.0.2", "app=b"),
		policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "n", Name: "host"}, HostNetwork: true, Labels: map[string]string{"app": "a"}},
		policy.Group{Namespace: "n", Name: "g", UID: "g", PodSelector: app("a")},
		policy.Policy{Kind: policy.AntreaNetworkPolicy, Namespace: "n", Name: "one", UID: "1", Priority: 1, AppliedTo: []policy.AppliedTo{{Group: "g"}},
			Ingress: []policy.Rule{{Action: policy.Drop, Peers: []policy.Peer{{PodSelector: app("b")}}}, {Action: policy.Allow, Peers: []policy.Peer{{Group: "g"}}}}},
		policy.Policy{Kind: policy.KubernetesNetworkPolicy, Namespace: "n", Name: "two", UID: "2", AppliedTo: []policy.AppliedTo{{PodSelector: app("b")}},
			Egress:      []policy.Rule{{Peers: []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: "0.0.0.0/0"}}}}, {Peers: []policy.Peer{{PodSelector: app("a")}}}},
			PolicyTypes: []policy.Direction{policy.Egress}},
	)
	describe := func(e *v1beta2.Endpoint) string {
		var out []string
		for _, p := range e.AppliedPolicies {
			out = append(out, p.Name)
		}
		for _, r := range e.IngressSrcRules {
			out = append(out, fmt.Sprintf("from:%s.%s%d", r.PolicyRef.Name, r.Direction, r.RuleIndex))
		}
		for _, r := range e.EgressDstRules {
			out = append(out, fmt.Sprintf("to:%s.%s%d", r.PolicyRef.Name, r.Direction, r.RuleIndex))
		}
		return strings.Join(out, " ")
	}
	for name, want := range map[string]string{"p": "one from:one.In1 to:two.Out1", "q": "two from:one.In0", "host": ""} {
		got, err := c.Endpoint(t.Context(), key("n", name))
		if err != nil || got == nil || describe(got) != want {
			t.Errorf("%s: %+v %v, want %s", name, got, err, want)
		}
	}
	if got, err := c.Endpoint(t.Context(), key("n", "x")); got != nil || err != nil {
		t.Errorf("an unknown Pod: %v %v", got, err)
	}
}

func TestEvaluatePods(t *testing.T) {
	tier := int32(254)
	rule := func(a policy.Action, peers ...policy.Peer) policy.Rule {
		return policy.Rule{Name: string(a), Action: a, Peers: peers}
	}
	anp := func(name, tier string, priority float64, applied string, in, out []policy.Rule) policy.Policy {
		return policy.Policy{Kind: policy.AntreaNetworkPolicy, Namespace: "n", Name: name, UID: name, Tier: tier, Priority: priority,
			AppliedTo: []policy.AppliedTo{{PodSelector: app(applied)}}, Ingress: in, Egress: out}
	}
	knp := func(name, applied string, d policy.Direction, rules ...policy.Rule) policy.Policy {
		p := policy.Policy{
			Kind:        policy.KubernetesNetworkPolicy,
			Namespace:   "n",
			Name:        name,
			UID:         name,
			AppliedTo:   []policy.AppliedTo{{PodSelector: app(applied)}},
			PolicyTypes: []policy.Direction{d},
		}
		if d == policy.Ingress {
			p.Ingress = rules
		} else {
			p.Egress = rules
		}
		return p
	}
	a, b := policy.Peer{PodSelector: app("a")}, policy.Peer{PodSelector: app("b")}
	node := func(address string) policy.Entity {
		return policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindNode, Name: "node"}, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
	}
	inNetwork := func(pod, address string) policy.Entity {
		e := podEntity("n", pod, address, "app="+pod)
		e.HostNetwork = true
		return e
	}
	for name, tt := range map[string]struct {
		policies []policytest.Object
		want     string
	}{
		"nothing": {nil, ""},
		"egress drop wins over an earlier ingress allow": {[]policytest.Object{
			anp("in", "emergency", 1, "b", []policy.Rule{rule(policy.Allow, a)}, nil), anp("out", "", 5, "a", nil, []policy.Rule{rule(policy.Drop, b)})}, "out Out 0 Drop"},
		"both allow: the first in order": {[]policytest.Object{
			anp("in", "emergency", 1, "b", []policy.Rule{rule(policy.Allow, a)}, nil), anp("out", "", 5, "a", nil, []policy.Rule{rule(policy.Allow, b)})}, "in In 0 Allow"},
		"ipBlock": {[]policytest.Object{anp("in", "", 1, "b", []policy.Rule{rule(policy.Allow, b), rule(policy.Reject, policy.Peer{IPBlock: &policy.IPBlock{CIDR: "10.0.0.1/32"}})}, nil)}, "in In 1 Reject"},
		"pass to a Kubernetes policy": {[]policytest.Object{
			anp("in", "", 1, "b", []policy.Rule{rule(policy.Pass, a)}, nil), knp("k", "b", policy.Ingress, policy.Rule{Peers: []policy.Peer{b}}, policy.Rule{Peers: []policy.Peer{a}})}, "k In 1 Allow"},
		"pass to isolation":         {[]policytest.Object{anp("in", "", 1, "b", []policy.Rule{rule(policy.Pass, a)}, nil), knp("k", "b", policy.Ingress)}, "k In 2147483647 "},
		"isolation before baseline": {[]policytest.Object{anp("in", "baseline", 1, "b", []policy.Rule{rule(policy.Allow, a)}, nil), knp("k", "b", policy.Ingress)}, "k In 2147483647 "},
		"baseline":                  {[]policytest.Object{anp("in", "baseline", 1, "b", []policy.Rule{rule(policy.Drop, a)}, nil)}, "in In 0 Drop"},
		"upstream baseline": {[]policytest.Object{policy.Policy{Kind: policy.BaselineAdminNetworkPolicy, Name: "banp", UID: "banp", TierPriority: &tier,
			AppliedTo: []policy.AppliedTo{{NamespaceSelector: &policy.Selector{}}}, Ingress: []policy.Rule{rule(policy.Drop, policy.Peer{NamespaceSelector: &policy.Selector{}})}}}, "banp In 0 Drop"},
		"names and Services do not count": {[]policytest.Object{anp("out", "", 1, "a", nil, []policy.Rule{rule(policy.Drop, policy.Peer{FQDN: "*.example.com"}), rule(policy.Allow, b)})}, "out Out 1 Allow"},
		"of its own Node": {[]policytest.Object{
			node("192.168.0.1"), inNetwork("a", "192.168.0.1"), knp("k", "b", policy.Ingress)}, ""},
		"of another Node": {[]policytest.Object{
			node("192.168.0.1"), policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "n", Name: "b"}, Host: "other", Labels: map[string]string{"app": "b"},
				Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")}}, inNetwork("a", "192.168.0.1"), knp("k", "b", policy.Ingress)}, "k In 2147483647 "},
		"a policy of the Node": {[]policytest.Object{node("192.168.0.1"), inNetwork("b", "192.168.0.1"),
			policy.Policy{Kind: policy.AntreaClusterNetworkPolicy, Name: "nodes", UID: "nodes", Priority: 1, AppliedTo: []policy.AppliedTo{{NodeSelector: &policy.Selector{}}},
				Ingress: []policy.Rule{rule(policy.Drop)}}}, "nodes In 0 Drop"},
		"the Node of the address": {[]policytest.Object{
			policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindNode, Name: "node"}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")}},
			anp("out", "", 1, "a", nil, []policy.Rule{rule(policy.Drop, policy.Peer{NodeSelector: &policy.Selector{}})})}, "out Out 0 Drop"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := asked(t, append([]policytest.Object{policy.Namespace{Name: "n"},
				podEntity("n", "a", "10.0.0.1", "app=a"), podEntity("n", "b", "10.0.0.2", "app=b")}, tt.policies...)...)
			got, err := c.EvaluatePods(t.Context(), key("n", "a"), key("n", "b"))
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			if got != nil {
				action := ""
				if got.Rule.Action != nil {
					action = string(*got.Rule.Action)
				}
				text = fmt.Sprintf("%s %s %d %s", got.NetworkPolicy.Name, got.Rule.Direction, got.RuleIndex, action)
			}
			if text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
	c, _ := asked(t, policy.Namespace{Name: "n"}, podEntity("n", "a", "10.0.0.1", "app=a"), knp("k", "a", policy.Ingress))
	if got, err := c.EvaluatePods(t.Context(), key("n", "a"), key("n", "a")); got != nil || err != nil {
		t.Errorf("a Pod to itself: %v, %v", got, err)
	}
	var unknown UnknownPodError
	if _, err := c.EvaluatePods(t.Context(), key("n", "a"), key("n", "b")); !errors.As(err, &unknown) || unknown.Name != "b" {
		t.Errorf("an unknown Pod: %v", err)
	}
}

// TestEvaluatePodsAgainstNaive: in random worlds the answer is what a naive evaluator over the
// whole listing says.
func TestEvaluatePodsAgainstNaive(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 31))
		draw := policytest.Draw(r.IntN)
		var objects []policytest.Object
		for range 100 {
			objects = append(objects, draw.Object())
		}
		c, w := asked(t, objects...)
		listing := forAllTraffic(policytest.Compute(w))
		var pods []policy.EntityRef
		for ref := range w.Entities {
			if ref.Kind == policy.KindPod {
				pods = append(pods, ref)
			}
		}
		slices.SortFunc(pods, compareEntities)
		for range 30 {
			if len(pods) == 0 {
				break
			}
			s, d := pods[r.IntN(len(pods))], pods[r.IntN(len(pods))]
			got, err := c.EvaluatePods(t.Context(), key(s.Namespace, s.Name), key(d.Namespace, d.Name))
			if err != nil {
				t.Fatal(err)
			}
			f := evaluate.Flow{Source: evaluate.Endpoint{EntityRef: s}, Destination: evaluate.Endpoint{EntityRef: d}, Protocol: policy.TCP}
			f.Source.Addr, f.Destination.Addr = sameFamily(w.Entities[s].Addresses, w.Entities[d].Addresses)
			for _, end := range []*evaluate.Endpoint{&f.Source, &f.Destination} {
				pod := w.Entities[end.EntityRef]
				node := w.Entities[policy.EntityRef{Kind: policy.KindNode, Name: pod.Host}]
				if pod.HostNetwork || pod.Terminated {
					for _, a := range pod.Addresses {
						if slices.Contains(node.Addresses, a) {
							end.EntityRef = node.EntityRef
						}
					}
				}
			}
			egress, ingress := policytest.Decide(listing, f, policy.Egress), policytest.Decide(listing, f, policy.Ingress)
			want, says := "native", "native"
			switch {
			case egress == evaluate.OutcomeDrop || egress == evaluate.OutcomeReject:
				want = "Out " + string(egress)
			case ingress == evaluate.OutcomeDrop || ingress == evaluate.OutcomeReject:
				want = "In " + string(ingress)
			case egress == evaluate.OutcomeAllow || ingress == evaluate.OutcomeAllow:
				want = "Allow"
			}
			if got != nil {
				says = string(got.Rule.Direction) + " Drop"
				if got.Rule.Action != nil {
					says = string(got.Rule.Direction) + " " + string(*got.Rule.Action)
				}
				if strings.HasSuffix(says, "Allow") {
					says = "Allow"
				}
			}
			if seen[want]++; says != want {
				t.Fatalf("seed %d, %v to %v: %s, want %s", seed, s, d, says, want)
			}
		}
	}
	t.Logf("answers: %v", seen)
	if len(seen) < 4 {
		t.Errorf("only these answers occurred: %v", seen)
	}
}

// Before the first round, and after the last, questions are refused at once.
func TestQuestionsWhenNobodyAnswers(t *testing.T) {
	c := newTestWorld(t).Controller
	if _, err := c.GroupMembers(t.Context(), key("n", "g"), v1beta2.PaginationGetOptions{}, everywhere); !errors.Is(err, watchstore.ErrNotReady) {
		t.Errorf("before: %v", err)
	}
	close(c.computed)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.GroupMembers(ctx, key("n", "g"), v1beta2.PaginationGetOptions{}, everywhere); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	close(c.ended)
	if _, err := c.GroupMembers(t.Context(), key("n", "g"), v1beta2.PaginationGetOptions{}, everywhere); !errors.Is(err, watchstore.ErrNotReady) {
		t.Errorf("after: %v", err)
	}
}

// TestQuestionsBetweenRounds asks the running loop, which learns of the world from its informers.
func TestQuestionsBetweenRounds(t *testing.T) {
	c := newTestWorld(t).Controller
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	eventually(t, "the first round", func() bool {
		_, _, _, err := c.Computed(ctx)
		return err == nil
	})
	informers := c.Options.Informers.(*handInformers)
	informers.of(&v1beta1.ClusterGroup{}).Add(&v1beta1.ClusterGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "u"}, Spec: v1beta1.GroupSpec{PodSelector: &metav1.LabelSelector{}},
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}, Spec: corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}}
	informers.of(pod).Add(pod)
	in := func(address string) bool {
		groups, err := c.GroupsOfAddress(ctx, netip.MustParseAddr(address))
		return err == nil && len(groups) == 1 && groups[0] == v1beta2.GroupReference{Name: "g", UID: "u"}
	}
	eventually(t, "the Pod is found by its address", func() bool { return in("10.0.0.1") })
	moved := pod.DeepCopy()
	moved.Status.PodIP, moved.Status.PodIPs[0].IP = "10.0.0.2", "10.0.0.2"
	informers.of(pod).Update(pod, moved)
	eventually(t, "the Pod is found by its new address", func() bool { return in("10.0.0.2") && !in("10.0.0.1") })
	// Many ask while rounds go on.
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for range 50 {
				if got, err := c.GroupMembers(ctx, key("", "g"), v1beta2.PaginationGetOptions{}, everywhere); err != nil || got == nil {
					t.Errorf("got %v, %v", got, err)
				}
			}
		})
	}
	for range 50 {
		informers.of(pod).Update(moved, moved)
	}
	asking.Wait()
	informers.of(pod).Delete(moved)
	eventually(t, "the Pod is gone", func() bool { return !in("10.0.0.2") })
}
