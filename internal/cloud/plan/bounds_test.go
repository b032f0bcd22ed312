package plan_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	azurelower "github.com/nephele-io/nephele/internal/cloud/azure/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/tier"
)

// azureLimits are the limits of an Azure subscription.
var azureLimits = cloud.Limits{RulesPerGroup: azurelower.RulesPerGroup, GroupsPerInterface: 1, GroupsPerRegion: 3000, TagsPerResource: 50, WholeGroups: true, Excepts: true}

// TestBoundsAreBelowTheRules: what a cloud's bound counts of a random permit, of blocks and of
// groups, is never more than the rules of it take, in whatever form they name the groups. A bound
// that is too high refuses what fits.
func TestBoundsAreBelowTheRules(t *testing.T) {
	const seed, cases = 7, 1500
	exact := map[string]int{}
	for i := range cases {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		permit := randomPermit(r)
		var groups []addrset.Set
		for range r.IntN(4) {
			groups = append(groups, randomSet(r, 1))
		}
		direction := flow.Directions()[r.IntN(2)]
		cells := cellsOf(r, permit, groups)
		traffic := flow.Traffic{Ingress: cells}
		if direction == cloud.Egress {
			traffic = flow.Traffic{Egress: cells}
		}
		for cloudName, l := range map[string]plan.Lowerer{"AWS": lower.AWS{}, "Azure": azurelower.Azure{}} {
			rules := l.Lower(traffic)
			blocks, references := taken(t, cloudName, rules, direction)
			least := 0
			for k, family := range form.Families() {
				n := form.CountBlocks(permit, family, addrset.Union(groups...), l)
				if cloudName == "AWS" && n > blocks[k] {
					t.Fatalf("seed %d, case %d, %s: at least %d blocks of %s, but %d rules do: %v", seed, i, cloudName, n, family.Name, blocks[k], rules)
				}
				least += n
			}
			if all := blocks[0] + blocks[1]; least > all {
				t.Fatalf("seed %d, case %d, %s: at least %d blocks, but %d do: %v", seed, i, cloudName, least, all, rules)
			} else if least == all && all > 2 {
				exact[cloudName]++
			}
			// A group counts if a cell that the cloud can hold names it.
			counted := map[string]bool{}
			for _, c := range cells {
				if l.Unsupported(c.Service) == "" {
					for _, p := range c.Groups {
						counted[p.GroupID] = true
					}
				}
			}
			if len(counted) > references {
				t.Fatalf("seed %d, case %d, %s: %d groups are referred to, the rules name %d: %v", seed, i, cloudName, len(counted), references, rules)
			}
		}
	}
	for _, cloudName := range []string{"AWS", "Azure"} {
		if exact[cloudName] < cases/20 {
			t.Errorf("%s: the bound is exact in %d of %d cases only", cloudName, exact[cloudName], cases)
		}
	}
}

// taken is what rules take: blocks by family, and groups. On Azure that is counted as written.
func taken(t *testing.T, name string, rules []cloud.Rule, d cloud.Direction) (blocks [2]int, groups int) {
	t.Helper()
	if name == "AWS" {
		named := map[cloud.Peer]bool{}
		for _, r := range rules {
			switch {
			case !r.Peer.CIDR.IsValid():
				named[r.Peer] = true
			case r.Peer.CIDR.Addr().Is4():
				blocks[0]++
			default:
				blocks[1]++
			}
		}
		return blocks, len(named)
	}
	all, err := azurelower.Encode(rules, func(id string) string { return id })
	if err != nil {
		t.Fatal(err)
	}
	size := azurelower.SizeOf(all)
	if blocks[0] = size.Sources; d == cloud.Egress {
		blocks[0] = size.Destinations
	}
	return blocks, size.Groups
}

// randomPermit allows random addresses of services as policies and native rules leave them.
func randomPermit(r *rand.Rand) flow.Permit {
	services := []flow.Service{flow.Any()}
	for range r.IntN(5) {
		from := uint16(r.IntN(4) * 100)
		services = append(services, pick(r, []flow.Service{
			{Protocol: cloud.TCP, From: from, To: from + 50}, {Protocol: cloud.UDP, From: from, To: from}, flow.Whole(cloud.ICMP), flow.Whole(cloud.ICMPv6),
			flow.Whole(cloud.SCTP), flow.Whole(50), flow.Whole(47),
		}))
	}
	var out flow.Permit
	everywhere := randomSet(r, 3) // most cells of a real permit have most in common
	for _, s := range flow.Partition(services) {
		g := flow.Grant{Service: s}
		if g.All = everywhere; r.IntN(3) == 0 {
			g.All = randomSet(r, 3)
		}
		g.All = g.All.Intersect(flow.Family(s.Protocol))
		g.Anonymous, g.Plain = g.All, g.All
		out.Grants = append(out.Grants, g)
	}
	return out.CollapseProtocols()
}

// randomSet is some blocks, perhaps with exceptions.
func randomSet(r *rand.Rand, most int) addrset.Set {
	var out addrset.Set
	for range 1 + r.IntN(most) {
		block := netip.MustParsePrefix(pick(r, []string{"10.0.0.0/8", "10.0.0.0/30", "10.0.0.4/30", "10.0.0.8/31", "0.0.0.0/0", "::/0", "2001:db8::/126", "192.0.2.0/28"}))
		set := addrset.OfPrefixes(block)
		if r.IntN(2) == 0 {
			for _, x := range randomExceptions(r, block) {
				set = set.Minus(addrset.OfPrefixes(netip.MustParsePrefix(x)))
			}
		}
		out = out.Union(set)
	}
	return out
}

