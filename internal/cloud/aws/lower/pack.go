package lower

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// counts are rules per direction (ingress, egress) and family (IPv4, IPv6), as AWS counts them
// against one quota each.
type counts [2][2]int

func (c *counts) add(w counts) {
	for d := range c {
		for f := range c[d] {
			c[d][f] += w[d][f]
		}
	}
}

// fits reports whether w can be added without exceeding the quota.
func (c counts) fits(w counts, quota int) bool {
	for d := range c {
		for f := range c[d] {
			if w[d][f] > 0 && c[d][f]+w[d][f] > quota {
				return false
			}
		}
	}
	return true
}

// weigh returns what a rule counts: an address once in its family, a group once in both, a prefix
// list by its largest size.
func weigh(r cloud.Rule, q plan.Quota) counts {
	var out counts
	d := 0
	if r.Direction == cloud.Egress {
		d = 1
	}
	switch {
	case r.Peer.PrefixListID != "":
		size, families := 1, [2]bool{true, true}
		if list := q.Lists[r.Peer.PrefixListID]; list != nil {
			size = list.Weight()
			if len(list.Entries) > 0 {
				v4 := list.Entries[0].Addr().Is4()
				families = [2]bool{v4, !v4}
			}
		}
		for f, counted := range families {
			if counted {
				out[d][f] = size
			}
		}
	case !r.Peer.CIDR.IsValid():
		out[d] = [2]int{1, 1}
	case r.Peer.CIDR.Addr().Is4():
		out[d][0] = 1
	default:
		out[d][1] = 1
	}
	return out
}

// Fits implements plan.Lowerer: the rules of each direction and family are counted as AWS counts
// them (see weigh), and none of the four sums may exceed RulesPerGroup.
func (AWS) Fits(rules []cloud.Rule, q plan.Quota) bool {
	var sum counts
	for _, r := range rules {
		w := weigh(r, q)
		if !sum.fits(w, q.RulesPerGroup) {
			return false
		}
		sum.add(w)
	}
	return true
}

// Pack implements plan.Lowerer. Rules stay in the group they are in; new ones go to the first group
// with room. If that does not fit, everything is packed anew.
func (AWS) Pack(wanted []cloud.Rule, held [][]cloud.Rule, q plan.Quota) ([][]cloud.Rule, *plan.Shortage) {
	if exceeds(wanted, q) {
		return nil, shortage(wanted, q)
	}
	if out := pack(wanted, held, q); out != nil {
		return out, nil
	}
	if out := packAnew(wanted, q); out != nil {
		return out, nil
	}
	return nil, shortage(wanted, q)
}

// Bound implements plan.Lowerer: each block, range of ports and group takes a rule.
func (AWS) Bound(q plan.Quota) plan.Bound {
	room := q.RulesPerGroup * q.GroupsPerInterface
	return plan.Bound{Blocks: room, Groups: room, BlocksOf: [2]string{plan.QuotaRulesPerGroup, plan.QuotaRulesPerGroup}, GroupsOf: plan.QuotaRulesPerGroup}
}

// Uses implements plan.Lowerer: each direction and family has the same quota, so the fuller one
// counts.
func (AWS) Uses(rules []cloud.Rule, q plan.Quota) []plan.Use {
	var sum counts
	for _, r := range rules {
		sum.add(weigh(r, q))
	}
	out := plan.Use{Name: "rules of a group, per direction and family", Limit: q.RulesPerGroup}
	for d, direction := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
		for f, family := range []string{"IPv4", "IPv6"} {
			if sum[d][f] > out.Used {
				out.Used, out.Where = sum[d][f], string(direction)+" "+family
			}
		}
	}
	return []plan.Use{out}
}

// exceeds reports whether there are more rules than all groups together hold.
func exceeds(rules []cloud.Rule, q plan.Quota) bool {
	var sum counts
	for _, r := range rules {
		sum.add(weigh(r, q))
	}
	return !counts{}.fits(sum, q.RulesPerGroup*q.GroupsPerInterface)
}

