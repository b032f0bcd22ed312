package target

import (
	"cmp"
	"slices"
	"sort"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// weight is what rules that take the same room have in common.
type weight struct {
	direction cloud.Direction
	cidr, v6  bool
	list      string
}

func weightOf(r cloud.Rule) weight {
	return weight{r.Direction, r.Peer.CIDR.IsValid(), r.Peer.CIDR.Addr().Is6(), r.Peer.PrefixListID}
}

// tightening is a class that allows less than the policies do, because one of them does not fit and
// says that as much as fits is to be allowed.
type tightening struct {
	policy *intent.Policy
	short  *intent.Reason
	// lost are the flows that are not allowed though the policies allow them; set when the class is
	// lowered.
	lost []string
}

// tightRules returns as many of the class's rules as fit, so that no other one does, and changes
// what the class must allow to exactly that. What it returned before is what it returns again, as
// long as the policies say the same. Rules that would be needed without the policy come first, then
// those that are in force already, then those that give the most.
func (s *Target) tightRules(c *form.Class, t *tightening) (kept []cloud.Rule, packed [][]cloud.Rule) {
	pool := s.fitter.Rules(form.Demand{Class: c, Want: c.Want})
	base, held, q := s.rulesWithout(c, t.policy), c.Held(), s.fitter.QuotaOf(c)
	present := cloud.RuleKeys(slices.Concat(held...))
	in := func(rules []cloud.Rule, r cloud.Rule) int {
		if _, found := slices.BinarySearchFunc(rules, r, cloud.Rule.Compare); found {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(pool, func(a, b cloud.Rule) int {
		return cmp.Or(in(base, a)-in(base, b), in(present, a)-in(present, b), breadth(b)-breadth(a), a.Compare(b))
	})
	fits := func(rules []cloud.Rule) bool {
		_, short := s.Lower.Pack(cloud.RuleKeys(rules), nil, q)
		return short == nil
	}
	n := sort.Search(len(pool), func(n int) bool { return !fits(pool[:n+1]) })
	kept = slices.Clone(pool[:n])
	full := map[weight]bool{} // of which no more fit
	for _, r := range pool[n:] {
		if w := weightOf(r); !full[w] {
			if with := append(kept, r); fits(with) {
				kept = with
			} else {
				full[w] = true
			}
		}
	}
	before := c.Want
	for i, d := range flow.Directions() {
		c.Want[i] = s.evaluateThen(slices.DeleteFunc(slices.Clone(kept), func(r cloud.Rule) bool { return r.Direction != d }), c.Network)
	}
	t.lost = losses(before, c.Want)
	kept = cloud.RuleKeys(kept)
	packed, _ = s.Lower.Pack(kept, held, q) // which fits, whatever is held
	return kept, packed
}

// rulesWithout returns the rules that the class would need without a policy, sorted.
func (s *Target) rulesWithout(c *form.Class, p *intent.Policy) []cloud.Rule {
	n := c.NICs[0]
	rules := slices.DeleteFunc(slices.Clone(n.VM.Effective), func(b *intent.Bound) bool { return b.Policy == p })
	return cloud.RuleKeys(s.fitter.Rules(form.Demand{Class: c, Want: s.Decided(n.NIC, rules, intent.ProfileOf(rules))}))
}

// breadth is the larger, the more a rule gives, roughly.
func breadth(r cloud.Rule) int {
	out := 1 << 12
	if block := r.Peer.CIDR; block.IsValid() {
		out = (block.Addr().BitLen() - block.Bits()) << 4
	}
	switch m := r.Match; {
	case m.Protocol == cloud.AnyProtocol:
		out += 1<<4 - 1
	case m.To > m.From:
		out += 1 << 3
	}
	return out
}

// losses lists the flows of before that after does not allow: direction, service and addresses of
// each.
func losses(before, after [2]flow.Permit) (out []string) {
	for i, d := range flow.Directions() {
		toFrom := [2]string{" from ", " to "}[i]
		for _, cell := range before[i].Minus(after[i]) {
			what := cell.Service.String()
			if cell.Service.Protocol == cloud.TCP || cell.Service.Protocol == cloud.UDP {
				what = cloud.NewMatch(cell.Service.Protocol, int(cell.Service.From), int(cell.Service.To)).String()
			}
			for _, p := range cell.All.Prefixes() {
				out = append(out, string(d)+" "+what+toFrom+p.String())
			}
		}
	}
	return out
}

// TightenedOn says what of a policy is not enforced on a VM because it does not fit, with the
// flows; nil if all of it is.
func (s *Target) TightenedOn(vm *guard.VM, p *intent.Policy) *intent.Reason {
	for _, n := range vm.NICs {
		c := s.ClassOf[n]
		if n.State != guard.Guarded || c == nil {
			continue
		}
		if t := s.tightened[c.Key]; t != nil && t.policy == p && len(t.lost) > 0 {
			return intent.Why(intent.Tightened, t.lost...).From(t.short)
		}
	}
	return nil
}
