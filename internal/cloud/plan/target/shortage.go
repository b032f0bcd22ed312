package target

import (
	"fmt"
)

// The quotas that a Lack can be about, by the names that spec.awsConfig.quotas of an account has
// for them.
const (
	QuotaRulesPerGroup      = "rulesPerGroup"
	QuotaGroupsPerInterface = "groupsPerInterface"
	QuotaGroupsPerRegion    = "groupsPerRegion"
)

// Lack is a quota that does not suffice, in numbers.
type Lack struct {
	// Quota names the quota.
	Quota string `json:"quota"`
	// Direction and Family say which rules of an interface are meant; they are empty where groups
	// are counted.
	Direction string `json:"direction,omitempty"`
	Family    string `json:"family,omitempty"`
	// Needed and Available count rules of one interface, or groups of the region.
	Needed    int `json:"needed"`
	Available int `json:"available"`
	// WouldDo is the smallest value of the quota with which nothing would be lacking for the VM,
	// other quotas unchanged, and WouldDoAlone the smallest for this policy while others are still
	// left out, if that is less. WouldDo is 0 if the cloud grants no such quota, or none is known.
	WouldDo      int `json:"wouldDo"`
	WouldDoAlone int `json:"wouldDoAlone,omitempty"`
	// WithGroupsPerInterface is the quota that WouldDo goes with if it is not the present one.
	WithGroupsPerInterface int `json:"withGroupsPerInterface,omitempty"`
	// AtLeast is true if the exact number was not looked for: Needed is not less than this.
	AtLeast bool `json:"atLeast,omitempty"`
}

// Lacks remembers for one call of Compute the numbers behind its messages. What was decided in one
// attempt or round goes to the next ones as a message only.
type Lacks map[string]Lack

// message says what a class is short of, and remembers the numbers.
func (s *Target) message(sh Shortage, c *Class) string {
	q := s.quotaOf(c, 0)
	text := sh.message(q.Limits, s.atLeast(c, c.Want, &forms{}, q))
	s.number(text, Lack{
		Quota: QuotaRulesPerGroup, Direction: string(sh.Direction), Family: sh.Family, Needed: sh.Needed, Available: sh.Available,
		WouldDo: sh.RulesPerGroup, AtLeast: sh.AtLeast,
	})
	return text
}

// number remembers the numbers behind a message.
func (s *Target) number(text string, lack Lack) {
	s.options.Lacks[text] = lack
}

// Which quota would do is not known where a shortage is found: with a larger one other policies
// come into force as well, peers fall into other classes, and interfaces need slots for the way. So
// messages about quotas have a mark in the place where it is told, and when all is decided the mark
// gives way to what trials have shown; see advise.

// Lacking is what a mark remembers of a shortage.
type Lacking struct {
	// rules is the quota of rules per group that the policy at hand would need beside those that
	// fit, needed how many rules; all and total are about the same for all policies of the VM
	// together, at least. groups is how many groups per interface are needed. 0 where that is not
	// what is lacking, or not known.
	Rules, Needed, All, Total, Groups int
}

const (
	MarkBegins = "\x01"
	MarkEnds   = "\x02"
)

// mark is the place in a message where it is told which quota would do.
func (l Lacking) mark() string {
	return fmt.Sprintf("%s%d %d %d %d %d%s", MarkBegins, l.Rules, l.Needed, l.All, l.Total, l.Groups, MarkEnds)
}
