package realize

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// saidOf is what the last report says of a policy on a VM.
func (l *lab) saidOf(vm, policy string) (mode plan.Mode, on plan.VMPolicy, held bool) {
	r, _ := l.realizer.Report(labAccount)
	if r.Result == nil {
		return mode, on, held
	}
	for _, st := range r.Result.VMs {
		if st.VM.ID != l.vms[vm].id {
			continue
		}
		mode = st.Mode
		held = slices.ContainsFunc(st.Interfaces, func(n plan.InterfaceStatus) bool { return n.Held })
		for _, p := range st.Policies {
			if p.Name == policy {
				on = p
			}
		}
	}
	return mode, on, held
}

// TestUnreadAccountSays: while nothing of an account can be read, what is asked for anew is Failed
// with the reason, what was realized and is not asked to be otherwise stays so, and a broken glass
// shows with what is still held.
func TestUnreadAccountSays(t *testing.T) {
	t.Parallel()
	cut := map[string]func(l *lab){
		"refused": func(l *lab) {
			l.fault(ec2.Fault{Action: "DescribeSecurityGroups", Code: "AuthFailure", Status: 401, Times: -1})
		},
		"away": func(l *lab) {
			l.fault(ec2.Fault{Action: "DescribeSecurityGroups", Code: "Unavailable", Status: 503, Times: -1})
		},
		"no credentials": func(l *lab) {
			l.accounts.change(func(a *Account) {
				a.Provider, a.Unread = nil, map[string]error{home: errors.New("secret vms/key does not exist")}
			})
		},
	}
	for _, how := range slices.Sorted(maps.Keys(cut)) {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labConfig{})
			l.publish()
			l.start()
			l.engine.PutPolicy(webIn())
			l.engine.PutPolicy(dbNoShell())
			l.publish()
			l.settle()
			cut[how](l)
			l.engine.PutPolicy(webInEdited())
			l.publish()
			l.until("the edited policy fails", func() bool {
				_, on, _ := l.saidOf("web-1", webIn().Name)
				return on.Generation == webInEdited().Generation && !on.Realized && strings.Contains(on.Message, "the region "+home+" cannot be read: ")
			})
			r, _ := l.realizer.Report(labAccount)
			for _, p := range r.Result.Policies {
				if edited := p.Name == webIn().Name; edited != (len(p.Failed) > 0) || edited == (len(p.Realized) > 0) || len(p.Pending) > 0 || r.Err == nil {
					t.Errorf("%s: %+v, error %v", p.Name, p, r.Err)
				}
			}
			l.setModes(plan.BreakGlass, "web-1")
			l.until("the broken glass shows", func() bool {
				mode, _, held := l.saidOf("web-1", webIn().Name)
				return mode == plan.BreakGlass && held
			})
			r, _ = l.realizer.Report(labAccount)
			if u := r.Unread[home]; u.Err == nil || u.Never {
				t.Errorf("unread %+v", r.Unread)
			}
		})
	}
}

// TestNeverReadSays: of an account of which nothing was read since the start, all policies are
// Failed with the reason.
func TestNeverReadSays(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	l.server.Faults().Add(ec2.Fault{Action: "DescribeInstances", Code: "AuthFailure", Status: 401, Times: -1})
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.until("the policy fails", func() bool {
		_, on, _ := l.saidOf("web-1", webIn().Name)
		r, _ := l.realizer.Report(labAccount)
		return strings.Contains(on.Message, "the region "+home+" cannot be read: ") && len(r.Result.Policies) == 1 && len(r.Result.Policies[0].Failed) == 2 &&
			r.Unread[home].Never && r.RealizedAt.IsZero()
	})
}