// packAnew packs regardless of where rules are. Rules that count once are no problem in any order,
// if those that count in both families come first; prefix lists, which a group has to hold whole,
// are tried in all the places they can have if the first choice does not do.
func packAnew(wanted []cloud.Rule, q plan.Quota) [][]cloud.Rule {
	if out := pack(wanted, nil, q); out != nil {
		return out
	}
	lists := listsOf(wanted, q)
	if len(lists) == 0 || len(lists) > triedLists {
		return nil
	}
	groups, sums := make([][]cloud.Rule, q.GroupsPerInterface), make([]counts, q.GroupsPerInterface)
	var place func(k int) [][]cloud.Rule
	place = func(k int) [][]cloud.Rule {
		if k == len(lists) {
			return pack(wanted, groups, q)
		}
		w := weigh(lists[k], q)
		for g := range groups {
			if !sums[g].fits(w, q.RulesPerGroup) {
				continue
			}
			before, empty := sums[g], len(groups[g]) == 0
			sums[g].add(w)
			groups[g] = append(groups[g], lists[k])
			if out := place(k + 1); out != nil {
				return out
			}
			sums[g], groups[g] = before, groups[g][:len(groups[g])-1]
			if empty {
				break // any other empty group is as good as this one
			}
		}
		return nil
	}
	return place(0)
}

// listsOf returns the rules that count more than once in a family.
func listsOf(rules []cloud.Rule, q plan.Quota) (out []cloud.Rule) {
	for _, r := range rules {
		if r.Peer.PrefixListID != "" && breadth(r, q) > 1 {
			out = append(out, r)
		}
	}
	return out
}

// triedLists is how many prefix lists of one interface are tried in all places.
const triedLists = 8

func pack(wanted []cloud.Rule, held [][]cloud.Rule, q plan.Quota) [][]cloud.Rule {
	groups := make([][]cloud.Rule, max(len(held), 1))
	sums := make([]counts, len(groups))
	if len(groups) > q.GroupsPerInterface {
		return nil
	}
	place := func(r cloud.Rule, i int) bool {
		w := weigh(r, q)
		if !sums[i].fits(w, q.RulesPerGroup) {
			return false
		}
		sums[i].add(w)
		groups[i] = append(groups[i], r)
		return true
	}
	home := map[cloud.Rule]int{}
	for i := len(held) - 1; i >= 0; i-- {
		for _, r := range held[i] {
			home[r.Key()] = i
		}
	}
	var fresh []cloud.Rule
	for _, r := range wanted {
		if i, ok := home[r.Key()]; !ok || !place(r, i) {
			fresh = append(fresh, r)
		}
	}
	// Rules that count in both families go first: what is left in a group is then of use to either
	// family.
	slices.SortStableFunc(fresh, func(a, b cloud.Rule) int { return breadth(b, q) - breadth(a, q) })
	for _, r := range fresh {
		placed := false
		for i := 0; i < len(groups) && !placed; i++ {
			placed = place(r, i)
		}
		if placed {
			continue
		}
		if len(groups) == q.GroupsPerInterface {
			return nil
		}
		groups, sums = append(groups, nil), append(sums, counts{})
		if !place(r, len(groups)-1) {
			return nil
		}
	}
	for len(groups) > 1 && len(groups[len(groups)-1]) == 0 {
		groups = groups[:len(groups)-1]
	}
	for _, g := range groups {
		slices.SortFunc(g, cloud.Rule.Compare)
	}
	return groups
}

func breadth(r cloud.Rule, q plan.Quota) int {
	w := weigh(r, q)
	return w[0][0] + w[0][1] + w[1][0] + w[1][1]
}

// shortage finds the direction and family that are the furthest beyond the quota.
func shortage(wanted []cloud.Rule, q plan.Quota) *plan.Shortage {
	var sum counts
	for _, r := range wanted {
		sum.add(weigh(r, q))
	}
	out := &plan.Shortage{Quota: plan.QuotaRulesPerGroup, Available: q.RulesPerGroup * q.GroupsPerInterface}
	for d, direction := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
		for f, family := range []string{"IPv4", "IPv6"} {
			if sum[d][f] > out.Needed {
				out.Direction, out.Family, out.Needed = direction, family, sum[d][f]
			}
		}
	}
	return out
}
