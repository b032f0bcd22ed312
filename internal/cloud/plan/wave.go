package plan

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Wave returns the beginning of the plan that touches at most limit VMs and existing groups, and
// whether anything is left for later; all of the plan if limit is not positive. vmOf names the VM
// of an interface, "" for none: the interface then counts by itself.
//
// A plan may break off after any step, so a wave is as safe as the whole, and the next one is
// planned on what is observed after it.
func (p Plan) Wave(limit int, vmOf func(region, networkInterface string) string) (wave Plan, more bool) {
	if limit <= 0 {
		return p, false
	}
	type subject struct{ region, id string }
	of := func(region, id string) subject {
		if vm := vmOf(region, id); vm != "" {
			id = vm
		}
		return subject{region, id}
	}
	touched, over := map[subject]bool{}, map[string]bool{}
	var steps []Step
	for _, s := range p.Steps {
		region := s.Scope.Region
		if over[region] {
			continue
		}
		if id := s.touches(); id != "" {
			on := of(region, id)
			if !touched[on] && len(touched) == limit {
				over[region], more = true, true
				continue
			}
			touched[on] = true
		}
		steps = append(steps, s)
	}
	wave = Plan{Account: p.Account, Partial: p.Partial || more}
	for _, s := range steps {
		// The tags of what comes later come with it.
		if over[s.Scope.Region] && s.tagsInterfaces() {
			ids := slices.DeleteFunc(s.Op.Subjects(), func(id string) bool { return !touched[of(s.Scope.Region, id)] })
			if len(ids) == 0 {
				continue
			}
			s.Op.Target, s.Op.Others = ids[0], slices.Clip(ids[1:])
		}
		wave.Steps = append(wave.Steps, s)
	}
	return wave, more
}

// touches returns the interface or group whose traffic the step may change; empty if there is none.
func (s Step) touches() string {
	switch s.Op.Kind {
	case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules, cloud.OpSetRules, cloud.OpSetInterfaceGroups:
		return s.Op.Target
	}
	return ""
}

// Urgent parts the plan: the steps that nothing may make wait, not even a limit, which are the
// first ones of their regions; and the plan for all other regions. Without such steps the rest is
// the whole plan.
func (p Plan) Urgent() (urgent, rest Plan) {
	urgent = p.only(func(s Step) bool { return s.Urgent })
	if urgent.Empty() {
		return urgent, p
	}
	regions := map[string]bool{}
	for _, s := range urgent.Steps {
		regions[s.Scope.Region] = true
	}
	rest = p.only(func(s Step) bool { return !regions[s.Scope.Region] })
	rest.Partial = p.Partial
	return urgent, rest
}

// Claims returns the steps that claim networks, which have to be seen to hold before anything else
// is done in the network; false if there are none.
func (p Plan) Claims() (Plan, bool) {
	claims := p.only(func(s Step) bool {
		return s.Op.Kind == cloud.OpTag && s.Op.Target == s.Network && s.Op.Tags[cloud.TagClaim] != ""
	})
	return claims, !claims.Empty()
}

// only is the plan for the steps of which something holds, which others follow.
func (p Plan) only(holds func(Step) bool) Plan {
	out := Plan{Account: p.Account, Partial: true}
	for _, s := range p.Steps {
		if holds(s) {
			out.Steps = append(out.Steps, s)
		}
	}
	return out
}
