package show

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/flowscmd"
	"github.com/nephele-io/nephele/internal/review"
)

// flows tells what would become of traffic that was seen.
func (t *planText) flows(f *v1alpha1.FlowEffects) {
	if t.Len() > 0 {
		t.line("")
	}
	t.line("Traffic since %s: of %d flows that agents have seen %d would be cut and %d opened, %d stay as they are, and of %d it cannot be told.",
		f.Since.UTC().Format("2006-01-02 15:04:05"), f.Judged, f.Cut, f.Opened, f.Unaffected, f.CannotTell)
	for i := range f.Affected {
		e := &f.Affected[i]
		sign, word := "-", "cut"
		if e.Effect == v1alpha1.EffectOpened {
			sign, word = "+", "opened"
		}
		port := strings.ToLower(e.Protocol)
		if e.Port != 0 {
			port = fmt.Sprintf("%s %d", port, e.Port)
		}
		t.line("  %s %s: %s to %s, %s, %d connections, last seen %s%s", sign, word, flowscmd.EndText(&e.From), flowscmd.EndText(&e.To), port, e.Connections,
			e.Last.UTC().Format("15:04:05"), effectCauseText(&e.By))
	}
	if f.More > 0 {
		t.line("  and %d more", f.More)
	}
	if f.Unseen > 0 {
		t.line("  # %d flows more were seen and not judged", f.Unseen)
	}
}

// effectCauseText says what decides about a flow then.
func effectCauseText(c *v1alpha1.EffectCause) string {
	switch {
	case c.Rule != nil:
		return fmt.Sprintf(": %s, rule %q", review.PolicyName(*c.Rule), review.RuleName(*c.Rule))
	case len(c.IsolatedBy) > 0:
		var names []string
		for _, p := range c.IsolatedBy {
			names = append(names, review.PolicyName(v1alpha1.Rule{Policy: p}))
		}
		return ": isolated by " + review.Some(names, 4)
	}
	return ""
}
