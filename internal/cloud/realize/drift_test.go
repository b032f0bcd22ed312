package realize

import (
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// ours returns the groups of ours in the home region that interfaces hold, or all of ours.
func (l *lab) ours() []world.SecurityGroup {
	l.Helper()
	groups, err := l.region(home).SecurityGroups()
	if err != nil {
		l.Fatal(err)
	}
	return slices.DeleteFunc(groups, func(g world.SecurityGroup) bool { return g.Tags[cloud.TagCluster] == "" })
}

func (l *lab) held(vm string) []string {
	l.Helper()
	nics, err := l.region(home).NetworkInterfaces(l.vms[vm].nic)
	if err != nil {
		l.Fatal(err)
	}
	var out []string
	for _, g := range nics[0].Groups {
		out = append(out, g.ID)
	}
	return out
}

// addRuleByHand opens a port in the first group of ours, if there is one.
func (l *lab) addRuleByHand(port int32) {
	groups := l.ours()
	if len(groups) == 0 {
		return
	}
	_, err := l.region(home).AuthorizeSecurityGroup(world.AuthorizeInput{GroupID: groups[0].ID, Permissions: []world.Permission{{
		Protocol: "tcp", FromPort: &port, ToPort: &port, CIDRs: []world.CIDRPeer{{CIDR: "0.0.0.0/0"}}}}})
	if err != nil && !strings.Contains(err.Error(), "Duplicate") {
		l.Error(err)
	}
}

// TestDrift: what people change by hand is repaired at the next snapshot and told once.
func TestDrift(t *testing.T) {
	t.Parallel()
	for name, meddle := range map[string]struct {
		do   func(*lab)
		want string // of one drift
	}{
		"a held interface gets another group": {func(l *lab) {
			l.setGroups("web-1", append(l.held("web-1"), l.groupNamed("ops"))...)
		}, "somebody put the interface into"},
		"a held interface gets its former groups back": {func(l *lab) {
			l.setGroups("web-1", l.groupNamed("web"), l.groupNamed("watched"))
		}, ""},
		"a held interface gets other groups": {func(l *lab) {
			l.setGroups("web-1", l.groupNamed("ops"))
		}, "somebody took the interface out of its group of ours"},
		"a rule is added to our group": {func(l *lab) { l.addRuleByHand(9999) }, "somebody added the rule"},
		"our group is removed": {func(l *lab) {
			for _, vm := range []string{"web-1", "web-2"} {
				l.setGroups(vm, l.groupNamed("db"))
			}
			l.deleteOurGroups()
		}, "somebody took the interface out of its group of ours"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labConfig{})
			l.engine.PutPolicy(webIn())
			l.publish()
			l.start()
			l.settle()
			groups, told := len(l.ours()), len(l.sink.list())
			meddle.do(l)
			l.accounts.observe(t.Context())
			l.settle()
			if d := compare(l.actual(), l.wanted()); d != "" {
				r, _ := l.realizer.Report(labAccount)
				t.Errorf("not repaired:\n%s\nrefusals %v, notes %v", d, r.Result.Refusals, r.Result.Notes)
			}
			if n := len(l.ours()); n != groups {
				t.Errorf("%d groups of ours, want %d as before", n, groups)
			}
			times := map[plan.Drift]int{}
			var last []plan.Drift
			for _, r := range l.sink.list()[told:] {
				for _, d := range r.Result.Drift {
					if !slices.Contains(last, d) {
						times[d]++
					}
				}
				last = r.Result.Drift
			}
			found := meddle.want == ""
			for d, n := range times {
				found = found || strings.Contains(d.Message, meddle.want)
				if n != 1 {
					t.Errorf("%v was reported %d times", d, n)
				}
			}
			if !found {
				t.Errorf("reported %v, want %q", times, meddle.want)
			}
		})
	}
}

func (l *lab) setGroups(vm string, groups ...string) {
	l.Helper()
	if err := l.region(home).ModifyNetworkInterfaceGroups(l.vms[vm].nic, groups); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) groupNamed(name string) string {
	l.Helper()
	groups, err := l.region(home).SecurityGroups()
	if err != nil {
		l.Fatal(err)
	}
	i := slices.IndexFunc(groups, func(g world.SecurityGroup) bool { return g.Name == name })
	if i < 0 {
		l.Fatalf("no group %s", name)
	}
	return groups[i].ID
}

// deleteOurGroups deletes every group of ours that no interface holds, with the rules that refer to it.
func (l *lab) deleteOurGroups() {
	l.Helper()
	r := l.region(home)
	for _, g := range l.ours() {
		for _, rule := range g.Rules {
			if _, err := r.RevokeSecurityGroup(world.RevokeInput{GroupID: g.ID, Egress: rule.Egress, RuleIDs: []string{rule.ID}}); err != nil {
				l.Fatal(err)
			}
		}
	}
	deleted := 0
	for _, g := range l.ours() {
		if _, err := r.DeleteSecurityGroup(g.ID, ""); err == nil {
			deleted++
		}
	}
	if deleted == 0 {
		l.Fatal("no group of ours could be deleted")
	}
}
