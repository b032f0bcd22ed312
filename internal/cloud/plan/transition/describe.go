package transition

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// describe puts the descriptions of rules right that stay as they are.
func (w *worklist) describe() {
	if w.Described == nil {
		return
	}
	ours := func(r cloud.Rule) bool { return w.Described(r.Description) }
	if !slices.ContainsFunc(w.From.Groups, func(g cloud.Group) bool { return w.Ours(&g) && slices.ContainsFunc(g.Rules, ours) }) {
		return // the cloud seems to keep none
	}
	w.next()
	for i := range w.From.Groups {
		g := &w.From.Groups[i]
		var rules []cloud.Rule
		for _, r := range g.Rules {
			if w.Ours(g) && !ours(r) && slices.Contains(w.wanted[g.ID], r.Key()) {
				rules = append(rules, r.Key())
			}
		}
		if len(rules) > 0 {
			w.tell(g.ID, cloud.Op{Kind: cloud.OpReplaceRules, Rules: rules, Replaced: rules})
		}
	}
}
