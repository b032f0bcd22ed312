package render

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// Outlook is what planning, round after round until nothing is left to do, would do to one VM, or
// to several.
type Outlook struct {
	// Guarded, Members and Returned are the interfaces that would be taken over or change their
	// class, become peers of others, and be given back.
	Guarded, Members, Returned int
	// Enforced are the policies that would be enforced on some of the VMs, and Refused the reasons
	// why some would not be on others, each behind the name of the policy.
	Enforced map[plan.PolicyRef]bool
	Refused  map[string]bool

	// groups holds the groups of ours that the interfaces would hold and whose rules would be
	// others.
	groups map[groupRef]ruleCount
}

func newOutlook() Outlook {
	return Outlook{Enforced: map[plan.PolicyRef]bool{}, Refused: map[string]bool{}, groups: map[groupRef]ruleCount{}}
}

// groupRef is a group by its ID; one that the plans create has that of a model.
type groupRef struct{ region, id string }

func (g groupRef) planned() bool { return strings.HasPrefix(g.id, model.PlannedGroupID) }

// ruleCount counts the rules that a group would get and lose, by direction.
type ruleCount struct{ added, removed [2]int }

// countRules returns what would become of the rules of groups. A rule that comes and goes again
// does not count.
func countRules(rounds []*plan.Result) map[groupRef]ruleCount {
	net := map[groupRef]map[cloud.Rule]int{}
	count := func(s plan.Step, rules []cloud.Rule, n int) {
		on := groupRef{s.Scope.Region, cmp.Or(s.Op.Target, model.PlannedID(s.Network, s.Op.Group.Name))}
		if net[on] == nil {
			net[on] = map[cloud.Rule]int{}
		}
		for _, r := range rules {
			if r.Peer.GroupName != "" { // in the rounds after the one that creates it the peer has an ID
				r.Peer = cloud.Peer{GroupID: model.PlannedID(s.Network, r.Peer.GroupName)}
			}
			net[on][r.Key()] += n
		}
	}
	for s := range steps(rounds) {
		switch s.Op.Kind {
		case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpSetRules:
			count(s, s.Op.Added(), 1)
			count(s, s.Op.Removed(), -1)
		case cloud.OpReplaceRules:
			count(s, s.Op.Rules, 1)
			count(s, s.Op.Replaced, -1)
		}
	}
	out := make(map[groupRef]ruleCount, len(net))
	for on, rules := range net {
		var c ruleCount
		for r, n := range rules {
			switch d := flow.Index(r.Direction); {
			case n > 0:
				c.added[d]++
			case n < 0:
				c.removed[d]++
			}
		}
		out[on] = c
	}
	return out
}

