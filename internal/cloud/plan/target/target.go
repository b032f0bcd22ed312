package target

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// Target is what is wanted in a region, and what the attempts so far have ruled out; see settle.
type Target struct {
	*States
	fitter  fitter
	matcher matcher
	Lower   Lowerer
	memo    *memo
	literal map[string]bool // classes that keep their rules as they are, word for word
	// Outgrown are groups, by ID, whose rules cannot become others where they are, for want of room
	// for both or of an order: their classes get groups beside them.
	Outgrown map[string]bool
	// tightened are the classes that allow as much as fits, by key; see tighten.
	tightened  map[string]*tightening
	gatherings gatherings
	nearby     map[*intent.Network]addrset.Set // see near
	allotment  *allotment                      // if there are too few groups for all that is wanted
	// Twins are the rules that groups of others get beside theirs, by the IDs of these groups.
	Twins map[string][]cloud.Rule
	design
}

// New begins with what cannot be expressed or controlled at all.
func New(r *intent.Region, lower Lowerer) *Target {
	s := &Target{
		States: newStates(r), Lower: lower, memo: newMemo(r.Recall), literal: map[string]bool{}, Outgrown: map[string]bool{}, tightened: map[string]*tightening{}, nearby: map[*intent.Network]addrset.Set{},
	}
	s.matcher = matcher{Region: r, design: &s.design, byHeld: s.byHeld, literal: s.literal, outgrown: s.Outgrown}
	s.fitter = fitter{Region: r, design: &s.design, lower: lower, memo: s.memo}
	return s
}

// restart forgets what attempts have ruled out.
func (s *Target) restart() {
	s.begin()
	clear(s.literal)
	clear(s.tightened)
	s.allotment = nil
}
