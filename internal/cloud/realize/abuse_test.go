package realize

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/realize/status"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

func (l *lab) tag(id string, tags aws.Tags) {
	l.Helper()
	var list []aws.Tag
	for _, k := range tags.Keys() {
		list = append(list, aws.Tag{Key: k, Value: tags[k]})
	}
	if err := l.region(home).CreateTags([]string{id}, list); err != nil {
		l.Fatal(err)
	}
}

// forge makes a group by hand.
func (l *lab) forge(name string, tags aws.Tags) string {
	l.Helper()
	g, err := l.region(home).Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: name, Description: "by hand", VPCID: homeVPC, Tags: tags})
	if err != nil {
		l.Fatal(err)
	}
	return g.ID
}

// ownTags are the tags of a group of ours.
func ownTags() aws.Tags {
	return aws.Tags{cloud.TagCluster: labCluster, cloud.TagKind: cloud.KindClass, cloud.TagAccount: labAccount, cloud.TagClass: "deadbeef"}
}

// TestTagsAbused: what becomes of tags and names that somebody writes by hand. Policies are in
// force when it is done, they hold on, and when they have gone, what somebody else made is as he
// left it.
func TestTagsAbused(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*lab) (left func(*holdings)){
		"our tags are copied to a group of somebody else": func(l *lab) func(*holdings) {
			id := l.groupNamed("db")
			tags := l.ours()[0].Tags
			l.tag(id, tags)
			return func(h *holdings) { h.Tags[id] = tags }
		},
		"our tags are removed from a group of ours": func(l *lab) func(*holdings) {
			all := l.ours()
			g := all[slices.IndexFunc(all, func(g aws.SecurityGroup) bool { return len(g.Rules) > 0 })] // the other one has members only
			var keys []aws.TagKey
			for _, k := range g.Tags.Keys() {
				keys = append(keys, aws.TagKey{Key: k})
			}
			if err := l.region(home).DeleteTags([]string{g.ID}, keys); err != nil {
				l.Fatal(err)
			}
			// It is not ours any more. As long as it refers to a group of ours, that
			// stays too.
			return func(h *holdings) { l.deleteGroup(g.ID) }
		},
		"a group is named like ours, without tags": func(l *lab) func(*holdings) {
			id := l.forge(l.ours()[0].Name+"x", nil)
			return func(h *holdings) { h.Groups[id] = nil }
		},
		"a group has our name pattern and the tags of another cluster": func(l *lab) func(*holdings) {
			tags := ownTags()
			tags[cloud.TagCluster] = rivalCluster
			id := l.forge("nephele-forged", tags)
			return func(h *holdings) { h.Groups[id], h.Tags[id] = nil, tags }
		},
		"a group has our tags, and a value that only begins like our cluster": func(l *lab) func(*holdings) {
			tags := ownTags()
			tags[cloud.TagCluster] += " "
			id := l.forge("nephele-forged", tags)
			return func(h *holdings) { h.Groups[id], h.Tags[id] = nil, tags }
		},
		"a group is ours in every respect": func(l *lab) func(*holdings) {
			l.forge("nephele-forged", ownTags())
			return func(*holdings) {} // so it is deleted as one that is not needed
		},
		"a rule of ours gets a description of somebody else": func(l *lab) func(*holdings) {
			port, edited := int32(443), 0
			for _, g := range l.ours() { // one of them holds the rule
				err := l.region(home).Groups().UpdateSecurityGroupRuleDescriptions(aws.UpdateDescriptionsInput{GroupID: g.ID, Permissions: []aws.Permission{{
					Protocol: "tcp", FromPort: &port, ToPort: &port, CIDRs: []aws.CIDRPeer{{CIDR: "0.0.0.0/0", Description: "nephele: not true"}}}}})
				if err == nil {
					edited++
				}
			}
			if edited != 1 {
				l.Fatalf("%d groups of ours admit port 443 from everywhere, want 1", edited)
			}
			return func(*holdings) {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labConfig{})
			before := l.holdings()
			l.engine.PutPolicy(webIn())
			l.publish()
			l.start()
			l.settle()
			left := do(l)
			l.accounts.observe(t.Context())
			l.settle()
			if d := compare(l.actual(), l.wanted()); d != "" {
				t.Errorf("the policies do not hold:\n%s", d)
			}
			l.engine.DeletePolicy(webIn().UID)
			l.publish()
			l.settle()
			left(&before)
			l.accounts.observe(t.Context())
			l.settle()
			after := l.holdings()
			for id, rules := range before.Groups {
				if rules == nil { // only that it is there
					if _, ok := after.Groups[id]; !ok {
						t.Errorf("%s is gone", id)
					}
					delete(before.Groups, id)
					delete(after.Groups, id)
				}
			}
			if d := gocmp.Diff(before, after); d != "" {
				t.Errorf("not as it was left (-before +after):\n%s", d)
			}
		})
	}
}

