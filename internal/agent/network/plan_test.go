package network

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func node(n int, since int64, addresses []string, cidrs ...string) Node {
	x := Node{Name: fmt.Sprintf("node%d", n), Since: time.Unix(since, 0), PodCIDRs: prefixes(cidrs...)}
	for _, a := range addresses {
		x.Addresses = append(x.Addresses, netip.MustParseAddr(a))
	}
	return x
}

// input is that of node0 on 192.168.1.0/24.
func input(mode Mode, others ...Node) Input {
	self := node(0, 0, []string{"192.168.1.1", "2001:db8:1::1"}, "10.244.0.0/24", "fd00:0::/64")
	return Input{Config: Config{Mode: mode}, Name: "node0", Nodes: append([]Node{self}, others...),
		Underlay: Underlay{Addresses: prefixes("192.168.1.1/24", "2001:db8:1::1/64"), Toward: []Hop{{"eth0", 1500}}, IPv6: true}}
}

func TestModes(t *testing.T) {
	near := node(1, 1, []string{"192.168.1.2", "2001:db8:1::2"}, "10.244.1.0/24", "fd00:1::/64")
	far := node(2, 2, []string{"192.168.2.3", "2001:db8:2::3"}, "10.244.2.0/24", "fd00:2::/64")
	wrapped := func(p string) Route {
		via := netip.MustParsePrefix(p).Addr().Next()
		if via.Is6() { // that of the device of the Node with this range
			via = linkLocal(MACOf("node" + strings.TrimSuffix(strings.TrimPrefix(p, "fd00:"), "::/64")))
		}
		return Route{Via: via, Link: Device}
	}
	direct := func(a string) Route { return Route{Via: netip.MustParseAddr(a)} }
	for mode, want := range map[Mode]map[string]Route{
		Encap:   {"10.244.1.0/24": wrapped("10.244.1.0/24"), "fd00:1::/64": wrapped("fd00:1::/64"), "10.244.2.0/24": wrapped("10.244.2.0/24"), "fd00:2::/64": wrapped("fd00:2::/64")},
		Hybrid:  {"10.244.1.0/24": direct("192.168.1.2"), "fd00:1::/64": direct("2001:db8:1::2"), "10.244.2.0/24": wrapped("10.244.2.0/24"), "fd00:2::/64": wrapped("fd00:2::/64")},
		NoEncap: {"10.244.1.0/24": direct("192.168.1.2"), "fd00:1::/64": direct("2001:db8:1::2")},
	} {
		p := Make(input(mode, near, far))
		got := map[string]Route{}
		for to, r := range p.State.Routes {
			got[to.String()] = r
		}
		if !maps.Equal(got, want) || len(p.Troubles) > 0 {
			t.Errorf("%s: %v %v, want %v", mode, got, p.Troubles, want)
		}
		mtu, tunnels := 1450, map[Mode]int{Encap: 2, Hybrid: 1}[mode]
		if mode == NoEncap {
			mtu = 1500
		}
		if p.MTU != mtu || p.Tunnels != tunnels || (p.State.Device != nil) != (tunnels > 0) || len(p.State.Forwards) != tunnels || len(p.State.Neighbours) != 2*tunnels {
			t.Errorf("%s: %+v", mode, p)
		}
	}
	if a, b := MACOf("node1"), MACOf("node2"); a == b || a != MACOf("node1") || a[0]&3 != 2 {
		t.Errorf("addresses of links %s %s", a, b)
	}
}

