package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/tier"
)

// asPlugin makes the program of the tests the CNI plugin.
const asPlugin = "NEPHELE_TEST_AS_CNI_PLUGIN"

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) != "" {
		os.Exit(cni.Main(context.Background(), "the plugin of the tests"))
	}
	if err := tier.AtATime(6); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// newPods is a Node with an agent that a runtime tells of new Pods.
type newPods struct {
	*fixture
	*nfttest.Lab
	client *fake.Clientset
	agent  *agent.Agent
	socket string
	port   atomic.Uint32
	// ended ends the agent.
	ended func()
}

// startNewPods starts an agent on a Node of which it is not known where Pods have their addresses.
func startNewPods(t *testing.T, prepare func(f *fixture)) *newPods {
	p := &newPods{fixture: newFixture(t), socket: filepath.Join(t.TempDir(), "agent.sock")}
	p.Lab, p.client = onNode(p.fixture, nil)
	node, err := p.client.CoreV1().Nodes().Get(t.Context(), nfttest.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Spec.PodCIDRs = nil
	if _, err := p.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.port.Store(30000)
	if prepare != nil {
		prepare(p.fixture)
	}
	p.serve()
	return p
}

// serveOn serves the socket of a running agent. The function that it returns, which also runs when
// the test ends, ends both.
func serveOn(t testing.TB, a *agent.Agent, stop func(), socket string) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Serve(ctx, socket); err != nil {
			t.Error(err)
		}
	}()
	end = sync.OnceFunc(func() { cancel(); <-done; stop() })
	t.Cleanup(end)
	return end
}

// serve runs the agent and its socket until ended is called.
func (p *newPods) serve() {
	p.t.Helper()
	a, stop := p.start()
	p.agent = a
	p.ended = serveOn(p.t, a, stop, p.socket)
	p.eventually("the agent answers", func() bool {
		_, err := os.Stat(p.socket)
		return err == nil && a.Status().State != agent.StateStarting
	})
}

// create makes a Pod as kubelet has it before its network: without an address.
func (p *newPods) create(name string, uid types.UID, change func(*corev1.Pod)) {
	p.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n1", Name: name, UID: uid}, Spec: corev1.PodSpec{NodeName: nfttest.NodeName}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	if change != nil {
		change(pod)
	}
	if _, err := p.client.CoreV1().Pods("n1").Create(p.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

// compute makes the controller know a Pod, by its label "app".
func (p *newPods) compute(name, app string) {
	p.engine.PutEntity(policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "n1", Name: name}, Labels: map[string]string{"app": app}, Host: nfttest.NodeName})
	p.source.store.Publish(convert.Delta(p.engine.Commit()))
}

// call is what a runtime asks the plugin.
type call struct {
	command, container, name, uid string
	addresses                     []netip.Addr
	config                        map[string]any
}

// said is what a plugin answered: the result of the plugins before it, or an error.
type said struct {
	text string
	code int
	msg  string
}

func (s said) ok() bool { return s.code == 0 && s.msg == "" }

// run runs the plugin as a runtime does.
func (p *newPods) run(ctx context.Context, c call) (said, error) {
	config := map[string]any{"cniVersion": "1.1.0", "name": "pods", "type": cni.Type, "socket": p.socket}
	if len(c.addresses) > 0 {
		config["prevResult"] = before(c.addresses)
	}
	for k, v := range c.config {
		config[k] = v
	}
	stdin, err := json.Marshal(config)
	if err != nil {
		return said{}, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	args := fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=n1;K8S_POD_NAME=%s;K8S_POD_INFRA_CONTAINER_ID=%s;K8S_POD_UID=%s", c.name, c.container, c.uid)
	cmd.Env = append(os.Environ(), asPlugin+"=1", "CNI_COMMAND="+c.command, "CNI_CONTAINERID="+c.container, "CNI_NETNS="+p.Pods[0].Path(), "CNI_IFNAME=eth0",
		"CNI_PATH=/opt/cni/bin", "CNI_ARGS="+args)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	err = cmd.Run()
	s := said{text: out.String()}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		var e struct {
			Code int    `json:"code"`
			Msg  string `json:"msg"`
		}
		if err := json.Unmarshal(out.Bytes(), &e); err != nil {
			return s, fmt.Errorf("%w: %s %s", err, &out, &failed)
		}
		s.code, s.msg = e.Code, e.Msg
		return s, nil
	}
	return s, err
}

