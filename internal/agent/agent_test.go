package agent_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/fqdn"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/conntrack"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/agent/nodenetwork"
	"github.com/nephele-io/nephele/internal/agent/pods"
	"github.com/nephele-io/nephele/internal/agent/services"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

const hostKey = "vms/web"

// source is a server of computed objects that can be away.
type source struct {
	store *watchstore.Store
	away  atomic.Bool
}

func (s *source) Watch(_ context.Context, r enforcer.Resource, key string) (enforcer.Stream, error) {
	if s.away.Load() {
		return nil, errors.New("the server is away")
	}
	return s.store.Watch(watchstore.Resource(r), key)
}

// reports keeps the last report on each policy.
type reports struct {
	mu   sync.Mutex
	last map[string]v1beta2.NetworkPolicyNodeStatus
}

func (r *reports) Report(_ context.Context, s *v1beta2.NetworkPolicyStatus) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[s.Name] = s.Nodes[0]
	return nil
}

func (r *reports) of(name string) v1beta2.NetworkPolicyNodeStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[name]
}

// fixture is a host with an agent, a peer, and a policy engine.
type fixture struct {
	t          testing.TB
	host, peer *nfttest.Host
	engine     *compute.Engine
	source     *source
	reports    *reports
	// from and to are how the agent gets policies and reports; source and reports unless a test
	// says otherwise.
	from        enforcer.Source
	to          agent.Reports
	probe       func(context.Context) error
	statistics  func(context.Context, *v1beta2.NodeStatsSummary) error
	clock       clock.WithTicker
	log         logr.Logger // discards unless a test sets it
	yield       func(context.Context, agent.Isolated) (bool, error)
	info        func(context.Context, *agent.Status) error
	names       *fqdn.Names
	dir         string
	table       *kernel.Table
	connections *conntrack.Connections
	port        uint16
	// peerEnd is that of a connection that the host has made.
	peerEnd net.Conn
	// key is that of the agent, pods makes what follows the Pods of a Node; nil on a VM.
	key  string
	pods func() *pods.Pods
	// network makes that of a Node; nil where another plugin does.
	network func() *nodenetwork.Network
	// made is the network of the agent that was started last.
	made *nodenetwork.Network
	// balancing leads connections to Services; nil where nobody does.
	balancing func() *services.Balancing
	// local are addresses of the host besides.
	local []netip.Addr
	// services make the Services of its cluster.
	services func() *services.Frontends
	// computed and essential go into the agent's options.
	computed  func(context.Context, string, string) (bool, error)
	essential []string
	// wrap stands between the agent and its table; nil for nothing.
	wrap func(*kernel.Table) agent.Table
	// settings and skew go into the agent's options, podSettings into the options of its Pods.
	settings    agent.Settings
	skew        func() time.Duration
	podSettings func() string
	// own are addresses of the Node that the API does not tell of; nil for none.
	own func() ([]netip.Addr, error)
	// failsafe finds the failsafe flows; nil for none.
	failsafe func(context.Context) ([]nft.Failsafe, error)
}

var hostAddr, peerAddr = netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.2")

func newFixture(t *testing.T) *fixture {
	f := newWorld(t)
	f.host, f.peer = nfttest.NewHost(t), nfttest.NewHost(t)
	nfttest.Connect(t, f.host, f.peer, []netip.Prefix{netip.PrefixFrom(hostAddr, 24)}, []netip.Prefix{netip.PrefixFrom(peerAddr, 24)})
	nfttest.Serve(t, f.host, 80, 82, hostAddr)
	return f
}

// newWorld is a fixture without hosts: a policy engine.
func newWorld(t testing.TB) *fixture {
	f := &fixture{t: t, engine: compute.New(compute.Options{}), source: &source{store: watchstore.New(watchstore.Options{})},
		reports: &reports{last: map[string]v1beta2.NetworkPolicyNodeStatus{}}, dir: filepath.Join(t.TempDir(), "state"), port: 20000, clock: clock.RealClock{}, key: hostKey}
	f.from, f.to = f.source, f.reports
	f.engine.PutNamespace(policy.Namespace{Name: "vms"})
	f.engine.PutEntity(policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "vms", Name: "web"},
		Labels: map[string]string{"app": "web"}, Addresses: []netip.Addr{hostAddr}, Host: hostKey})
	f.source.store.Publish(convert.Delta(f.engine.Commit()))
	return f
}

