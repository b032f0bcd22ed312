package plan

import "strings"

// The quotas that a Lack can be about, by the names that spec.awsConfig.quotas of an account has for them.
const (
	QuotaRulesPerGroup      = "rulesPerGroup"
	QuotaGroupsPerInterface = "groupsPerInterface"
	QuotaGroupsPerRegion    = "groupsPerRegion"
)

// Lack is a quota that does not suffice, in numbers.
type Lack struct {
	// Quota names the quota.
	Quota string `json:"quota"`
	// Direction and Family say which rules of an interface are meant; they are empty where groups are counted.
	Direction string `json:"direction,omitempty"`
	Family    string `json:"family,omitempty"`
	// Needed and Available count rules of one interface, or groups of the region.
	Needed    int `json:"needed"`
	Available int `json:"available"`
	// WouldDo is the smallest value of the quota with which nothing would be lacking for the VM, other quotas unchanged, and WouldDoAlone the smallest
	// for this policy while others are still left out, if that is less. WouldDo is 0 if the cloud grants no such quota, or none is known.
	WouldDo      int `json:"wouldDo"`
	WouldDoAlone int `json:"wouldDoAlone,omitempty"`
	// WithGroupsPerInterface is the quota that WouldDo goes with if it is not the present one.
	WithGroupsPerInterface int `json:"withGroupsPerInterface,omitempty"`
	// AtLeast is true if the exact number was not looked for: Needed is not less than this.
	AtLeast bool `json:"atLeast,omitempty"`
}

// lacks remembers for one call of Compute the numbers behind its messages. What was decided in one attempt or round goes to the next ones as a
// message only.
type lacks map[string]Lack

// message says what a class is short of, and remembers the numbers.
func (s *regionState) message(sh Shortage, c *class) string {
	q := s.quotaOf(c, 0)
	text := sh.message(q.Limits, s.atLeast(c, c.want, &forms{}, q))
	s.number(text, Lack{
		Quota: QuotaRulesPerGroup, Direction: string(sh.Direction), Family: sh.Family, Needed: sh.Needed, Available: sh.Available,
		WouldDo: sh.RulesPerGroup, AtLeast: sh.AtLeast,
	})
	return text
}

// number remembers the numbers behind a message.
func (s *regionState) number(text string, lack Lack) {
	s.options.Lacks[text] = lack
}

// number gives refusals the numbers that their messages tell.
func (l lacks) number(refusals []Refusal) {
	if len(l) == 0 {
		return
	}
	known := map[string]*Lack{}
	for i := range refusals {
		r := &refusals[i]
		if r.Lack != nil {
			continue
		}
		lack, ok := known[r.Message]
		if !ok {
			lack = l.behind(r.Message)
			known[r.Message] = lack
		}
		r.Lack = lack
	}
}

// behind finds the numbers of a message that says what is short, maybe among other things.
func (l lacks) behind(message string) *Lack {
	longest := ""
	for text := range l {
		if len(text) > len(longest) && strings.Contains(message, text) {
			longest = text
		}
	}
	if longest == "" {
		return nil
	}
	lack := l[longest]
	return &lack
}
