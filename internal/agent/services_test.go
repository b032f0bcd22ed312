package agent_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/cluster/clustertest"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/agent/services"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// dropTo puts a policy by which nobody but Pod 2 may send to a Service.
func (f *fixture) dropTo(namespace, name string) {
	f.engine.PutPolicy(policy.Policy{Kind: policy.AntreaClusterNetworkPolicy, Name: "to", UID: "to", Generation: 1, Priority: 5,
		AppliedTo: []policy.AppliedTo{{PodSelector: &policy.Selector{MatchExpressions: []policy.Requirement{{Key: "app", Operator: "NotIn", Values: []string{"2"}}}}}},
		Egress:    []policy.Rule{{Name: "no", Action: policy.Drop, ToServices: []policy.ServicePeer{{Namespace: namespace, Name: name}}}}})
	f.source.store.Publish(convert.Delta(f.engine.Commit()))
}

// TestServicesAsPeers has a policy about what Pods send to a Service: by its address and port, and
// not what they send to those behind it. It follows the Service, and outlives agent and server.
func TestServicesAsPeers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	l, client := onNode(f, nil)
	f.services = func() *services.Frontends { return services.FollowFrontends(clustertest.Cluster{Clientset: client}) }
	behind := netip.AddrPortFrom(nfttest.PodAddresses(1)[0], 80)
	l.Translate(t, []nfttest.Service{{Port: 8080, To: behind}, {Port: 9090, To: behind}})
	for n := range nfttest.PodCount {
		if _, err := client.CoreV1().Pods(nfttest.PodRef(n).Namespace).Create(t.Context(), pod(n), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	port := uint16(30000)
	passes := func(from int, to netip.AddrPort) bool {
		t.Helper()
		port++
		got, err := nfttest.Attempt{From: l.Pods[from], Network: "tcp", Source: netip.AddrPortFrom(nfttest.PodAddresses(from)[0], port), Destination: to}.Run(300 * time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		return got == nfttest.Passed
	}
	at := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(nfttest.ServiceAddress4, port) }
	a, stop := f.start()
	f.eventually("all Pods are known", func() bool { s := a.Status(); return s.Pods != nil && s.Pods.Known == nfttest.PodCount })
	f.eventually("no policy", func() bool { return passes(0, at(8080)) })
	held, err := nfttest.Attempt{From: l.Pods[0], Network: "tcp", Source: netip.AddrPortFrom(nfttest.PodAddresses(0)[0], 29999), Destination: at(8080)}.Open(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()

	f.dropTo("shop", "front")
	f.eventually("in force for a Service that is not there", func() bool {
		r := f.reports.of("to")
		return r.Generation == 1 && !r.RealizationFailure
	})
	if !passes(0, at(8080)) {
		t.Error("a Service that is not there is reached nowhere, and yet something was dropped")
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "front"}, Spec: corev1.ServiceSpec{ClusterIP: nfttest.ServiceAddress4.String(), Ports: []corev1.ServicePort{{Port: 8080}}}}
	if _, err := client.CoreV1().Services("shop").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("dropped once it is there", func() bool { return !passes(0, at(8080)) })
	f.eventually("the connection made before is ended", func() bool {
		_ = held.SetDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := held.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		_, err := held.Read(make([]byte, 1))
		return err != nil
	})
	if a.Status().Kernel.ConnectionsCut == 0 {
		t.Error("no connection was ended")
	}
	enforced := func(when string, also bool) {
		t.Helper()
		for _, c := range []struct {
			what string
			from int
			to   netip.AddrPort
			want bool
		}{
			{"the Service", 0, at(8080), false},
			{"the Service from a Pod on a route", 3, at(8080), false},
			{"the Service from a Pod that may", 2, at(8080), true},
			{"another port", 0, at(9090), !also},
			{"an endpoint, directly", 0, behind, true},
		} {
			if got := passes(c.from, c.to); got != c.want {
				t.Errorf("%s: %s: %t, want %t", when, c.what, got, c.want)
			}
		}
	}
	enforced("first", false)
	if j, ok := a.Explain(ruleset.Packet{Source: nfttest.PodAddresses(0)[0], Destination: at(8080).Addr(), Protocol: ruleset.TCP, Port: 8080}); !ok || j.Allows() || j.By.Policy.Name != "to" {
		t.Errorf("explained as %+v", j)
	}
	service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Port: 9090})
	if _, err := client.CoreV1().Services("shop").Update(t.Context(), service, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("the second port as well", func() bool { return !passes(0, at(9090)) })
	enforced("with a second port", true)

	stop()
	enforced("without an agent", true)
	f.source.away.Store(true)
	if err := l.Node.Do(func() error { return f.wipe() }); err != nil {
		t.Fatal(err)
	}
	away := fake.NewClientset()
	away.PrependReactor("*", "services", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("away") })
	away.PrependWatchReactor("services", func(clienttesting.Action) (bool, watch.Interface, error) { return true, nil, errors.New("away") })
	f.services = func() *services.Frontends { return services.FollowFrontends(clustertest.Cluster{Clientset: away}) }
	a, _ = f.start()
	f.eventually("what was kept is loaded", func() bool { return a.Status().State == agent.StateKept })
	enforced("without a server", true)
}
