package plan

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/target"
)

// lackingIn reads the mark of a message. It is false if the message has none.
func lackingIn(message string) (l target.Lacking, marked bool) {
	_, rest, marked := strings.Cut(message, target.MarkBegins)
	if !marked {
		return target.Lacking{}, false
	}
	if _, err := fmt.Sscanf(rest, "%d %d %d %d %d", &l.Rules, &l.Needed, &l.All, &l.Total, &l.Groups); err != nil {
		return target.Lacking{}, false
	}
	return l, true
}

// unmark returns the message with what is to be told in the place of its marks.
func unmark(message, what string) string {
	for {
		before, rest, marked := strings.Cut(message, target.MarkBegins)
		if !marked {
			return message
		}
		_, after, _ := strings.Cut(rest, target.MarkEnds)
		message = before + what + after
	}
}

// remedy is which quotas would do for one VM.
type remedy struct {
	// rules and groups are the quotas that would do; 0 for the present one. Both are 0 if none is
	// known.
	rules, groups int
	// alone is the quota of rules per group with which the policy at hand fits while others are
	// still left out; 0 if none is known, or the same.
	alone int
	// above is the largest quota of rules per group of which it is known that it would not do.
	above int
	// none is set if no quota of rules per group would do with the present one of groups per
	// interface.
	none bool
	// besides is why more room alone would not help.
	besides string
}

// text says it in words, to follow the numbers of the shortage.
func (r remedy) text(l target.Lacking, limits cloud.Limits) string {
	bound := ""
	if limits.RulesPerInterface > 0 {
		bound = fmt.Sprintf("the cloud grants no quotas for more than %d rules of a direction and family on an interface", limits.RulesPerInterface)
	}
	perGroup := func(n int) string { return "a quota of " + cloud.Counted(n, "rule") + " per group would do" }
	switch {
	case r.besides != "":
		return "; with more room it would be refused all the same: " + r.besides
	case r.none && r.rules > 0:
		return fmt.Sprintf("; no quota of rules per group would do with %s per interface, because %s, but %s per group and %s per interface would",
			cloud.Counted(limits.GroupsPerInterface, "group"), bound, cloud.Counted(r.rules, "rule"), cloud.Counted(r.groups, "group"))
	case r.none && r.alone > 0:
		return fmt.Sprintf("; %s for this policy beside those that fit, but none for all policies of the VM: %s", perGroup(r.alone), bound)
	case r.none && l.Needed > limits.RulesPerInterface:
		return fmt.Sprintf("; no quota would do, because %s: at least %d have to go", bound, l.Needed-limits.RulesPerInterface)
	case r.none:
		return "; no quota would do, because " + bound
	case r.groups > 0:
		return fmt.Sprintf("; a quota of %s per interface would do", cloud.Counted(r.groups, "group"))
	case r.rules > 0 && r.alone > 0:
		return fmt.Sprintf("; %s for all policies of the VM, and one of %d for this one beside those that fit", perGroup(r.rules), r.alone)
	case r.rules > 0:
		return "; " + perGroup(r.rules)
	case l.Rules > 0 && l.Needed > triedRules:
		return fmt.Sprintf("; not less than a quota of %s per group would do", cloud.Counted(l.Rules, "rule"))
	case r.above > limits.RulesPerGroup:
		return fmt.Sprintf("; a quota of %s per group would not do", cloud.Counted(r.above, "rule"))
	case l.Rules > 0:
		return fmt.Sprintf("; a quota of about %s per group would do", cloud.Counted(l.Rules, "rule"))
	default:
		return ""
	}
}

// number gives the numbers of a shortage what would do.
func (r remedy) number(of *target.Lack, l target.Lacking, limits cloud.Limits) *target.Lack {
	out := target.Lack{Quota: target.QuotaGroupsPerInterface, Needed: l.Groups, Available: limits.GroupsPerInterface, WouldDo: r.groups}
	if of != nil {
		out = *of
		out.WouldDo, out.WouldDoAlone = r.rules, r.alone
		if out.WithGroupsPerInterface = r.groups; r.groups > 0 && r.rules == 0 {
			out.WouldDo = limits.RulesPerGroup
		}
	}
	return &out
}
