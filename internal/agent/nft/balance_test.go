package nft

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// TestLoses: it is noticed when a client or a conversation is with a backend that is gone, and not
// when nothing is.
func TestLoses(t *testing.T) {
	at := func(protocol uint8) Frontend {
		return Frontend{Address: netip.MustParseAddr("10.96.0.1"), Protocol: protocol, Port: 53}
	}
	to := func(sticky uint32, inside bool, texts ...string) *Balance {
		b := &Balance{Sticky: sticky}
		for _, text := range texts {
			b.Backends = append(b.Backends, netip.MustParseAddrPort(text))
		}
		if inside {
			b.Backends, b.Inside, b.Apart = nil, b.Backends, true
		}
		return b
	}
	for name, c := range map[string]struct {
		was, now     *Balance
		loses, moves bool
	}{
		"the same":        {to(9, false, "10.0.0.1:1", "10.0.0.2:1"), to(9, false, "10.0.0.1:1", "10.0.0.2:1"), false, false},
		"one more":        {to(9, false, "10.0.0.1:1"), to(9, false, "10.0.0.1:1", "10.0.0.2:1"), false, false},
		"one less":        {to(9, false, "10.0.0.1:1", "10.0.0.2:1"), to(9, false, "10.0.0.1:1"), true, true},
		"another port":    {to(9, false, "10.0.0.1:1"), to(9, false, "10.0.0.1:2"), true, true},
		"one less inside": {to(9, true, "10.0.0.1:1"), to(9, true), true, true},
		"none stays":      {to(0, false, "10.0.0.1:1"), to(0, false, "10.0.0.2:1"), false, true},
		"the first":       {to(9, false), to(9, false, "10.0.0.1:1"), false, true},
		"gone":            {to(9, false, "10.0.0.1:1"), nil, true, true},
		"new":             {nil, to(9, false, "10.0.0.1:1"), false, true},
		"still none":      {to(9, false), to(9, false), false, false},
	} {
		for _, protocol := range []uint8{ruleset.TCP, ruleset.UDP} {
			was, now := &Balanced{To: new(Places).Next()}, &Balanced{To: new(Places).Next()}
			if c.was != nil {
				was.To.Set(at(protocol), c.was)
			}
			if c.now != nil {
				now.To.Set(at(protocol), c.now)
			}
			if now.Loses(was) != c.loses || now.MovesDatagrams(was) != (c.moves && protocol == ruleset.UDP) {
				t.Errorf("%s, protocol %d: loses %t, moves %t", name, protocol, now.Loses(was), now.MovesDatagrams(was))
			}
		}
	}
}

// TestParseLearned reads back what a client was led by, and nothing from what is too short.
func TestParseLearned(t *testing.T) {
	for _, text := range []struct{ client, at, to string }{{"192.0.2.1", "10.96.0.1", "10.244.0.2:8080"}, {"2001:db8::1", "fd96::1", "[fd00::2]:8080"}} {
		name, at, to := ruleset.Sticky4, Frontend{Address: netip.MustParseAddr(text.at), Protocol: ruleset.TCP, Port: 443}, netip.MustParseAddrPort(text.to)
		if at.Address.Is6() {
			name = ruleset.Sticky6
		}
		key, data := string(netip.MustParseAddr(text.client).AsSlice())+frontendKey(at), backendData(to)
		if gotAt, gotTo, ok := ParseLearned(name, key, data); !ok || gotAt != at || gotTo != to {
			t.Errorf("%v %v %t, want %v %v", gotAt, gotTo, ok, at, to)
		}
		for _, c := range [][2]string{{"", data}, {key[1:], data}, {key, ""}, {key, data[:3]}} {
			if _, _, ok := ParseLearned(name, c[0], c[1]); ok {
				t.Errorf("%x is %x is taken", c[0], c[1])
			}
		}
	}
}

// TestFewChains: Services are elements, and only numbers of endpoints are chains.
func TestFewChains(t *testing.T) {
	to := map[Frontend]*Balance{}
	for i := range 5000 {
		b := &Balance{}
		for k := range 1 + i%3 {
			b.Backends = append(b.Backends, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)}), uint16(1+k)))
		}
		to[Frontend{Address: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Protocol: ruleset.TCP, Port: 80}] = b
		to[Frontend{Address: netip.IPv4Unspecified(), Protocol: ruleset.TCP, Port: uint16(i + 1)}] = b
	}
	node := &Node{Network: &Network{Own: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}}}
	p := new(Compiler).Compile(Input{Node: node, Balanced: &Balanced{To: ruleset.NewLayered(to)}}).Program
	var found []string
	for name := range p.Chains {
		if ruleset.IsTarget(name) {
			found = append(found, name)
		}
	}
	if slices.Sort(found); len(found) != 6 {
		t.Errorf("chains %q", found)
	}
	if text := p.String(); !strings.Contains(text, "one of 3 backends of ipv4, by the port") || p.Dispatch[ruleset.Services4].Len() != 5000 || p.Dispatch[ruleset.NodePorts4].Len() != 5000 {
		t.Errorf("%d, %d elements", p.Dispatch[ruleset.Services4].Len(), p.Dispatch[ruleset.NodePorts4].Len())
	}
	released := ruleset.Released(p)
	if released.Dispatch[ruleset.Services4].Len() != 5000 || released.Chains[string(ruleset.ToServices)] == nil || released.Chains[string(ruleset.FromPods)] == nil || released.Chains[string(ruleset.PodsIn)] != nil {
		t.Error("releasing a Node takes its Services away, or leaves policies")
	}
}

