package kernel_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// The cases come from the suite cyclonus (v0.5.6), by its classes and numbers, in words and data of
// our own: each goes from objects of Kubernetes through the engine, the store and the compiler into
// the kernel. What should happen is said by allowsNaively, which knows Kubernetes only.

// place is where a Pod of the cases may be: an address, and for some a network namespace.
type place struct {
	addresses []netip.Addr
	host      *nfttest.Host
	here      bool
}

// caseWorld is what there is in a case.
type caseWorld struct {
	places     map[string]place
	namespaces map[string]map[string]string
	pods       map[string]*corev1.Pod
	policies   map[string]*networkingv1.NetworkPolicy
	// done are the kinds of actions that were taken.
	done map[string]bool
}

const outside = "outside"

// homes are where the Pods of the cases are: four on the Node, the others elsewhere.
func homes(l *nfttest.Lab) map[string]place {
	out := map[string]place{outside: {[]netip.Addr{netip.MustParseAddr("192.168.0.1")}, l.Peers, false}}
	for n, name := range []string{"x/a", "x/b", "y/a", "z/c"} {
		out[name] = place{nfttest.PodAddresses(n), l.Pods[n], true}
	}
	for n, name := range []string{"x/c", "y/b", "z/b"} {
		out[name] = place{[]netip.Addr{l.Peers4[n], l.Peers6[n]}, l.Peers, false}
	}
	return out
}

func newCaseWorld(places map[string]place) *caseWorld {
	w := &caseWorld{places: maps.Clone(places), namespaces: map[string]map[string]string{}, pods: map[string]*corev1.Pod{}, policies: map[string]*networkingv1.NetworkPolicy{}, done: map[string]bool{}}
	for _, n := range []string{"x", "y", "z"} {
		w.namespace(n, map[string]string{"ns": n})
	}
	for name := range places {
		if namespace, pod, ok := strings.Cut(name, "/"); ok {
			w.pod(namespace, pod, name, map[string]string{"pod": pod})
		}
	}
	return w
}

func (w *caseWorld) namespace(name string, labels map[string]string) {
	labels = maps.Clone(labels)
	labels["kubernetes.io/metadata.name"] = name
	w.namespaces[name] = labels
}

// pod makes a Pod where another one is, or was.
func (w *caseWorld) pod(namespace, name, at string, labels map[string]string) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Spec: corev1.PodSpec{NodeName: "elsewhere"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	where := w.places[at]
	if where.here {
		p.Spec.NodeName = nfttest.NodeName
	}
	for _, a := range where.addresses {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a.String()})
	}
	var ports []corev1.ContainerPort
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
		for _, port := range []int32{80, 81} {
			ports = append(ports, corev1.ContainerPort{Name: named(port, protocol), ContainerPort: port, Protocol: protocol})
		}
	}
	p.Spec.Containers = []corev1.Container{{Name: "c", Ports: ports}}
	w.pods[namespace+"/"+name] = p
	w.places[namespace+"/"+name] = where
}

func named(port int32, protocol corev1.Protocol) string {
	return fmt.Sprintf("serve-%d-%s", port, strings.ToLower(string(protocol)))
}

func (w *caseWorld) put(p *networkingv1.NetworkPolicy) { w.policies[p.Namespace+"/"+p.Name] = p }

// caseFlow is a connection of a case. The ends are names of places.
type caseFlow struct {
	from, to string
	protocol corev1.Protocol
	port     int32
	six      bool
}

func (w *caseWorld) addressOf(name string, six bool) netip.Addr {
	if six {
		return w.places[name].addresses[1]
	}
	return w.places[name].addresses[0]
}

// flows are all that can be made by way of the Node.
func (w *caseWorld) flows() []caseFlow {
	var out []caseFlow
	names := slices.Sorted(maps.Keys(w.pods))
	for _, from := range append(names, outside) {
		for _, to := range append(names, outside) {
			if from == to || !w.places[from].here && !w.places[to].here {
				continue
			}
			for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
				for _, port := range []int32{80, 81} {
					out = append(out, caseFlow{from, to, protocol, port, false})
					if from != outside && to != outside {
						out = append(out, caseFlow{from, to, protocol, port, true})
					}
				}
			}
		}
	}
	return out
}

