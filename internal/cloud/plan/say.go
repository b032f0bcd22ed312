package plan

import (
	"github.com/nephele-io/nephele/internal/cloud/plan/words"
)

// say puts all reasons of a result into words, and sorts what they are about. Nothing is decided
// afterwards.
func (r *Result) say() {
	for i := range r.VMs {
		vm := &r.VMs[i]
		for k := range vm.Policies {
			p := &vm.Policies[k]
			p.Message, p.Warning = words.Of(p.Why), words.All(p.Warnings)
		}
		for k := range vm.Interfaces {
			n := &vm.Interfaces[k]
			n.Unproven, n.Elsewhere = words.Of(n.WhyUnproven), words.Of(n.WhyElsewhere)
		}
	}
	for i := range r.Policies {
		for k := range r.Policies[i].Failed {
			f := &r.Policies[i].Failed[k]
			f.Message = words.Of(f.Why)
		}
		for k := range r.Policies[i].Unguarded {
			s := &r.Policies[i].Unguarded[k]
			s.Message = words.Of(s.Why)
		}
	}
	for i := range r.Refusals {
		r.Refusals[i].Message = words.Of(r.Refusals[i].Why)
	}
	for i := range r.Drift {
		d := &r.Drift[i]
		d.Code, d.Message, d.Why = d.Why.Code, words.Of(d.Why), nil
	}
	for i := range r.Records.Unproven {
		r.Records.Unproven[i].Message = words.Of(r.Records.Unproven[i].Why)
	}
	for i := range r.Notes {
		r.Notes[i].Message = words.Of(r.Notes[i].Why)
	}
	r.sort()
}
