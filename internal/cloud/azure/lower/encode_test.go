package lower_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/lower"
)

// TestEncodeLosesNothing: what is read back is what was written, whatever was put together.
func TestEncodeLosesNothing(t *testing.T) {
	t.Parallel()
	group := strings.ToLower("/subscriptions/s/resourcegroups/shop/providers/microsoft.network/networksecuritygroups/nephele-a-12345678")
	swap := func(from, to string) lower.GroupID {
		return func(id string) string { return strings.Replace(id, from, to, 1) }
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(2, seed))
		var rules []cloud.Rule
		for range r.IntN(60) {
			rule := cloud.Rule{Direction: cloud.Ingress, Description: []string{"", "managed by Nephele"}[r.IntN(2)]}
			if r.IntN(2) == 0 {
				rule.Direction = cloud.Egress
			}
			from := r.IntN(100)
			rule.Match = []cloud.Match{cloud.NewMatch(6, from, from+r.IntN(20)), cloud.NewMatch(17, 53, 53), cloud.NewMatch(-1, 0, 0), cloud.NewMatch(50, 0, 0), cloud.NewMatch(1, -1, -1)}[r.IntN(5)]
			switch r.IntN(8) {
			case 0:
				rule.Peer = cloud.Peer{GroupID: group}
			case 1:
				rule.Peer = cloud.Peer{PrefixListID: "Storage"}
			case 2:
				if rule.Match.Protocol == 1 {
					rule.Match = cloud.NewMatch(58, -1, -1)
				}
				rule.Peer = cloud.Peer{CIDR: netip.PrefixFrom(netip.MustParseAddr("2001:db8::"), 32+r.IntN(90)).Masked()}
			default:
				rule.Peer = cloud.Peer{CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, 1, byte(r.IntN(8))}), 24+r.IntN(9)).Masked()}
			}
			rules = append(rules, rule)
		}
		slices.SortStableFunc(rules, cloud.Rule.Compare)
		rules = slices.CompactFunc(rules, cloud.Rule.Same)
		all, err := lower.Encode(rules, swap("networksecuritygroups", "applicationsecuritygroups"))
		if err != nil {
			t.Fatal(err)
		}
		back, exact := lower.Decode(all, swap("applicationsecuritygroups", "networksecuritygroups"))
		if !exact || !slices.EqualFunc(back, rules, func(x, y cloud.Rule) bool { return x.Same(y) && x.Description == y.Description }) {
			t.Fatalf("seed %d: exact %v\n%v\nwant\n%v", seed, exact, back, rules)
		}
	}
}
