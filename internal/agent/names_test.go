package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// record is a line of an answer: an address of a name, or the name that another one is an alias of.
type record struct{ name, value string }

// message builds an answer to a question.
func message(t *testing.T, id uint16, question string, ttl uint32, records ...record) []byte {
	t.Helper()
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: id, Response: true})
	name := func(s string) dnsmessage.Name { return dnsmessage.MustNewName(s + ".") }
	errs := []error{b.StartQuestions(), b.Question(dnsmessage.Question{Name: name(question), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}), b.StartAnswers()}
	for _, r := range records {
		h := dnsmessage.ResourceHeader{Name: name(r.name), Class: dnsmessage.ClassINET, TTL: ttl}
		switch a, err := netip.ParseAddr(r.value); {
		case err != nil:
			errs = append(errs, b.CNAMEResource(h, dnsmessage.CNAMEResource{CNAME: name(r.value)}))
		case a.Is4():
			errs = append(errs, b.AResource(h, dnsmessage.AResource{A: a.As4()}))
		default:
			errs = append(errs, b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: a.As16()}))
		}
	}
	out, err := b.Finish()
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	return out
}

// namesFixture is an agent.Names with a table that takes everything at once.
type namesFixture struct {
	*agent.Names
	clock *clocktesting.FakeClock
}

