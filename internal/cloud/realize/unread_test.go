package realize

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
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

// TestUnreadStatus: a VM that was never read keeps what its status says of the versions that apply,
// and the broken glass says what is known.
func TestUnreadStatus(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	d.write(reportOf(nil, nil, onVM("a", 1, true, "")))
	d.events()
	away := errors.New("AuthFailure")
	r := reportOf(away, nil, onVM("a", 1, false, "cannot be read"), onVM("b", 1, false, "cannot be read"))
	r.Unread = map[string]Unread{home: {Err: away, Never: true}}
	d.write(r)
	vm := d.vm()
	if p := vm.Status.Policies; len(p) != 2 || p[0].Phase != cloudv1.PolicyPhaseRealized || p[1].Phase != cloudv1.PolicyPhaseFailed || vm.Status.PolicySummary != "1/2" {
		t.Errorf("status %+v", vm.Status)
	}
	broken := func(u Unread, err error, n plan.InterfaceStatus) Report {
		r := reportOf(err, nil, onVM("a", 1, false, ""))
		r.Result.VMs[0].Mode, r.Result.VMs[0].Interfaces = plan.BreakGlass, []plan.InterfaceStatus{n}
		r.Modes = map[plan.VMRef]VMMode{webVM: {plan.BreakGlass, "fire"}}
		r.Unread = map[string]Unread{home: u}
		return r
	}
	refused := &cloud.Error{Class: cloud.Auth, Call: "ModifyNetworkInterfaceAttribute", Code: "UnauthorizedOperation", Err: errors.New("no")}
	for _, c := range []struct {
		report Report
		want   string
	}{
		{broken(Unread{away, false}, away, plan.InterfaceStatus{Held: true}), "to be given back, but the region eu-west-1 cannot be read: AuthFailure"},
		{broken(Unread{}, nil, plan.InterfaceStatus{Held: true}), "being given back"},
		{broken(Unread{}, refused, plan.InterfaceStatus{Held: true}), "being given back, but the last attempt failed: " + cloud.FailureText(refused)},
		{broken(Unread{}, nil, plan.InterfaceStatus{Elsewhere: "held for the account vms/other"}), "not ours to release: held for the account vms/other"},
		{broken(Unread{}, nil, plan.InterfaceStatus{}), "released"},
	} {
		d.write(c.report)
		got := meta.FindStatusCondition(d.vm().Status.Conditions, cloudv1.ConditionBreakGlass)
		if got == nil || got.Message != c.want+" (fire)" {
			t.Errorf("condition %+v, want %q", got, c.want)
		}
		if e := d.events(); !slices.Contains(e, "Warning BreakGlass "+c.want+" (fire); policies that are not enforced: 1") {
			t.Errorf("events %q, want %q", e, c.want)
		}
		realized := meta.FindStatusCondition(d.vm().Status.Conditions, cloudv1.ConditionRealized)
		if realized == nil || realized.Reason != cloudv1.ReasonBreakGlass || c.want != released != strings.Contains(realized.Message, "; the VM is "+c.want) {
			t.Errorf("%s: %+v", c.want, realized)
		}
	}
}
