package kernel_test

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/conntrack"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// onHost is a policy of a host: what comes in to port 84 is allowed from one peer and rejected from
// the others, and what goes out to port 85 is allowed; so all else is isolated.
func onHost(from netip.Addr) enforcer.Computed {
	tier, priority, tcp := int32(250), 1.0, v1beta2.ProtocolTCP
	rule := func(d v1beta2.Direction, action v1beta2.RuleAction, port, order int, peers ...netip.Prefix) v1beta2.NetworkPolicyRule {
		n := intstr.FromInt(port)
		peer := v1beta2.NetworkPolicyPeer{}
		for _, p := range peers {
			peer.IPBlocks = append(peer.IPBlocks, v1beta2.IPBlock{CIDR: v1beta2.IPNet{IP: p.Addr().AsSlice(), PrefixLength: int32(p.Bits())}})
		}
		r := v1beta2.NetworkPolicyRule{Direction: d, Action: &action, Priority: int32(order), Services: []v1beta2.Service{{Protocol: &tcp, Port: &n}}, From: peer}
		if d == v1beta2.DirectionOut {
			r.From, r.To = v1beta2.NetworkPolicyPeer{}, peer
		}
		return r
	}
	everybody := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	return enforcer.Computed{
		AppliedToGroups: []*v1beta2.AppliedToGroup{{ObjectMeta: metav1.ObjectMeta{Name: "host"},
			GroupMembers: []v1beta2.GroupMember{{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "vms", Name: "host"}}}}},
		Policies: []*v1beta2.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "uid"}, TierPriority: &tier, Priority: &priority, AppliedToGroups: []string{"host"},
			SourceRef: &v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "vms", Name: "p", UID: "uid"},
			Rules: []v1beta2.NetworkPolicyRule{
				rule(v1beta2.DirectionIn, v1beta2.RuleActionAllow, 84, 0, netip.PrefixFrom(from, from.BitLen())), rule(v1beta2.DirectionIn, v1beta2.RuleActionReject, 84, 1, everybody...),
				rule(v1beta2.DirectionOut, v1beta2.RuleActionAllow, 85, 2, everybody...),
			}}},
	}
}

// amongMany puts other policies before and behind the policies of a host, about other ports, so
// that all are in blocks.
func amongMany(in enforcer.Computed) enforcer.Computed {
	for n := range 24 {
		other := onHost(netip.MustParseAddr("203.0.113.1")).Policies[0]
		priority := float64(n / 12 * 2)
		other.Name, other.Priority = fmt.Sprint("other-", n), &priority
		other.SourceRef = &v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "vms", Name: other.Name, UID: types.UID(other.Name)}
		for i := range other.Rules {
			at := intstr.FromInt(1000 + n)
			other.Rules[i].Services[0].Port = &at
		}
		in.Policies = append(in.Policies, other)
	}
	return in
}

