package nft_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// TestNodesDecideAsPolicies holds the programs of Nodes in random worlds against the naive
// evaluator: for each Pod and the Node itself, in both directions.
func TestNodesDecideAsPolicies(t *testing.T) {
	flows, kinds := 0, map[evaluate.Outcome]int{}
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 11))
		listing, node := nfttest.NodeWorld(random, 60)
		got := new(nft.Compiler).Compile(nft.Input{Computed: nfttest.ComputedFor(listing, nfttest.NodeName), Node: node, Services: nfttest.Frontends(servicePorts()...)})
		var refused []string
		for _, r := range got.Refusals {
			refused = append(refused, r.Policy)
		}
		rest := nfttest.Without(listing, refused)
		for range 150 {
			ref := nfttest.PodRef(random.IntN(nfttest.PodCount))
			if random.IntN(5) == 0 {
				ref = policy.EntityRef{Kind: policy.KindNode, Name: nfttest.NodeName}
			}
			f, p := drawFlow(random, ref)
			base, d := atNode(random, ref, &f, &p)
			want := policytest.Decide(rest, f, d)
			kinds[want]++
			flows++
			judged := got.Program.JudgeIn(base, p)
			if p.Translated && judged.Action == ruleset.RejectICMP {
				judged.Action = ruleset.RejectReset
				if p.Protocol != ruleset.TCP {
					judged.Action = ruleset.RejectICMP
				}
			}
			if now := outcome(judged, p); now != want {
				t.Fatalf("seed %d, %v %s %v: the program says %v (%v), the policies %s\n%s", seed, ref, base, p, judged.Action, judged.By, want, got.Program)
			}
		}
	}
	for _, o := range []evaluate.Outcome{evaluate.OutcomeAllow, evaluate.OutcomeDrop, evaluate.OutcomeReject, evaluate.OutcomeNative} {
		if kinds[o] < flows/200 {
			t.Errorf("only %d of %d flows have the outcome %s", kinds[o], flows, o)
		}
	}
	t.Logf("%d flows: %v", flows, kinds)
}

// atNode makes a flow, and its packet, one of a Pod of the Node or of the Node itself, and returns
// where on its way it is judged.
func atNode(random *rand.Rand, ref policy.EntityRef, f *evaluate.Flow, p *ruleset.Packet) (ruleset.Base, policy.Direction) {
	pick := func(list []netip.Addr) netip.Addr {
		if p.Source.Is6() {
			return list[1]
		}
		return list[0]
	}
	here, there := &f.Destination, &f.Source
	base, d := ruleset.PodsIn, policy.Ingress
	if p.Direction == ruleset.Egress {
		here, there, base, d = &f.Source, &f.Destination, ruleset.PodsOut, policy.Egress
	}
	here.Semantics = evaluate.PodSemantics
	toNode := ref.Kind == policy.KindPod && d == policy.Egress && random.IntN(5) == 0
	switch {
	case ref.Kind == policy.KindNode:
		here.Addr, base = pick(nfttest.NodeAddresses()), ruleset.ToHost
		if d == policy.Egress {
			base = ruleset.FromHost
		}
	default:
		for n := range nfttest.PodCount {
			if nfttest.PodRef(n) == ref {
				here.Addr = pick(nfttest.PodAddresses(n))
			}
		}
		p.Translated = random.IntN(3) == 0
	}
	f.Direct = true
	if toNode {
		base = ruleset.PodsToNode
		there.EntityRef, there.Addr = policy.EntityRef{Kind: policy.KindNode, Name: nfttest.NodeName}, pick(nfttest.NodeAddresses())
	} else if there.Addr == here.Addr {
		there.Addr = there.Addr.Next().Next().Next().Next().Next().Next()
	}
	p.Source, p.Destination = f.Source.Addr, f.Destination.Addr
	if p.Translated {
		through(random, f, p)
	}
	return base, d
}

// servicePorts are the ports of Services in random worlds.
func servicePorts() []uint16 { return []uint16{1000, 1001, 1002, 1003} }

// through makes a flow, and its packet, one that was sent to a Service, or somewhere that is none.
func through(random *rand.Rand, f *evaluate.Flow, p *ruleset.Packet) {
	at := nfttest.ServiceAddress4
	if p.Source.Is6() {
		at = nfttest.ServiceAddress6
	}
	port := servicePorts()[random.IntN(len(servicePorts()))]
	p.Original = netip.AddrPortFrom(at, port)
	switch {
	case p.Protocol != ruleset.TCP && p.Protocol != ruleset.UDP:
	case random.IntN(4) == 0:
		p.Original = netip.AddrPortFrom(at, port+100)
	default:
		f.Service, f.Direct = nfttest.ServiceOf(port), false
	}
}

