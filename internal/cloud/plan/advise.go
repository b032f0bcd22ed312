package plan

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
	"github.com/nephele-io/nephele/internal/cloud/plan/target"
)

const (
	// triedQuotas bounds how many quotas are tried for a region, and triedInterfaces how many
	// interfaces all these trials may concern together.
	triedQuotas     = 24
	triedInterfaces = 1 << 11
	// triedRules is how many rules on an interface are tried at most where the cloud names no
	// bound.
	triedRules = 1000
	// triedPairs is how many pairs of quotas are tried for one VM.
	triedPairs = 4
	// mostGroups is how many groups per interface a cloud grants at most.
	mostGroups = 16
)

// adviser finds out which quotas would do in one region, by planning with them.
type adviser struct {
	in      Input // with nothing but the region
	lower   target.Lowerer
	at      intent.Observed
	refused map[intent.VMRef]map[string]string // VM and UID of a policy -> message with a mark; UID "" for the VM itself
	trials  map[[2]int]*trial
	left    int // how many more may be made
	// allowance is how much work all trials may still take together.
	allowance *int
}

// trial is what comes of quotas.
type trial struct {
	refused map[intent.VMRef]map[string]string
	// full is set if the region as a whole is refused, so that nothing of it is known.
	full bool
}

// advise tells, in the place of the marks of messages, which quotas would do.
func (in Input) advise(out *Result, lower target.Lowerer) {
	advisers := map[string]*adviser{}
	allowance := in.allowed().advice
	limits := map[string]intent.Observed{}
	for _, r := range in.Regions {
		limits[r.Snapshot.Region] = r
		refused := out.refusedIn(r.Snapshot.Region)
		a := &adviser{in: in, lower: lower, at: r, refused: map[intent.VMRef]map[string]string{}, trials: map[[2]int]*trial{}, allowance: &allowance}
		for vm, messages := range refused {
			for uid, message := range messages {
				if _, marked := lackingIn(message); marked {
					if a.refused[vm] == nil {
						a.refused[vm] = map[string]string{}
					}
					a.refused[vm][uid] = message
				}
			}
		}
		if len(a.refused) == 0 {
			continue
		}
		a.in.Regions = []intent.Observed{r}
		if a.left = min(triedQuotas, triedInterfaces/max(1, len(r.Snapshot.Interfaces))); in.Unadvised {
			a.left = 0
		}
		advisers[r.Snapshot.Region] = a
	}
	if len(advisers) == 0 {
		return
	}
	known := map[intent.VMRef]remedy{}
	tell := func(vm intent.VMRef, uid string, message *string) (r remedy, l target.Lacking, marked bool) {
		if l, marked = lackingIn(*message); !marked {
			return r, l, false
		}
		a := advisers[vm.Region]
		found := false
		r, found = known[vm]
		if !found {
			r = a.remedy(vm)
			known[vm] = r
		}
		r.alone = a.alone(vm, uid, r)
		*message = unmark(*message, r.text(l, a.at.Limits))
		return r, l, true
	}
	for i := range out.VMs {
		v := &out.VMs[i]
		for k := range v.Policies {
			tell(v.VM, v.Policies[k].UID, &v.Policies[k].Message)
		}
	}
	for i := range out.Policies {
		for k := range out.Policies[i].Failed {
			f := &out.Policies[i].Failed[k]
			tell(f.VM, out.Policies[i].UID, &f.Message)
		}
	}
	for i := range out.Refusals {
		x := &out.Refusals[i]
		if r, l, marked := tell(x.VM, x.Policy.UID, &x.Message); marked {
			x.Lack = r.number(x.Lack, l, advisers[x.VM.Region].at.Limits)
		}
	}
}

// refusedIn returns what is refused on the VMs of a region, with the messages.
func (r *Result) refusedIn(region string) map[intent.VMRef]map[string]string {
	out := map[intent.VMRef]map[string]string{}
	add := func(vm intent.VMRef, uid, message string) {
		if vm.Region != region || message == "" {
			return
		}
		if out[vm] == nil {
			out[vm] = map[string]string{}
		}
		out[vm][uid] = message
	}
	for _, v := range r.VMs {
		for _, p := range v.Policies {
			add(v.VM, p.UID, p.Message)
		}
	}
	for _, x := range r.Refusals {
		add(x.VM, x.Policy.UID, x.Message)
	}
	return out
}

// try plans with quotas. It is nil if no more may be tried.
func (a *adviser) try(rules, groups int) *trial {
	key := [2]int{rules, groups}
	if t := a.trials[key]; t != nil {
		return t
	}
	if a.left == 0 {
		return nil
	}
	a.left--
	r := a.at
	r.Limits.RulesPerGroup, r.Limits.GroupsPerInterface = rules, groups
	in := a.in
	in.Regions = []intent.Observed{r}
	out := &Result{}
	begun := in.effort.Spent
	if !in.effort.Within(*a.allowance, func() {
		for _, s := range wanted(in, a.lower).regions {
			out.add(report.Of(s.Target, nil))
		}
	}) {
		a.left = 0
		return nil
	}
	*a.allowance -= in.effort.Spent - begun
	region := r.Snapshot.Region
	t := &trial{refused: out.refusedIn(region), full: slices.ContainsFunc(out.Refusals, func(x report.Refusal) bool { return x.Region == region && x.VM == intent.VMRef{} })}
	a.trials[key] = t
	return t
}

