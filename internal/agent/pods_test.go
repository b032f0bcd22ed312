package agent_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/cluster/clustertest"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/agent/pods"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// onNode makes the host of a fixture a Node with the Pods of a lab.
func onNode(f *fixture, bypass func(netip.Addr) (string, error)) (*nfttest.Lab, *fake.Clientset) {
	l := nfttest.NewLab(f.t)
	f.host, f.key = l.Node, nfttest.NodeName
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nfttest.NodeName}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.0.0.0/29"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nfttest.NodeAddresses()[0].String()}}}})
	f.pods = func() *pods.Pods {
		return pods.New(pods.Options{Node: nfttest.NodeName, Cluster: clustertest.Cluster{Clientset: client}, Bypass: bypass, Settings: f.podSettings, Own: f.own, Log: logr.Discard()})
	}
	f.engine.PutNamespace(policy.Namespace{Name: "n1"})
	f.engine.PutNamespace(policy.Namespace{Name: "n2"})
	f.engine.PutEntity(policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindNode, Name: nfttest.NodeName}, Labels: map[string]string{"role": "worker"}, Addresses: nfttest.NodeAddresses()})
	for n := range nfttest.PodCount {
		f.engine.PutEntity(policy.Entity{EntityRef: nfttest.PodRef(n), Labels: map[string]string{"app": fmt.Sprint(n)}, Addresses: nfttest.PodAddresses(n), Host: nfttest.NodeName})
	}
	f.source.store.Publish(convert.Delta(f.engine.Commit()))
	return l, client
}

func pod(n int) *corev1.Pod {
	ref := nfttest.PodRef(n)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Spec: corev1.PodSpec{NodeName: nfttest.NodeName}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, a := range nfttest.PodAddresses(n) {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a.String()})
	}
	return p
}

// denies puts a policy that drops what comes to TCP port 80 of the Pods that it is applied to.
func (f *fixture) denies(name string, generation int64, to policy.AppliedTo) {
	f.engine.PutPolicy(policy.Policy{Kind: policy.AntreaClusterNetworkPolicy, Name: name, UID: name, Generation: generation, Priority: 5, AppliedTo: []policy.AppliedTo{to},
		Ingress: []policy.Rule{{Name: "no", Action: policy.Drop, Ports: []policy.Port{{Protocol: policy.TCP, Port: &policy.PortRef{Number: 80}}}}}})
	f.source.store.Publish(convert.Delta(f.engine.Commit()))
}

