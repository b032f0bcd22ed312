package realize

import (
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/calls"
)

// TestAzureForgedWhileRunning: a record of former groups that somebody rewrites while the
// controller runs is put right, also where the group that it names has been given the tags of
// ours. On the way and in the end the policies hold, and nothing of the group changes.
func TestAzureForgedWhileRunning(t *testing.T) {
	t.Parallel()
	for name, tagged := range map[string]bool{"record": false, "record and group": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAzureLab(t, azureConfig{})
			l.engine.PutPolicy(webIn())
			l.publish()
			l.start()
			l.settle()
			l.accounts.observe(t.Context())
			l.settle()
			want := l.wanted()
			l.seen(func(c calls.Call) {
				if !strings.HasSuffix(c.Action, "/read") {
					if diff := compare(l.actual(), want); diff != "" {
						t.Errorf("after %s:\n%s", c.Action, diff)
					}
				}
			})
			nic := l.vms["web-1"].nic
			before := slices.Sorted(slices.Values(l.tagsIn(nic)))
			forged, ours := map[string]any{}, map[string]any{}
			for _, text := range before {
				if k, v, _ := strings.Cut(text, "="); strings.HasPrefix(k, "nephele.io_former") {
					forged[k] = strings.ReplaceAll(v, "/web@", "/db@")
				}
			}
			if tagged {
				for id := range l.documents() {
					if strings.Contains(strings.ToLower(id), "networksecuritygroups/nephele-") {
						for _, text := range l.tagsIn(id) {
							k, v, _ := strings.Cut(text, "=")
							ours[k] = v
						}
					}
				}
				l.retag(azureShop+"networkSecurityGroups/db", ours)
			}
			l.retag(nic, forged)
			l.since = l.options.Clock.Now()
			l.accounts.observe(t.Context())
			l.settle()
			if after := slices.Sorted(slices.Values(l.tagsIn(nic))); !slices.Equal(after, before) {
				t.Errorf("the record is %q, was %q", after, before)
			}
			if diff := compare(l.actual(), want); diff != "" {
				t.Errorf("in the end:\n%s", diff)
			}
		})
	}
}
