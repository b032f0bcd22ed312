package design

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// Designer makes the design of a region, and has what the attempts so far have ruled out; see
// Settle.
type Designer struct {
	Account *intent.Account
	Region  *intent.Region
	Guard   *guard.States
	fitter  *form.Fitter
	matcher matcher
	Lower   form.Lowerer
	literal map[string]bool // classes that keep their rules as they are, word for word
	// Outgrown are groups, by ID, whose rules cannot become others where they are, for want of room
	// for both or of an order: their classes get groups beside them.
	Outgrown   map[string]bool
	gatherings gatherings
	full       *reason.Reason // why there are too few groups for all that is wanted; nil if there are enough
	// Twins are the rules that groups of others get beside theirs, by the IDs of these groups.
	Twins map[string][]cloud.Rule
	form.Design
}

// New begins with what cannot be expressed or controlled at all.
func New(r *intent.Region, lower form.Lowerer) *Designer {
	s := &Designer{
		Account: r.Account, Region: r, Guard: guard.NewStates(r), Lower: lower, literal: map[string]bool{}, Outgrown: map[string]bool{},
		gatherings: gatherings{existing: map[string]bool{}, gathered: map[membershipGroup]bool{}},
	}
	s.matcher = matcher{
		account: r.Account, region: r, Design: &s.Design, byHeld: s.Guard.Holding, literal: s.literal, outgrown: s.Outgrown, made: map[string][]*cloud.Group{},
	}
	for i := range s.Region.Snap.Groups {
		if g := &s.Region.Snap.Groups[i]; s.Region.Owned(g) {
			class := g.Tags[cloud.TagClass]
			s.matcher.made[class] = append(s.matcher.made[class], g)
			if g.Tags[cloud.TagKind] == form.KindMembers {
				s.gatherings.existing[class] = true
			}
		}
	}
	s.fitter = form.NewFitter(r, &s.Design, lower)
	return s
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
