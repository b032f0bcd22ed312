package network

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// ipsecInput is that of node0 among three Nodes with certificates.
func ipsecInput(mode Mode, e Encryption) Input {
	in, _ := sealedInput(mode, e)
	in.OwnKey = PublicKey{}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		n.PublicKey, n.Identity = "", n.Name+".uid.nodes.nephele.io"
		n.PublishedIdentity = n.Identity
	}
	in.OwnIdentity, in.Underlay.IPsecLink = in.Nodes[0].Identity, IPsecDevice
	return in
}

// TestIPsecPlan: which Nodes are behind IPsec, what is closed, what is in the clear, and what is
// reported.
func TestIPsecPlan(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input)
		e      Encryption
		peers  []string
		// closed counts the ways that are, routes those in the clear.
		closed, routes, mtu int
		problem             string
	}{
		"all":                       {nil, ByIPsec, []string{"node1", "node2"}, 4, 0, 1434, ""},
		"all, or clear":             {nil, ByIPsecOrClear, []string{"node1", "node2"}, 0, 0, 1434, ""},
		"charon bounds the MTU":     {func(in *Input) { in.Underlay.IPsecLink, in.Underlay.IPsecMTU = "ipsec0", 1400 }, ByIPsec, []string{"node1", "node2"}, 4, 0, 1400, ""},
		"large frames":              {func(in *Input) { in.Underlay.Toward[0].MTU = 9000 }, ByIPsec, []string{"node1", "node2"}, 4, 0, 8934, ""},
		"one has none":              {func(in *Input) { in.Nodes[1].PublishedIdentity = "" }, ByIPsec, []string{"node2"}, 4, 0, 1434, "Node node1 has not told that it has IPsec, so nothing is sent"},
		"one has none, clear":       {func(in *Input) { in.Nodes[1].PublishedIdentity = "" }, ByIPsecOrClear, []string{"node2"}, 0, 2, 1434, "Node node1 has not told that it has IPsec, so what Pods here and there send one another is not encrypted"},
		"a former Node of the name": {func(in *Input) { in.Nodes[1].PublishedIdentity = "node1.old.nodes.nephele.io" }, ByIPsec, []string{"node2"}, 4, 0, 1434, `is of "node1.old.nodes.nephele.io": want "node1.uid.nodes.nephele.io"`},
		"only a key of WireGuard":   {func(in *Input) { in.Nodes[1].PublishedIdentity, in.Nodes[1].PublicKey = "", PublicKey{1}.String() }, ByIPsecOrClear, []string{"node2"}, 0, 2, 1434, "Node node1 has not told"},
		"no certificate here":       {func(in *Input) { in.OwnIdentity = "" }, ByIPsec, nil, 4, 0, 1434, "Node node0 has no certificate for IPsec yet"},
		"none here, clear":          {func(in *Input) { in.OwnIdentity = "" }, ByIPsecOrClear, nil, 0, 4, 1434, "Node node0 has no certificate for IPsec yet"},
	} {
		in := ipsecInput(Encap, c.e)
		if c.change != nil {
			c.change(&in)
		}
		got := Make(in)
		var peers []string
		for _, p := range got.Peers {
			if p.Sealed == "IPsec" && p.Port == IPsecPort {
				peers = append(peers, p.Name)
			}
		}
		closed := 0
		for w := range got.State.Ways {
			if w.Closed {
				closed++
			} else if w.IPsec != in.Underlay.IPsecLink {
				t.Errorf("%s: a way by %q", name, w.IPsec)
			}
		}
		d := got.State.IPsec
		if !slices.Equal(peers, c.peers) || closed != c.closed || len(got.State.Routes) != c.routes || got.MTU != c.mtu || got.State.WireGuard != nil || len(d.Peers) != len(c.peers) || d.MTU != c.mtu {
			t.Errorf("%s: peers %v, closed %d, routes %v, MTU %d, %+v", name, peers, closed, got.State.Routes, got.MTU, d)
		}
		if (c.problem == "") != (len(got.Troubles) == 0) || c.problem != "" && !strings.Contains(got.Troubles[0].String(), c.problem) {
			t.Errorf("%s: %v", name, got.Troubles)
		}
	}
}

// TestIPsecSteps: from WireGuard to IPsec nothing is open between, nothing is done twice, and a
// Node that has moved is written anew.
func TestIPsecSteps(t *testing.T) {
	before, _ := sealedInput(Encap, ByWireGuard)
	in := ipsecInput(Encap, ByIPsec)
	is, want := Make(before).State, Make(in).State
	var order []string
	for _, s := range Difference(is, want) {
		order = append(order, s.String())
	}
	got := strings.Join(order, "\n")
	if strings.Contains(got, "but encrypted") || !strings.HasPrefix(got, "add the device of IPsec nephele-ipsec, port 4500, MTU 1434") || !strings.HasSuffix(got, "remove the device of WireGuard nephele-wg, port 51820, MTU 1440") ||
		strings.Index(got, "add the route to 10.0.1.0/24 by IPsec") > strings.Index(got, "remove the route to 10.0.1.0/24 by WireGuard") {
		t.Errorf("steps:\n%s", got)
	}
	if again := Difference(want, Make(in).State); len(again) > 0 {
		t.Errorf("done again: %v", again)
	}
	in.Nodes[1].Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.77")}
	if steps := Difference(want, Make(in).State); len(steps) != 1 || steps[0].Verb != Replace || steps[0].Peer == nil || !steps[0].Peer.IPsec {
		t.Errorf("a Node has moved: %v", steps)
	}
	if p := want.IPsec.Peers[KeyOf(in.Nodes[1].Identity)]; !p.First || p.Local != netip.MustParseAddr("192.0.2.1") || len(p.Own) != 2 {
		t.Errorf("%+v", p)
	}
	for _, c := range []Config{{Mode: Encap, Encryption: ByIPsec, Port: IPsecPort}, {Mode: Encap, Encryption: "esp"}} {
		if c.Check() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if err := (Config{Mode: Encap, Encryption: ByIPsec, Port: DefaultWireGuardPort}).Check(); err != nil {
		t.Error(err)
	}
}