// must is run, of which the test needs the outcome.
func (p *newPods) must(c call) said {
	p.t.Helper()
	s, err := p.run(p.t.Context(), c)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// before is the result of a plugin that has given a Pod addresses.
func before(addresses []netip.Addr) map[string]any {
	var ips []map[string]any
	for _, a := range addresses {
		ips = append(ips, map[string]any{"address": netip.PrefixFrom(a, a.BitLen()).String(), "interface": 1})
	}
	return map[string]any{"cniVersion": "1.1.0", "ips": ips, "dns": map[string]any{}, "interfaces": []any{
		map[string]any{"name": "cni0", "mac": "02:00:00:00:00:01"}, map[string]any{"name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/run/netns/x"}}}
}

// reached reports whether somebody outside reaches a port of a Pod.
func (p *newPods) reached(to netip.Addr, port uint16) bool {
	return p.reachedWithin(to, port, 250*time.Millisecond)
}

// reachedWithin is reached, and waits longer where it should be.
func (p *newPods) reachedWithin(to netip.Addr, port uint16, limit time.Duration) bool {
	p.t.Helper()
	from := p.Peers4[3]
	if to.Is6() {
		from = p.Peers6[0]
	}
	got, err := nfttest.Attempt{From: p.Peers, Network: "tcp", Source: netip.AddrPortFrom(from, uint16(p.port.Add(1))), Destination: netip.AddrPortFrom(to, port)}.Run(limit)
	if err != nil {
		p.t.Fatal(err)
	}
	return got == nfttest.Passed
}

// only reports whether one port of a Pod is reached, and another one is not.
func (p *newPods) only(to netip.Addr, open, closed uint16) bool {
	p.t.Helper()
	return p.reachedWithin(to, open, 5*time.Second) && !p.reached(to, closed)
}

// TestNewPodIsClosedUntilItsClassIsLoaded starts Pods of which the API says no address. While the
// API server or the controller is behind they are closed, and when the plugin has answered they
// obey. The API server says where Pods are only afterwards, or never.
func TestNewPodIsClosedUntilItsClassIsLoaded(t *testing.T) {
	t.Parallel()
	p := startNewPods(t, func(f *fixture) {
		f.denies("no80", 1, policy.AppliedTo{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "0"}}})
	})
	at := nfttest.PodAddresses(0)
	if !p.reachedWithin(at[0], 80, 5*time.Second) {
		t.Fatal("closed, and nobody has said a word")
	}
	here := call{command: "ADD", container: "c1", name: nfttest.PodRef(0).Name, uid: "u0", addresses: at}
	answers := make(chan said, 1)
	go func() {
		s, err := p.run(t.Context(), here)
		if err != nil {
			t.Error(err)
		}
		answers <- s
	}()
	for _, a := range at {
		p.eventually("closed while the API server has not told of it", func() bool { return !p.reached(a, 80) && !p.reached(a, 81) })
	}
	waits := func() bool { s := p.agent.Status().Pods; return s != nil && len(s.Waiting) == 1 }
	p.eventually("the status says so", waits)
	select {
	case s := <-answers:
		t.Fatalf("answered %+v before anything is known of the Pod", s)
	default:
	}
	p.create(nfttest.PodRef(0).Name, "u0", nil)
	s := <-answers
	var result map[string]any
	if err := json.Unmarshal([]byte(s.text), &result); err != nil || !s.ok() {
		t.Fatalf("%+v, %v", s, err)
	}
	if got, want := fmt.Sprint(result["ips"]), fmt.Sprint(jsonOf(t, before(at))["ips"]); got != want || len(result["interfaces"].([]any)) != 2 {
		t.Errorf("the result is %s, want %s", s.text, want)
	}
	for _, a := range at { // at once
		if !p.only(a, 81, 80) {
			t.Errorf("%s is not as its policy says", a)
		}
	}
	if s := p.must(call{command: "CHECK", container: "c1", name: here.name, uid: "u0", addresses: at}); !s.ok() {
		t.Errorf("checked: %+v", s)
	}
	if s := p.must(call{command: "CHECK", container: "c1", name: here.name, uid: "u0", addresses: at[:1]}); s.code != 11 {
		t.Errorf("checked with another address: %+v", s)
	}
}