// namesOf are names that only the answers of a resolver tell of.
func namesOf(c clock.WithTicker, resolver netip.Addr) *agent.Names {
	return agent.NewNames(agent.NamesOptions{Clock: c, Resolvers: func() ([]netip.Addr, error) { return []netip.Addr{resolver}, nil },
		LookUp: func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no look-ups") }})
}

var resolver = netip.MustParseAddr("10.0.0.53")

func newNames(t *testing.T, patterns ...string) *namesFixture {
	t.Helper()
	fake := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	f := &namesFixture{namesOf(fake, resolver), fake}
	f.Names.InForce(patterns, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.Names.Run(ctx) // finds the resolvers
	f.enforce()
	return f
}

// enforce brings into force what is known.
func (f *namesFixture) enforce() {
	_, version := f.Names.Current()
	f.Names.InForce(f.Names.Patterns(), version)
}

// answer gives an answer and reports whether it was let go at once.
func (f *namesFixture) answer(source netip.Addr, b []byte) *atomic.Bool {
	f.question(source, b)
	return f.unasked(source, b)
}

var whoAsks = netip.MustParseAddrPort("10.0.0.1:40000")

// question asks what an answer is about.
func (f *namesFixture) question(of netip.Addr, answer []byte) {
	var p dnsmessage.Parser
	head, err := p.Start(answer)
	if err != nil {
		return
	}
	if q, err := p.Question(); err == nil {
		head.Response = false
		b, _ := (&dnsmessage.Message{Header: head, Questions: []dnsmessage.Question{q}}).Pack()
		f.Names.Answer(kernel.Queued{Source: whoAsks, Destination: netip.AddrPortFrom(of, 53), Protocol: nft.UDP, Payload: b}, func() {})
	}
}

// unasked gives an answer without the question.
func (f *namesFixture) unasked(source netip.Addr, b []byte) *atomic.Bool {
	var gone atomic.Bool
	f.Names.Answer(kernel.Queued{Source: netip.AddrPortFrom(source, 53), Destination: whoAsks, Protocol: nft.UDP, Payload: b}, func() { gone.Store(true) })
	return &gone
}

func (f *namesFixture) addresses(pattern string) []string {
	known, _ := f.Names.Current()
	var out []string
	for _, a := range known.Addresses[pattern] {
		out = append(out, a.String())
	}
	return out
}

// TestAnswersNobodyAskedFor are not believed, and not held: those with another id, name or type,
// to another port, of another resolver, or too late. Nobody's questions push out another's.
func TestAnswersNobodyAskedFor(t *testing.T) {
	t.Parallel()
	f := newNames(t, "*.example")
	right := message(t, 7, "a.example", 60, record{"a.example", "192.0.2.1"})
	f.question(resolver, right)
	for what, b := range map[string][]byte{
		"another id":   message(t, 8, "a.example", 60, record{"a.example", "192.0.2.66"}),
		"another name": message(t, 7, "b.example", 60, record{"b.example", "192.0.2.66"}),
	} {
		if gone := f.unasked(resolver, b); !gone.Load() || len(f.addresses("*.example")) > 0 {
			t.Errorf("%s: held %t, believed %q", what, !gone.Load(), f.addresses("*.example"))
		}
	}
	var gone atomic.Bool
	f.Names.Answer(kernel.Queued{Source: netip.AddrPortFrom(resolver, 53), Destination: netip.AddrPortFrom(whoAsks.Addr(), 40001), Protocol: nft.UDP, Payload: right}, func() { gone.Store(true) })
	if !gone.Load() || len(f.addresses("*.example")) > 0 {
		t.Error("an answer to another port is believed")
	}
	// Another one asks very much.
	for n := range 100_000 {
		q, _ := (&dnsmessage.Message{Header: dnsmessage.Header{ID: uint16(n)}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("x.example."), Type: dnsmessage.TypeA}}}).Pack()
		from := netip.AddrFrom4([4]byte{10, 9, byte(n >> 8), byte(n)})
		f.Names.Answer(kernel.Queued{Source: netip.AddrPortFrom(from, 1), Destination: netip.AddrPortFrom(resolver, 53), Protocol: nft.UDP, Payload: q}, func() {})
	}
	if f.unasked(resolver, right); !slices.Equal(f.addresses("*.example"), []string{"192.0.2.1"}) {
		t.Errorf("the right answer is believed as %q", f.addresses("*.example"))
	}
	late := message(t, 9, "c.example", 60, record{"c.example", "192.0.2.3"})
	f.question(resolver, late)
	f.clock.Step(31 * time.Second)
	if f.unasked(resolver, late); len(f.addresses("*.example")) != 1 {
		t.Error("an answer that came too late is believed")
	}
}

func TestNamesAreLearned(t *testing.T) {
	for _, c := range []struct {
		what, pattern string
		source        netip.Addr
		message       []byte
		want          []string
	}{
		{"a name", "a.example", resolver, message(t, 1, "a.example", 60, record{"a.example", "192.0.2.1"}, record{"a.example", "2001:db8::1"}), []string{"192.0.2.1", "2001:db8::1"}},
		{"letters and a dot at the end", "A.Example.", resolver, message(t, 1, "a.eXample", 60, record{"A.example", "192.0.2.1"}), []string{"192.0.2.1"}},
		{"a pattern", "*.example", resolver, message(t, 1, "b.a.example", 60, record{"b.a.example", "192.0.2.1"}), []string{"192.0.2.1"}},
		{"a pattern of two", "a*.*example", resolver, message(t, 1, "ab.x.example", 60, record{"ab.x.example", "192.0.2.1"}), []string{"192.0.2.1"}},
		{"another name", "*.example", resolver, message(t, 1, "example", 60, record{"example", "192.0.2.1"}), nil},
		{"a longer name", "a.example", resolver, message(t, 1, "xa.example", 60, record{"xa.example", "192.0.2.1"}), nil},
		{"aliases in any order", "a.example", resolver, message(t, 1, "a.example", 60, record{"c.net", "192.0.2.1"}, record{"b.net", "c.net"}, record{"a.example", "b.net"}), []string{"192.0.2.1"}},
		{"an alias in a circle", "a.example", resolver, message(t, 1, "a.example", 60, record{"a.example", "b.net"}, record{"b.net", "a.example"}), nil},
		{"what an answer says of a name that was not asked for", "a.example", resolver, message(t, 1, "evil.net", 60, record{"evil.net", "192.0.2.9"}, record{"a.example", "192.0.2.9"}), nil},
		{"what is behind another alias", "a.example", resolver, message(t, 1, "a.example", 60, record{"a.example", "192.0.2.1"}, record{"x.net", "192.0.2.9"}), []string{"192.0.2.1"}},
		{"somebody who is no resolver", "a.example", netip.MustParseAddr("10.0.0.66"), message(t, 1, "a.example", 60, record{"a.example", "192.0.2.1"}), nil},
		{"noise", "a.example", resolver, []byte("noise"), nil},
		{"a cut message", "a.example", resolver, message(t, 1, "a.example", 60, record{"a.example", "192.0.2.1"})[:40], nil},
	} {
		f := newNames(t, c.pattern)
		gone := f.answer(c.source, c.message)
		if got := f.addresses(c.pattern); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
		if gone.Load() != (c.want == nil) {
			t.Errorf("%s: let go at once: %t", c.what, gone.Load())
		}
		f.enforce()
		if !gone.Load() {
			t.Errorf("%s: still held when its addresses are in force", c.what)
		}
	}
}

// TestAnswersAreNotHeldForLong: an answer whose addresses do not come into force goes on
// nevertheless, and so does what comes in a flood.
func TestAnswersAreNotHeldForLong(t *testing.T) {
	f := newNames(t, "*.example")
	var held []*atomic.Bool
	for i := range 1000 {
		name := fmt.Sprintf("n%d.example", i)
		held = append(held, f.answer(resolver, message(t, 1, name, 60, record{name, fmt.Sprintf("10.9.%d.%d", i/200, i%200)})))
	}
	waiting := 0
	for _, gone := range held {
		if !gone.Load() {
			waiting++
		}
	}
	if waiting != 256 {
		t.Errorf("%d answers are held", waiting)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		f.clock.Step(time.Second)
		if !slices.ContainsFunc(held, func(gone *atomic.Bool) bool { return !gone.Load() }) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("answers are held for ever")
		}
	}
}

