package form

import (
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// Fitter finds the form in which what a class must allow fits into the quotas: which peers its
// rules name by group, and which by address. It reads the design, and decides nothing about it: the
// caller decides what is left out if no form fits.
type Fitter struct {
	account *intent.Account
	region  *intent.Region
	*Design
	lower Lowerer
	memo  *memo
	memory
}

// NewFitter is for one design of a region, which it sees as it becomes.
func NewFitter(r *intent.Region, d *Design, lower Lowerer) *Fitter {
	return &Fitter{account: r.Account, region: r, Design: d, lower: lower, memo: &memo{Recall: r.Account.Recall}}
}

// Demand is what a class is to allow, and with which groups besides those that there are.
type Demand struct {
	Class *Class
	Want  [2]flow.Permit
	// Trial are gatherings that might be made, and Slots how many of them would take a slot of the
	// class itself.
	Trial []Candidate
	Slots int
}

// quota is that for the rules of the class.
func (s *Fitter) quota(d Demand) Quota {
	q := s.QuotaOf(d.Class)
	q.GroupsPerInterface -= d.Slots
	return q
}

// QuotaOf is the quota for the rules of a class: gatherings take slots of its interfaces.
func (s *Fitter) QuotaOf(c *Class) Quota {
	q := QuotaOf(s.region)
	q.GroupsPerInterface -= len(s.Memberships[c.NICs[0]])
	return q
}