// TestUnknownPodsAreCutOff asks about addresses for Pods that no Pod is known to have, and about a
// Pod that reaches itself through a Service.
func TestUnknownPodsAreCutOff(t *testing.T) {
	node := &nft.Node{Pods: []nft.Pod{{Namespace: "n", Name: "p", Addresses: []netip.Addr{netip.MustParseAddr("10.244.1.5")}}},
		Ranges: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:1::/64")}}
	program := new(nft.Compiler).Compile(nft.Input{Node: node}).Program
	for _, c := range []struct {
		base     ruleset.Base
		from, to string
		passes   bool
		by       ruleset.OriginKind
	}{
		{ruleset.PodsIn, "192.0.2.1", "10.244.1.5", true, ruleset.OriginNative},
		{ruleset.PodsIn, "192.0.2.1", "10.244.1.6", false, ruleset.OriginUnknown},
		{ruleset.PodsIn, "192.0.2.1", "10.244.2.6", true, ruleset.OriginNative},
		{ruleset.PodsOut, "10.244.1.6", "192.0.2.1", false, ruleset.OriginUnknown},
		{ruleset.PodsOut, "10.244.1.5", "10.244.1.6", true, ruleset.OriginNative},
		{ruleset.PodsToNode, "10.244.1.6", "10.244.1.1", false, ruleset.OriginUnknown},
		{ruleset.PodsToNode, "192.0.2.1", "10.244.1.1", true, ruleset.OriginNative},
		{ruleset.PodsOut, "fd00:1::6", "fd00:2::1", false, ruleset.OriginUnknown},
		{ruleset.PodsIn, "10.244.1.5", "10.244.1.5", true, ruleset.OriginItself},
	} {
		j := program.JudgeIn(c.base, ruleset.Packet{Source: netip.MustParseAddr(c.from), Destination: netip.MustParseAddr(c.to), Protocol: ruleset.TCP, Port: 80})
		if j.Allows() != c.passes || j.By.Kind != c.by {
			t.Errorf("%s: %s to %s: %s by %v", c.base, c.from, c.to, j.Action, j.By)
		}
	}
	whole := program.JudgeWay(ruleset.Passing, ruleset.Packet{Source: netip.MustParseAddr("10.244.1.5"), Destination: netip.MustParseAddr("10.244.1.6"), Protocol: ruleset.TCP, Port: 80})
	if whole.Allows() || whole.By.Kind != ruleset.OriginUnknown {
		t.Errorf("on the whole way: %+v", whole)
	}
}

// TestBothEndsDecide: between two Pods of a Node the rule of the sender and that of the receiver
// are told, each with its direction; where one end has none, only the other.
func TestBothEndsDecide(t *testing.T) {
	node := &nft.Node{}
	for i, name := range []string{"web", "db", "free"} {
		node.Pods = append(node.Pods, nft.Pod{Namespace: "n", Name: name, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 244, 1, byte(i + 1)})}})
	}
	allow, tier, priority, port := v1beta2.RuleActionAllow, int32(250), 1.0, intstr.FromInt32(80)
	everybody := v1beta2.NetworkPolicyPeer{IPBlocks: []v1beta2.IPBlock{{CIDR: v1beta2.IPNet{IP: netip.IPv4Unspecified().AsSlice()}}}}
	computed := enforcer.Computed{}
	for _, c := range []struct {
		pod string
		v1beta2.NetworkPolicyRule
	}{
		{"web", v1beta2.NetworkPolicyRule{Direction: v1beta2.DirectionOut, Name: "out", Action: &allow, To: everybody}},
		{"db", v1beta2.NetworkPolicyRule{Direction: v1beta2.DirectionIn, Name: "in", Action: &allow, From: everybody, Services: []v1beta2.Service{{Port: &port}}}},
	} {
		p := &v1beta2.NetworkPolicy{AppliedToGroups: []string{c.pod}, Rules: []v1beta2.NetworkPolicyRule{c.NetworkPolicyRule}, TierPriority: &tier, Priority: &priority,
			SourceRef: &v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "n", Name: "of-" + c.pod, UID: types.UID(c.pod)}}
		g := &v1beta2.AppliedToGroup{GroupMembers: []v1beta2.GroupMember{{Pod: &v1beta2.PodReference{Namespace: "n", Name: c.pod}}}}
		p.Name, g.Name = c.pod, c.pod
		computed.Policies, computed.AppliedToGroups = append(computed.Policies, p), append(computed.AppliedToGroups, g)
	}
	drop := v1beta2.RuleActionDrop
	computed.Policies[1].Rules = append(computed.Policies[1].Rules, v1beta2.NetworkPolicyRule{Direction: v1beta2.DirectionIn, Name: "rest", Action: &drop, Priority: 1, From: everybody})
	program := new(nft.Compiler).Compile(nft.Input{Computed: computed, Node: node}).Program
	told := func(j ruleset.Judgement) string {
		return fmt.Sprintf("%s %s by %s %s", map[bool]string{true: "accept", false: "drop"}[j.Allows()], j.Direction, j.By.Policy.Name, j.By.Name)
	}
	for _, c := range []struct {
		from, to byte
		port     uint16
		by       string
		before   string
	}{
		{1, 2, 80, "accept ingress by of-db in", "accept egress by of-web out"},
		{1, 2, 81, "drop ingress by of-db rest", "accept egress by of-web out"},
		{1, 3, 80, "accept egress by of-web out", ""},
		{3, 2, 80, "accept ingress by of-db in", ""},
		{3, 1, 80, "accept ingress by  ", ""},
	} {
		at := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 244, 1, n}) }
		j := program.JudgeWay(ruleset.Passing, ruleset.Packet{Source: at(c.from), Destination: at(c.to), Protocol: ruleset.TCP, Port: c.port})
		before := ""
		if j.Before != nil {
			before = told(*j.Before)
		}
		if told(j) != c.by || before != c.before {
			t.Errorf("%d to %d: %q before %q, want %q before %q", c.from, c.to, told(j), before, c.by, c.before)
		}
	}
}

