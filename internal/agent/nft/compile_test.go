package nft_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// TestProgramsDecideAsPolicies holds the programs of random worlds against the naive evaluator of
// policies.
func TestProgramsDecideAsPolicies(t *testing.T) {
	flows, blocks, kinds := 0, 0, map[evaluate.Outcome]int{}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		world := policytest.NewWorld()
		draw := policytest.Draw(random.IntN)
		for range 60 {
			world.Put(draw.Object())
		}
		listing := policytest.Compute(world)
		compiler := nft.Compiler{Forwarded: true}
		if seed%4 > 0 {
			nft.SmallBlocks(&compiler)
		}
		for _, ref := range entities(world) {
			got := compiler.Compile(nft.Input{Computed: nfttest.Computed(listing, ref)})
			blocks += len(nft.Blocks(&compiler))
			if got.Program.Rules() < 36 {
				continue
			}
			var refused []string
			for _, r := range got.Refusals {
				refused = append(refused, r.Policy)
			}
			rest := nfttest.Without(listing, refused)
			for range 100 {
				f, p := drawFlow(random, ref)
				d := policy.Ingress
				if p.Direction == ruleset.Egress {
					d = policy.Egress
				}
				want := policytest.Decide(rest, f, d)
				kinds[want]++
				flows++
				if judged := got.Program.Judge(p); outcome(judged, p) != want {
					t.Fatalf("seed %d, %v %v: the program says %v (%v), the policies %s\n%s", seed, ref, p, judged.Action, judged.By, want, got.Program)
				}
				base, passing := forwarded(random, p)
				if judged := got.Program.JudgeIn(base, passing); outcome(judged, p) != want {
					t.Fatalf("seed %d, %v %v: of what passes through the program says %v (%v), the policies %s\n%s", seed, ref, passing, judged.Action, judged.By, want, got.Program)
				}
			}
		}
	}
	for _, o := range []evaluate.Outcome{evaluate.OutcomeAllow, evaluate.OutcomeDrop, evaluate.OutcomeReject, evaluate.OutcomeNative} {
		if kinds[o] < flows/100 {
			t.Errorf("only %d of %d flows have the outcome %s", kinds[o], flows, o)
		}
	}
	if blocks < 50 {
		t.Errorf("only %d blocks", blocks)
	}
	t.Logf("%d flows, %d blocks: %v", flows, blocks, kinds)
}

// forwarded is a packet that passes through the host and is to be judged as one of the host: to a
// published port that leads elsewhere, or from a bridge.
func forwarded(random *rand.Rand, p ruleset.Packet) (ruleset.Base, ruleset.Packet) {
	if p.Direction == ruleset.Egress {
		p.FromBridge, p.Source = true, netip.MustParseAddr("172.17.0.2")
		if p.Destination.Is6() {
			p.Source = netip.MustParseAddr("fd00:17::2")
		}
		return ruleset.ForwardedOut, p
	}
	p.Translated, p.Original = true, netip.AddrPortFrom(p.Destination, p.Port)
	if p.Destination = netip.MustParseAddr("172.17.0.2"); p.Source.Is6() {
		p.Destination = netip.MustParseAddr("fd00:17::2")
	}
	if p.Port != 0 {
		p.Port = uint16(78 + random.IntN(16))
	}
	return ruleset.ForwardedIn, p
}

// entities are the external entities that something is enforced for.
func entities(w *policytest.World) []policy.EntityRef {
	var out []policy.EntityRef
	for ref, e := range w.Entities {
		if ref.Kind == policy.KindExternalEntity && e.Host != "" {
			out = append(out, ref)
		}
	}
	slices.SortFunc(out, func(a, b policy.EntityRef) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// drawFlow draws a flow to or from the entity, and the packet that it is.
func drawFlow(random *rand.Rand, ref policy.EntityRef) (evaluate.Flow, ruleset.Packet) {
	remote, local := netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(7))}), netip.MustParseAddr("10.9.9.9")
	if random.IntN(5) == 0 {
		remote = netip.AddrFrom4([4]byte{192, 168, 0, byte(random.IntN(4))})
	}
	if random.IntN(4) == 0 {
		remote, local = netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", random.IntN(6))), netip.MustParseAddr("2001:db8:9::9")
	}
	here, there := evaluate.Endpoint{EntityRef: ref, Addr: local, Semantics: evaluate.VMSemantics}, evaluate.Endpoint{Addr: remote}
	f := evaluate.Flow{Source: there, Destination: here, Direct: true}
	p := ruleset.Packet{Direction: ruleset.Ingress, Source: remote, Destination: local}
	if random.IntN(2) == 0 {
		f.Source, f.Destination = here, there
		p.Direction, p.Source, p.Destination = ruleset.Egress, local, remote
	}
	switch random.IntN(6) {
	case 0:
		f.Protocol, p.Protocol = policy.ICMP, ruleset.ICMP
		if remote.Is6() {
			p.Protocol = ruleset.ICMPv6
		}
		f.ICMPType = uint8(random.IntN(3) * 8)
		p.Type = f.ICMPType
	case 1:
		f.Protocol, p.Protocol = policy.SCTP, ruleset.SCTP
	case 2:
		f.Protocol, p.Protocol = policy.UDP, ruleset.UDP
	default:
		f.Protocol, p.Protocol = policy.TCP, ruleset.TCP
	}
	if f.Protocol != policy.ICMP {
		f.Port, f.SourcePort = uint16(78+random.IntN(16)), uint16(999+random.IntN(4))
		p.Port, p.SourcePort = f.Port, f.SourcePort
	}
	return f, p
}

