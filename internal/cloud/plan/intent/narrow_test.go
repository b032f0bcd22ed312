package intent

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// wholeProtocols is a cloud that knows no types of ICMP.
type wholeProtocols struct{}

func (wholeProtocols) Unsupported(s flow.Service) string {
	if (s.Protocol == cloud.ICMP || s.Protocol == cloud.ICMPv6) && s != flow.Whole(s.Protocol) {
		return "no types"
	}
	return ""
}

// everything is a cloud that knows all.
type everything struct{}

func (everything) Unsupported(flow.Service) string { return "" }

// randomICMP is a policy with rules about types of ICMP among others.
func randomICMP(r *rand.Rand) *v1beta2.NetworkPolicy {
	tier, priority := int32(250), 1.0
	np := &v1beta2.NetworkPolicy{TierPriority: &tier, Priority: &priority, AppliedToGroups: []string{"a"},
		SourceRef: &v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaClusterNetworkPolicy, Name: "p"}}
	np.UID, np.Name = types.UID("p"), "p"
	actions := []v1beta2.RuleAction{v1beta2.RuleActionAllow, v1beta2.RuleActionAllow, v1beta2.RuleActionDrop, v1beta2.RuleActionReject, v1beta2.RuleActionPass}
	for i := range 1 + r.IntN(4) {
		action := actions[r.IntN(len(actions))]
		rule := v1beta2.NetworkPolicyRule{Direction: v1beta2.DirectionIn, Action: &action, Priority: int32(i), Name: fmt.Sprint(i)}
		block := [][2]int{{0, 0}, {10, 8}, {11, 8}}[r.IntN(3)]
		rule.From.IPBlocks = []v1beta2.IPBlock{{CIDR: v1beta2.IPNet{IP: v1beta2.IPAddress{byte(block[0]), 0, 0, 0}, PrefixLength: int32(block[1])}}}
		for range r.IntN(3) {
			icmp, tcp := v1beta2.ProtocolICMP, v1beta2.ProtocolTCP
			s := v1beta2.Service{Protocol: &icmp}
			switch r.IntN(4) {
			case 0:
				s = v1beta2.Service{Protocol: &tcp}
			case 1:
			default:
				kind := int32([]int{0, 3, 8}[r.IntN(3)])
				s.ICMPType = &kind
				if r.IntN(2) == 0 {
					code := int32(r.IntN(2))
					s.ICMPCode = &code
				}
			}
			rule.Services = append(rule.Services, s)
		}
		np.Rules = append(np.Rules, rule)
	}
	return np
}

// allowed is what the rules of a policy decide about one packet: allowed, and whether it was
// decided; a Pass and the end leave it to others.
func allowed(p *Policy, s flow.Service, from addrset.Set) (yes, passed bool) {
	for _, r := range p.Rules {
		b := r.bound()
		if !b.matches(s) || !from.Within(r.Blocks) {
			continue
		}
		return r.Verdict == Allow, r.Verdict == pass
	}
	return false, false
}

// TestNarrowedIsNeverWider: where a cloud knows no types of ICMP, a policy is refused, or narrower
// as it asks: whatever it then allows it says itself, and what it drops by its own words stays
// dropped.
func TestNarrowedIsNeverWider(t *testing.T) {
	refused, narrower, void := 0, 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(17, seed))
		np := randomICMP(r)
		exact := parsed(np, everything{}, false)
		plain := parsed(np, wholeProtocols{}, false)
		asked := parsed(np, wholeProtocols{}, true)
		typed := false
		for _, x := range exact.Rules {
			for _, s := range x.Services {
				typed = typed || wholeProtocols{}.Unsupported(s) != ""
			}
		}
		if (plain.Problem != nil) != typed || plain.Narrowed != nil {
			t.Fatalf("seed %d: refused %v, narrowed %v", seed, plain.Problem, plain.Narrowed)
		}
		if asked.Problem != nil {
			if refused++; !asked.Problem.Is(Unsupported) {
				t.Fatalf("seed %d: %v", seed, asked.Problem)
			}
			continue
		}
		if typed && asked.Narrowed == nil {
			t.Fatalf("seed %d: narrowed in silence", seed)
		}
		for i, x := range asked.Rules {
			left := len(x.Services) > 0 || len(exact.Rules[i].Services) == 0
			if x.bound().Concerns(flow.Whole(cloud.AnyProtocol)) != left {
				t.Fatalf("seed %d: rule %d is about something: %v", seed, i, !left)
			}
			if !left {
				void++
			}
		}
		for _, from := range []byte{10, 11, 12} {
			source := addrset.OfPrefixes(mustBlock(from))
			for _, s := range []flow.Service{
				{Protocol: cloud.ICMP, From: 0, To: 0}, {Protocol: cloud.ICMP, From: 1, To: 1}, {Protocol: cloud.ICMP, From: 3 << 8, To: 3 << 8},
				{Protocol: cloud.ICMP, From: 8 << 8, To: 8 << 8}, {Protocol: cloud.ICMP, From: 8<<8 | 1, To: 8<<8 | 1}, {Protocol: cloud.TCP, From: 80, To: 80},
			} {
				is, _ := allowed(exact, s, source)
				got, _ := allowed(asked, s, source)
				if got && !is {
					t.Fatalf("seed %d: %s from %d is allowed\n%v", seed, s, from, asked.Narrowed)
				}
				if s.Protocol == cloud.TCP && got != is {
					t.Fatalf("seed %d: tcp is another", seed)
				}
				if is && !got {
					narrower++
				}
			}
		}
	}
	if refused < 100 || narrower < 100 || void < 100 {
		t.Errorf("%d refused, %d flows narrower, %d rules without services", refused, narrower, void)
	}
}

func mustBlock(first byte) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{first, 1, 2, 3}), 32)
}

func parsed(np *v1beta2.NetworkPolicy, lower capability, tighten bool) *Policy {
	p := Head(np)
	p.parseRules(np, lower, tighten)
	return p
}
