package form

import (
	"cmp"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// Shortfall returns what a class is short of. Exact numbers take long, so they are computed only
// when it is called.
type Shortfall func() Shortage

// Fit returns the rules of a class in the first form that fits into the quota, and the same rules
// packed into the class's groups. References to classes are tried first, because they need no edit
// when members come and go, then as many mixed forms as are necessary (tryForms). Whether rules fit
// into a group is for the cloud to say (Lowerer.Pack). short is nil if they fit.
func (s *Fitter) Fit(d Demand) (rules []cloud.Rule, packed [][]cloud.Rule, short Shortfall) {
	known := s.fitting(d)
	if known.fits == unasked {
		if known.bound = s.beyond(d); known.bound != nil {
			known.fits = no
		}
	}
	switch known.fits {
	case unasked:
		*known, packed = s.tryForms(d)
	case yes:
		if named := s.division(d.Class.Network).named; known.named != named {
			s.account.MayStop()
			known.rules, known.named = s.lower.Lower(s.traffic(d, &forms{repeat: known.mixed})), named
		}
		packed, _ = s.lower.Pack(known.rules, d.Class.Held(), s.quota(d))
	}
	if known.fits == yes {
		return known.rules, packed, nil
	}
	return nil, nil, func() Shortage {
		if known.short == nil {
			known.short = known.bound
			if s.quota(d).GroupsPerInterface > 0 { // the number that is needed says more than a bound
				tried, _ := s.tryForms(d)
				known.short = cmp.Or(tried.short, known.bound)
			}
		}
		return *known.short
	}
}

// tryForms lowers and packs the rules in one form after the other. It returns the first form that
// fits, or else the smallest shortage.
func (s *Fitter) tryForms(d Demand) (found fitting, packed [][]cloud.Rule) {
	if bound := s.AtLeast(d); bound != nil && bound.Needed > farBeyond*bound.Available {
		return fitting{fits: no, short: bound}, nil
	}
	q, view, held := s.quota(d), d.Class.Network, d.Class.Held()
	groups := s.lower.Bound(q).Groups
	found.fits = no
	for f := (forms{}); ; {
		s.account.MayStop()
		t := s.traffic(d, &f)
		if surplus := f.references - groups; surplus > 0 && f.change(s, view, surplus) {
			continue
		}
		rules := s.lower.Lower(t)
		packed, short := s.lower.Pack(rules, held, q)
		if short == nil {
			return fitting{fits: yes, mixed: f.choice(), rules: rules, named: s.division(view).named}, packed
		}
		if found.short == nil || short.Needed < found.short.Needed {
			found.short = short
		}
		if !f.spelled && s.worthSpelling(d.Want) {
			f.spelled = true
		} else if !f.change(s, view, short.Needed-short.Available) {
			return found, nil
		}
	}
}

// MayFit reports false if a bound shows that a demand fits in no form.
func (s *Fitter) MayFit(d Demand) bool { return s.beyond(d) == nil }

// beyond returns the bound of the cloud that a demand exceeds in every form: by its blocks of
// addresses, or by the references of the form with the fewest of them. It is nil if none tells
// that the demand does not fit.
func (s *Fitter) beyond(d Demand) *Shortage {
	q := s.quota(d)
	bound := s.lower.Bound(q)
	if q.GroupsPerInterface <= 0 {
		return &Shortage{Quota: reason.QuotaGroupsPerInterface, Needed: 1 - q.GroupsPerInterface, AtLeast: true}
	}
	if short := s.AtLeast(d); short != nil {
		return short
	}
	for quick := (forms{counts: true}); ; {
		s.account.MayStop()
		s.traffic(d, &quick)
		surplus := quick.references - bound.Groups
		if surplus <= 0 {
			return nil
		}
		if !quick.change(s, d.Class.Network, surplus) {
			return &Shortage{
				Quota: bound.GroupsOf, Direction: flow.Directions()[quick.most], Family: Families()[0].Name, Needed: quick.references, Available: bound.Groups, AtLeast: true,
			}
		}
	}
}

// Fits reports whether a demand fits.
func (s *Fitter) Fits(d Demand) bool {
	if known := s.fitting(d); known.fits != unasked {
		return known.fits == yes
	}
	_, _, short := s.Fit(d)
	return short == nil
}

// KnownToFit reports whether it was found out that a demand fits.
func (s *Fitter) KnownToFit(d Demand) bool { return s.fitting(d).fits == yes }