// TestNodeRefusals wants policies on Services refused, and those on Pods that evade told and in
// force for the others.
func TestNodeRefusals(t *testing.T) {
	drop, tier, priority := v1beta2.RuleActionDrop, int32(250), 1.0
	rule := v1beta2.NetworkPolicyRule{Direction: v1beta2.DirectionIn, Action: &drop, From: v1beta2.NetworkPolicyPeer{IPBlocks: []v1beta2.IPBlock{
		{CIDR: v1beta2.IPNet{IP: netip.IPv4Unspecified().AsSlice()}}}}}
	computed := enforcer.Computed{
		Policies: []*v1beta2.NetworkPolicy{
			{AppliedToGroups: []string{"pods"}, Rules: []v1beta2.NetworkPolicyRule{rule}, TierPriority: &tier, Priority: &priority},
			{AppliedToGroups: []string{"services"}, Rules: []v1beta2.NetworkPolicyRule{rule}, TierPriority: &tier, Priority: &priority},
		},
		AppliedToGroups: []*v1beta2.AppliedToGroup{
			{GroupMembers: []v1beta2.GroupMember{{Pod: &v1beta2.PodReference{Namespace: "n", Name: "a"}}, {Pod: &v1beta2.PodReference{Namespace: "n", Name: "b"}}}},
			{GroupMembers: []v1beta2.GroupMember{{Service: &v1beta2.ServiceReference{Namespace: "n", Name: "s"}}}},
		},
	}
	computed.Policies[0].Name, computed.Policies[1].Name = "on-pods", "on-services"
	computed.AppliedToGroups[0].Name, computed.AppliedToGroups[1].Name = "pods", "services"
	pod := func(name, address, bypass string) nft.Pod {
		return nft.Pod{Namespace: "n", Name: name, Addresses: []netip.Addr{netip.MustParseAddr(address)}, Bypass: bypass}
	}
	got := new(nft.Compiler).Compile(nft.Input{Computed: computed, Node: &nft.Node{Pods: []nft.Pod{pod("a", "10.0.0.1", ""), pod("b", "10.0.0.2", "it has a wire of its own")}}})
	if len(got.Refusals) != 1 || got.Refusals[0].Policy != "on-services" || !strings.Contains(got.Refusals[0].String(), "Service n/s") {
		t.Errorf("refused: %v", got.Refusals)
	}
	if len(got.Bypassed) != 1 || got.Bypassed[0].Policy != "on-pods" || !strings.Contains(got.Bypassed[0].String(), "n/b: it has a wire of its own") {
		t.Errorf("evaded: %v", got.Bypassed)
	}
	if j := got.Program.JudgeIn(ruleset.PodsIn, ruleset.Packet{Source: netip.MustParseAddr("10.0.0.9"), Destination: netip.MustParseAddr("10.0.0.1")}); j.Action != ruleset.Drop {
		t.Errorf("the other Pod: %v", j)
	}
	if got.Pods != 2 || got.Classes != 1 {
		t.Errorf("%d Pods of %d classes", got.Pods, got.Classes)
	}
}

// TestNodeCompilerRemembers changes the labels of Pods under one Compiler, and expects what a new
// one makes, and that the difference leads there.
func TestNodeCompilerRemembers(t *testing.T) {
	var compiler nft.Compiler
	var last *ruleset.Program
	for seed := range uint64(40) {
		listing, node := nfttest.NodeWorld(rand.New(rand.NewPCG(seed, 12)), 60)
		in := nft.Input{Computed: nfttest.ComputedFor(listing, nfttest.NodeName), Node: node, Services: nfttest.Frontends(uint16(seed%3), uint16(seed%5))}
		got, want := compiler.Compile(in), new(nft.Compiler).Compile(in)
		if got.Program.String() != want.Program.String() {
			t.Fatalf("seed %d: got\n%s\nwant\n%s", seed, got.Program, want.Program)
		}
		c := ruleset.Diff(last, got.Program)
		if now := apply(flatten(last), c); !slices.Equal(now, flatten(got.Program).lines()) {
			t.Fatalf("seed %d: got\n%v\nwant\n%v", seed, now, flatten(got.Program).lines())
		}
		last = got.Program
	}
}
