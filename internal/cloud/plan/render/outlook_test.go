package render_test

import (
	"maps"
	"reflect"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
)

func vm(id string) plan.VMRef { return plan.VMRef{Region: "r", ID: id} }

// status is a VM with one interface, and what becomes of a policy on it.
func status(id string, nic plan.InterfaceStatus, policies ...plan.VMPolicy) plan.VMStatus {
	nic.Network = "vpc-1"
	return plan.VMStatus{VM: vm(id), Interfaces: []plan.InterfaceStatus{nic}, Policies: policies}
}

func on(p plan.PolicyRef, message string) plan.VMPolicy {
	return plan.VMPolicy{PolicyRef: p, Message: message}
}

// round is one plan, and what it says of VMs.
func round(steps []plan.Step, vms ...plan.VMStatus) *plan.Result {
	return &plan.Result{Plan: plan.Plan{Steps: steps}, Outcome: report.Outcome{VMs: vms}}
}

func set(nic string) plan.Step { return step(cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: nic}) }

func change(kind cloud.OpKind, group string, rules ...cloud.Rule) plan.Step {
	op := cloud.Op{Kind: kind, Target: group, Rules: rules}
	if group == "" {
		op.Group = cloud.GroupSpec{NetworkID: "vpc-1", Name: "new"}
	}
	return step(op)
}

// TestOutlooks: what rounds of planning would do to VMs, together and in words.
func TestOutlooks(t *testing.T) {
	t.Parallel()
	in, out := ports(cloud.Ingress, 80, 80, cidr("10.0.0.0/8")), ports(cloud.Egress, 1, 2, cidr("10.0.0.0/8"))
	ours := plan.InterfaceStatus{ID: "eni-1", State: plan.Guarded, Groups: []string{"sg-1"}}
	fresh := plan.InterfaceStatus{ID: "eni-1", State: plan.Guarded, Groups: []string{"+new"}}
	member := plan.InterfaceStatus{ID: "eni-2", State: plan.Member}
	replace := change(cloud.OpReplaceRules, "sg-1", in)
	replace.Op.Replaced = []cloud.Rule{out}
	rewrite := change(cloud.OpSetRules, "sg-1", in)
	rewrite.Op.Replaced = []cloud.Rule{in, out}
	byName, byID := in, in
	byName.Peer, byID.Peer = cloud.Peer{GroupName: "new"}, cloud.Peer{GroupID: "new:vpc-1/new"}
	elsewhere := set("eni-1")
	elsewhere.Scope.Region = "q"
	for name, c := range map[string]struct {
		rounds []*plan.Result
		want   string
	}{
		"nothing is known": {nil, "neither an interface nor a rule would change"},
		"nothing changes":  {[]*plan.Result{round(nil, status("i-1", ours))}, "neither an interface nor a rule would change"},
		"taken over into a new group": {
			[]*plan.Result{round([]plan.Step{change(cloud.OpAddRules, "", in, out), set("eni-1")}, status("i-1", fresh, on(web, "")))},
			"interfaces to take over or to change: 1; in new groups: 1 ingress and 1 egress rules; policies to enforce: 1"},
		"an interface of that ID in another region": {[]*plan.Result{round([]plan.Step{elsewhere}, status("i-1", ours))}, "neither an interface nor a rule would change"},
		"a member, and one that is given back": {
			[]*plan.Result{round([]plan.Step{set("eni-2"), set("eni-3")}, status("i-2", member), status("i-3", plan.InterfaceStatus{ID: "eni-3"}))},
			"interfaces that become peers only: 1; interfaces to give back: 1"},
		"a group that two VMs hold counts once": {
			[]*plan.Result{round([]plan.Step{change(cloud.OpRemoveRules, "sg-1", in, out)}, status("i-1", ours, on(web, "")), status("i-2", ours, on(web, "")))},
			"in groups that exist, rules to remove: 2; policies to enforce: 1"},
		"a group that none of them holds does not count": {[]*plan.Result{round([]plan.Step{change(cloud.OpRemoveRules, "sg-9", in)}, status("i-1", ours))},
			"neither an interface nor a rule would change"},
		"a rule becomes another one": {[]*plan.Result{round([]plan.Step{replace}, status("i-1", ours))},
			"in groups that exist, rules to add: 1; in groups that exist, rules to remove: 1"},
		"of rules that are written as one those count that change": {[]*plan.Result{round([]plan.Step{rewrite}, status("i-1", ours))}, "in groups that exist, rules to remove: 1"},
		"a rule that comes and goes again does not count": {
			[]*plan.Result{round([]plan.Step{change(cloud.OpAddRules, "sg-1", in)}), round([]plan.Step{change(cloud.OpRemoveRules, "sg-1", in)}, status("i-1", ours))},
			"neither an interface nor a rule would change"},
		"nor if its peer has an ID by then": {
			[]*plan.Result{round([]plan.Step{change(cloud.OpAddRules, "sg-1", byName)}), round([]plan.Step{change(cloud.OpRemoveRules, "sg-1", byID)}, status("i-1", ours))},
			"neither an interface nor a rule would change"},
		"the last round says what is refused, the first refusal in words": {
			[]*plan.Result{round(nil, status("i-1", ours, on(web, "it waits"))), round(nil, status("i-1", ours, on(web, ""), on(global, "it does not fit")), status("i-2", ours, on(web, "no room: none")))},
			"neither an interface nor a rule would change; policies to enforce: 1; refused: 2, global: it does not fit"},
	} {
		if got := render.Sum(maps.Values(render.Outlooks(c.rounds))).String(); got != c.want {
			t.Errorf("%s: got %q\nwant %q", name, got, c.want)
		}
	}
}