// allow applies a policy that lets the peer reach one port of the host. A name makes it one that
// the agent refuses.
func (f *fixture) allow(port int32, generation int64, name string) {
	rule := policy.Rule{Name: "in", Action: policy.Allow, Peers: []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: "10.1.0.0/24"}}},
		Ports: []policy.Port{{Protocol: policy.TCP, Port: &policy.PortRef{Number: port}}}}
	p := policy.Policy{Kind: policy.AntreaNetworkPolicy, Namespace: "vms", Name: "p", UID: "p", Generation: generation, Priority: 5,
		AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: &policy.Selector{MatchLabels: map[string]string{"app": "web"}}}}, Ingress: []policy.Rule{rule}}
	if name != "" {
		p.Egress = []policy.Rule{{Name: "out", Action: policy.Allow, Peers: []policy.Peer{{FQDN: name}}}}
	}
	f.engine.PutPolicy(p)
	f.source.store.Publish(convert.Delta(f.engine.Commit()))
}

// remove takes the policy away.
func (f *fixture) remove() {
	f.engine.DeletePolicy("p")
	f.source.store.Publish(convert.Delta(f.engine.Commit()))
}

// start runs an agent until the returned function is called.
func (f *fixture) start() (*agent.Agent, func()) {
	f.t.Helper()
	var pods *pods.Pods
	err := f.host.Do(func() (err error) {
		if f.table, err = kernel.Open(kernel.DefaultTable); err != nil {
			return err
		}
		f.connections, err = conntrack.Open()
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	if f.pods != nil {
		pods, f.connections.Through = f.pods(), true
	}
	if f.network != nil {
		f.made = f.network()
	}
	var balancing *services.Balancing
	if f.balancing != nil {
		balancing = f.balancing()
	}
	var services *services.Frontends
	if f.services != nil {
		services = f.services()
	}
	f.connections.Local = func() ([]netip.Addr, error) { return append([]netip.Addr{hostAddr}, f.local...), nil }
	own, connections := f.table, f.connections
	own.Adopt = func() {
		if err := connections.Adopt(); err != nil {
			f.t.Error(err)
		}
	}
	var table agent.Table = own
	if f.wrap != nil {
		table = f.wrap(own)
	}
	store, err := disk.Open(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	a := agent.New(
		agent.Options{
			Key:           f.key,
			Computed:      f.computed,
			Essential:     f.essential,
			Pods:          pods,
			Network:       f.made,
			Balancing:     balancing,
			Services:      services,
			Failsafe:      f.failsafe,
			Reports:       f.to,
			Table:         table,
			Connections:   f.connections,
			Store:         store,
			Clock:         f.clock,
			Statistics:    f.statistics,
			Log:           f.log,
			Names:         f.names,
			Probe:         f.probe,
			Yield:         f.yield,
			Info:          f.info,
			Settings:      f.settings,
			Skew:          f.skew,
			ConfirmWithin: 5 * time.Second,
			Follower:      enforcer.Follower{Source: f.from, Clock: clock.RealClock{}, Interval: 20 * time.Millisecond, Log: logr.Discard()},
		},
	)
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Run(ctx); err != nil {
			f.t.Error(err)
		}
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		<-done
		_ = own.Close()
		_ = connections.Close()
		f.disown()
	})
	f.t.Cleanup(stop)
	return a, stop
}

// disown waits until nothing has the socket of an agent that has ended: a process that another test
// has just forked has it until it executes its program. It does not wait for another agent.
func (f *fixture) disown() {
	_ = f.host.Do(func() error {
		table, err := kernel.Open(kernel.DefaultTable)
		if err != nil {
			return err
		}
		defer func() { _ = table.Close() }()
		for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			if _, _, err := table.Revision(); !errors.Is(err, kernel.ErrOwned) {
				break
			}
		}
		return nil
	})
}

