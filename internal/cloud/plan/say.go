package plan

import (
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/words"
)

// say puts all reasons of a result into words, and sorts what they are about. Nothing is decided
// afterwards.
func (r *Result) say() {
	said := map[*reason.Reason]string{} // many VMs have the same one
	of := func(why *reason.Reason) string {
		text, known := said[why]
		if !known {
			text = words.Of(why)
			said[why] = text
		}
		return text
	}
	for i := range r.VMs {
		vm := &r.VMs[i]
		for k := range vm.Policies {
			p := &vm.Policies[k]
			p.Message, p.Warning = of(p.Why), words.All(p.Warnings, " ")
		}
		for k := range vm.Interfaces {
			n := &vm.Interfaces[k]
			n.Unproven, n.Elsewhere = of(n.WhyUnproven), of(n.WhyElsewhere)
		}
	}
	for i := range r.Policies {
		for k := range r.Policies[i].Failed {
			f := &r.Policies[i].Failed[k]
			f.Message = of(f.Why)
		}
		for k := range r.Policies[i].Unguarded {
			s := &r.Policies[i].Unguarded[k]
			s.Message = of(s.Why)
		}
	}
	for i := range r.Refusals {
		r.Refusals[i].Message = of(r.Refusals[i].Why)
	}
	for i := range r.Drift {
		d := &r.Drift[i]
		d.Code, d.Message, d.Why = d.Why.Code, of(d.Why), nil
	}
	for i := range r.Records.Unproven {
		r.Records.Unproven[i].Message = of(r.Records.Unproven[i].Why)
	}
	for i := range r.Notes {
		r.Notes[i].Message = of(r.Notes[i].Why)
	}
	r.sort()
}
