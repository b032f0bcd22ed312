package realize

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/calls"
)

// TestAzureRefusedRules: a policy of Azure forbids what a network security group of ours is to
// allow. The VMs of the group stay as they are and say why in the cloud's words, whether they are
// under control already or would be taken over; everything else goes on, and they follow when the
// rules may be written.
func TestAzureRefusedRules(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{true, false} {
		t.Run(map[bool]string{true: "held", false: "new"}[held], func(t *testing.T) {
			t.Parallel()
			l := newAzureLab(t, azureConfig{})
			before := l.documents()
			webs := []string{"web-1", "web-2", "web-9"}
			others := func(v verdicts) verdicts { return v.without(webs...) }
			l.publish()
			l.start()
			if held {
				l.engine.PutPolicy(webIn())
				l.publish()
			}
			l.settle()
			was := l.actual()
			l.faults.Add(calls.Fault{
				Action: "Microsoft.Network/networkSecurityGroups/write", Times: -1,
				Code: "RequestDisallowedByPolicy", Status: http.StatusForbidden, Message: "Resource was disallowed by policy.",
				Match: func(c calls.Call) bool { return strings.Contains(c.Params["body"], "8080") },
			})
			l.engine.PutPolicy(webInEdited())
			l.engine.PutPolicy(dbNoShell())
			l.publish()
			l.until("the others are enforced", func() bool { return compare(others(l.actual()), others(l.wanted())) == "" })
			for _, vm := range []string{"web-1", "web-2"} {
				l.until(vm+" says why it is not enforced", func() bool {
					p, found := l.policyOn(vm, "web-in")
					return found && !p.Realized && strings.Contains(p.Message, "disallowed by policy")
				})
			}
			for p, allowed := range l.actual() {
				// What the databases say of the web servers has changed, and
				// nothing else has.
				if !strings.HasPrefix(p.from, "db") && !strings.HasPrefix(p.to, "db") && allowed != was[p] {
					t.Errorf("%s was %t", p, was[p])
				}
			}
			if f := l.failure(); f != "" {
				t.Errorf("the account has failed: %s", f)
			}
			l.faults.Clear()
			l.settle()
			if diff := compare(l.actual(), l.wanted()); diff != "" {
				t.Errorf("allowed again:\n%s", diff)
			}
			l.engine.DeletePolicy(webIn().UID)
			l.engine.DeletePolicy(dbNoShell().UID)
			l.publish()
			l.settle()
			l.unchanged(before)
		})
	}
}