// TestNamesAreBounded: who answers cannot fill the kernel.
func TestNamesAreBounded(t *testing.T) {
	f := newNames(t, "*.example")
	for i := range 5000 {
		f.answer(resolver, message(t, 1, "a.example", 60, record{"a.example", fmt.Sprintf("10.%d.%d.1", i/250, i%250)}))
		if i%100 == 0 {
			f.enforce()
		}
	}
	if s := f.Names.Status(); s.Addresses != 4096 || s.Refused != 5000-4096 {
		t.Errorf("%+v", s)
	}
}

// TestAddressesExpire: an address counts as long as the resolver says, a minute at least, and as
// long as there is a connection with it.
func TestAddressesExpire(t *testing.T) {
	f := newNames(t, "a.example")
	f.answer(resolver, message(t, 1, "a.example", 1, record{"a.example", "192.0.2.1"}))
	f.answer(resolver, message(t, 1, "a.example", 300, record{"a.example", "192.0.2.2"}))
	connected := map[netip.Addr]bool{}
	after := func(d time.Duration, want ...string) {
		t.Helper()
		f.clock.Step(d)
		f.Names.Forget(func(a netip.Addr) bool { return connected[a] })
		if got := f.addresses("a.example"); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	after(59*time.Second, "192.0.2.1", "192.0.2.2")
	connected[netip.MustParseAddr("192.0.2.1")] = true
	after(2*time.Second, "192.0.2.1", "192.0.2.2")
	after(2*time.Minute, "192.0.2.1", "192.0.2.2")
	clear(connected)
	after(61*time.Second, "192.0.2.2")
	after(2 * time.Minute)
}

// TestNamesOnAHost asks a resolver for names that policies name, from a host with an agent, and
// connects at once.
func TestNamesOnAHost(t *testing.T) {
	f := newFixture(t)
	addresses := []netip.Addr{netip.MustParseAddr("10.1.0.3"), netip.MustParseAddr("10.1.0.4"), netip.MustParseAddr("10.1.0.5")}
	f.peerLink(addresses...)
	nfttest.Serve(t, f.peer, 90, 90, addresses...)
	f.serveNames(map[string][]record{
		"a.good.example": {{"a.good.example", "10.1.0.3"}},
		"b.good.example": {{"b.good.example", "b.net"}, {"b.net", "10.1.0.4"}},
		"evil.net":       {{"evil.net", "10.1.0.5"}, {"c.good.example", "10.1.0.5"}},
	})
	var queue *kernel.Queue
	if err := f.host.Do(func() (err error) { queue, err = kernel.OpenQueue(); return err }); err != nil {
		t.Fatal(err)
	}
	f.names = namesOf(clock.RealClock{}, peerAddr)
	ended := make(chan error, 1)
	go func() { ended <- queue.Run(f.names.Answer) }()
	t.Cleanup(func() {
		queue.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	running, end := context.WithCancel(t.Context())
	found := make(chan struct{})
	go func() {
		defer close(found)
		f.names.Run(running)
	}()
	t.Cleanup(func() {
		end()
		<-found
	})

	f.engine.PutPolicy(policy.Policy{
		Kind:       policy.AntreaNetworkPolicy,
		Namespace:  "vms",
		Name:       "p",
		UID:        "p",
		Generation: 1,
		Priority:   5,
		AppliedTo:  []policy.AppliedTo{{ExternalEntitySelector: &policy.Selector{MatchLabels: map[string]string{"app": "web"}}}},
		Egress: []policy.Rule{
			{Name: "out", Action: policy.Allow, Peers: []policy.Peer{{FQDN: "*.good.example"}}},
			{Name: "dns", Action: policy.Allow, Peers: []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: peerAddr.String() + "/32"}}}},
		},
	})
	f.source.store.Publish(convert.Delta(f.engine.Commit()))
	a, stop := f.start()
	f.eventually("enforced", func() bool { r := f.reports.of("p"); return r.Generation == 1 && !r.RealizationFailure })
	f.eventually("the resolver is known", func() bool { return a.Status().Names.Names == 1 && f.listens() })
	connect := func(to string, limit time.Duration) error {
		return f.host.Do(func() error {
			c, err := (&net.Dialer{Timeout: limit}).Dial("tcp", net.JoinHostPort(to, "90"))
			if err != nil {
				return err
			}
			return c.Close()
		})
	}
	for _, network := range []string{"udp", "tcp"} {
		name, address := "a.good.example", "10.1.0.3"
		if network == "tcp" {
			name, address = "b.good.example", "10.1.0.4"
		}
		if err := connect(address, 200*time.Millisecond); err == nil {
			t.Fatalf("%s is reachable before its name is known", address)
		}
		for range 3 {
			if err := f.ask(network, name); err != nil {
				t.Fatal(err)
			}
		}
		// A first packet that were lost would come again after a second.
		if err := connect(address, 900*time.Millisecond); err != nil {
			t.Errorf("%s by %s: not reachable as soon as its name is known: %v", name, network, err)
		}
	}
	if err := f.ask("udp", "evil.net"); err != nil {
		t.Fatal(err)
	}
	if err := connect("10.1.0.5", 200*time.Millisecond); err == nil {
		t.Error("an answer about one name has opened another")
	}
	// What is known is known after a restart, and answers go on while there is no agent.
	stop()
	if err := f.ask("udp", "a.good.example"); err != nil {
		t.Errorf("without an agent: %v", err)
	}
	f.source.away.Store(true)
	f.names = namesOf(clock.RealClock{}, peerAddr)
	a, _ = f.start()
	f.eventually("what was enforced is loaded", func() bool { return a.Status().Names.Addresses == 2 })
	if err := connect("10.1.0.3", 900*time.Millisecond); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	f.eventually("that the server is away is told", func() bool { return a.Status().State == agent.StateKept })
}