// TestTroubles: what is wrong with Nodes is told in a sentence, and only what is concerned is left
// out.
func TestTroubles(t *testing.T) {
	good := node(1, 1, []string{"192.168.2.2"}, "10.244.1.0/24")
	for name, c := range map[string]struct {
		change func(in *Input)
		want   string
		known  bool
		routed []string
	}{
		"nothing":             {func(*Input) {}, "", true, []string{"10.244.1.0/24"}},
		"no such Node":        {func(in *Input) { in.Name = "other" }, "knows no Node other", false, nil},
		"no podCIDR":          {func(in *Input) { in.Nodes[0].PodCIDRs = nil }, "Node node0 has no spec.podCIDRs", false, []string{"10.244.1.0/24"}},
		"another without":     {func(in *Input) { in.Nodes = append(in.Nodes, node(2, 2, []string{"192.168.2.3"})) }, "Node node2 has no spec.podCIDRs", true, []string{"10.244.1.0/24"}},
		"IPv6 is off":         {func(in *Input) { in.Underlay.IPv6 = false }, "IPv6 is switched off", true, []string{"10.244.1.0/24"}},
		"overlap":             {func(in *Input) { in.Nodes = append(in.Nodes, node(2, 2, []string{"192.168.2.3"}, "10.244.1.128/25")) }, "10.244.1.128/25 of Node node2 overlaps 10.244.1.0/24 of Node node1", true, []string{"10.244.1.0/24"}},
		"overlap of an older": {func(in *Input) { in.Nodes = append(in.Nodes, node(2, -5, []string{"192.168.2.3"}, "10.244.0.0/15")) }, "10.244.0.0/24 of Node node0 overlaps 10.244.0.0/15 of Node node2", true, []string{"10.244.0.0/15"}},
		"the same":            {func(in *Input) { in.Nodes = append(in.Nodes, node(2, 2, []string{"192.168.2.3"}, "10.244.0.0/24")) }, "10.244.0.0/24 of Node node2 overlaps 10.244.0.0/24 of Node node0", true, []string{"10.244.1.0/24"}},
		"a Node in it":        {func(in *Input) { in.Nodes = append(in.Nodes, node(2, 2, []string{"192.168.2.3"}, "192.168.2.0/28")) }, "192.168.2.0/28 of Node node2 contains 192.168.2.2", true, []string{"10.244.1.0/24"}},
		"no address":          {func(in *Input) { in.Nodes = append(in.Nodes, node(2, 2, []string{"2001:db8::3"}, "10.244.2.0/24")) }, "Node node2 has no IPv4 address", true, []string{"10.244.1.0/24"}},
		"small MTU":           {func(in *Input) { in.Underlay.Toward = []Hop{{"eth0", 1500}, {"wg0", 1300}} }, "would be 1250, and IPv6 needs 1280", false, []string{"10.244.1.0/24"}},
		"large MTU":           {func(in *Input) { in.MTU = 1500 }, "carry 1450", true, []string{"10.244.1.0/24"}},
		"a foreign route": {func(in *Input) {
			in.Underlay.Foreign = map[netip.Prefix]string{netip.MustParsePrefix("10.244.1.0/24"): "flannel.1"}
		}, "over link flannel.1", true, nil},
	} {
		in := input(Encap, good)
		c.change(&in)
		p := Make(in)
		var texts, routed []string
		for _, x := range p.Troubles {
			texts = append(texts, x.String())
		}
		for to, r := range p.State.Routes {
			if r.Via.IsValid() {
				routed = append(routed, to.String())
			}
		}
		slices.Sort(routed)
		if got := strings.Join(texts, "; "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if _, known := p.Known(); known != c.known || !slices.Equal(routed, c.routed) {
			t.Errorf("%s: known %t, want %t; routed %v, want %v", name, known, c.known, routed, c.routed)
		}
	}
}

// apply does a step to a state, as the kernel does.
func (s *State) apply(t *testing.T, x Step) {
	t.Helper()
	switch {
	case x.Device != nil && x.Verb == Remove:
		s.Device, s.Neighbours, s.Forwards = nil, map[netip.Addr]MAC{}, map[MAC]netip.Addr{}
		maps.DeleteFunc(s.Routes, func(_ netip.Prefix, r Route) bool { return r.Link == Device })
	case x.Device != nil:
		if (s.Device != nil) != (x.Verb == Replace) {
			t.Errorf("%s, where there is %v", x, s.Device)
		}
		d := *x.Device
		s.Device = &d
	case x.End != nil:
		e := s.Ends[x.End.Name]
		e.Up, e.Addresses = true, slices.SortedFunc(slices.Values(append(slices.Clone(e.Addresses), x.End.Add...)), netip.Addr.Compare)
		s.Ends[x.End.Name] = e
	case x.Route != nil && x.Verb == Remove:
		delete(s.Routes, x.Route.To)
	case x.Route != nil:
		if _, there := s.Routes[x.Route.To]; there != (x.Verb == Replace) {
			t.Errorf("%s, where there is %v", x, s.Routes[x.Route.To])
		}
		if x.Route.Link == Device && s.Device == nil {
			t.Errorf("%s, without a device", x)
		}
		s.Routes[x.Route.To] = x.Route.Route
	case x.Neighbour != nil && x.Verb == Remove:
		delete(s.Neighbours, x.Neighbour.Address)
	case x.Neighbour != nil:
		s.Neighbours[x.Neighbour.Address] = x.Neighbour.MAC
	case x.Forward != nil && x.Verb == Remove:
		delete(s.Forwards, x.Forward.MAC)
	case x.Forward != nil:
		s.Forwards[x.Forward.MAC] = x.Forward.To
	}
}

// TestDifferenceOnRandomInput: from whatever there is the steps lead to what is wanted; where all
// is there, there are none; and a route that is wanted before and after is never missing between.
func TestDifferenceOnRandomInput(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	draw := func() Input {
		in := input(Modes()[random.IntN(3)])
		in.Underlay.IPv6 = random.IntN(4) > 0
		in.Ends = map[string][]netip.Addr{}
		for n := 1; n < 6; n++ {
			if random.IntN(3) > 0 {
				subnet := 1 + random.IntN(2)
				in.Nodes = append(in.Nodes, node(n, int64(n), []string{fmt.Sprintf("192.168.%d.%d", subnet, 10+n+random.IntN(2)*20), fmt.Sprintf("2001:db8:%d::%d", subnet, n)},
					fmt.Sprintf("10.244.%d.0/24", n), fmt.Sprintf("fd00:%d::/64", n)))
			}
			if random.IntN(2) > 0 {
				in.Ends[EndName(fmt.Sprint(n), "eth0")] = []netip.Addr{netip.MustParseAddr(fmt.Sprintf("10.244.0.%d", n+1))}
			}
		}
		if random.IntN(4) == 0 {
			in.Port = 8472
		}
		return in
	}
	for range 2000 {
		before, want := Make(draw()).State, Make(draw()).State
		is := NewState()
		for _, x := range Difference(is, before) {
			is.apply(t, x)
		}
		steps := Difference(is, want)
		stays := is.Device == nil || want.Device == nil || is.Device.sameTunnel(want.Device)
		for _, x := range steps {
			is.apply(t, x)
			for to := range want.Routes {
				if _, was := before.Routes[to]; was && stays {
					if _, there := is.Routes[to]; !there {
						t.Fatalf("after %s there is no route to %s", x, to)
					}
				}
			}
		}
		maps.DeleteFunc(is.Ends, func(name string, _ End) bool { _, wanted := want.Ends[name]; return !wanted }) // their plugin removes them
		for name := range is.Ends {
			is.Ends[name] = End{Up: true, Addresses: want.Ends[name].Addresses}
		}
		if !reflect.DeepEqual(is, want) {
			t.Fatalf("it led to\n%+v\nwant\n%+v", is, want)
		}
		if again := Difference(is, want); len(again) > 0 {
			t.Fatalf("and then %v", again)
		}
	}
}

// TestPartial: a Node of which the API tells too little for a while loses nothing that it has.
func TestPartial(t *testing.T) {
	far := node(1, 1, []string{"192.168.2.2"}, "10.244.1.0/24")
	whole := input(Encap, far)
	whole.Ends = map[string][]netip.Addr{EndName("c", "eth0"): {netip.MustParseAddr("10.244.0.5")}}
	has := NewState()
	for _, x := range Make(whole).Steps(has) {
		has.apply(t, x)
	}
	for name, change := range map[string]func(in *Input){
		"not there":  func(in *Input) { in.Nodes = in.Nodes[1:] },
		"no address": func(in *Input) { in.Nodes[0].Addresses = nil },
		"no podCIDR": func(in *Input) { in.Nodes[0].PodCIDRs = nil },
		"no route":   func(in *Input) { in.Underlay.Toward = nil },
	} {
		in := input(Encap, far)
		in.Ends = whole.Ends
		change(&in)
		p := Make(in)
		for _, x := range p.Steps(has) {
			if x.Verb == Remove || x.Device != nil {
				t.Errorf("%s: %s", name, x)
			}
		}
		if _, known := p.Known(); known || !p.Partial {
			t.Errorf("%s: Pods get addresses", name)
		}
	}
}

func TestAlias(t *testing.T) {
	if c, i, ok := ParseAlias(EndAlias("c1", "eth0")); !ok || c != "c1" || i != "eth0" {
		t.Error(c, i, ok)
	}
	for _, text := range []string{"", "nephele ", "nephele c1", "nephele  eth0", "nephele c1 ", "nephele a b c", "others c1 eth0", "nephele " + strings.Repeat("c", 250) + " eth0"} {
		if _, _, ok := ParseAlias(text); ok {
			t.Errorf("%q is taken for one of ours", text)
		}
	}
	if n := EndName(strings.Repeat("c", 64), "eth0"); len(n) > 15 || !strings.HasPrefix(n, EndPrefix) {
		t.Errorf("link %s", n)
	}
	for _, c := range []Config{{Mode: "geneve"}, {Mode: Encap, MTU: 100}, {Mode: Encap, MTU: 1 << 20}, {Mode: Encap, Except: []netip.Prefix{{}}}} {
		if c.Check() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}