func steps(rounds []*plan.Result) iter.Seq[plan.Step] {
	return func(yield func(plan.Step) bool) {
		for _, r := range rounds {
			for _, s := range r.Plan.Steps {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// Outlooks returns what rounds of planning, each on what the one before leads to, would do to each
// of the VMs. What becomes of a policy there is what the last one says: in the others it may still
// have to wait for something.
func Outlooks(rounds []*plan.Result) map[plan.VMRef]Outlook {
	if len(rounds) == 0 {
		return nil
	}
	rules, edited := countRules(rounds), map[plan.InterfaceKey]bool{}
	for s := range steps(rounds) {
		if s.Op.Kind == cloud.OpSetInterfaceGroups {
			edited[plan.InterfaceKey{Region: s.Scope.Region, ID: s.Op.Target}] = true
		}
	}
	last := rounds[len(rounds)-1]
	out := make(map[plan.VMRef]Outlook, len(last.VMs))
	for _, vm := range last.VMs {
		o := newOutlook()
		for _, n := range vm.Interfaces {
			for _, key := range n.Groups {
				if name, created := strings.CutPrefix(key, "+"); created {
					key = model.PlannedID(n.Network, name)
				}
				held := groupRef{vm.VM.Region, key}
				if change, found := rules[held]; found {
					o.groups[held] = change
				}
			}
			switch {
			case !edited[plan.InterfaceKey{Region: vm.VM.Region, ID: n.ID}]:
			case n.State == plan.Guarded:
				o.Guarded++
			case n.State == plan.Member:
				o.Members++
			default:
				o.Returned++
			}
		}
		for _, p := range vm.Policies {
			if p.Message != "" {
				o.Refused[refusalText(p.PolicyRef, p.Message)] = true
			} else {
				o.Enforced[p.PolicyRef] = true
			}
		}
		out[vm.VM] = o
	}
	for _, p := range last.Policies {
		for _, u := range p.Unguarded {
			if _, known := out[u.VM]; !known {
				out[u.VM] = newOutlook()
			}
			out[u.VM].Refused[refusalText(p.PolicyRef, u.Message)] = true
		}
	}
	return out
}

func refusalText(p plan.PolicyRef, why string) string {
	return strings.TrimPrefix(p.Namespace+"/"+p.Name, "/") + ": " + why
}

// Policies are what rounds of planning make of the policies: realized where that is so before the
// first, pending where one of them does it, failed where the last one says so.
func Policies(rounds []*plan.Result) []plan.PolicyStatus {
	if len(rounds) == 0 {
		return nil
	}
	already := map[string]map[plan.VMRef]bool{}
	for _, p := range rounds[0].Policies {
		already[p.UID] = map[plan.VMRef]bool{}
		for _, vm := range p.Realized {
			already[p.UID][vm] = true
		}
	}
	out := slices.Clone(rounds[len(rounds)-1].Policies)
	for i := range out {
		p := &out[i]
		all := slices.Concat(p.Realized, p.Pending)
		slices.SortFunc(all, plan.VMRef.Compare)
		p.Realized, p.Pending = nil, nil
		for _, vm := range all {
			if already[p.UID][vm] {
				p.Realized = append(p.Realized, vm)
			} else {
				p.Pending = append(p.Pending, vm)
			}
		}
	}
	return out
}

// Planned says what enforcing so many VMs in mode plan would do.
func Planned(vms int, sum Outlook) string {
	return fmt.Sprintf("VMs that are planned for: %d; if enforced, %s", vms, sum)
}

// Sum is what is said of several VMs together.
func Sum(all iter.Seq[Outlook]) Outlook {
	sum := newOutlook()
	for o := range all {
		sum.Guarded, sum.Members, sum.Returned = sum.Guarded+o.Guarded, sum.Members+o.Members, sum.Returned+o.Returned
		maps.Copy(sum.groups, o.groups) // VMs of a class share theirs
		maps.Copy(sum.Enforced, o.Enforced)
		maps.Copy(sum.Refused, o.Refused)
	}
	return sum
}

// RuleChange counts the rules that groups would get and lose.
type RuleChange struct {
	// Groups are those that would be created, with so many Ingress and Egress rules.
	Groups, Ingress, Egress int
	// Added and Removed are the rules of groups that exist.
	Added, Removed int
}

// Rules counts the rules of the groups that the interfaces would hold. A group that several hold
// counts once.
func (o Outlook) Rules() RuleChange {
	var c RuleChange
	for on, g := range o.groups {
		if on.planned() {
			c.Groups, c.Ingress, c.Egress = c.Groups+1, c.Ingress+g.added[0], c.Egress+g.added[1]
			continue
		}
		c.Added, c.Removed = c.Added+g.added[0]+g.added[1], c.Removed+g.removed[0]+g.removed[1]
	}
	return c
}

// String says it in words, with the first refusal.
func (o Outlook) String() string {
	var parts []string
	add := func(n int, format string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, n))
		}
	}
	add(o.Guarded, "interfaces to take over or to change: %d")
	add(o.Members, "interfaces that become peers only: %d")
	add(o.Returned, "interfaces to give back: %d")
	rules := o.Rules()
	if rules.Groups > 0 {
		parts = append(parts, fmt.Sprintf("in new groups: %d ingress and %d egress rules", rules.Ingress, rules.Egress))
	}
	add(rules.Added, "in groups that exist, rules to add: %d")
	add(rules.Removed, "in groups that exist, rules to remove: %d")
	if len(parts) == 0 {
		parts = append(parts, "neither an interface nor a rule would change")
	}
	add(len(o.Enforced), "policies to enforce: %d")
	if len(o.Refused) > 0 {
		policies := map[string]bool{}
		for r := range o.Refused {
			name, _, _ := strings.Cut(r, ": ")
			policies[name] = true
		}
		parts = append(parts, fmt.Sprintf("refused: %d, %s", len(policies), slices.Min(slices.Collect(maps.Keys(o.Refused)))))
	}
	return strings.Join(parts, "; ")
}