// wipe removes the rules, as a restart of the host does.
func (f *fixture) wipe() error {
	table, err := kernel.Open(kernel.DefaultTable)
	if err != nil {
		return err
	}
	return errors.Join(table.Delete(), table.Close())
}

func (f *fixture) eventually(what string, ok func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("not within 2 minutes: %s", what)
		}
	}
}

// open reports whether the peer reaches a port of the host.
func (f *fixture) open(port uint16) bool { return f.openWithin(port, 200*time.Millisecond) }

// reaches is open for a port that should be: on a busy machine it may take a while.
func (f *fixture) reaches(port uint16) bool { return f.openWithin(port, 5*time.Second) }

func (f *fixture) openWithin(port uint16, limit time.Duration) bool {
	f.t.Helper()
	f.port++
	got, err := nfttest.Attempt{
		From:        f.peer,
		Network:     "tcp",
		Source:      netip.AddrPortFrom(peerAddr, f.port),
		Destination: netip.AddrPortFrom(hostAddr, port),
	}.Run(limit)
	if err != nil {
		f.t.Fatal(err)
	}
	return got == nfttest.Passed
}

func TestEnforcesAndReports(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, _ := f.start()
	f.eventually("in force with no policy", func() bool { return a.Status().State == agent.StateEnforcing })
	if !f.reaches(80) || !f.reaches(81) {
		t.Fatal("closed without a policy")
	}
	f.allow(80, 1, "")
	f.eventually("reported", func() bool { return f.reports.of("p").Generation == 1 })
	if !f.reaches(80) || f.open(81) {
		t.Fatal("not as the policy says")
	}
	if s := a.Status(); !s.Kernel.Owned || !s.Kernel.IsolatedIngress || s.Kernel.IsolatedEgress || len(s.Policies) != 1 || !s.Policies[0].Enforced || s.Kernel.Error+s.Faults.Store != "" {
		t.Errorf("status %+v", s)
	}
	packet := ruleset.Packet{Direction: ruleset.Ingress, Source: peerAddr, Destination: hostAddr, Protocol: ruleset.TCP, Port: 80}
	if j, ok := a.Explain(packet); !ok || !j.Allows() || j.By.Policy.Name != "p" || j.By.Name != "in" {
		t.Errorf("explained as %+v", j)
	}

	// A version that cannot be expressed is refused, and the former stays.
	f.allow(81, 2, "*.example.com")
	f.eventually("refusal reported", func() bool { return f.reports.of("p").Generation == 2 })
	if r := f.reports.of("p"); !r.RealizationFailure || !strings.Contains(r.Message, "domain names") || !strings.Contains(r.Message, "former version") {
		t.Errorf("reported %+v", r)
	}
	if !f.reaches(80) || f.open(81) {
		t.Error("the former version is not in force")
	}

	// The next one ends connections that it does not allow.
	held, err := nfttest.Attempt{From: f.peer, Network: "tcp", Source: netip.AddrPortFrom(peerAddr, 19000), Destination: netip.AddrPortFrom(hostAddr, 80)}.Open(5 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if !carries(held) {
		t.Fatal("the connection does not work")
	}
	f.allow(82, 3, "")
	f.eventually("the held connection was ended", func() bool { return !carries(held) })
	f.eventually("that is counted", func() bool { return a.Status().Kernel.ConnectionsCut > 0 })
}

// TestKeepsWithoutServer takes the server away, restarts the agent, and then the host, which has
// lost all rules.
func TestKeepsWithoutServer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.allow(80, 1, "")
	_, stop := f.start()
	f.eventually("reported", func() bool { return f.reports.of("p").Generation == 1 })
	stop()
	if !f.reaches(80) || f.open(81) {
		t.Fatal("the rules went with the process")
	}
	f.source.away.Store(true)
	a, stop := f.start()
	f.eventually("kept", func() bool { return a.Status().State == agent.StateKept })
	if s := a.Status(); s.Kernel.LastWrite.IsZero() == false && s.Kernel.Rules == 0 {
		t.Errorf("adopted as %+v", s)
	}
	if err := f.table.Delete(); err != nil { // as a restart of the host does
		t.Fatal(err)
	}
	stop()
	if !f.reaches(81) {
		t.Fatal("the rules are still there")
	}
	a, _ = f.start()
	f.eventually("loaded", func() bool { return a.Status().State == agent.StateKept })
	if !f.reaches(80) || f.open(81) {
		t.Fatal("what was enforced last is not")
	}
	// Kept and enforced is not reported: the server has not said that it is still wanted.
	f.source.away.Store(false)
	f.allow(81, 2, "")
	f.eventually("enforced again", func() bool { return f.reports.of("p").Generation == 2 })
	if f.open(80) || !f.reaches(81) {
		t.Error("the new version is not in force")
	}
}

