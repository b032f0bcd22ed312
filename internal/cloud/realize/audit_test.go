package realize

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/realize/status"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// attempt is what an auditor was told of one.
type attempt struct {
	cloud.Call
	outcome *cloud.Outcome // nil while it is on its way
}

// auditor keeps what it is told, in the order of the beginnings.
type auditor struct {
	mu  sync.Mutex
	all []*attempt
}

func (a *auditor) Begin(c cloud.Call) func(cloud.Outcome) {
	at := &attempt{Call: c}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, at)
	return func(o cloud.Outcome) {
		a.mu.Lock()
		defer a.mu.Unlock()
		at.outcome = &o
	}
}

func (a *auditor) list() []attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []attempt
	for _, at := range a.all {
		out = append(out, *at)
	}
	return out
}

// unaudited says what is wrong with the record of changes, compared with what the cloud has seen:
// every call that took effect has to be in it, and what it says to have been answered has to be
// what the cloud has answered. Of an answer that was cut off it says that nobody knows.
func (l *lab) unaudited() (wrong []string) {
	begun, answered := map[string]int{}, map[string]attempt{}
	for _, at := range l.audit.list() {
		begun[at.Name]++
		if at.outcome != nil && at.outcome.RequestID != "" {
			answered[at.outcome.RequestID] = at
		}
		if at.Reason == "" || at.Account != labAccount || len(at.Objects) == 0 || at.Region == "" {
			wrong = append(wrong, fmt.Sprintf("the record does not say enough: %+v", at.Call))
		}
	}
	seen := map[string]int{}
	for _, c := range l.server.Journal().Calls(0) {
		if !mutating(c) || !slices.Contains([]string{"ec2", "rds", "elasticache", "elasticfilesystem", "elasticloadbalancing"}, c.Service) {
			continue
		}
		seen[c.Action]++
		at, known := answered[c.RequestID()]
		delete(answered, c.RequestID())
		switch {
		case known && at.Name == c.Action && at.outcome.Err != nil && at.outcome.Err.Class == cloud.Unavailable && l.named(c, at.Objects[0]):
		case known && (at.Name != c.Action || (at.outcome.Err == nil) != (c.Code == "")):
			wrong = append(wrong, fmt.Sprintf("the cloud has seen %s with code %q, the record says %+v", c.Action, c.Code, at))
		case known && !l.named(c, at.Objects[0]):
			wrong = append(wrong, fmt.Sprintf("the cloud has seen %s of %v, the record says %v", c.Action, c.Params, at.Objects))
		}
	}
	for id, at := range answered {
		wrong = append(wrong, fmt.Sprintf("the cloud has not answered %s of %s", id, at.Name))
	}
	for action, n := range seen {
		if n > begun[action] {
			wrong = append(wrong, fmt.Sprintf("the cloud has seen %d %s, the record has %d", n, action, begun[action]))
		}
	}
	return wrong
}

// named reports whether a call names an object, a native service perhaps by the last part of its
// ARN only, or by one of its mount targets.
func (l *lab) named(c ec2.Call, object string) bool {
	if id := c.Params["MountTargetId"]; id != "" {
		target, err := l.region(home).Services().Get(native.Ref{Kind: native.MountTarget, Name: id})
		return err == nil && strings.HasSuffix(object, "/"+target.Parent)
	}
	return slices.ContainsFunc(slices.Collect(maps.Values(c.Params)), func(v string) bool {
		return v == strings.Split(object, "/")[0] || strings.HasPrefix(object, "arn:") && v != "" && strings.HasSuffix(object, v)
	})
}

