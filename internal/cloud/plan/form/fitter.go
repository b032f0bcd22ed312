package form

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// Fitter finds the form in which what a class must allow fits into the quotas: which peers its
// rules name by group, and which by address. It reads the design, and decides nothing about it: who
// is left out if no form fits is for its caller to say.
type Fitter struct {
	*intent.Region
	*Design
	lower Lowerer
	memo  *memo
	memory
}

// NewFitter is for one design of a region, which it sees as it becomes.
func NewFitter(r *intent.Region, d *Design, lower Lowerer) *Fitter {
	return &Fitter{Region: r, Design: d, lower: lower, memo: &memo{Recall: r.Recall}}
}

// gathering reports whether the peer is the group of a gathering.
func (s *Fitter) gathering(p cloud.Peer) bool {
	if len(s.Memberships) == 0 {
		return false
	}
	g := s.ByKey[GroupKey(p)]
	return g != nil && g.Class.Gathers
}

// QuotaOf is the quota for the rules of a class: gatherings take slots of its interfaces.
func (s *Fitter) QuotaOf(c *Class, taken int) Quota {
	q := QuotaOf(s.Region)
	q.GroupsPerInterface -= len(s.Memberships[c.NICs[0]]) + taken
	return q
}