// TestFailsafeFlowsAreKept restarts the agent while nobody tells where its servers are: the way
// there that it knew is open all the same.
func TestFailsafeFlowsAreKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	known := true
	f.failsafe = func(context.Context) ([]nft.Failsafe, error) {
		own := nft.Failsafe{Name: "own", Direction: ruleset.Ingress, Protocol: ruleset.TCP, Port: 9, CIDRs: []netip.Prefix{netip.PrefixFrom(peerAddr, 32)}}
		if !known {
			return []nft.Failsafe{own}, errors.New("nobody answers")
		}
		controller := own
		controller.Name, controller.Port = "controller", 82
		return []nft.Failsafe{own, controller}, nil
	}
	f.allow(80, 1, "")
	_, stop := f.start()
	f.eventually("reported", func() bool { return f.reports.of("p").Generation == 1 })
	if !f.reaches(82) || f.open(81) {
		t.Fatal("the failsafe flow is not open, or more than it")
	}
	stop()
	known = false
	f.source.away.Store(true)
	a, _ := f.start()
	f.eventually("kept", func() bool { return a.Status().State == agent.StateKept && a.Status().Host.FailsafeError != "" })
	if !f.reaches(82) || f.open(81) {
		t.Error("the failsafe flow is not open, or more than it")
	}
}

// movableClock gives the agent a clock that goes on by itself and can be moved.
func (f *fixture) movableClock() *clocktesting.FakeClock {
	moved := clocktesting.NewFakeClock(time.Now())
	f.clock = moved
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-done:
				return
			case <-pace.C:
				moved.Step(20 * time.Millisecond)
			}
		}
	}()
	f.t.Cleanup(func() { close(done); <-ended })
	return moved
}

// TestClocks moves the clock while the server is away, by an hour and back by a day: what is in
// force stays, a foreign change is put right, and the next policy is enforced.
func TestClocks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	moved := f.movableClock()
	f.allow(80, 1, "")
	a, stop := f.start()
	f.eventually("reported", func() bool { return f.reports.of("p").Generation == 1 })
	f.source.away.Store(true)
	for _, by := range []time.Duration{time.Hour, -24 * time.Hour, 48 * time.Hour} {
		moved.SetTime(moved.Now().Add(by))
		for range 5 {
			if !f.reaches(80) || f.open(81) {
				t.Fatalf("by %s: not as the policy says", by)
			}
		}
		if s := a.Status(); s.Kernel.Error+s.Faults.Store != "" {
			t.Errorf("by %s: %+v", by, s)
		}
	}
	f.source.away.Store(false)
	f.allow(81, 2, "")
	f.eventually("the next policy is enforced", func() bool { return f.open(81) && !f.open(80) })
	stop()
}