// TestNode runs an agent on a Node: Pods are closed until they are known, obey policies, and so
// does the Node; probes pass; a clock that jumps changes nothing, a release opens and its end
// closes again; what was enforced is kept when the agent and then the server go.
func TestNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	clock := f.movableClock()
	var odd netip.Addr
	l, client := onNode(f, func(a netip.Addr) (string, error) {
		if a == odd {
			return "it has a wire of its own", nil
		}
		return "", nil
	})
	odd = nfttest.PodAddresses(3)[0]
	port := uint16(30000)
	reaches := func(from *nfttest.Host, source, to netip.Addr, at uint16, limit time.Duration) bool {
		t.Helper()
		port++
		got, err := nfttest.Attempt{From: from, Network: "tcp", Source: netip.AddrPortFrom(source, port), Destination: netip.AddrPortFrom(to, at)}.Run(limit)
		if err != nil {
			t.Fatal(err)
		}
		return got == nfttest.Passed
	}
	addr := func(n int) netip.Addr { return nfttest.PodAddresses(n)[0] }
	outside := func(n int, at uint16) bool { return reaches(l.Peers, l.Peers4[3], addr(n), at, impatient) }
	node := nfttest.NodeAddresses()[0]

	a, stop := f.start()
	f.eventually("in force with no Pod", func() bool { return a.Status().State == agent.StateEnforcing })
	f.eventually("nobody is known, so nobody is reached", func() bool { return !outside(0, 81) && !outside(2, 81) })
	for n := range nfttest.PodCount {
		if _, err := client.CoreV1().Pods(nfttest.PodRef(n).Namespace).Create(t.Context(), pod(n), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.eventually("all are known", func() bool { s := a.Status(); return s.Pods != nil && s.Pods.Known == nfttest.PodCount })
	f.eventually("all are reached", func() bool { return outside(0, 80) && outside(1, 80) && outside(2, 80) })

	f.denies("pods", 1, policy.AppliedTo{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "0"}}})
	f.denies("nodes", 1, policy.AppliedTo{NodeSelector: &policy.Selector{MatchLabels: map[string]string{"role": "worker"}}})
	f.denies("odd", 1, policy.AppliedTo{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "3"}}})
	f.eventually("reported", func() bool {
		return f.reports.of("pods").Generation == 1 && f.reports.of("nodes").Generation == 1 && f.reports.of("odd").Generation == 1
	})
	if r := f.reports.of("pods"); r.RealizationFailure || r.NodeName != nfttest.NodeName {
		t.Errorf("reported %+v", r)
	}
	if r := f.reports.of("odd"); !r.RealizationFailure || !strings.Contains(r.Message, "n2/here3: it has a wire of its own") {
		t.Errorf("of a Pod that evades: %+v", r)
	}
	enforced := func(when string) {
		t.Helper()
		for _, c := range []struct {
			what   string
			from   *nfttest.Host
			source netip.Addr
			to     netip.Addr
			at     uint16
			want   bool
		}{
			{"port 80 of Pod 0", l.Peers, l.Peers4[3], addr(0), 80, false},
			{"port 81 of Pod 0", l.Peers, l.Peers4[3], addr(0), 81, true},
			{"port 80 of Pod 0 from Pod 1, over the bridge", l.Pods[1], addr(1), addr(0), 80, false},
			{"port 80 of Pod 1 from Pod 0", l.Pods[0], addr(0), addr(1), 80, true},
			{"a probe of port 80 of Pod 0", l.Node, node, addr(0), 80, true},
			{"port 80 of the Node", l.Peers, l.Peers4[3], node, 80, false},
			{"port 81 of the Node from Pod 2", l.Pods[2], addr(2), node, 81, true},
			{"port 80 of the Node from Pod 2", l.Pods[2], addr(2), node, 80, false},
		} {
			limit := impatient
			if c.want {
				limit = patient
			}
			if got := reaches(c.from, c.source, c.to, c.at, limit); got != c.want {
				t.Errorf("%s: %s: %t, want %t", when, c.what, got, c.want)
			}
		}
	}
	enforced("enforced")
	if j, ok := a.Explain(ruleset.Packet{Source: addr(1), Destination: addr(0), Protocol: ruleset.TCP, Port: 80}); !ok || j.Allows() || j.By.Policy.Name != "pods" {
		t.Errorf("explained as %+v", j)
	}
	if j, ok := a.Explain(ruleset.Packet{Source: addr(1), Destination: netip.IPv4Unspecified(), Protocol: ruleset.TCP, Port: 80}); !ok || j.Allows() || j.By.Policy.Name != "nodes" {
		t.Errorf("explained as %+v", j)
	}

	for _, by := range []time.Duration{time.Hour, -24 * time.Hour, 48 * time.Hour} {
		clock.SetTime(clock.Now().Add(by))
		enforced(fmt.Sprintf("with a clock that jumped by %s", by))
	}
	if err := a.Release(clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	f.eventually("a release opens", func() bool {
		return a.Status().State == agent.StateReleased && outside(0, 80) && reaches(l.Peers, l.Peers4[3], node, 80, impatient)
	})
	clock.Step(time.Hour)
	f.eventually("the release is over", func() bool { return a.Status().State == agent.StateEnforcing && !outside(0, 80) })
	enforced("after the release")

	// A Pod that is gone leaves an address that nobody has.
	if err := client.CoreV1().Pods(nfttest.PodRef(1).Namespace).Delete(t.Context(), nfttest.PodRef(1).Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("closed once the Pod is gone", func() bool { return !outside(1, 81) })
	if _, err := client.CoreV1().Pods(nfttest.PodRef(1).Namespace).Create(t.Context(), pod(1), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("open again with it", func() bool { return outside(1, 81) })

	stop()
	enforced("without an agent")
	f.source.away.Store(true)
	if err := l.Node.Do(func() error { return f.wipe() }); err != nil {
		t.Fatal(err)
	}
	f.eventually("the rules are gone", func() bool { return outside(0, 80) })
	a, _ = f.start()
	f.eventually("what was kept is loaded", func() bool { return a.Status().State == agent.StateKept && a.Status().Pods != nil })
	enforced("without a server")
}

// TestBridgesAreTold: the agent says where Pods can take one another's addresses, and nowhere else.
func TestBridgesAreTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, client := onNode(f, nil)
	f.pods = func() *pods.Pods {
		return pods.New(pods.Options{Node: nfttest.NodeName, Cluster: clustertest.Cluster{Clientset: client}, Own: f.own, Log: logr.Discard(), Bridge: func(a netip.Addr) (string, error) {
			if slices.Contains(nfttest.PodAddresses(0), a) {
				return "cni0", nil
			}
			return "", nil
		}})
	}
	for n := range 3 {
		if err := client.Tracker().Add(pod(n)); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := f.start()
	f.eventually("the bridge is told of", func() bool {
		s := a.Status().Pods
		return s != nil && s.Known == 3 && len(s.Unbound) == 1 && strings.Contains(s.Unbound[0], "bridge cni0")
	})
}