func jsonOf(t *testing.T, v any) (out map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestReusedAddress gives a new Pod the address of one that the API still knows by it.
func TestReusedAddress(t *testing.T) {
	t.Parallel()
	p := startNewPods(t, func(f *fixture) {
		f.denies("no80", 1, policy.AppliedTo{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "old"}}})
	})
	at := nfttest.PodAddresses(0)
	p.compute("old", "old")
	p.compute("new", "new")
	p.engine.PutPolicy(policy.Policy{Kind: policy.KubernetesNetworkPolicy, Namespace: "n1", Name: "isolated", UID: "isolated", Generation: 1, PolicyTypes: []policy.Direction{policy.Ingress},
		AppliedTo: []policy.AppliedTo{{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "new"}}}},
		Ingress:   []policy.Rule{{Action: policy.Allow, Ports: []policy.Port{{Protocol: policy.TCP, Port: &policy.PortRef{Number: 80}}}}}})
	p.source.store.Publish(convert.Delta(p.engine.Commit()))
	p.create("old", "u-old", func(pod *corev1.Pod) { pod.Status.PodIPs = []corev1.PodIP{{IP: at[0].String()}, {IP: at[1].String()}} })
	p.eventually("the former Pod has it", func() bool { return !p.reached(at[0], 80) && p.reached(at[0], 81) })
	p.create("new", "u-new", nil)
	if s := p.must(call{command: "ADD", container: "c-new", name: "new", uid: "u-new", addresses: at}); !s.ok() {
		t.Fatalf("%+v", s)
	}
	for _, a := range at {
		if !p.only(a, 80, 81) {
			t.Errorf("%s is not the new Pod's", a)
		}
	}
	// What the runtime says late about the former one does not concern the new one.
	if s := p.must(call{command: "DEL", container: "c-old", name: "old", uid: "u-old"}); !s.ok() {
		t.Errorf("%+v", s)
	}
	if !p.only(at[0], 80, 81) {
		t.Error("the address is not the new Pod's any more")
	}
	// The same after the agent was started anew; the API still names the former Pod.
	p.eventually("kept on disk", func() bool {
		files, err := os.ReadDir(p.dir)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(files, func(f os.DirEntry) bool { // all that is kept, or a change
			text, _ := os.ReadFile(filepath.Join(p.dir, f.Name()))
			return bytes.Contains(text, []byte("c-new"))
		})
	})
	p.ended()
	p.serve()
	for range 5 {
		if !p.only(at[0], 80, 81) {
			t.Error("after a restart the address is not the new Pod's any more")
		}
	}
	// Its network goes, and the addresses are nobody's: not the Pod's that the API names by them.
	pod, err := p.client.CoreV1().Pods("n1").Get(t.Context(), "new", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.PodIPs = []corev1.PodIP{{IP: at[0].String()}}
	if _, err := p.client.CoreV1().Pods("n1").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := p.client.CoreV1().Pods("n1").Delete(t.Context(), "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if s := p.must(call{command: "DEL", container: "c-new", name: "new", uid: "u-new"}); !s.ok() {
		t.Errorf("%+v", s)
	}
	p.eventually("nobody's", func() bool { return p.reached(at[0], 80) && p.reached(at[0], 81) })
	if s := p.must(call{command: "ADD", container: "c-again", name: "new", uid: "u-new", addresses: at}); !s.ok() || p.reached(at[0], 81) {
		t.Errorf("a new network of the same Pod: %+v", s)
	}
	// A runtime that knows no attachment any more.
	if s := p.must(call{command: "GC", config: map[string]any{"cni.dev/valid-attachments": []any{map[string]any{"containerID": "c-again", "ifname": "eth0"}}}}); !s.ok() || p.reached(at[0], 81) {
		t.Errorf("%+v", s)
	}
	if s := p.must(call{command: "GC"}); !s.ok() {
		t.Errorf("%+v", s)
	}
	p.eventually("nobody's again", func() bool { return p.reached(at[0], 81) })
}

// late is a source whose first watches, the mirror's, report nothing that came after they began
// until they may.
type late struct {
	enforcer.Source
	mu    sync.Mutex
	begun map[enforcer.Resource]int
	may   chan struct{}
}

func (l *late) Watch(ctx context.Context, r enforcer.Resource, key string) (enforcer.Stream, error) {
	s, err := l.Source.Watch(ctx, r, key)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun[r]++; l.begun[r] == 1 && err == nil {
		return &lateStream{Stream: s, may: l.may}, nil
	}
	return s, err
}

func (l *late) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun[enforcer.AppliedToGroups]
}

type lateStream struct {
	enforcer.Stream
	may   chan struct{}
	began bool
}

func (l *lateStream) Next(ctx context.Context) (watch.Event, error) {
	if l.began {
		select {
		case <-l.may:
		case <-ctx.Done():
			return watch.Event{}, ctx.Err()
		}
	}
	e, err := l.Stream.Next(ctx)
	l.began = l.began || e.Type == watch.Bookmark
	return e, err
}