// allowsNaively says what policies of Kubernetes make of a connection, as their documentation does.
// Each end is decided about where it is; other Nodes let everything pass.
func (w *caseWorld) allowsNaively(f caseFlow) bool {
	return w.allowsEnd(networkingv1.PolicyTypeEgress, f.from, f.to, f) && w.allowsEnd(networkingv1.PolicyTypeIngress, f.to, f.from, f)
}

func (w *caseWorld) allowsEnd(direction networkingv1.PolicyType, local, other string, f caseFlow) bool {
	pod := w.pods[local]
	if pod == nil || !w.places[local].here {
		return true
	}
	isolated := false
	for _, p := range w.policies {
		if p.Namespace != pod.Namespace || !selects(&p.Spec.PodSelector, pod.Labels) || !concerns(p, direction) {
			continue
		}
		isolated = true
		if direction == networkingv1.PolicyTypeIngress {
			for _, r := range p.Spec.Ingress {
				if w.allowsPorts(r.Ports, f) && w.allowsPeers(p.Namespace, r.From, other, f) {
					return true
				}
			}
			continue
		}
		for _, r := range p.Spec.Egress {
			if w.allowsPorts(r.Ports, f) && w.allowsPeers(p.Namespace, r.To, other, f) {
				return true
			}
		}
	}
	return !isolated
}

// concerns reports whether a policy isolates in a direction.
func concerns(p *networkingv1.NetworkPolicy, direction networkingv1.PolicyType) bool {
	if len(p.Spec.PolicyTypes) > 0 {
		return slices.Contains(p.Spec.PolicyTypes, direction)
	}
	return direction == networkingv1.PolicyTypeIngress || len(p.Spec.Egress) > 0
}

func (w *caseWorld) allowsPorts(ports []networkingv1.NetworkPolicyPort, f caseFlow) bool {
	for _, p := range ports {
		if p.Protocol == nil && f.protocol != corev1.ProtocolTCP || p.Protocol != nil && *p.Protocol != f.protocol {
			continue
		}
		switch {
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			if pod := w.pods[f.to]; pod != nil && slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(c corev1.ContainerPort) bool {
				return c.Name == p.Port.StrVal && c.Protocol == f.protocol && c.ContainerPort == f.port
			}) {
				return true
			}
		case p.EndPort != nil && f.port >= p.Port.IntVal && f.port <= *p.EndPort, p.EndPort == nil && f.port == p.Port.IntVal:
			return true
		}
	}
	return len(ports) == 0
}

func (w *caseWorld) allowsPeers(namespace string, peers []networkingv1.NetworkPolicyPeer, other string, f caseFlow) bool {
	for _, p := range peers {
		if b := p.IPBlock; b != nil {
			at := w.addressOf(other, f.six)
			in := func(text string) bool { return netip.MustParsePrefix(text).Contains(at) }
			if in(b.CIDR) && !slices.ContainsFunc(b.Except, in) {
				return true
			}
			continue
		}
		pod := w.pods[other]
		if pod == nil || p.PodSelector != nil && !selects(p.PodSelector, pod.Labels) {
			continue
		}
		if p.NamespaceSelector == nil && pod.Namespace == namespace || p.NamespaceSelector != nil && selects(p.NamespaceSelector, w.namespaces[pod.Namespace]) {
			return true
		}
	}
	return len(peers) == 0
}

func selects(s *metav1.LabelSelector, labels map[string]string) bool {
	for k, v := range s.MatchLabels {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	for _, r := range s.MatchExpressions {
		got, ok := labels[r.Key]
		in := ok && slices.Contains(r.Values, got)
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			if !in {
				return false
			}
		case metav1.LabelSelectorOpNotIn:
			if in {
				return false
			}
		case metav1.LabelSelectorOpExists:
			if !ok {
				return false
			}
		case metav1.LabelSelectorOpDoesNotExist:
			if ok {
				return false
			}
		}
	}
	return true
}