// deleteGroup deletes a group by hand, with its rules.
func (l *lab) deleteGroup(id string) {
	l.Helper()
	r := l.region(home)
	groups, err := r.SecurityGroups(id)
	if err != nil {
		l.Fatal(err)
	}
	for _, rule := range groups[0].Rules {
		if _, err := r.Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: id, Egress: rule.Egress, RuleIDs: []string{rule.ID}}); err != nil {
			l.Fatal(err)
		}
	}
	l.accounts.observe(l.Context())
	l.settle() // groups of ours that refer to it go first
	if _, err := r.Groups().DeleteSecurityGroup(id, ""); err != nil {
		l.Fatal(err)
	}
}

// TestRecordForged: on an interface that holds nothing of ours, a tag that looks like our record of
// former groups changes no groups.
func TestRecordForged(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	before := l.holdings()
	l.publish()
	l.start()
	l.settle()
	l.tag(l.vms["db-1"].nic, aws.Tags{cloud.TagFormer: l.groupNamed("ops")})
	l.accounts.observe(t.Context())
	l.until("it is settled", func() bool { return gocmp.Equal(before, l.holdings()) })
	l.engine.PutPolicy(webIn())
	l.publish()
	l.settle()
	// On one that holds a group of ours, only because rules refer to it, it is reported.
	l.tag(l.vms["ops-1"].nic, aws.Tags{cloud.TagFormer: l.groupNamed("ops")})
	l.accounts.observe(t.Context())
	l.until("it is told", func() bool { return l.toldOfRecord("ops-1") })
	l.settle()
	l.engine.DeletePolicy(webIn().UID)
	l.publish()
	l.settle()
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
}

// toldOfRecord reports whether a change of a VM's record was ever reported.
func (l *lab) toldOfRecord(vm string) bool {
	return slices.ContainsFunc(l.sink.list(), func(r status.Report) bool {
		return r.Result != nil && slices.ContainsFunc(r.Result.Drift, func(d plan.Drift) bool {
			return d.Object == l.vms[vm].nic && strings.Contains(d.Message, "which says what to give back")
		})
	})
}

// TestRecordReplaced: the record of an interface that we hold says what to give back. While we
// remember what it was, one that somebody writes is put right, also if he writes more than one tag,
// or gives a record to an interface that has none. After a restart it is not believed, see
// TestForgedAfterRestart; but where records are not signed it is.
func TestRecordReplaced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, vm string
		tags     func(l *lab) aws.Tags
		restart  bool
	}{
		{"another group", "web-1", func(l *lab) aws.Tags { return aws.Tags{cloud.TagFormer: l.groupNamed("ops")} }, false},
		{"one more", "web-1", func(l *lab) aws.Tags { return aws.Tags{cloud.TagFormer + ".1": " " + l.groupNamed("ops")} }, false},
		{"a record where there is none", "ops-1", func(l *lab) aws.Tags { return aws.Tags{cloud.TagFormer: l.groupNamed("web")} }, false},
		{"after a restart, unsigned", "web-1", func(l *lab) aws.Tags { return aws.Tags{cloud.TagFormer: l.groupNamed("ops")} }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labConfig{})
			if c.restart {
				l.cluster = nil
			}
			before := l.holdings()
			want := l.held(c.vm)
			l.engine.PutPolicy(webIn())
			l.publish()
			l.start()
			l.settle()
			held := l.holdings()
			if c.restart {
				l.halt()
				want = []string{l.groupNamed("ops")}
			}
			l.tag(l.vms[c.vm].nic, c.tags(l))
			if c.restart {
				l.start()
			} else {
				l.accounts.observe(t.Context())
				l.until("it is told", func() bool { return l.toldOfRecord(c.vm) })
				l.settle()
				if d := gocmp.Diff(held, l.holdings()); d != "" {
					t.Errorf("(-before +after):\n%s", d)
				}
			}
			l.engine.DeletePolicy(webIn().UID)
			l.publish()
			l.settle()
			if d := gocmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(l.held(c.vm)))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if d := gocmp.Diff(before, l.holdings()); d != "" && !c.restart {
				t.Errorf("(-before +after):\n%s", d)
			}
		})
	}
}