// TestNewPodWaitsForTheController has a controller that does not know a Pod yet, then knows it
// while what it says is still on the way. The Pod starts when its policy is in force, and not
// before.
func TestNewPodWaitsForTheController(t *testing.T) {
	t.Parallel()
	slow := &late{begun: map[enforcer.Resource]int{}, may: make(chan struct{})}
	var knows, asked atomic.Int32
	p := startNewPods(t, func(f *fixture) {
		slow.Source = f.source
		f.from = slow
		f.computed = func(_ context.Context, namespace, name string) (bool, error) {
			asked.Add(1)
			return knows.Load() > 0 && namespace == "n1" && name == "web", nil
		}
	})
	at := nfttest.PodAddresses(0)[:1]
	p.create("web", "u", nil)
	answers := make(chan said, 1)
	go func() {
		s, err := p.run(t.Context(), call{command: "ADD", container: "c", name: "web", uid: "u", addresses: at})
		if err != nil {
			t.Error(err)
		}
		answers <- s
	}()
	p.eventually("the controller was asked", func() bool { return asked.Load() > 1 })
	p.eventually("closed", func() bool { return !p.reached(at[0], 81) })
	p.compute("web", "web")
	p.denies("no80", 1, policy.AppliedTo{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "web"}}})
	knows.Store(1)
	p.eventually("what it has computed was asked", func() bool { return slow.count() > 1 })
	for range 3 {
		if p.reached(at[0], 81) {
			t.Error("open while its policy is on the way")
		}
	}
	select {
	case s := <-answers:
		t.Fatalf("answered %+v while its policy is on the way", s)
	default:
	}
	close(slow.may)
	if s := <-answers; !s.ok() || !p.only(at[0], 81, 80) {
		t.Errorf("%+v", s)
	}
	if n := gathered(t, p.agent)["nephele_agent_pod_wait_seconds"].count; n != 1 {
		t.Errorf("the metric counts %d Pods that waited", n)
	}
}

// TestManyNewPodsAtOnce starts many Pods at the same moment: all come up, each with its class.
func TestManyNewPodsAtOnce(t *testing.T) {
	t.Parallel()
	const many = 40
	p := startNewPods(t, func(f *fixture) {
		f.denies("no80", 1, policy.AppliedTo{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "odd"}}})
	})
	var running sync.WaitGroup
	answers := make([]said, many)
	for n := range many {
		name := fmt.Sprintf("many%d", n)
		p.compute(name, [...]string{"even", "odd"}[n%2])
		p.create(name, types.UID(name), nil)
	}
	for n := range many {
		running.Go(func() {
			name := fmt.Sprintf("many%d", n)
			s, err := p.run(t.Context(), call{command: "ADD", container: name, name: name, uid: name, addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 2, byte(n)})}})
			if err != nil {
				t.Error(err)
			}
			answers[n] = s
		})
	}
	running.Wait()
	for n, s := range answers {
		if !s.ok() {
			t.Errorf("Pod %d: %+v", n, s)
		}
		packet := ruleset.Packet{Source: p.Peers4[3], Destination: netip.AddrFrom4([4]byte{10, 1, 2, byte(n)}), Protocol: ruleset.TCP, Port: 80}
		if j, ok := p.agent.Explain(packet); !ok || j.Allows() != (n%2 == 0) {
			t.Errorf("Pod %d: %+v", n, j)
		}
	}
	if s := p.agent.Status().Pods; s.Known != many || len(s.Waiting) > 0 {
		t.Errorf("%+v", s)
	}
}

// TestNewPodsWhileSomebodyIsAway has no agent, and then no controller.
func TestNewPodsWhileSomebodyIsAway(t *testing.T) {
	t.Parallel()
	p := startNewPods(t, func(f *fixture) {
		f.essential = []string{"n1"}
		f.computed = func(context.Context, string, string) (bool, error) { return false, errors.New("nobody is there") }
	})
	at := nfttest.PodAddresses(0)[:1]
	add := call{command: "ADD", container: "c", name: "web", uid: "u", addresses: at}
	p.create("web", "u", nil)
	if s := p.must(add); !s.ok() || !p.reachedWithin(at[0], 81, 5*time.Second) {
		t.Errorf("a Pod of an essential namespace without a controller: %+v", s)
	}
	if s := p.must(call{command: "STATUS"}); !s.ok() {
		t.Errorf("%+v", s)
	}
	p.ended()
	open := map[string]any{"whenAgentIsAway": "open"}
	for _, c := range []struct {
		what string
		call call
		code int
	}{
		{"ADD", add, 11},
		{"CHECK", call{command: "CHECK", container: "c", name: "web", uid: "u", addresses: at}, 11},
		{"DEL", call{command: "DEL", container: "c", name: "web", uid: "u"}, 0},
		{"STATUS", call{command: "STATUS"}, 50},
		{"GC", call{command: "GC"}, 11},
		{"ADD, open", call{command: "ADD", container: "c", name: "web", uid: "u", addresses: at, config: open}, 0},
		{"STATUS, open", call{command: "STATUS", config: open}, 0},
		{"STATUS of a version without it", call{command: "STATUS", config: map[string]any{"cniVersion": "1.0.0"}}, 1},
	} {
		s := p.must(c.call)
		if s.code != c.code || c.code == 11 && !strings.Contains(s.msg, "agent of this Node") {
			t.Errorf("%s: %+v, want code %d", c.what, s, c.code)
		}
	}
}

