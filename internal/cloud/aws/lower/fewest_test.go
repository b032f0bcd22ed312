package lower

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// small is a plane of eight addresses and three ranges of TCP ports; bit address*3+range.
const small = 8

var smallCells = []flow.Service{
	{Protocol: cloud.TCP, From: 0, To: 79}, {Protocol: cloud.TCP, From: 80, To: 80}, {Protocol: cloud.TCP, From: 81, To: 0xffff},
}

// everyRule returns, as sets of bits, all rules that are possible in the small plane.
func everyRule() (out []uint32) {
	for size := 1; size <= small; size *= 2 {
		for first := 0; first < small; first += size {
			for from := range smallCells {
				for to := from; to < len(smallCells); to++ {
					var r uint32
					for a := first; a < first+size; a++ {
						for s := from; s <= to; s++ {
							r |= 1 << (a*len(smallCells) + s)
						}
					}
					out = append(out, r)
				}
			}
		}
	}
	return out
}

// exhaustive returns the smallest number of rules whose union is exactly the wanted bits, by trying
// all of them.
func exhaustive(want uint32) int {
	var usable []uint32
	for _, r := range everyRule() {
		if r&^want == 0 {
			usable = append(usable, r)
		}
	}
	var reach func(open uint32, left int) bool
	reach = func(open uint32, left int) bool {
		if open == 0 {
			return true
		}
		if left == 0 {
			return false
		}
		lowest := open & -open
		for _, r := range usable {
			if r&lowest != 0 && reach(open&^r, left-1) {
				return true
			}
		}
		return false
	}
	for n := 0; ; n++ {
		if reach(want, n) {
			return n
		}
	}
}

func trafficOf(want uint32) flow.Traffic {
	var t flow.Traffic
	for s, service := range smallCells {
		c := flow.Cell{Service: service}
		for a := range small {
			if want>>(a*len(smallCells)+s)&1 == 1 {
				c.Addrs = c.Addrs.Union(addrset.Of(netip.AddrFrom4([4]byte{10, 0, 0, byte(a)})))
			}
		}
		t.Ingress = append(t.Ingress, c)
	}
	t.Ingress = append(t.Ingress, flow.Cell{Service: flow.Service{Protocol: cloud.AnyProtocol, From: 0, To: 0xffff}})
	return t
}

// TestRefusalsAreMinimal compares the number of rules with an exhaustive search, and what a refusal
// says with all quotas below and above: as many rules are needed as it says, the quota that would
// do does, and the next smaller one does not.
func TestRefusalsAreMinimal(t *testing.T) {
	const seed, cases = 5, 400
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range cases {
		var want uint32
		for _, rule := range everyRule() {
			if r.IntN(90) < 6 {
				want |= rule
			}
		}
		rules := AWS{}.Lower(trafficOf(want))
		needed := exhaustive(want)
		if len(rules) != needed {
			t.Fatalf("seed %d case %d: %d rules for %024b, %d would do: %v", seed, i, len(rules), want, needed, rules)
		}
		for groups := 1; groups <= 3; groups++ {
			for quota := 1; quota <= needed; quota++ {
				q := plan.Quota{Limits: cloud.Limits{RulesPerGroup: quota, GroupsPerInterface: groups}}
				_, short := AWS{}.Pack(rules, nil, q)
				if (short == nil) != (needed <= quota*groups) {
					t.Fatalf("seed %d case %d: %d rules in %d groups of %d: %+v", seed, i, needed, groups, quota, short)
				}
				if short == nil {
					continue
				}
				if short.Needed != needed || short.Available != quota*groups {
					t.Fatalf("seed %d case %d: %d rules in %d groups of %d: %+v", seed, i, needed, groups, quota, short)
				}
			}
		}
	}
}

// TestPackingOfListsIsMinimal compares the packing of prefix lists, which one group has to hold
// whole, with all distributions.
func TestPackingOfListsIsMinimal(t *testing.T) {
	const seed, cases = 6, 1500
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range cases {
		q := plan.Quota{Limits: cloud.Limits{RulesPerGroup: 4 + r.IntN(8), GroupsPerInterface: 1 + r.IntN(3)}, Lists: map[string]*cloud.PrefixList{}}
		var wanted []cloud.Rule
		var sizes []int
		for k := range 1 + r.IntN(5) {
			id, size := string(rune('a'+k)), 1+r.IntN(9)
			sizes = append(sizes, size)
			q.Lists[id] = &cloud.PrefixList{ID: id, MaxEntries: size, Entries: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
			wanted = append(wanted, cloud.Rule{Direction: cloud.Egress, Match: cloud.NewMatch(-1, -1, -1), Peer: cloud.Peer{PrefixListID: id}})
		}
		hosts := r.IntN(12)
		for k := range hosts {
			host := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(k)}), 32)
			wanted = append(wanted, cloud.Rule{Direction: cloud.Egress, Match: cloud.NewMatch(-1, -1, -1), Peer: cloud.Peer{CIDR: host}})
		}
		fits := func(quota int) bool {
			free := make([]int, q.GroupsPerInterface)
			var place func(k int) bool
			place = func(k int) bool {
				if k == len(sizes) {
					sum := 0
					for g := range free {
						sum += quota - free[g]
					}
					return sum >= hosts
				}
				for g := range free {
					if free[g]+sizes[k] > quota {
						continue
					}
					free[g] += sizes[k]
					ok := place(k + 1)
					free[g] -= sizes[k]
					if ok {
						return true
					}
				}
				return false
			}
			return place(0)
		}
		packed, short := AWS{}.Pack(wanted, nil, q)
		if (short == nil) != fits(q.RulesPerGroup) {
			t.Fatalf("seed %d case %d: lists of %v and %d hosts in %d groups of %d: %v %+v", seed, i, sizes, hosts, q.GroupsPerInterface, q.RulesPerGroup, packed, short)
		}
	}
}
