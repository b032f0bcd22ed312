package compute

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// reportKey identifies the object of a report.
type reportKey struct {
	policy  string // UID; empty for a group
	group   policy.NamespacedName
	isGroup bool
}

// report is what is wrong with an object.
type report struct {
	ref         policy.PolicyRef
	errs, warns []policy.FieldError
}

// reports are what is wrong with objects, as it was reported last, and the objects to look at
// again.
type reports struct {
	sent  map[reportKey]report
	dirty map[reportKey]struct{}
}

// touch has the object's report compared with the last one in this Commit.
func (rs *reports) touch(k reportKey) {
	if rs.dirty == nil {
		rs.dirty = make(map[reportKey]struct{})
	}
	rs.dirty[k] = struct{}{}
}

// take returns the reports that changed since the last Commit.
func (rs *reports) take(reportOf func(reportKey) report) []policy.Problem {
	var out []policy.Problem
	for k := range rs.dirty {
		former := rs.sent[k]
		now := reportOf(k)
		if slices.Equal(now.errs, former.errs) && slices.Equal(now.warns, former.warns) {
			continue
		}
		if len(now.errs)+len(now.warns) == 0 {
			delete(rs.sent, k)
			now.ref = former.ref
		} else {
			rs.sent[k] = now
		}
		out = append(out, policy.Problem{Policy: now.ref, Group: k.group, Errors: now.errs, Warnings: now.warns})
	}
	// A cleared map would keep the size of the largest Commit ever, and the cost of going through
	// it.
	rs.dirty = nil
	slices.SortFunc(out, func(a, b policy.Problem) int {
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
		if d := e.definitions.byName[k.group]; d != nil && d.in != nil {
			return report{errs: d.problems(), warns: slices.Concat(d.missing(), e.definitions.serviceMissing(d))}
		}
		return report{}
	}
	if p := e.policies.named(k.policy); p != nil && p.alive {
		more := p.rest()
		return report{ref: p.source.Ref(), errs: more.errs, warns: more.warns}
	}
	return report{}
}