// caseEngine is the engine with the store behind it, and what it was told last.
type caseEngine struct {
	engine *compute.Engine
	store  *watchstore.Store
	told   *caseWorld
}

// tell tells the engine what has changed since the last time.
func (e *caseEngine) tell(w *caseWorld) error {
	now := &caseWorld{namespaces: maps.Clone(w.namespaces), pods: maps.Clone(w.pods), policies: maps.Clone(w.policies)}
	before := e.told
	if before == nil {
		before = &caseWorld{}
	}
	for name := range before.policies {
		if now.policies[name] == nil {
			e.engine.DeletePolicy(name)
		}
	}
	for name := range before.pods {
		if now.pods[name] == nil {
			namespace, pod, _ := strings.Cut(name, "/")
			e.engine.DeleteEntity(policy.EntityRef{Kind: policy.KindPod, Namespace: namespace, Name: pod})
		}
	}
	for name := range before.namespaces {
		if now.namespaces[name] == nil {
			e.engine.DeleteNamespace(name)
		}
	}
	for name, labels := range now.namespaces {
		e.engine.PutNamespace(convert.Namespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
	}
	for _, p := range now.pods {
		entity, errs := convert.Pod(p)
		if len(errs) > 0 {
			return fmt.Errorf("%v", errs)
		}
		e.engine.PutEntity(entity)
	}
	for name, p := range now.policies {
		p = p.DeepCopy()
		p.UID, p.Generation = types.UID(name), 1
		if old := before.policies[name]; old != nil && old != now.policies[name] {
			p.Generation = 2
		}
		e.engine.PutPolicy(convert.KubernetesNetworkPolicy(p))
	}
	e.store.Publish(convert.Delta(e.engine.Commit()))
	e.told = now
	return nil
}

// computed is what the store says to the agent of the Node.
func (e *caseEngine) computed(ctx context.Context) (out enforcer.Computed, err error) {
	for _, r := range []watchstore.Resource{watchstore.NetworkPolicies, watchstore.AddressGroups, watchstore.AppliedToGroups} {
		stream, err := e.store.Watch(r, nfttest.NodeName)
		if err != nil {
			return out, err
		}
		defer stream.Stop()
		for {
			event, err := stream.Next(ctx)
			if err != nil {
				return out, err
			}
			if event.Type == watch.Bookmark {
				break
			}
			switch o := event.Object.(type) {
			case *v1beta2.NetworkPolicy:
				out.Policies = append(out.Policies, o)
			case *v1beta2.AddressGroup:
				out.AddressGroups = append(out.AddressGroups, enforcer.NewAddressGroup(o))
			case *v1beta2.AppliedToGroup:
				out.AppliedToGroups = append(out.AppliedToGroups, o)
			}
		}
	}
	slices.SortFunc(out.Policies, func(a, b *v1beta2.NetworkPolicy) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(out.AddressGroups, func(a, b *enforcer.AddressGroup) int { return cmp.Compare(a.GetName(), b.GetName()) })
	slices.SortFunc(out.AppliedToGroups, func(a, b *v1beta2.AppliedToGroup) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func (w *caseWorld) node() *nft.Node {
	out := &nft.Node{}
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		if p := w.pods[name]; p.Spec.NodeName == nfttest.NodeName {
			out.Pods = append(out.Pods, nft.Pod{Namespace: p.Namespace, Name: p.Name, Addresses: w.places[name].addresses})
		}
	}
	return out
}

// perStep is how many connections of a step are made by packets; the others are judged only.
const perStep = 16

// TestCasesOfKubernetes plays the table: after every step each connection that can be made is
// judged by the program, and some are made, and all are as policies of Kubernetes say.
func TestCasesOfKubernetes(t *testing.T) {
	c := newCluster(t)
	places := homes(c.Lab)
	protocols := map[corev1.Protocol]uint8{corev1.ProtocolTCP: ruleset.TCP, corev1.ProtocolUDP: ruleset.UDP, corev1.ProtocolSCTP: ruleset.SCTP}
	kinds, features, actions := map[string]int{}, map[string]int{}, map[string]int{}
	steps, judged, made, denied := 0, 0, 0, 0
	var compiler nft.Compiler
	for number, k := range cases() {
		kinds[k.kind]++
		for _, f := range k.features() {
			features[f]++
		}
		w := newCaseWorld(places)
		e := &caseEngine{engine: compute.New(compute.Options{}), store: watchstore.New(watchstore.Options{})}
		random := rand.New(rand.NewPCG(uint64(number), 15))
		for at, step := range k.steps {
			for _, action := range step {
				action.do(w)
				w.done[action.kind] = true
			}
			if err := e.tell(w); err != nil {
				t.Fatal(err)
			}
			computed, err := e.computed(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			result := compiler.Compile(nft.Input{Computed: computed, Node: w.node()})
			if len(result.Refusals) > 0 {
				t.Fatalf("%s: %v", k.name, result.Refusals)
			}
			if _, err := c.table.Apply(result.Program); err != nil {
				t.Fatal(err)
			}
			if err := c.Node.Handle.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
				t.Fatal(err)
			}
			steps++
			var open, closed []caseFlow
			for _, f := range w.flows() {
				want := w.allowsNaively(f)
				packet := ruleset.Packet{Source: w.addressOf(f.from, f.six), Destination: w.addressOf(f.to, f.six), Protocol: protocols[f.protocol], SourcePort: 40000, Port: uint16(f.port)}
				if got := result.Program.JudgeWay(ruleset.Passing, packet); got.Allows() != want {
					t.Errorf("%s, step %d: %+v is judged %+v, want it to pass: %t", k.name, at, f, got, want)
				}
				judged++
				switch {
				case f.protocol == corev1.ProtocolSCTP: // not in every kernel
				case want:
					open = append(open, f)
				default:
					closed = append(closed, f)
				}
			}
			chosen := sampleFlows(random, open, closed)
			made += len(chosen)
			denied += c.attempt(t, fmt.Sprintf("%s, step %d", k.name, at), w, chosen)
			if t.Failed() {
				t.Fatalf("%s\n%s", k.name, result.Program)
			}
		}
		for action := range w.done {
			actions[action]++
		}
	}
	t.Logf("%d cases %v with %d steps: %d connections judged, %d made, of which %d had to fail", total(kinds), kinds, steps, judged, made, denied)
	t.Logf("features: %v; actions: %v", features, actions)
	// As many of each kind as the suite has.
	want := map[string]int{"peers": 112, "ports": 70, "conflict": 16, "upstream": 13, "target": 6, "action": 6, "rules": 4, "namespace": 2, "example": 1, "more": 10}
	if !maps.Equal(kinds, want) {
		t.Errorf("cases by kind: %v, want %v", kinds, want)
	}
	if denied < made/4 || denied > made*3/4 {
		t.Errorf("of %d connections %d had to fail", made, denied)
	}
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// sampleFlows takes as many that must pass as that must not, if there are.
func sampleFlows(random *rand.Rand, open, closed []caseFlow) []caseFlow {
	for _, list := range [][]caseFlow{open, closed} {
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	n := min(len(closed), max(perStep/2, perStep-len(open)))
	return append(closed[:n:n], open[:min(len(open), perStep-n)]...)
}

// attempt makes connections at the same time and returns how many had to fail.
func (c *cluster) attempt(t *testing.T, what string, w *caseWorld, list []caseFlow) (denied int) {
	var running sync.WaitGroup
	for _, f := range list {
		want := w.allowsNaively(f)
		limit := patient
		if !want {
			limit = soon
			denied++
		}
		running.Go(func() {
			a := nfttest.Attempt{From: w.places[f.from].host, Network: strings.ToLower(string(f.protocol)),
				Source: netip.AddrPortFrom(w.addressOf(f.from, f.six), uint16(c.port.Add(1))), Destination: netip.AddrPortFrom(w.addressOf(f.to, f.six), uint16(f.port))}
			got, err := a.Run(limit)
			if err != nil || (got == nfttest.Passed) != want {
				t.Errorf("%s: %+v (%s): %s, %v, want it to pass: %t", what, f, a, got, err, want)
			}
		})
	}
	running.Wait()
	return denied
}
