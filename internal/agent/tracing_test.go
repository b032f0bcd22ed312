package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/tracing"
	"github.com/nephele-io/nephele/internal/policy"
)

// traceflows are the Traceflows that the API server of a cluster has.
type traceflows struct {
	*fcache.FakeControllerSource
	mu   sync.Mutex
	list map[string]*v1beta1.Traceflow
}

func (f *traceflows) write(_ context.Context, name string, change func(*v1beta1.Traceflow) bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o := f.list[name].DeepCopy(); change(o) {
		f.list[name] = o
		f.Modify(o)
	}
	return nil
}

func (f *traceflows) get(name string) *v1beta1.Traceflow {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list[name].DeepCopy()
}

// begin adds a Traceflow that the controller has begun.
func (f *traceflows) begin(name string, tag int8, live bool, spec v1beta1.TraceflowSource, at v1beta1.TraceflowTraced) {
	o := &v1beta1.Traceflow{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1beta1.TraceflowSpec{Source: spec, LiveTraffic: live, DroppedOnly: strings.HasPrefix(name, "only")},
		Status: v1beta1.TraceflowStatus{Phase: v1beta1.TraceflowRunning, DataplaneTag: tag, Traced: &at}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list[name] = o
	f.Add(o)
}

// end makes a Traceflow over, as the controller does.
func (f *traceflows) end(name string) {
	_ = f.write(context.Background(), name, func(o *v1beta1.Traceflow) bool { o.Status.Phase = v1beta1.TraceflowSucceeded; return true })
}

// trace follows Traceflows on a Node until the test ends.
func (f *traceflows) trace(n *netNode) {
	ctx, cancel := context.WithCancel(n.t.Context())
	var done sync.WaitGroup
	n.t.Cleanup(func() { cancel(); done.Wait() })
	t := tracing.New(tracing.Options{Node: n.name, Traceflows: f, Write: f.write, Place: n.agent, Clock: clock.RealClock{}, Log: n.log,
		Trace: func() (t tracing.Tracer, err error) {
			outer := n.host.Do(func() error { t, err = kernel.OpenTracer(); return nil })
			if outer != nil {
				err = outer
			}
			return t, err
		},
		Inject: func() (i tracing.Injector, err error) {
			outer := n.host.Do(func() error { i, err = kernel.OpenInjector(); return nil })
			if outer != nil {
				err = outer
			}
			return i, err
		},
		OfPod: func(index int) (is bool) {
			_ = n.host.Do(func() error { is = kernel.IsOfPod(index); return nil })
			return is
		},
	})
	done.Go(func() { t.Run(ctx) })
}

// told is what Nodes have told of a Traceflow, one line each.
func (f *traceflows) told(name string) string {
	var lines []string
	for _, r := range f.get(name).Status.Results {
		var words []string
		for _, o := range r.Observations {
			words = append(words, strings.Join(strings.Fields(fmt.Sprint(o.Component, " ", o.ComponentInfo, " ", o.Action, " ", o.NetworkPolicy, " ", o.NetworkPolicyRule, " ", o.Pod, " ", o.TranslatedSrcIP, " ", o.TranslatedDstIP, " ", o.TunnelDstIP, " ", o.SrcPodIP)), " "))
		}
		lines = append(lines, r.Node+" "+r.Role+": "+strings.Join(words, "; "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// eventually waits until Nodes have told this of a Traceflow.
func (f *traceflows) eventually(t *testing.T, name, want string) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for ; time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if f.told(name) == want {
			return
		}
	}
	t.Errorf("%s:\n%s\nwant:\n%s", name, f.told(name), want)
}

// TestTraceflow traces packets on two Nodes: what was sent, and live traffic.
func TestTraceflow(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 2}, cidrs: []string{"10.244.N.0/24", "fd00:N::/64"}, four: true, six: true, services: true})
	here, there := s.nodes[0], s.nodes[1]
	here.denies("no80", 1, policy.AppliedTo{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "guarded"}}})
	a, b, far := here.pod("free"), here.pod("guarded"), there.pod("free")
	f := &traceflows{FakeControllerSource: fcache.NewFakeControllerSource(), list: map[string]*v1beta1.Traceflow{}}
	for _, n := range s.nodes { // one that takes packets only where it would answer them
		s.inside(n.host, func() error { return os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("1"), 0o644) })
		f.trace(n)
	}
	s.put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "far"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.7", "fd96::7"},
		Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 443}}}}, far)
	services := []netip.Addr{netip.MustParseAddr("10.96.0.7"), netip.MustParseAddr("fd96::7")}
	source := v1beta1.TraceflowSource{Namespace: "n1", Pod: a.name}
	for i, six := range []bool{false, true} {
		at := func(to netip.Addr, port int32) v1beta1.TraceflowTraced {
			return v1beta1.TraceflowTraced{Node: here.name, SourceIP: a.family(six).String(), DestinationIP: to.String(), Protocol: 6, DestinationPort: port}
		}
		name := func(text string) string { return fmt.Sprintf("%s-%d", text, i) }
		tag := int8(7 + 16*i)
		f.begin(name("passes"), tag, false, source, at(b.family(six), 81))
		f.begin(name("dropped"), tag+4, false, source, at(b.family(six), 80))
		f.begin(name("far"), tag+8, false, source, at(far.family(six), 80))
		icmp := at(far.family(six), 0)
		icmp.Protocol = 1
		if six {
			icmp.Protocol = 58
		}
		f.begin(name("ping"), tag+12, false, source, icmp)
		f.eventually(t, name("passes"), "node0 sender: Forwarding Output Delivered n1/pod2")
		f.eventually(t, name("dropped"), "node0 sender: NetworkPolicy IngressRule Dropped AntreaClusterNetworkPolicy:no80 no")
		forwarded := "node0 sender: Forwarding Output Forwarded 192.168.2.2\nnode1 receiver: Forwarding Classification Received; Forwarding Output Delivered n1/pod3"
		f.eventually(t, name("far"), forwarded)
		f.eventually(t, name("ping"), forwarded)
		for _, x := range []string{"passes", "dropped", "far", "ping"} {
			f.end(name(x))
		}
		f.begin(name("service"), int8(39+4*i), false, source, at(services[i], 443))
		f.eventually(t, name("service"), strings.Replace(forwarded, "sender:", "sender: LB Forwarded "+far.family(six).String()+";", 1))
		f.end(name("service"))
		// Live traffic is traced by the first packet that matches.
		live := at(netip.Addr{}, 80)
		live.DestinationIP = far.family(six).String()
		f.begin(name("live"), tag, true, source, live)
		deadline := time.Now().Add(2 * time.Minute)
		for ; len(f.get(name("live")).Status.Results) < 2 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			s.reaches(a.Host, a.family(six), far.family(six), 80, patient)
		}
		f.eventually(t, name("live"), fmt.Sprintf("node0 sender: SpoofGuard Forwarded %s; Forwarding Output Forwarded 192.168.2.2\nnode1 receiver: Forwarding Classification Received; Forwarding Output Delivered n1/pod3", a.family(six)))
		if p := f.get(name("live")).Status.CapturedPacket; p == nil || p.DstIP != far.family(six).String() || p.TransportHeader.TCP == nil || p.TransportHeader.TCP.DstPort != 80 {
			t.Errorf("captured %+v", p)
		}
		f.end(name("live"))
		only, deadline := at(b.family(six), 0), time.Now().Add(2*time.Minute)
		f.begin(name("only"), tag+8, true, source, only)
		for ; len(f.get(name("only")).Status.Results) == 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			s.reaches(a.Host, a.family(six), b.family(six), 81, patient) // passes
			s.reaches(a.Host, a.family(six), b.family(six), 80, impatient)
		}
		f.eventually(t, name("only"), fmt.Sprintf("node0 sender: SpoofGuard Forwarded %s; NetworkPolicy IngressRule Dropped AntreaClusterNetworkPolicy:no80 no", a.family(six)))
		f.end(name("only"))
	}
	// Nothing is left.
	here.eventually("nothing is traced", func() bool {
		_, err := here.host.Handle.LinkByName("nephele-trace")
		there := false
		s.inside(here.host, func() error {
			table, err := kernel.Open(kernel.TracerTable)
			if err == nil {
				_, there, err = table.Revision()
				err = errors.Join(err, table.Close())
			}
			return err
		})
		return err != nil && !there
	})
}
