package plan

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// misdescribed returns the rules of a wanted group that are there and stay, and whose descriptions
// somebody has changed. A description is no part of what a rule is.
func (g *group) misdescribed() (out []cloud.Rule) {
	if g.existing == nil {
		return nil
	}
	for _, r := range g.existing.Rules {
		if r.Description != ruleDescription && slices.Contains(g.rules, r.Key()) {
			out = append(out, r.Key())
		}
	}
	return out
}

// describes reports whether the cloud seems to keep descriptions: some rule of ours has ours.
func (s *regionState) describes() bool {
	return slices.ContainsFunc(s.snap.Groups, func(g cloud.Group) bool {
		return s.owned(&g) && slices.ContainsFunc(g.Rules, func(r cloud.Rule) bool { return r.Description == ruleDescription })
	})
}

// describe puts descriptions right. Nobody has to wait for that.
func (e *emitter) describe() {
	if !e.describes() {
		return
	}
	e.next()
	for _, g := range e.allGroups() {
		rules := g.misdescribed()
		if len(rules) == 0 {
			continue
		}
		described := slices.Clone(rules)
		for i := range described {
			described[i].Description = ruleDescription
		}
		dirty := e.dirty[g.existing.ID]
		e.add(g.class.network.ID, onGroup(g, cloud.Op{Kind: cloud.OpReplaceRules, Rules: described, Replaced: rules, Reason: "only their descriptions"}))
		e.becauseOfRules(g.class, described)
		e.dirty[g.existing.ID] = dirty
	}
}