// cellsOf names a permit by some of the groups, and the rest by address.
func cellsOf(r *rand.Rand, permit flow.Permit, groups []addrset.Set) (cells []flow.Cell) {
	for _, g := range permit.Grants {
		cell := flow.Cell{Service: g.Service, Addrs: g.All}
		for i, members := range groups {
			if members = members.Intersect(flow.Family(g.Service.Protocol)); members.Empty() || !members.Within(g.All) || r.IntN(3) == 0 {
				continue
			}
			cell.Groups = append(cell.Groups, cloud.Peer{GroupID: fmt.Sprintf("sg-%d", i)})
			cell.Addrs = cell.Addrs.Minus(members)
		}
		cells = append(cells, cell)
	}
	return cells
}

// TestAzureWorldsFit: policies of random accounts are far below the limits of Azure, and none of
// them is refused for one.
func TestAzureWorldsFit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(tier.Pick(40, 40, 120)) {
		e := randomEstate(rand.New(rand.NewPCG(seed, 21)))
		e.Limits = azureLimits
		for i, set := range e.History {
			res := plan.Compute(e.input(set, e.cloud()), azurelower.Azure{})
			for _, x := range res.Refusals {
				if x.Lack != nil {
					t.Errorf("seed %d, policies %d: %s", seed, i, x.Message)
				}
			}
		}
	}
}

// TestAzureLimits: one rule of Azure takes as many blocks as a network security group does, and
// what is too much is refused with that number, and with no advice about quotas.
func TestAzureLimits(t *testing.T) {
	block := func(i int) blockSpec { return blockSpec{CIDR: fmt.Sprintf("20.%d.%d.0/24", i/100, 2*(i%100))} }
	blocks := func(n int) (out ruleSpec) {
		for i := range n {
			out.Blocks = append(out.Blocks, block(i))
		}
		return out
	}
	hosts := blockSpec{CIDR: "0.0.0.0/0"}
	for i := range 60 {
		hosts.Except = append(hosts.Except, fmt.Sprintf("%d.%d.%d.1/32", 11+3*i, 17*i%256, i))
	}
	for name, c := range map[string]struct {
		peer ruleSpec
		want string // the refusal
	}{
		"as many rules as there may be":     {blocks(1000), ""},
		"more blocks than rules":            {blocks(1001), ""},
		"as many blocks as there may be":    {blocks(4000), ""},
		"everybody but 60 hosts":            {ruleSpec{Blocks: []blockSpec{hosts}}, ""},
		"one block too many":                {blocks(4001), "would need 4001 source address prefixes, and Azure takes at most 4000 in one"},
		"far more blocks than there may be": {blocks(20_000), "would need at least 20000 source address prefixes, and Azure takes at most 4000 in one"},
	} {
		in, _ := labelledInput(1, 1, func(int, int) bool { return true })
		in.Regions[0].Limits = azureLimits
		admit(&in, 0, 80, c.peer)
		res := plan.Compute(in, azurelower.Azure{})
		if c.want == "" {
			if len(res.Refusals) > 0 || res.Plan.Empty() {
				t.Errorf("%s: %+v", name, res.Refusals)
			}
			continue
		}
		if len(res.Refusals) != 1 || res.Refusals[0].Lack == nil {
			t.Errorf("%s: %+v", name, res.Refusals)
			continue
		}
		x := res.Refusals[0]
		if !strings.Contains(x.Message, c.want) || strings.Contains(x.Message, "quota") || x.Lack.Quota != reason.LimitSources || x.Lack.WouldDo != 0 {
			t.Errorf("%s: %q, %+v", name, x.Message, x.Lack)
		}
	}
}

// TestAzureDropsOfOneProtocol: a port that a policy drops, beside prefixes that the interface's own
// groups deny, leaves blocks for each protocol, most of which Azure cannot name.
func TestAzureDropsOfOneProtocol(t *testing.T) {
	e := small()
	e.Limits = azureLimits
	e.History[0].Policies = []policySpec{{Tier: 250, Priority: 1, Applied: []int{0}, Rules: []ruleSpec{{
		Out: true, Action: "Drop", Blocks: []blockSpec{{CIDR: "0.0.0.0/0"}}, Services: []serviceSpec{{Protocol: "TCP", From: 25, To: 25, Type: -1}},
	}}}}
	f := e.cloud()
	for i := range f.snap.Groups {
		g := &f.snap.Groups[i]
		g.Rules = slices.DeleteFunc(g.Rules, func(r cloud.Rule) bool { return r.Direction == cloud.Egress })
		left := addrset.AllIPv4().Minus(addrset.OfPrefixes(netip.MustParsePrefix("198.51.100.7/32"), netip.MustParsePrefix("203.0.113.128/25")))
		for _, p := range left.Prefixes() {
			g.Rules = append(g.Rules, cloud.Rule{Direction: cloud.Egress, Match: cloud.NewMatch(cloud.AnyProtocol, -1, -1), Peer: cloud.Peer{CIDR: p}})
		}
	}
	res := plan.Compute(e.input(e.History[0], f), azurelower.Azure{})
	if len(res.Refusals) > 0 || res.Plan.Empty() {
		t.Errorf("%+v", res.Refusals)
	}
}
