package render_test

import (
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

var (
	web    = plan.PolicyRef{Kind: "AntreaNetworkPolicy", Namespace: "vms", Name: "web"}
	global = plan.PolicyRef{Kind: "AntreaClusterNetworkPolicy", Name: "global"}
)

// TestPrint: what every kind of operation looks like in a plan. seen are names of VMs and groups.
func TestPrint(t *testing.T) {
	t.Parallel()
	seen := &cloud.Snapshot{
		VMs:    []cloud.VM{{ID: "i-1", Name: "db"}, {ID: "i-2", Name: "two\nlines"}},
		Groups: []cloud.Group{{ID: "sg-1", Name: "internal"}, {ID: "sg-2", Name: "ours"}},
		Interfaces: []cloud.Interface{
			{ID: "eni-1", VMID: "i-1", GroupIDs: []string{"sg-1"}}, {ID: "eni-2", VMID: "i-2", GroupIDs: []string{"sg-1"}}, {ID: "eni-3", GroupIDs: []string{"sg-1"}},
			{ID: "eni-4", VMID: "i-1", GroupIDs: []string{"sg-2"}},
		},
	}
	created := cloud.GroupSpec{NetworkID: "vpc-1", Name: "new", Tags: map[string]string{"k": "v"}}
	ssh, web80 := ports(cloud.Ingress, 22, 22, cidr("192.0.2.0/24")), ports(cloud.Ingress, 80, 80, cloud.Peer{GroupID: "sg-1"})
	set := func(nic string, groups ...string) cloud.Op {
		return cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: nic, GroupIDs: groups, Reason: "give back"}
	}
	tag := map[string]string{"b": "2", "a": "it's \"1\""}
	for name, c := range map[string]struct {
		steps []plan.Step
		all   bool
		want  string
	}{
		"a group comes with its reason": {[]plan.Step{step(cloud.Op{Kind: cloud.OpCreateGroup, Group: created, Reason: "guarded class"}, web, global)}, false, `
  + security group new in vpc-1  # guarded class, for vms/web, global`},
		"a group goes": {[]plan.Step{step(cloud.Op{Kind: cloud.OpDeleteGroup, Target: "sg-2", Reason: "no class needs it"})}, false, `
  - security group sg-2 (ours)  # no class needs it`},
		"rules come, with the names of groups that they name": {[]plan.Step{step(cloud.Op{Kind: cloud.OpAddRules, Target: "sg-2", Rules: []cloud.Rule{ssh, web80}})}, false, `
  ~ security group sg-2 (ours)
      + ingress tcp 22 from 192.0.2.0/24
      + ingress tcp 80 from sg-1 (internal)`},
		"rules go": {[]plan.Step{step(cloud.Op{Kind: cloud.OpRemoveRules, Target: "sg-2", Rules: []cloud.Rule{ssh}})}, false, `
  ~ security group sg-2 (ours)
      - ingress tcp 22 from 192.0.2.0/24`},
		"a rule becomes another one": {[]plan.Step{step(cloud.Op{Kind: cloud.OpReplaceRules, Target: "sg-2", Rules: []cloud.Rule{ports(cloud.Ingress, 22, 23, cidr("192.0.2.0/24"))},
			Replaced: []cloud.Rule{ssh}})}, false, `
  ~ security group sg-2 (ours)
      ~ ingress tcp 22 from 192.0.2.0/24 -> ingress tcp 22-23 from 192.0.2.0/24`},
		"rules are written as one, and what stays is no news": {[]plan.Step{step(cloud.Op{Kind: cloud.OpSetRules, Target: "sg-2", Rules: []cloud.Rule{ssh, web80},
			Replaced: []cloud.Rule{ssh, ports(cloud.Egress, 1, 9, cidr("::/0"))}})}, false, `
  ~ security group sg-2 (ours)
      - egress tcp 1-9 to ::/0
      + ingress tcp 80 from sg-1 (internal)`},
		"interfaces alike are one line, and no VM breaks it": {[]plan.Step{step(set("eni-2", "sg-2")), step(set("eni-1", "sg-2"))}, false, `
  ~ 2 interfaces of db, two\nlines: groups sg-1 (internal) -> sg-2 (ours)  # give back`},
		"unless all are wanted": {[]plan.Step{step(set("eni-2", "sg-2")), step(set("eni-1", "sg-2"))}, true, `
  ~ interface eni-2 of two\nlines: groups sg-1 (internal) -> sg-2 (ours)  # give back
  ~ interface eni-1 of db: groups sg-1 (internal) -> sg-2 (ours)  # give back`},
		"or one has no VM": {[]plan.Step{step(set("eni-1", "sg-2")), step(set("eni-3", "sg-2"))}, false, `
  ~ interfaces eni-1, eni-3: groups sg-1 (internal) -> sg-2 (ours)  # give back`},
		"other groups are another line": {[]plan.Step{step(set("eni-1", "sg-2")), step(set("eni-2", "sg-1"))}, false, `
  ~ interface eni-1 of db: groups sg-1 (internal) -> sg-2 (ours)  # give back
  ~ interface eni-2 of two\nlines: groups sg-1 (internal) -> sg-1 (internal)  # give back`},
		"and so are other groups before": {[]plan.Step{step(set("eni-4", "sg-2")), step(set("eni-1", "sg-2"))}, false, `
  ~ interface eni-4 of db: groups sg-2 (ours) -> sg-2 (ours)  # give back
  ~ interface eni-1 of db: groups sg-1 (internal) -> sg-2 (ours)  # give back`},
		"and other policies": {[]plan.Step{step(set("eni-1", "sg-2"), web), step(set("eni-2", "sg-2"))}, false, `
  ~ interface eni-1 of db: groups sg-1 (internal) -> sg-2 (ours)  # give back, for vms/web
  ~ interface eni-2 of two\nlines: groups sg-1 (internal) -> sg-2 (ours)  # give back`},
		"tags of one object": {[]plan.Step{step(cloud.Op{Kind: cloud.OpTag, Target: "vpc-1", Tags: tag})}, false, `
  + tags on vpc-1
      + a = "it's \"1\""
      + b = "2"`},
		"tags of interfaces": {[]plan.Step{step(cloud.Op{Kind: cloud.OpTag, Target: "eni-1", Others: []string{"eni-2"}, Tags: map[string]string{"b": "2"}})}, false, `
  + tags on 2 interfaces of db, two\nlines
      + b = "2"`},
		"tags of interfaces, all of them": {[]plan.Step{step(cloud.Op{Kind: cloud.OpTag, Target: "eni-1", Others: []string{"eni-2"}, Tags: map[string]string{"b": "2"}})}, true, `
  + tags on eni-1, eni-2 of db, two\nlines
      + b = "2"`},
		"tags of what belongs to no VM go": {[]plan.Step{step(cloud.Op{Kind: cloud.OpUntag, Target: "sg-1", Others: []string{"sg-2"}, Tags: map[string]string{"b": "2"}})}, false, `
  - tags on sg-1 and 1 more
      - b`},
	} {
		var b strings.Builder
		d := render.NewDescriber(render.Setting{Snapshots: []*cloud.Snapshot{seen}}).Describe(plan.Plan{Steps: c.steps})
		if err := render.Print(&b, d, c.all); err != nil {
			t.Fatal(err)
		}
		got, _, _ := strings.Cut(strings.TrimPrefix(b.String(), "region r"), "\nPlan: ")
		if got != c.want {
			t.Errorf("%s: got%s\nwant%s", name, got, c.want)
		}
	}
}

