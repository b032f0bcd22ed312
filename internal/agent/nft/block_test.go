package nft_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// TestBlocks: a new connection passes by few rules of a thousand policies, and a policy that comes,
// goes or changes lets little be written.
func TestBlocks(t *testing.T) {
	world := nfttest.World()
	for p := range world.Policies {
		world.Policies[p] = nfttest.WorldPolicy(p, 1000+10*p)
	}
	var compiler nft.Compiler
	former := compiler.Compile(nft.Input{Computed: world}).Program
	blocks := nft.Blocks(&compiler)
	if n := len(former.Chains["in4"].Rules); n > 60 || len(blocks) < 20 {
		t.Errorf("a connection meets %d rules before the rules of its port, in %d blocks", n, len(blocks))
	}
	for name, change := range map[string]func(){
		"a policy in the middle goes":  func() { world.Policies = slices.Delete(slices.Clone(world.Policies), 500, 501) },
		"a policy in the middle comes": func() { world.Policies = append(slices.Clone(world.Policies), nfttest.WorldPolicy(5_000, 30_000)) },
		"a policy is about other ports": func() {
			world.Policies = slices.Clone(world.Policies)
			world.Policies[300] = nfttest.WorldPolicy(300, 40_000)
		},
		"the first policy of all leaves": func() { world.Policies = world.Policies[1:] },
	} {
		change()
		now := compiler.Compile(nft.Input{Computed: world}).Program
		rules := 0
		for _, c := range ruleset.Diff(former, now).Chains {
			rules += len(c.Rules)
		}
		if rules > 600 {
			t.Errorf("%s: %d rules are written", name, rules)
		}
		if !ruleset.Diff(now, new(nft.Compiler).Compile(nft.Input{Computed: world}).Program).Empty() {
			t.Errorf("%s: another program than that of a new compiler", name)
		}
		former = now
	}
	// A policy about every port stands outside of blocks.
	all := nfttest.WorldPolicy(600, 1)
	for i := range all.Rules {
		all.Rules[i].Services = nil
	}
	world.Policies = append(slices.Clone(world.Policies), all)
	now := compiler.Compile(nft.Input{Computed: world}).Program
	if n := slices.IndexFunc(now.Chains["in4"].Rules, func(r ruleset.Rule) bool { return r.Action == ruleset.Jump && len(r.Matches) == 0 }); n <= 0 || strings.HasSuffix(now.Chains["in4"].Rules[n].Target, "-block") {
		t.Errorf("a policy about every port is at %d", n)
	}
}

// TestBlocksDecideAsWithout holds the programs of random policies against those without blocks.
func TestBlocksDecideAsWithout(t *testing.T) {
	const groups = 3
	decided := map[ruleset.Action]int{}
	whole, inBlocks := nfttest.World(), 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 9))
		world := whole
		world.Policies, world.AddressGroups = nil, whole.AddressGroups[:groups]
		for p := range 60 {
			policy := nfttest.WorldPolicy(p, 0)
			tier := int32(250 + random.IntN(2)*3)
			policy.TierPriority, policy.Rules = &tier, policy.Rules[:1+random.IntN(3)]
			for i := range policy.Rules {
				r := &policy.Rules[i]
				action := []v1beta2.RuleAction{v1beta2.RuleActionAllow, v1beta2.RuleActionDrop, v1beta2.RuleActionReject, v1beta2.RuleActionPass}[random.IntN(4)]
				protocol := []v1beta2.Protocol{v1beta2.ProtocolTCP, v1beta2.ProtocolTCP, v1beta2.ProtocolTCP, v1beta2.ProtocolUDP, v1beta2.ProtocolSCTP}[random.IntN(5)]
				first := intstr.FromInt(1 + random.IntN(100))
				r.Action, r.EnableLogging, r.Services = &action, random.IntN(4) == 0, []v1beta2.Service{{Protocol: &protocol, Port: &first}}
				r.From.AddressGroups = []string{fmt.Sprintf("group-%d", random.IntN(groups))}
				switch random.IntN(30) {
				case 0:
					r.Services = nil
				case 1:
					icmp := v1beta2.ProtocolICMP
					r.Services = []v1beta2.Service{{Protocol: &icmp}}
				case 2:
					r.Services[0].Port = nil
				case 3, 4, 5, 6:
					last := first.IntVal + int32(random.IntN(4))
					r.Services[0].EndPort = &last
				}
			}
			world.Policies = append(world.Policies, policy)
		}
		with, without := nft.Compiler{Forwarded: true}, nft.Compiler{Forwarded: true}
		nft.NoBlocks(&without)
		got, want := with.Compile(nft.Input{Computed: world}).Program, without.Compile(nft.Input{Computed: world}).Program
		inBlocks += len(nft.Blocks(&with))
		for range 3000 {
			p := ruleset.Packet{Direction: ruleset.Ingress, Source: memberOf(random.IntN(groups), random), Destination: netip.MustParseAddr("10.9.9.9"),
				Protocol: []uint8{ruleset.TCP, ruleset.TCP, ruleset.UDP, ruleset.SCTP, ruleset.ICMP}[random.IntN(5)], SourcePort: 999}
			if p.Protocol != ruleset.ICMP {
				p.Port = uint16(1 + random.IntN(110))
			}
			base := ruleset.ToHost
			if random.IntN(2) == 0 {
				base, p.Translated, p.Original = ruleset.ForwardedIn, true, netip.AddrPortFrom(p.Destination, p.Port)
				p.Destination, p.Port = netip.MustParseAddr("172.17.0.2"), uint16(1+random.IntN(110))
			}
			a, b := got.JudgeIn(base, p), want.JudgeIn(base, p)
			if a != b {
				t.Fatalf("seed %d, %v in %s: with blocks %v (%v), without %v (%v)", seed, p, base, a.Action, a.By, b.Action, b.By)
			}
			decided[a.Action]++
		}
	}
	if decided[ruleset.Accept] < 1000 || decided[ruleset.Drop] < 1000 || inBlocks < 100 {
		t.Errorf("decided %v in %d blocks", decided, inBlocks)
	}
}

// memberOf is an address of a group of World.
func memberOf(g int, random *rand.Rand) netip.Addr {
	members := nfttest.WorldGroup(g, 0).GroupMembers
	a, _ := netip.AddrFromSlice(members[random.IntN(len(members))].IPs[0])
	return a.Unmap()
}