func outcome(j ruleset.Judgement, p ruleset.Packet) evaluate.Outcome {
	switch {
	case j.Action == ruleset.Drop:
		return evaluate.OutcomeDrop
	case j.Action == ruleset.RejectReset && p.Protocol == ruleset.TCP, j.Action == ruleset.RejectICMP && p.Protocol != ruleset.TCP:
		return evaluate.OutcomeReject
	case j.Action == ruleset.Accept && j.By.Kind == ruleset.OriginPolicy:
		return evaluate.OutcomeAllow
	case j.Action == ruleset.Accept && j.By.Kind == ruleset.OriginNative:
		return evaluate.OutcomeNative
	}
	return evaluate.OutcomeUnknown
}

// TestDiffLeadsThere applies the difference of two programs by hand.
func TestDiffLeadsThere(t *testing.T) {
	var last *ruleset.Program
	changes := 0
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 2))
		world := policytest.NewWorld()
		for range 60 {
			world.Put(policytest.Draw(random.IntN).Object())
		}
		listing := policytest.Compute(world)
		for _, ref := range entities(world) {
			next := new(nft.Compiler).Compile(nft.Input{Computed: nfttest.Computed(listing, ref)}).Program
			c := ruleset.Diff(last, next)
			if !c.Empty() {
				changes++
			}
			if got := apply(flatten(last), c); !slices.Equal(got, flatten(next).lines()) {
				t.Fatalf("seed %d: got\n%v\nwant\n%v", seed, got, flatten(next).lines())
			}
			if c := ruleset.Diff(next, next); !c.Empty() {
				t.Fatalf("a program differs from itself: %s", c)
			}
			last = next
		}
	}
	if changes < 20 {
		t.Errorf("only %d changes", changes)
	}
}

// flat is a program as chains and elements of sets.
type flat map[string]string

func flatten(p *ruleset.Program) flat {
	out := flat{}
	if p == nil {
		return out
	}
	for name, c := range p.Chains {
		out["chain "+name] = fmt.Sprint(c.Rules)
	}
	for key, part := range p.Parts.All() {
		for k := range part.Keys.All() {
			out[fmt.Sprintf("%s %x", key.Set, string(key.ID[:])+k)] = ""
		}
	}
	for name, ranges := range p.Ranges {
		out["ranges "+string(name)] = fmt.Sprint(ranges)
	}
	for name, elements := range p.Dispatch {
		out["dispatch "+string(name)] = ""
		for key, chain := range elements.All() {
			out[fmt.Sprintf("%s %x", name, key)] = chain
		}
	}
	return out
}

func (f flat) lines() []string {
	var out []string
	for k, v := range f {
		out = append(out, k+" "+v)
	}
	slices.Sort(out)
	return out
}

func apply(f flat, c *ruleset.Change) []string {
	for _, x := range c.Chains {
		f["chain "+x.Name] = fmt.Sprint(x.Rules)
	}
	for _, name := range c.Gone {
		delete(f, "chain "+name)
	}
	for set, keys := range c.Add {
		for _, k := range keys {
			f[fmt.Sprintf("%s %x", set, k)] = ""
		}
	}
	for set, keys := range c.Remove {
		for _, k := range keys {
			delete(f, fmt.Sprintf("%s %x", set, k))
		}
	}
	for name, ranges := range c.NewRanges {
		f["ranges "+string(name)] = fmt.Sprint(ranges)
	}
	for _, name := range c.GoneRanges {
		delete(f, "ranges "+string(name))
	}
	for _, name := range c.NewDispatch {
		f["dispatch "+string(name)] = ""
	}
	for _, name := range c.GoneDispatch {
		delete(f, "dispatch "+string(name))
	}
	for name, keys := range c.Unpoint {
		for _, k := range keys {
			delete(f, fmt.Sprintf("%s %x", name, k))
		}
	}
	for name, list := range c.Point {
		for _, p := range list {
			f[fmt.Sprintf("%s %x", name, p.Key)] = p.Chain
		}
	}
	return f.lines()
}