// randomBalance is one of any kind.
func randomBalance(r *rand.Rand) *Balance {
	backends := func() (out []netip.AddrPort) {
		for range r.IntN(4) {
			out = append(out, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 0, byte(r.IntN(20))}), uint16(1+r.IntN(3))))
		}
		slices.SortFunc(out, netip.AddrPort.Compare)
		return slices.Compact(out)
	}
	b := &Balance{Backends: backends(), Silent: r.IntN(4) == 0, KeepsSource: r.IntN(3) == 0}
	if r.IntN(3) == 0 {
		b.Apart, b.Inside = true, backends()
	}
	if r.IntN(3) == 0 {
		b.Sticky = uint32(1 + r.IntN(2))
	}
	if r.IntN(4) == 0 {
		b.Sources = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, byte(r.IntN(3)), 0}), 24)}
	}
	return b
}

// TestFewPlaces changes few places of many again and again: the program is what one that is made
// from nothing is, and what is written is what differs.
func TestFewPlaces(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	node := &Node{Network: &Network{Own: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}}}
	compiler, to, addresses := new(Compiler), map[Frontend]*Balance{}, map[netip.Addr]bool{}
	place := func() Frontend {
		at := Frontend{Address: netip.AddrFrom4([4]byte{10, 96, 0, byte(r.IntN(100))}), Protocol: []uint8{ruleset.TCP, ruleset.UDP}[r.IntN(2)], Port: 80}
		if r.IntN(3) == 0 {
			at = Frontend{Address: netip.IPv4Unspecified(), Protocol: ruleset.TCP, Port: uint16(30000 + r.IntN(100))}
		}
		return at
	}
	var former *ruleset.Program
	var last *Balanced
	taken := 0
	for step := range 300 {
		var touched []Frontend
		to = maps.Clone(to)
		moves := 1 + r.IntN(3)
		if step%50 == 0 { // everything is another one
			moves = 200
		}
		for range moves {
			at := place()
			touched = append(touched, at)
			if r.IntN(3) == 0 {
				delete(to, at)
			} else {
				to[at] = randomBalance(r)
			}
			if a := netip.AddrFrom4([4]byte{10, 96, 0, byte(r.IntN(100))}); r.IntN(3) == 0 {
				addresses[a] = !addresses[a]
			}
		}
		if r.IntN(20) == 0 {
			node = &Node{Network: &Network{Own: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(r.IntN(2)), 0}), 24)}}}
		}
		of := &Balanced{To: ruleset.NewLayered(to)}
		for a, there := range addresses {
			if there {
				of.ClusterIPs = append(of.ClusterIPs, a)
			}
		}
		slices.SortFunc(of.ClusterIPs, netip.Addr.Compare)
		if plain := *of; r.IntN(2) == 0 { // which was made of the last one
			if of.Descent.Mark = new(ruleset.Mark); last != nil {
				of.Descent.From, of.Descent.Touched = last.Descent.Mark, append(touched, place())
				if of.Loses(last) != plain.Loses(last) || of.MovesDatagrams(last) != plain.MovesDatagrams(last) || of.Equal(last) != plain.Equal(last) {
					t.Fatalf("step %d: what differs is judged by what may differ otherwise than by everything", step)
				}
			}
		}
		last = of
		got, want := compiler.Compile(Input{Node: node, Balanced: of}).Program, new(Compiler).Compile(Input{Node: node, Balanced: of}).Program
		if got.String() != want.String() {
			t.Fatalf("step %d:\n%s\nwant\n%s", step, got, want)
		}
		if former != nil && got.Lineage.From == former.Lineage.Mark {
			taken++
		}
		if change, all := ruleset.Diff(former, got), ruleset.Diff(former, want); !reflect.DeepEqual(change, all) {
			t.Fatalf("step %d: written is\n%s\nwant\n%s", step, change, all)
		}
		if r.IntN(10) == 0 { // a program between that was never written
			continue
		}
		if former = got; r.IntN(10) == 0 {
			former = ruleset.Released(got)
		}
	}
	if taken < 100 {
		t.Errorf("only %d programs were made of those before", taken)
	}
}
