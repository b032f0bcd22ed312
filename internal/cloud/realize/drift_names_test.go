package realize

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/realize/status"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// TestDriftSaysWhomItConcerns: a difference names the VMs and the policy, and of a rule of ours
// which one it is.
func TestDriftSaysWhomItConcerns(t *testing.T) {
	t.Parallel()
	for want, meddle := range map[string]func(*lab){
		" (of web-1, web-2, for web-in)":            func(l *lab) { l.removeRuleFor("web-in") },
		" (of db-1, for what its own groups allow)": func(l *lab) { l.removeRuleFor("what its own") },
		" (of web-1, for web-in)": func(l *lab) {
			l.setGroups("web-1", append(l.held("web-1"), l.groupNamed("ops"))...)
		},
	} {
		l := newLab(t, labConfig{})
		l.engine.PutPolicy(webIn())
		l.publish()
		l.start()
		l.settle()
		meddle(l)
		l.accounts.observe(t.Context())
		l.settle()
		told := 0
		for _, r := range l.sink.list() {
			if r.Result == nil {
				continue
			}
			for _, d := range r.Result.Drift {
				if text := status.DriftText(d); strings.Contains(text, want) {
					told++
				} else {
					t.Errorf("told %q, want %q", text, want)
				}
			}
		}
		if told == 0 {
			t.Errorf("%q: nothing is told", want)
		}
		l.halt()
	}
}

// removeRuleFor removes the first ingress rule of ours that says that it is for something.
func (l *lab) removeRuleFor(what string) {
	l.Helper()
	for _, g := range l.ours() {
		for _, r := range g.Rules {
			if r.Egress || !strings.Contains(r.Description, what) {
				continue
			}
			if _, err := l.region(home).Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: g.ID, Egress: r.Egress, RuleIDs: []string{r.ID}}); err != nil {
				l.Fatal(err)
			}
			return
		}
	}
	l.Fatalf("no rule of ours is for %q", what)
}