// TestNewPodsThatAreRefused are told to the agent with what it does not take.
func TestNewPodsThatAreRefused(t *testing.T) {
	t.Parallel()
	bridge := netip.MustParseAddr("10.0.0.254")
	p := startNewPods(t, func(f *fixture) { f.own = func() ([]netip.Addr, error) { return []netip.Addr{bridge}, nil } })
	p.create("web", "u", nil)
	var crowd []netip.Addr
	for n := range 17 {
		crowd = append(crowd, netip.AddrFrom4([4]byte{10, 1, 2, byte(n)}))
	}
	pod := nfttest.PodAddresses(0)[:1]
	for _, c := range []struct {
		what string
		call call
		code int
		msg  string
	}{
		{"the Node's own address", call{name: "web", uid: "u", addresses: nfttest.NodeAddresses()[:1]}, 100, "the Node's own"},
		{"an address of a bridge of the Node", call{name: "web", uid: "u", addresses: []netip.Addr{bridge}}, 100, "the Node's own"},
		{"too many addresses", call{name: "web", uid: "u", addresses: crowd}, 7, "want up to 16"},
		{"no address", call{name: "web", uid: "u"}, 7, "must not be the first"},
		{"only an address of the link", call{name: "web", uid: "u", addresses: []netip.Addr{netip.MustParseAddr("fe80::1")}}, 7, "no address"},
		{"loopback", call{name: "web", uid: "u", addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}, 7, "can have"},
		{"no Pod", call{uid: "u", addresses: pod}, 4, "K8S_POD_NAME"},
		{"a name that is none", call{name: "a/b", uid: "u", addresses: pod}, 7, "want that of a Pod"},
		{"a configuration that is none", call{name: "web", uid: "u", addresses: pod, config: map[string]any{"whenAgentIsAway": "maybe"}}, 7, "whenAgentIsAway"},
		{"a result that is none", call{name: "web", uid: "u", config: map[string]any{"prevResult": map[string]any{"ips": "none"}}}, 6, "result"},
		{"a version from the future", call{name: "web", uid: "u", addresses: pod, config: map[string]any{"cniVersion": "9.0.0"}}, 1, "incompatible"},
		{"too much", call{name: "web", uid: "u", addresses: pod, config: map[string]any{"x": strings.Repeat("x", 1<<20)}}, 5, "longer than"},
	} {
		c.call.command, c.call.container = "ADD", "c"
		if s := p.must(c.call); s.code != c.code || !strings.Contains(s.msg, c.msg) {
			t.Errorf("%s: %+v, want code %d and something about %q", c.what, s, c.code, c.msg)
		}
	}
	if s := p.must(call{command: "VERSION"}); !s.ok() || !strings.Contains(s.text, `"1.1.0"`) {
		t.Errorf("%+v", s)
	}
	// A runtime that gives up takes its Pod with it.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if s, err := p.run(ctx, call{command: "ADD", container: "c", name: "unknown", uid: "u", addresses: pod}); err == nil && s.ok() {
		t.Errorf("%+v", s)
	}
	p.eventually("forgotten", func() bool { return p.reached(pod[0], 81) })
}

// TestStaticPod: the runtime knows a Pod of a file of the Node by a UID that is not that of the
// object that shows it in the API. One that was made anew with the name of another one has to wait
// until the API tells of it.
func TestStaticPod(t *testing.T) {
	t.Parallel()
	p := startNewPods(t, nil)
	p.create("static", "of-the-object", func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{"kubernetes.io/config.mirror": "of-the-file"}
	})
	at := nfttest.PodAddresses(0)[:1]
	if s := p.must(call{command: "ADD", container: "c", name: "static", uid: "of-the-file", addresses: at}); !s.ok() {
		t.Errorf("%+v", s)
	}
	p.create("again", "former", nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if s, err := p.run(ctx, call{command: "ADD", container: "d", name: "again", uid: "present", addresses: at}); err == nil && s.ok() {
		t.Errorf("taken for the former one: %+v", s)
	}
}
