package policy

import (
	"slices"
	"strings"
)

// reportKey identifies the object of a report.
type reportKey struct {
	policy  string // UID; empty for a group
	group   NamespacedName
	isGroup bool
}

// report is what is wrong with an object.
type report struct {
	ref         PolicyRef
	errs, warns []FieldError
}

// touchReport has the object's report compared with the last one in this Commit.
func (e *Engine) touchReport(k reportKey) {
	if e.dirtyReports == nil {
		e.dirtyReports = make(map[reportKey]struct{})
	}
	e.dirtyReports[k] = struct{}{}
}

// takeProblems returns the reports that changed since the last Commit.
func (e *Engine) takeProblems() []Problem {
	var out []Problem
	for k := range e.dirtyReports {
		former := e.reported[k]
		now := e.reportOf(k)
		if slices.Equal(now.errs, former.errs) && slices.Equal(now.warns, former.warns) {
			continue
		}
		if len(now.errs)+len(now.warns) == 0 {
			delete(e.reported, k)
			now.ref = former.ref
		} else {
			e.reported[k] = now
		}
		out = append(out, Problem{Policy: now.ref, Group: k.group, Errors: now.errs, Warnings: now.warns})
	}
	// A cleared map would keep the size of the largest Commit ever, and the cost of going through
	// it.
	e.dirtyReports = nil
	slices.SortFunc(out, func(a, b Problem) int {
		for _, c := range [...]int{
			strings.Compare(a.Policy.UID, b.Policy.UID),
			strings.Compare(a.Group.Namespace, b.Group.Namespace),
			strings.Compare(a.Group.Name, b.Group.Name),
		} {
			if c != 0 {
				return c
			}
		}
		return 0
	})
	return out
}

func (e *Engine) reportOf(k reportKey) report {
	if k.isGroup {
		if d := e.groupDefs[k.group]; d != nil && d.in != nil {
			return report{errs: d.problems(), warns: slices.Concat(d.missing(), e.serviceMissing(d))}
		}
		return report{}
	}
	if p := e.policies.named(k.policy); p != nil && p.alive {
		more := p.rest()
		return report{ref: p.source.Ref(), errs: more.errs, warns: more.warns}
	}
	return report{}
}
