package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// sealedNodes are three Nodes with keys, of which node0 is this one.
func sealedNodes() (nodes []Node, keys []PublicKey) {
	for i := range 3 {
		key := PublicKey{byte(i + 1)}
		keys = append(keys, key)
		nodes = append(nodes, Node{Name: fmt.Sprintf("node%d", i), Since: time.Unix(int64(i), 0), Addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", i+1))},
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.0.%d.0/24", i)), netip.MustParsePrefix(fmt.Sprintf("fd00:%d::/64", i))}, PublicKey: key.String()})
	}
	return nodes, keys
}

func sealedInput(mode Mode, e Encryption) (Input, []PublicKey) {
	nodes, keys := sealedNodes()
	return Input{Config: Config{Mode: mode, Encryption: e}, Name: "node0", Nodes: nodes, OwnKey: keys[0],
		Underlay: Underlay{Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}, Toward: []Hop{{"eth0", 1500}}, IPv6: true}}, keys
}

// TestSealedPlan: which Nodes are behind WireGuard by which key, what is closed, and what is told.
func TestSealedPlan(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input, []PublicKey)
		e      Encryption
		// peers are the names of those behind WireGuard, closed counts the ways that are, and
		// routes the routes of others.
		peers          []string
		closed, routes int
		troubles       []string
	}{
		"all tell keys":     {e: ByWireGuard, peers: []string{"node1", "node2"}, closed: 4},
		"all, or clear":     {e: ByWireGuardOrClear, peers: []string{"node1", "node2"}},
		"one tells none":    {func(in *Input, _ []PublicKey) { in.Nodes[1].PublicKey = "" }, ByWireGuard, []string{"node2"}, 4, 0, []string{"node1 has told no key of WireGuard, so nothing is sent"}},
		"one none, clear":   {func(in *Input, _ []PublicKey) { in.Nodes[1].PublicKey = "" }, ByWireGuardOrClear, []string{"node2"}, 0, 2, []string{"node1 has told no key of WireGuard, so what Pods here and there send one another is not encrypted"}},
		"one tells rubbish": {func(in *Input, _ []PublicKey) { in.Nodes[1].PublicKey = strings.Repeat("x", 1000) }, ByWireGuard, []string{"node2"}, 4, 0, []string{`is none: want 32 bytes`}},
		"zeros":             {func(in *Input, _ []PublicKey) { in.Nodes[1].PublicKey = PublicKey{}.String() }, ByWireGuard, []string{"node2"}, 4, 0, []string{`is none: want 32 bytes`}},
		"the key of an older": {func(in *Input, k []PublicKey) { in.Nodes[2].PublicKey = k[1].String() }, ByWireGuard, []string{"node1"}, 4, 0,
			[]string{"node2 tells the key of WireGuard of Node node1"}},
		"the key of this one": {func(in *Input, k []PublicKey) { in.Nodes[2].PublicKey = k[0].String() }, ByWireGuard, []string{"node1"}, 4, 0,
			[]string{"node2 tells the key of WireGuard of Node node0"}},
		"no IPv6 here":            {func(in *Input, _ []PublicKey) { in.Underlay.IPv6 = false }, ByWireGuard, []string{"node1", "node2"}, 2, 0, []string{"IPv6 is switched off"}},
		"an address it has not":   {func(in *Input, _ []PublicKey) { in.Nodes[1].Addresses = nil }, ByWireGuard, []string{"node2"}, 4, 0, []string{"node1 has no IPv4 address"}},
		"overlapping":             {func(in *Input, _ []PublicKey) { in.Nodes[2].PodCIDRs = in.Nodes[1].PodCIDRs }, ByWireGuard, []string{"node1"}, 2, 0, []string{"which is older", "which is older"}},
		"nothing is to be sealed": {e: NoEncryption, routes: 4},
	} {
		for _, mode := range []Mode{Encap, NoEncap} {
			in, keys := sealedInput(mode, c.e)
			if c.change != nil {
				c.change(&in, keys)
			}
			got := Make(in)
			var peers []string
			for _, p := range got.Peers {
				if p.Sealed == "WireGuard" {
					peers = append(peers, p.Name)
				}
			}
			closed := 0
			for w := range got.State.Ways {
				if w.Closed {
					closed++
				} else if c.e == ByWireGuard && !got.State.Ways[Way{To: w.To, Closed: true}] {
					t.Errorf("%s: the way to %s is not closed without WireGuard", name, w.To)
				}
			}
			routes := len(got.State.Routes)
			if c.routes > 0 && mode == NoEncap { // no next hop of IPv6
				routes *= 2
			}
			if !slices.Equal(peers, c.peers) || closed != c.closed || routes != c.routes || got.Encrypted != len(c.peers) || len(got.Sealed) != c.closed {
				t.Errorf("%s, %s: peers %v, %d closed, %d routes, %d encrypted, sealed %v; %v", name, mode, peers, closed, routes, got.Encrypted, got.Sealed, got.Troubles)
			}
			for i, want := range c.troubles {
				if len(got.Troubles) <= i || !strings.Contains(got.Troubles[i].String(), want) {
					t.Errorf("%s: troubles %v, want %q", name, got.Troubles, want)
				}
			}
			if mtu := map[Encryption]int{NoEncryption: 1450, ByWireGuard: 1440, ByWireGuardOrClear: 1440}[c.e]; mode == Encap && got.MTU != mtu {
				t.Errorf("%s: MTU %d, want %d", name, got.MTU, mtu)
			}
			if device := got.State.Device != nil; device != (mode == Encap && c.e != ByWireGuard) {
				t.Errorf("%s, %s: VXLAN %t", name, mode, device)
			}
		}
	}
}