func TestRelease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.allow(80, 1, "")
	a, stop := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	if err := a.Release(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	f.eventually("released", func() bool { return a.Status().State == agent.StateReleased && f.open(81) })
	// What begins meanwhile is judged, as what it is, when policies are enforced again.
	in, out := f.connectBothWays(81, 83)
	f.eventually("reported", func() bool { return f.reports.of("p").RealizationFailure })
	stop()
	a, _ = f.start() // a release outlives the process
	f.eventually("still released", func() bool { return a.Status().State == agent.StateReleased })
	if !f.reaches(81) {
		t.Error("a restart has ended the release")
	}
	if err := a.Release(time.Now().Add(500 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	f.eventually("enforced again", func() bool { return a.Status().State == agent.StateEnforcing && !f.open(81) })
	f.eventually("reported again", func() bool { return !f.reports.of("p").RealizationFailure })
	f.eventually("what is not allowed ends", func() bool { return !carries(in) })
	if !speaks(f.peerEnd, out) {
		t.Error("a connection of the host's own is cut")
	}
}

// TestOlderThanTheAgent: connections that were there before the agent came, of a host on which
// nobody followed connections. The one of the host's own goes on, also if the other end speaks
// first, and the one that no policy allows ends.
func TestOlderThanTheAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	denied, out := f.connectBothWays(81, 83)
	f.allow(80, 1, "")
	a, _ := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	if !speaks(f.peerEnd, out) {
		t.Error("a connection of the host's own is dropped when the other end speaks first")
	}
	f.eventually("what is not allowed ends", func() bool { return !carries(denied) })
	if a.Status().Kernel.ConnectionsCut != 1 || !carries(out) {
		t.Errorf("%d connections were cut", a.Status().Kernel.ConnectionsCut)
	}
}

// connectBothWays makes a connection of the peer to a port of the host, and one of the host to a
// port of the peer, of which the end there is peerEnd.
func (f *fixture) connectBothWays(in, out uint16) (from, to net.Conn) {
	f.t.Helper()
	must := func(err error) {
		f.t.Helper()
		if err != nil {
			f.t.Fatal(err)
		}
	}
	f.port++
	from, err := nfttest.Attempt{From: f.peer, Network: "tcp", Source: netip.AddrPortFrom(peerAddr, f.port), Destination: netip.AddrPortFrom(hostAddr, in)}.Open(5 * time.Second)
	must(err)
	var l net.Listener
	must(f.peer.Do(func() (err error) { l, err = net.Listen("tcp", netip.AddrPortFrom(peerAddr, out).String()); return err }))
	to, err = nfttest.Attempt{From: f.host, Network: "tcp", Source: netip.AddrPortFrom(hostAddr, 45000), Destination: netip.AddrPortFrom(peerAddr, out)}.Open(5 * time.Second)
	must(err)
	f.peerEnd, err = l.Accept()
	must(err)
	must(l.Close())
	go func() { _, _ = io.Copy(f.peerEnd, f.peerEnd) }()
	f.t.Cleanup(func() { _, _, _ = from.Close(), to.Close(), f.peerEnd.Close() })
	return from, to
}

// carries reports whether what is sent into a connection comes back.
func carries(c net.Conn) bool {
	_ = c.SetDeadline(time.Now().Add(300 * time.Millisecond))
	if _, err := c.Write([]byte("x")); err != nil {
		return false
	}
	_, err := c.Read(make([]byte, 1))
	return err == nil
}

// speaks reports whether what one end says comes to the other one.
func speaks(from, to net.Conn) bool {
	_ = to.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := from.Write([]byte("y")); err != nil {
		return false
	}
	_, err := to.Read(make([]byte, 1))
	return err == nil
}

// TestTroubleWithTheDisk takes the disk away, and damages what is on it. Enforcement goes on, and
// the status says what is wrong.
func TestTroubleWithTheDisk(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.allow(80, 1, "")
	a, stop := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	if err := os.RemoveAll(f.dir); err != nil {
		t.Fatal(err)
	}
	f.eventually("written as rarely as it is, and failed", func() bool {
		f.allow(81, f.reports.of("p").Generation+1, "")
		return a.Status().Faults.Store != ""
	})
	f.eventually("enforced nevertheless", func() bool { return f.open(81) && !f.open(80) })
	stop()
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "state"), []byte("0000\n{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.source.away.Store(true)
	a, _ = f.start()
	f.eventually("told", func() bool { return strings.Contains(a.Status().Faults.Store, "damaged") })
	if f.open(80) || !f.reaches(81) {
		t.Error("a damaged state has changed what is in force")
	}
}