// TestOutlookOfServices: a policy on a native service is refused on what the service stands for,
// whether or not there is such a VM.
func TestOutlookOfServices(t *testing.T) {
	t.Parallel()
	last := round(nil, status("i-1", plan.InterfaceStatus{ID: "eni-1"}, on(global, "")))
	last.Policies = []plan.PolicyStatus{{PolicyRef: web, Unguarded: []plan.UnguardedService{{VM: vm("i-1"), Message: "it is of RDS"}, {VM: vm("db"), Message: "it is of ElastiCache"}}}}
	got := render.Outlooks([]*plan.Result{last})
	for id, want := range map[string]string{
		"i-1": "VMs that are planned for: 1; if enforced, neither an interface nor a rule would change; policies to enforce: 1; refused: 1, vms/web: it is of RDS",
		"db":  "VMs that are planned for: 1; if enforced, neither an interface nor a rule would change; refused: 1, vms/web: it is of ElastiCache",
	} {
		if got := render.Planned(1, got[vm(id)]); got != want {
			t.Errorf("%s: got %q\nwant %q", id, got, want)
		}
	}
}

// TestPolicies: realized is what was so before the first round, pending what any of them does; the
// last one says what fails.
func TestPolicies(t *testing.T) {
	t.Parallel()
	result := func(p plan.PolicyStatus) *plan.Result { return &plan.Result{Policies: []plan.PolicyStatus{p}} }
	p := plan.PolicyRef{UID: "u"}
	failed := []plan.FailedVM{{VM: vm("4")}}
	first := plan.PolicyStatus{PolicyRef: p, Realized: []plan.VMRef{vm("1")}, Pending: []plan.VMRef{vm("2"), vm("3"), vm("4")}}
	second := plan.PolicyStatus{PolicyRef: p, Realized: []plan.VMRef{vm("2"), vm("3")}, Pending: []plan.VMRef{vm("1")}, Failed: failed}
	want := []plan.PolicyStatus{{PolicyRef: p, Realized: []plan.VMRef{vm("1")}, Pending: []plan.VMRef{vm("2"), vm("3")}, Failed: failed}}
	last := result(second)
	if got := render.Policies([]*plan.Result{result(first), last}); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !reflect.DeepEqual(last.Policies[0], second) {
		t.Error("the result was changed")
	}
	if got := render.Policies(nil); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
}
