package plan

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Which quota would do is not known where a shortage is found: with a larger one other policies come into force as well, peers fall into other
// classes, and interfaces need slots for the way. So messages about quotas have a mark in the place where it is told, and when all is decided
// the mark gives way to what trials have shown; see advise.

// lacking is what a mark remembers of a shortage.
type lacking struct {
	// rules is the quota of rules per group that the policy at hand would need beside those that fit, needed how many rules; all and total are
	// about the same for all policies of the VM together, at least. groups is how many groups per interface are needed. 0 where that is not
	// what is lacking, or not known.
	rules, needed, all, total, groups int
}

const (
	markBegins = "\x01"
	markEnds   = "\x02"
)

// mark is the place in a message where it is told which quota would do.
func (l lacking) mark() string {
	return fmt.Sprintf("%s%d %d %d %d %d%s", markBegins, l.rules, l.needed, l.all, l.total, l.groups, markEnds)
}

// lackingIn reads the mark of a message. It is false if the message has none.
func lackingIn(message string) (l lacking, marked bool) {
	_, rest, marked := strings.Cut(message, markBegins)
	if !marked {
		return lacking{}, false
	}
	if _, err := fmt.Sscanf(rest, "%d %d %d %d %d", &l.rules, &l.needed, &l.all, &l.total, &l.groups); err != nil {
		return lacking{}, false
	}
	return l, true
}

// unmark returns the message with what is to be told in the place of its marks.
func unmark(message, what string) string {
	for {
		before, rest, marked := strings.Cut(message, markBegins)
		if !marked {
			return message
		}
		_, after, _ := strings.Cut(rest, markEnds)
		message = before + what + after
	}
}

// remedy is which quotas would do for one VM.
type remedy struct {
	// rules and groups are the quotas that would do; 0 for the present one. Both are 0 if none is known.
	rules, groups int
	// alone is the quota of rules per group with which the policy at hand fits while others are still left out; 0 if none is known, or the same.
	alone int
	// above is the largest quota of rules per group of which it is known that it would not do.
	above int
	// none is set if no quota of rules per group would do with the present one of groups per interface.
	none bool
	// besides is why more room alone would not help.
	besides string
}

// text says it in words, to follow the numbers of the shortage.
func (r remedy) text(l lacking, limits cloud.Limits) string {
	bound := ""
	if limits.RulesPerInterface > 0 {
		bound = fmt.Sprintf("the cloud grants no quotas for more than %d rules of a direction and family on an interface", limits.RulesPerInterface)
	}
	perGroup := func(n int) string { return "a quota of " + count(n, "rule") + " per group would do" }
	switch {
	case r.besides != "":
		return "; with more room it would be refused all the same: " + r.besides
	case r.none && r.rules > 0:
		return fmt.Sprintf("; no quota of rules per group would do with %s per interface, because %s, but %s per group and %s per interface would",
			count(limits.GroupsPerInterface, "group"), bound, count(r.rules, "rule"), count(r.groups, "group"))
	case r.none && r.alone > 0:
		return fmt.Sprintf("; %s for this policy beside those that fit, but none for all policies of the VM: %s", perGroup(r.alone), bound)
	case r.none && l.needed > limits.RulesPerInterface:
		return fmt.Sprintf("; no quota would do, because %s: at least %d have to go", bound, l.needed-limits.RulesPerInterface)
	case r.none:
		return "; no quota would do, because " + bound
	case r.groups > 0:
		return fmt.Sprintf("; a quota of %s per interface would do", count(r.groups, "group"))
	case r.rules > 0 && r.alone > 0:
		return fmt.Sprintf("; %s for all policies of the VM, and one of %d for this one beside those that fit", perGroup(r.rules), r.alone)
	case r.rules > 0:
		return "; " + perGroup(r.rules)
	case l.rules > 0 && l.needed > triedRules:
		return fmt.Sprintf("; not less than a quota of %s per group would do", count(l.rules, "rule"))
	case r.above > limits.RulesPerGroup:
		return fmt.Sprintf("; a quota of %s per group would not do", count(r.above, "rule"))
	case l.rules > 0:
		return fmt.Sprintf("; a quota of about %s per group would do", count(l.rules, "rule"))
	default:
		return ""
	}
}

// number gives the numbers of a shortage what would do.
func (r remedy) number(of *Lack, l lacking, limits cloud.Limits) *Lack {
	out := Lack{Quota: QuotaGroupsPerInterface, Needed: l.groups, Available: limits.GroupsPerInterface, WouldDo: r.groups}
	if of != nil {
		out = *of
		out.WouldDo, out.WouldDoAlone = r.rules, r.alone
		if out.WithGroupsPerInterface = r.groups; r.groups > 0 && r.rules == 0 {
			out.WouldDo = limits.RulesPerGroup
		}
	}
	return &out
}

// count says how many there are of something.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