// TestForwardedIsJudged puts a policy on a host that routes: containers on its bridge and behind
// its published ports are reached, and reach, what the policy lets the host; without the option
// they do as they like.
func TestForwardedIsJudged(t *testing.T) {
	lab := nfttest.NewLab(t)
	node, container := nfttest.NodeAddresses(), nfttest.PodAddresses(0)
	at := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(container[0], port) }
	lab.Translate(t, []nfttest.Service{{Port: 84, To: at(80)}, {Port: 86, To: at(84)}, {Port: 87, To: at(87)}})
	table := open(t, lab.Node)
	var cutter *conntrack.Connections
	if err := lab.Node.Do(func() (err error) { cutter, err = conntrack.Open(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cutter.Close() })
	cutter.Local, cutter.Through = func() ([]netip.Addr, error) { return node, nil }, true
	port := uint16(30000)
	attempt := func(from *nfttest.Host, source, destination netip.Addr, to uint16) nfttest.Attempt {
		port++
		return nfttest.Attempt{From: from, Network: "tcp", Source: netip.AddrPortFrom(source, port), Destination: netip.AddrPortFrom(destination, to)}
	}
	friend, stranger := lab.Peers4[0], lab.Peers4[1]
	type probe struct {
		name        string
		from        *nfttest.Host
		source, dst netip.Addr
		port        uint16
		want        nfttest.Result
		judged      ruleset.Packet
	}
	published := func(name string, from netip.Addr, asked, inside uint16, want nfttest.Result) probe {
		return probe{name, lab.Peers, from, nfttest.ServiceAddress4, asked, want,
			ruleset.Packet{Source: from, Destination: container[0], Protocol: ruleset.TCP, Port: inside, Translated: true, Original: netip.AddrPortFrom(nfttest.ServiceAddress4, asked)}}
	}
	sent := func(name string, pod int, to netip.Addr, asked uint16, want nfttest.Result) probe {
		source := nfttest.PodAddresses(pod)[0]
		if to.Is6() {
			source = nfttest.PodAddresses(pod)[1]
		}
		return probe{name, lab.Pods[pod], source, to, asked, want, ruleset.Packet{Source: source, Destination: to, Protocol: ruleset.TCP, Port: asked, FromBridge: pod < nfttest.PodCount/2}}
	}
	neighbour := sent("a container to one on the same bridge", 0, nfttest.PodAddresses(1)[0], 90, nfttest.Passed)
	neighbour.judged.ToBridge = true
	probes := []probe{
		published("a port that is allowed, by the one that was asked", friend, 84, 80, nfttest.Passed),
		published("the same for somebody else", stranger, 84, 80, nfttest.Rejected),
		published("a port that is not, though the one inside is", friend, 86, 84, nfttest.Silent),
		published("a port that is not", friend, 87, 87, nfttest.Silent),
		sent("a container to a port that is allowed", 0, friend, 85, nfttest.Passed), sent("the same over IPv6", 0, lab.Peers6[0], 85, nfttest.Passed),
		sent("a container to another port", 0, friend, 86, nfttest.Silent), sent("the same over IPv6", 0, lab.Peers6[0], 86, nfttest.Silent),
		sent("what is behind a route and no bridge", nfttest.PodCount-1, friend, 86, nfttest.Passed), neighbour,
	}
	run := func(p *ruleset.Program, judged bool) {
		t.Helper()
		if _, err := table.Apply(p); err != nil {
			t.Fatal(err)
		}
		if differs, err := table.Verify(p); err != nil || len(differs) > 0 {
			t.Fatalf("the kernel holds something else: %v %v", differs, err)
		}
		for _, x := range probes {
			want := x.want
			if !judged {
				want = nfttest.Passed
			}
			limit := patient
			if want == nfttest.Silent {
				limit = soon
			}
			if got, err := attempt(x.from, x.source, x.dst, x.port).Run(limit); err != nil || got != want {
				t.Errorf("judged %t: %s: %v %v, want %v", judged, x.name, got, err, want)
			}
			if allows := p.JudgeWay(ruleset.Passing, x.judged).Allows(); allows != (want == nfttest.Passed) {
				t.Errorf("judged %t: %s: the evaluator allows: %t", judged, x.name, allows)
			}
		}
	}
	run(new(nft.Compiler).Compile(nft.Input{Computed: onHost(friend)}).Program, false)
	compiler := nft.Compiler{Forwarded: true}
	run(compiler.Compile(nft.Input{Computed: onHost(friend)}).Program, true)
	many := compiler.Compile(nft.Input{Computed: amongMany(onHost(friend))}).Program
	if n := len(slices.DeleteFunc(slices.Collect(maps.Keys(many.Chains)), func(name string) bool { return !strings.HasSuffix(name, "-block") })); n < 8 {
		t.Errorf("only %d blocks", n)
	}
	run(many, true)
	for source, want := range map[netip.Addr]nfttest.Result{friend: nfttest.Passed, stranger: nfttest.Rejected} {
		if got, err := attempt(lab.Peers, source, node[0], 84).Run(patient); err != nil || got != want {
			t.Errorf("the host itself from %s: %v %v, want %v", source, got, err, want)
		}
	}
	if got, err := attempt(lab.Peers, friend, node[0], 83).Run(soon); err != nil || got != nfttest.Silent {
		t.Errorf("the host itself by another port: %v %v", got, err)
	}

	// A connection to a published port ends when a change does not allow it.
	held, err := attempt(lab.Peers, friend, nfttest.ServiceAddress4, 84).Open(patient)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if !echoes(held, patient) {
		t.Fatal("it does not work")
	}
	tightened := compiler.Compile(nft.Input{Computed: onHost(stranger)}).Program
	if _, err := table.Apply(tightened); err != nil {
		t.Fatal(err)
	}
	if n, err := cutter.Cut(t.Context(), tightened); err != nil || n < 1 {
		t.Errorf("%d connections were cut: %v", n, err)
	}
	if echoes(held, soon) {
		t.Error("a connection to a published port goes on that is not allowed any more")
	}
	// So do packets of containers, whose addresses are not masqueraded here, over IPv4 and IPv6,
	// and they go on when they are allowed again. What stays between containers of a bridge goes
	// on, and what comes from behind a route.
	if _, err := table.Apply(many); err != nil {
		t.Fatal(err)
	}
	type running struct {
		name string
		nfttest.Attempt
		cut bool
	}
	var open []net.Conn
	list := []running{
		{"a container's", attempt(lab.Pods[0], container[0], friend, 85), true}, {"a container's over IPv6", attempt(lab.Pods[0], nfttest.PodAddresses(0)[1], lab.Peers6[0], 85), true},
		{"one to a container of the same bridge", attempt(lab.Pods[0], container[0], nfttest.PodAddresses(1)[0], 85), false},
		{"one from behind a route", attempt(lab.Pods[nfttest.PodCount-1], nfttest.PodAddresses(nfttest.PodCount - 1)[0], friend, 85), false},
	}
	for _, x := range list {
		c, err := x.Open(patient)
		if err != nil {
			t.Fatal(x.name, err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if open = append(open, c); !echoes(c, patient) {
			t.Fatal(x.name, "does not work")
		}
	}
	closed := onHost(friend)
	closed.Policies[0].Rules = closed.Policies[0].Rules[:2]
	deny := v1beta2.RuleActionDrop
	drop := closed.Policies[0].Rules[0].DeepCopy()
	drop.Direction, drop.Action, drop.From, drop.Services, drop.Priority = v1beta2.DirectionOut, &deny, v1beta2.NetworkPolicyPeer{}, nil, 2
	drop.To = onHost(friend).Policies[0].Rules[2].To
	closed.Policies[0].Rules = append(closed.Policies[0].Rules, *drop)
	for _, now := range []struct {
		program *ruleset.Program
		cuts    bool
	}{{compiler.Compile(nft.Input{Computed: closed}).Program, true}, {many, false}} {
		if _, err := table.Apply(now.program); err != nil {
			t.Fatal(err)
		}
		if _, err := cutter.Cut(t.Context(), now.program); err != nil {
			t.Fatal(err)
		}
		for i, x := range list {
			cut := now.cuts && x.cut
			limit := patient
			if cut {
				limit = soon
			}
			if echoes(open[i], limit) == cut {
				t.Errorf("%s: goes on: %t", x.name, cut)
			}
		}
	}
	// What the owner of the host cannot do without stays open for containers, too.
	flow := nft.Failsafe{Name: "backup", Direction: ruleset.Egress, Protocol: ruleset.TCP, Port: 86, CIDRs: []netip.Prefix{netip.PrefixFrom(friend, 32)}}
	door := nft.Failsafe{Name: "door", Protocol: ruleset.TCP, Port: 87, CIDRs: []netip.Prefix{netip.PrefixFrom(friend, 32)}}
	kept := compiler.Compile(nft.Input{Computed: onHost(friend), Failsafe: []nft.Failsafe{flow, door}}).Program
	if _, err := table.Apply(kept); err != nil {
		t.Fatal(err)
	}
	for _, a := range []nfttest.Attempt{attempt(lab.Pods[0], container[0], friend, 86), attempt(lab.Peers, friend, nfttest.ServiceAddress4, 87)} {
		if got, err := a.Run(patient); err != nil || got != nfttest.Passed {
			t.Errorf("a failsafe flow: %s: %v %v", a, got, err)
		}
	}
}
