package target

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// fitter finds the form in which what a class must allow fits into the quotas: which peers its
// rules name by group, and which by address. It reads the design, and decides nothing about it: who
// is left out if no form fits is for Target to say.
type fitter struct {
	*intent.Region
	*design
	lower Lowerer
	memo  *memo
	memory
}

// gathering reports whether the peer is the group of a gathering.
func (s *fitter) gathering(p cloud.Peer) bool {
	if len(s.memberships) == 0 {
		return false
	}
	g := s.ByKey[groupKey(p)]
	return g != nil && g.Class.Gathers
}

// quotaOf is the quota for the rules of a class: gatherings take slots of its interfaces.
func (s *fitter) quotaOf(c *Class, taken int) Quota {
	q := QuotaOf(s.Region)
	q.GroupsPerInterface -= len(s.memberships[c.NICs[0]]) + taken
	return q
}