// TestSealedSteps: nothing is done where all is there, and nothing is open between.
func TestSealedSteps(t *testing.T) {
	in, keys := sealedInput(Encap, ByWireGuard)
	want := Make(in).State
	var order []string
	for _, s := range Difference(NewState(), want) {
		order = append(order, s.String())
	}
	if got := strings.Join(order, "\n"); len(order) != 1+2+8+2 || !strings.HasPrefix(got, "add the device of WireGuard") || strings.Index(got, "nothing goes to 10.0.1.0/24 but encrypted") > strings.Index(got, "the route to 10.0.1.0/24 by WireGuard") ||
		!strings.HasPrefix(order[len(order)-1], "add the rule that what is encrypted comes first") {
		t.Errorf("steps:\n%s", got)
	}
	if again := Difference(want, want); len(again) > 0 {
		t.Errorf("done again: %v", again)
	}
	// The kernel has found a Node at another of its addresses by itself.
	in.Nodes[1].Addresses = append(in.Nodes[1].Addresses, netip.MustParseAddr("198.51.100.7"))
	want = Make(in).State
	is := Make(in).State
	p := is.WireGuard.Peers[keys[1]]
	p.Endpoint = netip.MustParseAddrPort("198.51.100.7:51820")
	is.WireGuard.Peers[keys[1]] = p
	if steps := Difference(is, want); len(steps) > 0 {
		t.Errorf("an endpoint of the Node is set back: %v", steps)
	}
	p.Endpoint = netip.MustParseAddrPort("203.0.113.7:51820")
	is.WireGuard.Peers[keys[1]] = p
	if steps := Difference(is, want); len(steps) != 1 || steps[0].Peer == nil {
		t.Errorf("an endpoint that is not of the Node stays: %v", steps)
	}
	// A Node goes: rules first, what is closed last.
	gone := Make(Input{Config: in.Config, Name: "node0", Nodes: in.Nodes[:1], OwnKey: in.OwnKey, Underlay: in.Underlay}).State
	order = nil
	for _, s := range Difference(want, gone) {
		order = append(order, s.String())
	}
	got := strings.Join(order, "\n")
	if !strings.HasPrefix(got, "remove the rule") || strings.Index(got, "remove the route to 10.0.1.0/24") > strings.Index(got, "remove that nothing goes to 10.0.1.0/24") {
		t.Errorf("steps:\n%s", got)
	}
	for _, text := range []string{"", "x", strings.Repeat("A", 43) + "=", strings.Repeat("A", 44), keys[0].String() + "\n", keys[0].String()[:40]} {
		if k, err := ParsePublicKey(text); err == nil {
			t.Errorf("%q is the key %s", text, k)
		}
	}
	if k, err := ParsePublicKey(keys[1].String()); err != nil || k != keys[1] {
		t.Errorf("%v %v", k, err)
	}
	for _, c := range []Config{{Mode: Encap, Encryption: "x"}, {Mode: Encap, Encryption: ByWireGuard, Port: DefaultWireGuardPort}, {Mode: Encap, Encryption: ByWireGuard, WireGuardPort: DefaultPort}} {
		if c.Check() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// TestSealedStepsBesides: where another plugin makes the network, what an agent has made before
// stays for the Pods that have it, and only WireGuard comes and goes.
func TestSealedStepsBesides(t *testing.T) {
	in, _ := sealedInput(Encap, NoEncryption)
	in.Ends = map[string][]netip.Addr{"nph0": {netip.MustParseAddr("10.0.0.2")}}
	is := Make(in).State
	in.Mode = PolicyOnly
	if steps := Make(in).Steps(is); len(steps) > 0 {
		t.Errorf("steps: %v", steps)
	}
	in.Encryption = ByWireGuard
	with := Make(in)
	if steps := with.Steps(is); len(steps) != 1+2+8+2 {
		t.Errorf("steps: %v", steps)
	}
	is.WireGuard, is.Ways, is.Rules = with.State.WireGuard, with.State.Ways, with.State.Rules
	in.Encryption = NoEncryption
	if steps := Make(in).Steps(is); len(steps) != 2+8+1 || steps[0].Verb != Remove {
		t.Errorf("steps: %v", steps)
	}
}
