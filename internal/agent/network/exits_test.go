package network

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestExitWays: which way leads to a Node that has the address of an Egress, in each mode, and that
// where there is none nothing leaves.
func TestExitWays(t *testing.T) {
	node := func(i, subnet int) Node {
		return Node{Name: fmt.Sprint("node", i), Addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("192.168.%d.%d", subnet, i+1)), netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::%d", subnet, i+1))},
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", i)), netip.MustParsePrefix(fmt.Sprintf("fd00:%d::/64", i))}}
	}
	for name, c := range map[string]struct {
		mode       Mode
		encryption Encryption
		to         string
		// via are the next hops, wrapped tells that they are behind VXLAN.
		via     []string
		wrapped bool
		trouble string
	}{
		"encap, near":            {Encap, NoEncryption, "node1", []string{"10.244.1.1", linkLocal(MACOf("node1")).String()}, true, ""},
		"encap, far":             {Encap, NoEncryption, "node2", []string{"10.244.2.1", linkLocal(MACOf("node2")).String()}, true, ""},
		"hybrid, near":           {Hybrid, NoEncryption, "node1", []string{"192.168.1.2", "2001:db8:1::2"}, false, ""},
		"hybrid, far":            {Hybrid, NoEncryption, "node2", []string{"10.244.2.1", linkLocal(MACOf("node2")).String()}, true, ""},
		"noEncap, near":          {NoEncap, NoEncryption, "node1", []string{"192.168.1.2", "2001:db8:1::2"}, false, ""},
		"noEncap, far":           {NoEncap, NoEncryption, "node2", []string{"10.244.2.1", linkLocal(MACOf("node2")).String()}, true, ""},
		"WireGuard, far":         {Encap, ByWireGuard, "node2", []string{"10.244.2.1", linkLocal(MACOf("node2")).String()}, true, ""},
		"WireGuard, noEncap":     {NoEncap, ByWireGuard, "node1", []string{"10.244.1.1", linkLocal(MACOf("node1")).String()}, true, ""},
		"WireGuard, no key":      {Hybrid, ByWireGuard, "node3", nil, false, "no way for the IPv4 traffic of an Egress leads to Node node3"},
		"or clear, noEncap":      {NoEncap, ByWireGuardOrClear, "node1", []string{"10.244.1.1", linkLocal(MACOf("node1")).String()}, true, ""},
		"or clear, encap":        {Encap, ByWireGuardOrClear, "node1", []string{"10.244.1.1", linkLocal(MACOf("node1")).String()}, true, ""},
		"or clear, hybrid":       {Hybrid, ByWireGuardOrClear, "node2", []string{"10.244.2.1", linkLocal(MACOf("node2")).String()}, true, ""},
		"or clear, far, no key":  {NoEncap, ByWireGuardOrClear, "node3", []string{"10.244.3.1", linkLocal(MACOf("node3")).String()}, true, ""},
		"or clear, no key":       {Encap, ByWireGuardOrClear, "node3", []string{"10.244.3.1", linkLocal(MACOf("node3")).String()}, true, ""},
		"a Node that is not any": {Encap, NoEncryption, "other", nil, false, ""},
	} {
		in := Input{Config: Config{Mode: c.mode, Encryption: c.encryption}, Name: "node0", OwnKey: PublicKey{9}, Nodes: []Node{node(0, 1), node(1, 1), node(2, 2), node(3, 2)}, Exits: map[string]uint8{c.to: 7}}
		in.Nodes[1].PublicKey, in.Nodes[2].PublicKey = PublicKey{1}.String(), PublicKey{2}.String()
		in.Underlay = Underlay{IPv6: true, Toward: []Hop{{Link: "eth0", MTU: 1500}}, Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.1/24"), netip.MustParsePrefix("2001:db8:1::1/64")}}
		got := Make(in)
		var via []string
		closed, past := 0, 0
		for w := range got.State.Ways {
			switch {
			case w.Exit == 0:
			case w.Exit != 7:
				t.Errorf("%s: a way of exit %d", name, w.Exit)
			case w.Closed:
				closed++
			case w.Past:
				past++
				outer := node(2, 2).Addresses[0]
				if c.encryption.on() {
					outer = netip.MustParseAddr("10.244.2.1")
				}
				if c.to == "node2" && w.To != netip.PrefixFrom(outer, 32) {
					t.Errorf("%s: past for %s", name, w.To)
				}
			default:
				via = append(via, w.Via.String())
				if w.Wrapped != c.wrapped || w.To.Bits() != 0 {
					t.Errorf("%s: %+v", name, w)
				}
			}
		}
		slices.Sort(via)
		if want := slices.Sorted(slices.Values(c.via)); !slices.Equal(via, want) || closed != 2 || past > 0 != c.wrapped || len(got.Exits) != len(c.via) {
			t.Errorf("%s: by %v, want %v; %d closed, %d past, exits %v", name, via, want, closed, past, got.Exits)
		}
		for _, six := range []bool{false, true} {
			if !got.State.Rules[RuleStep{six, 7}] {
				t.Errorf("%s: no rule leads to the exit, IPv6 %t", name, six)
			}
		}
		var troubles []string
		for _, x := range got.Troubles {
			troubles = append(troubles, x.String())
		}
		if all := strings.Join(troubles, "; "); c.trouble != "" && !strings.Contains(all, c.trouble) || c.trouble == "" && strings.Contains(all, "Egress") {
			t.Errorf("%s: %s", name, all)
		}
		// What opens comes after what closes, and goes before it; and no step is needed twice.
		if again := Difference(got.State, got.State); len(again) > 0 {
			t.Errorf("%s: %v again", name, again)
		}
		order := func(steps []Step, verb Verb) (closes, opens, rules []int) {
			for i, s := range steps {
				switch {
				case s.Verb != verb:
				case s.Way != nil && s.Way.Exit == 7 && s.Way.Closed:
					closes = append(closes, i)
				case s.Way != nil && s.Way.Exit == 7 && s.Way.Via.IsValid():
					opens = append(opens, i)
				case s.Rule != nil && s.Rule.Exit == 7:
					rules = append(rules, i)
				}
				if s.Way != nil && s.Way.Exit == 7 && !strings.Contains(s.String(), "exit 7") {
					t.Errorf("%s: a step says %q", name, s)
				}
			}
			return closes, opens, rules
		}
		in.Exits = nil
		without := Make(in)
		closes, opens, rules := order(Difference(without.State, got.State), Add)
		if len(opens) > 0 && slices.Min(opens) < slices.Max(closes) || slices.Min(rules) < slices.Max(closes) {
			t.Errorf("%s: added: closed %v, open %v, rules %v", name, closes, opens, rules)
		}
		closes, opens, rules = order(Difference(got.State, without.State), Remove)
		if len(opens) > 0 && slices.Max(opens) > slices.Min(closes) || slices.Max(rules) > slices.Min(closes) {
			t.Errorf("%s: removed: closed %v, open %v, rules %v", name, closes, opens, rules)
		}
		without.KeepExits(got.State)
		if steps := Difference(got.State, without.State); slices.ContainsFunc(steps, func(s Step) bool { return s.Way != nil && s.Way.Exit == 7 || s.Rule != nil && s.Rule.Exit == 7 }) {
			t.Errorf("%s: kept, and yet %v", name, steps)
		}
	}
}

// TestExitTunnels: the device by which packets get to a Node with the address of an Egress where
// Pods are reached without one, and the way back of the answers.
func TestExitTunnels(t *testing.T) {
	for name, c := range map[string]struct {
		mode       Mode
		encryption Encryption
		change     func(*Input)
		// local is where it sends from; empty for no device.
		local string
		mtu   int
		// back are the ranges to which answers go back, outer where the wrapped packets go.
		back, outer []string
	}{
		"noEncap, near and far": {mode: NoEncap, local: "192.0.2.1", mtu: 1450, back: []string{"10.0.2.0/24", "fd00:2::/64"}, outer: []string{"198.51.100.3"}},
		"noEncap, small Pods":   {mode: NoEncap, change: func(in *Input) { in.MTU = 1300 }, local: "192.0.2.1", mtu: 1300, back: []string{"10.0.2.0/24", "fd00:2::/64"}, outer: []string{"198.51.100.3"}},
		"WireGuard":             {mode: Encap, encryption: ByWireGuard, local: "10.0.0.1", mtu: 1390, back: []string{"10.0.1.0/24", "10.0.2.0/24", "fd00:1::/64", "fd00:2::/64"}, outer: []string{"10.0.1.1", "10.0.2.1"}},
		"WireGuard of IPv6": {mode: NoEncap, encryption: ByWireGuard, change: func(in *Input) {
			for i := range in.Nodes {
				in.Nodes[i].PodCIDRs = in.Nodes[i].PodCIDRs[1:]
			}
		}, local: "fd00::1", mtu: 1370, back: []string{"fd00:1::/64", "fd00:2::/64"}, outer: []string{"fd00:1::1", "fd00:2::1"}},
		"a link too small for IPv6": {mode: NoEncap, change: func(in *Input) { in.Underlay.Toward[0].MTU = 1300 }, local: "192.0.2.1", mtu: 1250, back: []string{"10.0.2.0/24"}, outer: []string{"198.51.100.3"}},
		"encap":                     {mode: Encap, local: "192.0.2.1", mtu: 1450},
		"or clear":                  {mode: Encap, encryption: ByWireGuardOrClear, local: "0.0.0.0", mtu: 1440, back: []string{"10.0.1.0/24", "10.0.2.0/24", "fd00:1::/64", "fd00:2::/64"}, outer: []string{"10.0.1.1", "10.0.2.1"}},
		"or clear, noEncap":         {mode: NoEncap, encryption: ByWireGuardOrClear, local: "10.0.0.1", mtu: 1390, back: []string{"10.0.1.0/24", "10.0.2.0/24", "fd00:1::/64", "fd00:2::/64"}, outer: []string{"10.0.1.1", "10.0.2.1"}},
		"or clear, noEncap, a key is missing": {mode: NoEncap, encryption: ByWireGuardOrClear, change: func(in *Input) { in.Nodes[2].PublicKey = "" },
			local: "0.0.0.0", mtu: 1390, back: []string{"10.0.1.0/24", "10.0.2.0/24", "fd00:1::/64", "fd00:2::/64"}, outer: []string{"10.0.1.1", "198.51.100.3"}},
		"nobody leaves here":       {mode: NoEncap, change: func(in *Input) { in.Entries = nil }},
		"an entry that is no Node": {mode: NoEncap, change: func(in *Input) { in.Entries = []string{"other", "node0"} }},
	} {
		in, _ := sealedInput(c.mode, c.encryption)
		in.Nodes[2].Addresses = []netip.Addr{netip.MustParseAddr("198.51.100.3")}
		for i := range in.Nodes { // each of one more family, so that node1 is near in both
			in.Nodes[i].Addresses = append(in.Nodes[i].Addresses, netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::%d", i/2, i+1)))
		}
		in.Underlay.Addresses = append(in.Underlay.Addresses, netip.MustParsePrefix("2001:db8::1/64"))
		in.Entries = []string{"node1", "node2"}
		if c.change != nil {
			c.change(&in)
		}
		got := Make(in)
		local, mtu := "", 0
		if d := got.State.Device; d != nil {
			local, mtu = d.Local.String(), d.MTU
		}
		var back, outer, closed []string
		for w := range got.State.Ways {
			switch {
			case w.Exit != ReturnExit:
			case w.Closed:
				closed = append(closed, w.To.String())
			case w.Past:
				outer = append(outer, w.To.Addr().String())
			default:
				back = append(back, w.To.String())
				if mac, there := got.State.Neighbours[w.Via]; !there || !w.Wrapped || !slices.Contains(slices.Collect(maps.Values(got.State.Forwards)), got.State.Forwards[mac]) {
					t.Errorf("%s: %+v leads to nobody", name, w)
				}
			}
		}
		for _, l := range [][]string{back, outer, closed} {
			slices.Sort(l)
		}
		if local != c.local || mtu != c.mtu || !slices.Equal(back, c.back) || !slices.Equal(outer, c.outer) || got.Returns != (len(closed) > 0) || len(closed) < len(back) {
			t.Errorf("%s: from %s with MTU %d, back %v, outer %v, closed %v", name, local, mtu, back, outer, closed)
		}
		// A restart keeps it while Egresses are not known.
		in.Entries, in.Stays = nil, nil
		kept := Make(in)
		kept.KeepExits(got.State)
		if steps := Difference(got.State, kept.State); len(steps) > 0 || kept.Returns != got.Returns {
			t.Errorf("%s: kept, and yet %v", name, steps)
		}
		// The device is there before what leads over it, and made anew it has all again.
		other := *got.State
		if got.State.Device == nil {
			continue
		}
		device := *got.State.Device
		device.Port++
		other.Device = &device
		for what, is := range map[string]*State{"made": NewState(), "made anew": &other} {
			at, over := -1, 0
			for i, s := range Difference(is, got.State) {
				if s.Device != nil && s.Verb == Add {
					at = i
				}
				if s.Way != nil && s.Way.Wrapped && s.Verb == Add {
					over++
					if at < 0 {
						t.Errorf("%s, %s: a way before the device", name, what)
					}
				}
			}
			if over != len(back) {
				t.Errorf("%s, %s: %d ways over the device, want %d", name, what, over, len(back))
			}
		}
	}
}