// TestPrintEnds: a plan says what it counts, and whether it is all.
func TestPrintEnds(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := render.Print(&b, render.Describe(plan.Plan{Partial: true}), false); err != nil {
		t.Fatal(err)
	}
	if want := "Plan: nothing to do.\nA further plan follows when this one is done.\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]analysis.PlanSummary{
		"nothing to do": {},
		"1 group to create, 2 to change, 3 to delete; 4 rules to add, 5 to remove; 1 interface to set in 2 edits; 1 tag edit; 9 operations": {
			GroupsCreated: 1, GroupsChanged: 2, GroupsDeleted: 3, RulesAdded: 4, RulesRemoved: 5, Interfaces: 1, InterfaceEdits: 2, Tagged: 1, Steps: 9},
		"0 groups to create, 1 to change, 0 to delete; 0 rules to add, 1 to replace, 0 to remove; 0 interfaces to set in 0 edits; 0 tag edits; 1 operation": {
			GroupsChanged: 1, RulesReplaced: 1, Steps: 1},
	} {
		if got := render.Summary(s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestCut: with IDs for programs, and with what people call the VMs.
func TestCut(t *testing.T) {
	t.Parallel()
	seen := &cloud.Snapshot{
		VMs:        []cloud.VM{{ID: "i-1", Name: "app", Interfaces: []string{"eni-1"}}, {ID: "i-2", Name: "db", Interfaces: []string{"eni-2"}}},
		Interfaces: []cloud.Interface{{ID: "eni-1", VMID: "i-1"}, {ID: "eni-2", VMID: "i-2"}},
	}
	cut := plan.Cut{Interface: "eni-1", VMID: "i-1", Group: "sg-1", Rule: ports(cloud.Ingress, 80, 80, cloud.Peer{GroupID: "sg-2"}), Lost: []string{"eni-2", "eni-9"}}
	const rule = ` loses what the rule "ingress tcp 80 from sg-2" of its group sg-1 allows it, because policies take `
	const named = " out of the group that the rule names"
	if got, want := render.Cut(cut), "i-1 (eni-1)"+rule+"eni-2, eni-9"+named; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := render.CutIn(seen, cut), "app"+rule+"db, eni-9"+named; got != want || cut.Lost[0] != "eni-2" {
		t.Errorf("got %q of %v, want %q", got, cut.Lost, want)
	}
	cut.VMID = ""
	if got, want := render.Cut(cut), "eni-1"+rule+"eni-2, eni-9"+named; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnguarded(t *testing.T) {
	t.Parallel()
	service := plan.UnguardedService{Why: reason.Why(reason.ServiceUnguarded), Message: "it is of RDS"}
	nic := plan.UnguardedService{Why: reason.Why(reason.InterfaceUnguarded), Message: "it is of an instance"}
	for want, all := range map[string][]plan.UnguardedService{
		"not enforced on 1 native service: it is of RDS":                          {service},
		"not enforced on 2 network interfaces: it is of an instance":              {nic, nic},
		"not enforced on 2 native services and 1 network interface: it is of RDS": {service, nic, service},
	} {
		if got := render.Unguarded(all); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestConcerned(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]plan.Drift{
		"":                         {},
		" (of web-1)":              {VMs: "web-1"},
		" (for vms/web)":           {For: "vms/web"},
		" (of web-1, for vms/web)": {VMs: "web-1", For: "vms/web"},
	} {
		if got := render.Concerned(d); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