// TestSixteenGroups takes over an interface with as many groups as the cloud can give it, and gives
// it back.
func TestSixteenGroups(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{groupsPerInterface: 16})
	held := []string{l.groupNamed("web"), l.groupNamed("watched")}
	for i := len(held); i < 16; i++ {
		held = append(held, l.forge(fmt.Sprintf("more-%d", i), nil))
	}
	l.setGroups("web-1", held...)
	before := l.holdings()
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	if d := compare(l.actual(), l.wanted()); d != "" {
		t.Error(d)
	}
	if n := len(l.held("web-1")); n > 2 {
		t.Errorf("holds %d groups", n)
	}
	l.engine.DeletePolicy(webIn().UID)
	l.publish()
	l.settle()
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
}

// TestSelectedInTwoNamespaces: policies of all Namespaces in which a VM is selected apply to it.
func TestSelectedInTwoNamespaces(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	other := policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "other", Name: "web-1"}
	l.engine.PutEntity(
		policy.Entity{EntityRef: other, Labels: map[string]string{"role": "audited"}, Addresses: []netip.Addr{l.vms["web-1"].addr}, Host: l.accounts.account.EnforcerKey},
	)
	l.accounts.account.Entities[plan.EntityRef{Namespace: "other", Name: "web-1"}] = plan.VMRef{Region: home, ID: l.vms["web-1"].id}
	audit := clusterPolicy("audit", 1, 1)
	audit.AppliedTo = applied("audited")
	audit.Ingress = []policy.Rule{{Action: policy.Drop, Peers: block("198.51.100.0/24")}}
	l.engine.PutPolicy(webIn())
	l.engine.PutPolicy(audit)
	l.publish()
	l.start()
	l.settle()
	for from, want := range map[string]bool{"203.0.113.7": true, "198.51.100.7": false} {
		if v := l.ask(probe{from, "web-1", 443}); v.Allowed != want {
			t.Errorf("from %s: %s", from, v.Reason)
		}
	}
	r, _ := l.realizer.Report(labAccount)
	for _, vm := range r.Result.VMs {
		if vm.VM.ID == l.vms["web-1"].id && len(vm.Policies) != 2 {
			t.Errorf("policies of web-1: %+v", vm.Policies)
		}
	}
}

// TestTwoAccountsInOneVPC: a second account of the same controller that sees the VPC leaves alone
// what the first one holds, and says so.
func TestTwoAccountsInOneVPC(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	l.engine.PutPolicy(dbNoShell())
	l.publish()
	l.start()
	l.settle()
	acct, _ := l.accounts.Account(labAccount)
	snap, err := acct.Provider.Observe(t.Context(), cloud.Scope{Account: "vms/second", Region: home})
	if err != nil {
		t.Fatal(err)
	}
	limits, err := acct.Provider.Limits(t.Context(), snap.Scope)
	if err != nil {
		t.Fatal(err)
	}
	c := l.published()
	res := plan.Compute(plan.Input{ClusterID: labCluster, Account: "vms/second", Policies: c.Policies, AddressGroups: enforcer.Objects(c.AddressGroups), AppliedToGroups: c.AppliedToGroups,
		Entities: acct.Entities, Regions: []plan.Region{{Snapshot: snap, Limits: limits}}}, lower.AWS{})
	if !res.Plan.Empty() {
		t.Errorf("the second account would do something:\n%s", printed(res.Plan))
	}
	if f := res.Policies[0].Failed; len(f) != 1 || !strings.Contains(f[0].Message, "for the account "+labAccount) {
		t.Errorf("policies %+v, failed %+v", res.Policies, f)
	}
}
