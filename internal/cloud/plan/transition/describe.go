package transition

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// describe puts the descriptions of rules right that stay as they are.
func (w *worklist) describe() {
	if w.survey.Described == nil {
		return
	}
	ours := func(r cloud.Rule) bool { return w.survey.Described(r.Description) }
	if !slices.ContainsFunc(w.survey.From.Groups, func(g cloud.Group) bool { return w.survey.Ours(&g) && slices.ContainsFunc(g.Rules, ours) }) {
		return // the cloud seems to keep none
	}
	w.script.next()
	for i := range w.survey.From.Groups {
		g := &w.survey.From.Groups[i]
		var rules []cloud.Rule
		for _, r := range g.Rules {
			if w.survey.Ours(g) && !ours(r) && slices.Contains(w.wanted[g.ID], r.Key()) {
				rules = append(rules, r.Key())
			}
		}
		if len(rules) > 0 {
			w.tell(g.ID, cloud.Op{Kind: cloud.OpReplaceRules, Rules: rules, Replaced: rules})
		}
	}
}