// fits reports whether nothing that is refused on the VM for want of room is with the quotas of the
// trial.
func (a *adviser) fits(t *trial, vm intent.VMRef) bool {
	if t.full {
		return false
	}
	for uid, message := range t.refused[vm] {
		if _, marked := lackingIn(message); marked || a.refused[vm][uid] != "" {
			return false
		}
	}
	return true
}

// besides is for what else than want of room something is refused with the quotas of the trial that
// is refused for want of room now; empty if nothing is, or if there is want of room as well.
func (a *adviser) besides(t *trial, vm intent.VMRef) (why string) {
	for _, uid := range sortedKeys(t.refused[vm]) {
		message := t.refused[vm][uid]
		if _, marked := lackingIn(message); marked || t.full {
			return ""
		}
		if a.refused[vm][uid] != "" {
			why = message
		}
	}
	return why
}

// lacking is what is lacking on a VM. What all of its policies need was told each time one was left
// out; it begins with the least of that.
func (t *trial) lacking(vm intent.VMRef) (out target.Lacking) {
	for _, message := range t.refused[vm] {
		l, marked := lackingIn(message)
		if !marked {
			continue
		}
		if out.All == 0 || 0 < l.All && l.All < out.All {
			out.All = l.All
		}
		if out.Total == 0 || 0 < l.Total && l.Total < out.Total {
			out.Total = l.Total
		}
		out.Groups = max(out.Groups, l.Groups)
	}
	return out
}

// most is the largest quota of rules per group that there can be with so many groups per interface.
func (a *adviser) most(groups int) int {
	if bound := a.at.Limits.RulesPerInterface; bound > 0 {
		return bound / groups
	}
	return 1 << 20
}

// remedy finds the smallest quota with which everything fits on the VM.
func (a *adviser) remedy(vm intent.VMRef) remedy {
	limits := a.at.Limits
	l := (&trial{refused: a.refused}).lacking(vm)
	for groups := limits.GroupsPerInterface + 1; groups <= min(l.Groups, mostGroups) && limits.RulesPerGroup <= a.most(groups); groups++ {
		if t := a.try(limits.RulesPerGroup, groups); t != nil && a.fits(t, vm) {
			return remedy{groups: groups}
		}
	}
	if l.Total > cmp.Or(limits.RulesPerInterface, triedRules) {
		return remedy{none: limits.RulesPerInterface > 0}
	}
	out := a.search(vm, l)
	if out.none && out.besides == "" {
		a.pair(vm, l, &out)
	}
	return out
}

// search finds the smallest quota of rules per group.
func (a *adviser) search(vm intent.VMRef, l target.Lacking) (out remedy) {
	low, high, most := a.at.Limits.RulesPerGroup, 0, a.most(a.at.Limits.GroupsPerInterface)
	for step := 1; high == 0; step *= 2 {
		if low >= most {
			out.none = true
			if t := a.trials[[2]int{low, a.at.Limits.GroupsPerInterface}]; t != nil {
				out.besides = a.besides(t, vm)
			}
			return out
		}
		next := min(max(l.All, low+step), most)
		t := a.try(next, a.at.Limits.GroupsPerInterface)
		switch {
		case t == nil:
			out.above = low
			return out
		case a.fits(t, vm):
			high = next
		default:
			low, l = next, t.lacking(vm)
		}
	}
	// Most often it is the number of rules that decides, and then the next smaller quota does not
	// do.
	for next := high - 1; next > low; next = (low + high) / 2 {
		t := a.try(next, a.at.Limits.GroupsPerInterface)
		if t == nil {
			break
		}
		if a.fits(t, vm) {
			high = next
		} else {
			low = next
		}
	}
	out.rules = high
	return out
}

// pair looks for quotas of rules per group and of groups per interface that would do together,
// those next to the present ones first.
func (a *adviser) pair(vm intent.VMRef, l target.Lacking, out *remedy) {
	present, tried := a.at.Limits.GroupsPerInterface, 0
	for distance := 1; distance < mostGroups; distance++ {
		for _, groups := range []int{present + distance, present - distance} {
			if groups < 1 || groups > mostGroups || groups*a.most(groups) < l.Total || tried == triedPairs {
				continue
			}
			tried++
			if t := a.try(a.most(groups), groups); t != nil && a.fits(t, vm) {
				out.rules, out.groups = a.most(groups), groups
				return
			}
		}
	}
}

// alone returns the smallest quota of which a trial has shown that one of several policies that are
// refused on a VM fits with it, and that it does not with the next smaller one.
func (a *adviser) alone(vm intent.VMRef, uid string, all remedy) int {
	l, _ := lackingIn(a.refused[vm][uid])
	if all.groups > 0 || all.rules == 0 && !all.none || len(a.refused[vm]) < 2 || l.Rules <= a.at.Limits.RulesPerGroup || all.rules > 0 && l.Rules >= all.rules {
		return 0
	}
	if l.Rules > a.most(a.at.Limits.GroupsPerInterface) {
		return 0
	}
	groups := a.at.Limits.GroupsPerInterface
	t, less := a.try(l.Rules, groups), a.try(l.Rules-1, groups)
	if l.Rules-1 == a.at.Limits.RulesPerGroup {
		less = &trial{refused: a.refused}
	}
	if t == nil || less == nil || t.full || t.refused[vm][uid] != "" || less.refused[vm][uid] == "" {
		return 0
	}
	return l.Rules
}
