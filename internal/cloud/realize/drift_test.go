package realize

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

// ours returns the groups of ours in the home region that interfaces hold, or all of ours.
func (l *lab) ours() []aws.SecurityGroup {
	l.Helper()
	groups, err := l.region(home).SecurityGroups()
	if err != nil {
		l.Fatal(err)
	}
	return slices.DeleteFunc(groups, func(g aws.SecurityGroup) bool { return g.Tags[cloud.TagCluster] == "" })
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
	_, err := l.region(home).Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: groups[0].ID, Permissions: []aws.Permission{{
		Protocol: "tcp", FromPort: &port, ToPort: &port, CIDRs: []aws.CIDRPeer{{CIDR: "0.0.0.0/0"}}}}})
	if err != nil && !strings.Contains(err.Error(), "Duplicate") {
		l.Error(err)
	}
}

// removeRuleByHand closes what the first group of ours with rules opens first.
func (l *lab) removeRuleByHand() {
	l.Helper()
	all := l.ours()
	i := slices.IndexFunc(all, func(g aws.SecurityGroup) bool { return len(g.Rules) > 0 })
	if i < 0 {
		l.Fatal("no rule of ours")
	}
	r := all[i].Rules[0]
	if _, err := l.region(home).Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: all[i].ID, Egress: r.Egress, RuleIDs: []string{r.ID}}); err != nil {
		l.Fatal(err)
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
		}, "somebody put the interface back into its former groups"},
		"a rule is removed from our group": {func(l *lab) { l.removeRuleByHand() }, "somebody removed the rule"},
		"the claim is removed": {func(l *lab) {
			if err := l.region(home).DeleteTags([]string{homeVPC}, []aws.TagKey{{Key: cloud.TagClaim}}); err != nil {
				l.Fatal(err)
			}
		}, "somebody changed our claim"},
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
	if err := l.region(home).Interfaces().ModifyNetworkInterfaceGroups(l.vms[vm].nic, groups); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) groupNamed(name string) string {
	l.Helper()
	groups, err := l.region(home).SecurityGroups()
	if err != nil {
		l.Fatal(err)
	}
	i := slices.IndexFunc(groups, func(g aws.SecurityGroup) bool { return g.Name == name })
	if i < 0 {
		l.Fatalf("no group %s", name)
	}
	return groups[i].ID
}

// deleteOurGroups deletes every group of ours that no interface holds, with the rules that refer to
// it.
func (l *lab) deleteOurGroups() {
	l.Helper()
	r := l.region(home)
	for _, g := range l.ours() {
		for _, rule := range g.Rules {
			if _, err := r.Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: g.ID, Egress: rule.Egress, RuleIDs: []string{rule.ID}}); err != nil {
				l.Fatal(err)
			}
		}
	}
	deleted := 0
	for _, g := range l.ours() {
		if _, err := r.Groups().DeleteSecurityGroup(g.ID, ""); err == nil {
			deleted++
		}
	}
	if deleted == 0 {
		l.Fatal("no group of ours could be deleted")
	}
}

// TestDriftWhilePlanned: what is changed by hand in mode plan is told as long as it lasts, undoing
// it is no drift, and nothing is written.
func TestDriftWhilePlanned(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	l.setModes(plan.Planned, slices.Sorted(maps.Keys(l.vms))...)
	l.settle()
	calls := l.mutations()
	drift := func() []plan.Drift {
		r, _ := l.realizer.Report(labAccount)
		if r.Result == nil {
			return nil
		}
		return r.Result.Drift
	}
	l.addRuleByHand(9999)
	for range 3 {
		l.accounts.observe(t.Context())
		l.until("the rule is told", func() bool {
			all := drift()
			return len(all) == 1 && all[0].Kept && strings.Contains(all[0].Message, "somebody added the rule")
		})
	}
	l.removeByHand(9999)
	l.accounts.observe(t.Context())
	l.until("nothing is told", func() bool { return len(drift()) == 0 })
	if n := l.mutations() - calls; n != 0 {
		t.Errorf("%d calls that change something", n)
	}
	l.tag(homeVPC, aws.Tags{cloud.TagClaim: "somebody"})
	l.accounts.observe(t.Context())
	l.until("the claim is told", func() bool { return len(drift()) == 1 && drift()[0].Kept })
	l.tag(homeVPC, aws.Tags{cloud.TagClaim: labCluster})
	l.accounts.observe(t.Context())
	l.until("the claim is told no more", func() bool { return len(drift()) == 0 })
}

// removeByHand closes a port in the first group of ours.
func (l *lab) removeByHand(port int32) {
	l.Helper()
	g := l.ours()[0]
	_, err := l.region(home).Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: g.ID, Permissions: []aws.Permission{{
		Protocol: "tcp", FromPort: &port, ToPort: &port, CIDRs: []aws.CIDRPeer{{CIDR: "0.0.0.0/0"}}}}})
	if err != nil {
		l.Fatal(err)
	}
}

// TestDescriptionByHand: a description of a rule of ours that somebody changes is put right, and
// nobody is alarmed, neither at once nor after a restart.
func TestDescriptionByHand(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	described := func() (out []string) {
		for _, g := range l.ours() {
			for _, r := range g.Rules {
				out = append(out, r.Description)
			}
		}
		return out
	}
	before := described()
	for _, restart := range []bool{false, true} {
		if restart {
			l.halt()
		}
		port := int32(443)
		for _, g := range l.ours() {
			_ = l.region(home).Groups().UpdateSecurityGroupRuleDescriptions(aws.UpdateDescriptionsInput{GroupID: g.ID, Permissions: []aws.Permission{{
				Protocol: "tcp", FromPort: &port, ToPort: &port, CIDRs: []aws.CIDRPeer{{CIDR: "0.0.0.0/0", Description: "mine"}}}}})
		}
		if slices.Equal(before, described()) {
			t.Fatal("no description was changed")
		}
		l.since = l.options.Clock.Now()
		if restart {
			l.start()
		} else {
			l.accounts.observe(t.Context())
		}
		l.until("the description is put right", func() bool { return slices.Equal(before, described()) })
		l.settle()
	}
	for _, r := range l.sink.list() {
		if r.Result != nil && len(r.Result.Drift) > 0 {
			t.Fatalf("told: %v", r.Result.Drift)
		}
	}
}
