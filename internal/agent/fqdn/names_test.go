package fqdn_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/internal/agent/fqdn"
	"github.com/nephele-io/nephele/internal/agent/fqdn/fqdntest"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// namesFixture is a Names with a table that takes everything at once.
type namesFixture struct {
	*fqdn.Names
	clock *clocktesting.FakeClock
}

// namesOf are names that only the answers of a resolver tell of.
func namesOf(c clock.WithTicker, resolver netip.Addr) *fqdn.Names {
	return fqdn.New(fqdn.Options{Clock: c, Resolvers: func() ([]netip.Addr, error) { return []netip.Addr{resolver}, nil },
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
		f.Names.Answer(kernel.Queued{Source: whoAsks, Destination: netip.AddrPortFrom(of, 53), Protocol: ruleset.UDP, Payload: b}, func() {})
	}
}

// unasked gives an answer without the question.
func (f *namesFixture) unasked(source netip.Addr, b []byte) *atomic.Bool {
	var gone atomic.Bool
	f.Names.Answer(kernel.Queued{Source: netip.AddrPortFrom(source, 53), Destination: whoAsks, Protocol: ruleset.UDP, Payload: b}, func() { gone.Store(true) })
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
	right := fqdntest.Message(t, 7, "a.example", 60, fqdntest.Record{Name: "a.example", Value: "192.0.2.1"})
	f.question(resolver, right)
	for what, b := range map[string][]byte{
		"another id":   fqdntest.Message(t, 8, "a.example", 60, fqdntest.Record{Name: "a.example", Value: "192.0.2.66"}),
		"another name": fqdntest.Message(t, 7, "b.example", 60, fqdntest.Record{Name: "b.example", Value: "192.0.2.66"}),
	} {
		if gone := f.unasked(resolver, b); !gone.Load() || len(f.addresses("*.example")) > 0 {
			t.Errorf("%s: held %t, believed %q", what, !gone.Load(), f.addresses("*.example"))
		}
	}
	var gone atomic.Bool
	f.Names.Answer(kernel.Queued{Source: netip.AddrPortFrom(resolver, 53), Destination: netip.AddrPortFrom(whoAsks.Addr(), 40001), Protocol: ruleset.UDP, Payload: right}, func() { gone.Store(true) })
	if !gone.Load() || len(f.addresses("*.example")) > 0 {
		t.Error("an answer to another port is believed")
	}
	// Another one asks very much.
	for n := range 100_000 {
		q, _ := (&dnsmessage.Message{Header: dnsmessage.Header{ID: uint16(n)}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("x.example."), Type: dnsmessage.TypeA}}}).Pack()
		from := netip.AddrFrom4([4]byte{10, 9, byte(n >> 8), byte(n)})
		f.Names.Answer(kernel.Queued{Source: netip.AddrPortFrom(from, 1), Destination: netip.AddrPortFrom(resolver, 53), Protocol: ruleset.UDP, Payload: q}, func() {})
	}
	if f.unasked(resolver, right); !slices.Equal(f.addresses("*.example"), []string{"192.0.2.1"}) {
		t.Errorf("the right answer is believed as %q", f.addresses("*.example"))
	}
	late := fqdntest.Message(t, 9, "c.example", 60, fqdntest.Record{Name: "c.example", Value: "192.0.2.3"})
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
		{"a name", "a.example", resolver, fqdntest.Message(t, 1, "a.example", 60, fqdntest.Record{Name: "a.example", Value: "192.0.2.1"}, fqdntest.Record{Name: "a.example", Value: "2001:db8::1"}), []string{"192.0.2.1", "2001:db8::1"}},
		{"letters and a dot at the end", "A.Example.", resolver, fqdntest.Message(t, 1, "a.eXample", 60, fqdntest.Record{Name: "A.example", Value: "192.0.2.1"}), []string{"192.0.2.1"}},
		{"a pattern", "*.example", resolver, fqdntest.Message(t, 1, "b.a.example", 60, fqdntest.Record{Name: "b.a.example", Value: "192.0.2.1"}), []string{"192.0.2.1"}},
		{"a pattern of two", "a*.*example", resolver, fqdntest.Message(t, 1, "ab.x.example", 60, fqdntest.Record{Name: "ab.x.example", Value: "192.0.2.1"}), []string{"192.0.2.1"}},
		{"another name", "*.example", resolver, fqdntest.Message(t, 1, "example", 60, fqdntest.Record{Name: "example", Value: "192.0.2.1"}), nil},
		{"a longer name", "a.example", resolver, fqdntest.Message(t, 1, "xa.example", 60, fqdntest.Record{Name: "xa.example", Value: "192.0.2.1"}), nil},
		{"aliases in any order", "a.example", resolver, fqdntest.Message(t, 1, "a.example", 60, fqdntest.Record{Name: "c.net", Value: "192.0.2.1"}, fqdntest.Record{Name: "b.net", Value: "c.net"}, fqdntest.Record{Name: "a.example", Value: "b.net"}), []string{"192.0.2.1"}},
		{"an alias in a circle", "a.example", resolver, fqdntest.Message(t, 1, "a.example", 60, fqdntest.Record{Name: "a.example", Value: "b.net"}, fqdntest.Record{Name: "b.net", Value: "a.example"}), nil},
		{"what an answer says of a name that was not asked for", "a.example", resolver, fqdntest.Message(t, 1, "evil.net", 60, fqdntest.Record{Name: "evil.net", Value: "192.0.2.9"}, fqdntest.Record{Name: "a.example", Value: "192.0.2.9"}), nil},
		{"what is behind another alias", "a.example", resolver, fqdntest.Message(t, 1, "a.example", 60, fqdntest.Record{Name: "a.example", Value: "192.0.2.1"}, fqdntest.Record{Name: "x.net", Value: "192.0.2.9"}), []string{"192.0.2.1"}},
		{"a host that is no resolver", "a.example", netip.MustParseAddr("10.0.0.66"), fqdntest.Message(t, 1, "a.example", 60, fqdntest.Record{Name: "a.example", Value: "192.0.2.1"}), nil},
		{"noise", "a.example", resolver, []byte("noise"), nil},
		{"a cut message", "a.example", resolver, fqdntest.Message(t, 1, "a.example", 60, fqdntest.Record{Name: "a.example", Value: "192.0.2.1"})[:40], nil},
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
		held = append(held, f.answer(resolver, fqdntest.Message(t, 1, name, 60, fqdntest.Record{Name: name, Value: fmt.Sprintf("10.9.%d.%d", i/200, i%200)})))
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

// TestNamesAreBounded: answers cannot fill the kernel.
func TestNamesAreBounded(t *testing.T) {
	f := newNames(t, "*.example")
	for i := range 5000 {
		f.answer(resolver, fqdntest.Message(t, 1, "a.example", 60, fqdntest.Record{Name: "a.example", Value: fmt.Sprintf("10.%d.%d.1", i/250, i%250)}))
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
	f.answer(resolver, fqdntest.Message(t, 1, "a.example", 1, fqdntest.Record{Name: "a.example", Value: "192.0.2.1"}))
	f.answer(resolver, fqdntest.Message(t, 1, "a.example", 300, fqdntest.Record{Name: "a.example", Value: "192.0.2.2"}))
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