// TestRecordOfChanges: what the record says of a life of policies: before is what the call before
// has left, every object ends as it was, and it is said for which policies it was done.
func TestRecordOfChanges(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	l.publish()
	l.start()
	l.settle()
	groups := map[string][]string{}
	for _, vm := range l.vms {
		groups[vm.nic] = slices.Sorted(slices.Values(l.held(l.nameOf(vm.nic))))
	}
	before := maps.Clone(groups)
	for _, e := range history() {
		e.do(l)
		l.publish()
		l.settle()
	}
	if wrong := l.unaudited(); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
	tags, edits := map[string]map[string]string{}, 0
	for _, at := range l.audit.list() {
		switch at.Name {
		case "ModifyNetworkInterfaceAttribute":
			edits++
			nic := at.Objects[0]
			if d := gocmp.Diff(groups[nic], at.Before.Groups); d != "" {
				t.Errorf("%s before (-is +recorded):\n%s", nic, d)
			}
			groups[nic] = at.After.Groups
			if len(at.Policies) == 0 && at.Reason != "give back" && !strings.Contains(at.Reason, "old groups") {
				t.Errorf("for no policy: %+v", at.Call)
			}
		case "CreateTags", "DeleteTags":
			for _, id := range at.Objects {
				if tags[id] == nil {
					tags[id] = map[string]string{}
				}
				for k, v := range at.Before.Tags[id] {
					if is, known := tags[id][k]; at.Name == "DeleteTags" && (!known || is != v) {
						t.Errorf("tag %s of %s before is %q, recorded %q", k, id, is, v)
					}
					delete(tags[id], k)
				}
				maps.Copy(tags[id], at.After.Tags[id])
			}
		}
	}
	for id, left := range tags {
		if len(left) > 0 && !strings.HasPrefix(id, "sg-") {
			t.Errorf("by the record, %s has the tags %v in the end", id, left)
		}
	}
	if d := gocmp.Diff(before, groups); d != "" || edits == 0 {
		t.Errorf("%d edits (-before +after):\n%s", edits, d)
	}
	var sum status.Changes
	for _, r := range l.sink.list() {
		sum.Add(r.Changes)
	}
	if n := int64(len(l.audit.list())); sum.Calls != n || sum.Done[cloud.OpSetInterfaceGroups] != edits {
		t.Errorf("reports speak of %d calls and %d edits, the record of %d and %d", sum.Calls, sum.Done[cloud.OpSetInterfaceGroups], n, edits)
	}
	if d := gocmp.Diff([]string{"AntreaClusterNetworkPolicy db-no-shell", "AntreaClusterNetworkPolicy web-in"}, slices.Sorted(maps.Keys(sum.Policies))); d != "" {
		t.Errorf("policies (-want +got):\n%s", d)
	}
}

// nameOf is the name of the VM that has the interface.
func (l *lab) nameOf(nic string) string {
	for name, vm := range l.vms {
		if vm.nic == nic {
			return name
		}
	}
	return ""
}

// TestChangesInWords: what people read of changes, and that it stays short.
func TestChangesInWords(t *testing.T) {
	t.Parallel()
	var c status.Changes
	if s := c.String(); s != "0 calls to the cloud: nothing is known to have taken effect" {
		t.Error(s)
	}
	policies := func(n int) (out []plan.PolicyRef) {
		for i := range n {
			out = append(out, plan.PolicyRef{Kind: "K8sNetworkPolicy", Namespace: "vms", Name: fmt.Sprintf("p%02d", i)})
		}
		return out
	}
	c.Calls = 5
	c.Add(changesOf(plan.Step{Policies: policies(2)}, cloud.Op{Kind: cloud.OpAddRules, Rules: make([]cloud.Rule, 3)}))
	c.Add(changesOf(plan.Step{}, cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: "eni-1"}))
	c.Add(changesOf(plan.Step{}, cloud.Op{Kind: cloud.OpTag, Target: "eni-1", Others: []string{"eni-2"}}))
	if s := c.String(); s != "5 calls to the cloud: 1 interface edited, 3 rules added, 2 objects tagged; for K8sNetworkPolicy vms/p00, K8sNetworkPolicy vms/p01" {
		t.Error(s)
	}
	c.Add(changesOf(plan.Step{Policies: policies(500)}, cloud.Op{Kind: cloud.OpDeleteGroup}))
	if s := c.String(); !strings.HasSuffix(s, "vms/p09 and 490 more") {
		t.Error(s)
	}
}
