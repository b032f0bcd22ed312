package aws_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	policies "github.com/nephele-io/nephele/internal/cloud/aws/rights"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// attempt is what an Auditor was told of one.
type attempt struct {
	cloud.Call
	outcome *cloud.Outcome
}

// auditor keeps what it is told in the order of the beginnings.
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

// take returns what was told since the last time.
func (a *auditor) take() []*attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.all
	a.all = nil
	return out
}

// changingCalls are the calls in the journal that change something.
func (l *lab) changingCalls() []ec2.Call {
	var out []ec2.Call
	for _, c := range l.server.Journal().Calls(0) {
		if c.Service == "ec2" && !strings.HasPrefix(c.Action, "Describe") && !strings.HasPrefix(c.Action, "Get") {
			out = append(out, c)
		}
	}
	return out
}

// newAuditedLab is a lab whose provider is audited.
func newAuditedLab(t *testing.T) (*lab, *auditor) {
	t.Helper()
	l, a := newLab(t, sim.Options{}), &auditor{}
	l.provider = l.open(aws.Config{Audit: a})
	return l, a
}

// TestEveryChangeIsTold does an op of each kind: every call that changes something is told with
// what it changes, and no other call is.
func TestEveryChangeIsTold(t *testing.T) {
	t.Parallel()
	l, a := newAuditedLab(t)
	s, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	nic := s.Interfaces[slices.IndexFunc(s.Interfaces, func(n cloud.Interface) bool { return n.NetworkID == network })]
	ctx := cloud.WithCause(t.Context(), cloud.Cause{Policies: []string{"p"}, Groups: nic.GroupIDs,
		Tags: map[string]map[string]string{nic.ID: {cloud.TagFormer: "sg-0"}, "eni-other": {"x": "y"}}})
	id, in := "", cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 80, 80), Peer: cloud.Peer{CIDR: prefix("10.0.0.0/8")}}
	out, changed := in, in
	out.Direction, changed.Match = cloud.Egress, cloud.NewMatch(cloud.TCP, 81, 81)
	tags := map[string]map[string]string{nic.ID: {cloud.TagFormer: "sg-0"}}
	for _, step := range []struct {
		op   cloud.Op
		want []cloud.Call
	}{
		{cloud.Op{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{Name: "nephele-a", NetworkID: network, Tags: map[string]string{cloud.TagCluster: "c"}}, Reason: "r1"}, []cloud.Call{
			{Name: "CreateSecurityGroup", Objects: []string{network + "/nephele-a"}, After: cloud.State{Name: "nephele-a",
				Tags: map[string]map[string]string{network + "/nephele-a": {cloud.TagCluster: "c"}}}},
			{Name: "RevokeSecurityGroupEgress", Objects: []string{"ID"}, Before: cloud.State{Rules: []string{"egress all to 0.0.0.0/0"}}}}},
		{cloud.Op{Kind: cloud.OpAddRules, Rules: []cloud.Rule{in, out}, Reason: "r2"}, []cloud.Call{
			{Name: "AuthorizeSecurityGroupIngress", Objects: []string{"ID"}, After: cloud.State{Rules: []string{"ingress tcp 80 from 10.0.0.0/8"}}},
			{Name: "AuthorizeSecurityGroupEgress", Objects: []string{"ID"}, After: cloud.State{Rules: []string{"egress tcp 80 to 10.0.0.0/8"}}}}},
		{cloud.Op{Kind: cloud.OpReplaceRules, Replaced: []cloud.Rule{in}, Rules: []cloud.Rule{changed}, Reason: "r3"}, []cloud.Call{
			{Name: "ModifySecurityGroupRules", Objects: []string{"ID"}, Before: cloud.State{Rules: []string{"ingress tcp 80 from 10.0.0.0/8"}},
				After: cloud.State{Rules: []string{"ingress tcp 81 from 10.0.0.0/8"}}}}},
		{cloud.Op{Kind: cloud.OpTag, Target: nic.ID, Tags: map[string]string{cloud.TagFormer: "sg-1"}, Reason: "r4"}, []cloud.Call{
			{Name: "CreateTags", Objects: []string{nic.ID}, Before: cloud.State{Tags: tags}, After: cloud.State{Tags: map[string]map[string]string{nic.ID: {cloud.TagFormer: "sg-1"}}}}}},
		{cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: nic.ID, GroupIDs: []string{"ID"}, Reason: "r5"}, []cloud.Call{
			{Name: "ModifyNetworkInterfaceAttribute", Objects: []string{nic.ID}, Before: cloud.State{Groups: nic.GroupIDs}, After: cloud.State{Groups: []string{"ID"}}}}},
		{cloud.Op{Kind: cloud.OpUntag, Target: nic.ID, Tags: map[string]string{cloud.TagFormer: ""}, Reason: "r6"}, []cloud.Call{
			{Name: "DeleteTags", Objects: []string{nic.ID}, Before: cloud.State{Tags: tags}}}},
		{cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: nic.ID, GroupIDs: nic.GroupIDs, Reason: "r7"}, []cloud.Call{
			{Name: "ModifyNetworkInterfaceAttribute", Objects: []string{nic.ID}, Before: cloud.State{Groups: nic.GroupIDs}, After: cloud.State{Groups: nic.GroupIDs}}}},
		{cloud.Op{Kind: cloud.OpRemoveRules, Rules: []cloud.Rule{changed, out}, Reason: "r8"}, []cloud.Call{
			{Name: "RevokeSecurityGroupIngress", Objects: []string{"ID"}, Before: cloud.State{Rules: []string{"ingress tcp 81 from 10.0.0.0/8"}}},
			{Name: "RevokeSecurityGroupEgress", Objects: []string{"ID"}, Before: cloud.State{Rules: []string{"egress tcp 80 to 10.0.0.0/8"}}}}},
		{cloud.Op{Kind: cloud.OpDeleteGroup, Group: cloud.GroupSpec{Name: "nephele-a"}, Reason: "r9"}, []cloud.Call{
			{Name: "DeleteSecurityGroup", Objects: []string{"ID"}, Before: cloud.State{Name: "nephele-a"}}}},
	} {
		known := func(ids []string) []string {
			ids = slices.Clone(ids)
			for i := range ids {
				ids[i] = strings.Replace(ids[i], "ID", id, 1)
			}
			return ids
		}
		op := step.op
		if op.Target == "" {
			op.Target = id
		}
		op.GroupIDs = known(op.GroupIDs)
		done, err := l.provider.Apply(ctx, l.scope(), op)
		if err != nil {
			t.Fatal(err)
		}
		if id == "" {
			id = done
		}
		var got []cloud.Call
		for _, at := range a.take() {
			got = append(got, at.Call)
			if at.outcome == nil || at.outcome.Err != nil || at.outcome.RequestID == "" {
				t.Errorf("%s: outcome %+v", at.Name, at.outcome)
			}
			if at.Name == "CreateSecurityGroup" && at.outcome.Created != id {
				t.Errorf("created %q, want %q", at.outcome.Created, id)
			}
		}
		for i := range step.want {
			w := &step.want[i]
			w.Scope, w.OwnerID, w.Policies, w.Reason = l.scope(), l.account, []string{"p"}, op.Reason
			w.Objects, w.After.Groups = known(w.Objects), known(w.After.Groups)
		}
		if d := cmp.Diff(step.want, got, cmp.Transformer("set", func(ids []string) []string { return slices.Sorted(slices.Values(ids)) })); d != "" {
			t.Errorf("%s (-want +got):\n%s", op.Kind, d)
		}
	}
	if n := len(l.changingCalls()); n != 12 {
		t.Errorf("the cloud has seen %d changing calls, want 12", n)
	}
}

// TestWhatBecameOfAnAttempt: every attempt is told with its own outcome, and one whose answer is
// lost as what nobody knows.
func TestWhatBecameOfAnAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault ec2.Fault
		want  []cloud.Class
	}{
		"answered":            {ec2.Fault{Action: "none"}, []cloud.Class{""}},
		"throttled once":      {ec2.Fault{Code: "RequestLimitExceeded", Status: 503}, []cloud.Class{cloud.Throttled, ""}},
		"the answer is lost":  {ec2.Fault{LoseAnswer: true}, []cloud.Class{cloud.Unavailable, ""}},
		"it never gets there": {ec2.Fault{Drop: true}, []cloud.Class{cloud.Unavailable, ""}},
		"refused":             {ec2.Fault{Code: "UnauthorizedOperation", Status: 403}, []cloud.Class{cloud.Auth}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, a := newAuditedLab(t)
			if c.fault.Action == "" {
				c.fault.Action = "CreateTags"
			}
			c.fault.Times = 1
			l.server.Faults().Add(c.fault)
			sent := 0
			ctx := cloud.WithCause(t.Context(), cloud.Cause{Sent: func() { sent++ }})
			_, _ = l.provider.Apply(ctx, l.scope(), cloud.Op{Kind: cloud.OpTag, Target: network, Tags: map[string]string{"a": "b"}})
			all := a.take()
			calls := l.changingCalls()
			if len(all) != len(c.want) || len(calls) != len(c.want) || sent != len(c.want) {
				t.Fatalf("%d attempts told, %d sent, %d calls, want %d", len(all), sent, len(calls), len(c.want))
			}
			for i, at := range all {
				class := cloud.Class("")
				if at.outcome.Err != nil {
					class = at.outcome.Err.Class
				}
				if class != c.want[i] {
					t.Errorf("attempt %d: %q, want %q", i, class, c.want[i])
				}
				if id := at.outcome.RequestID; id != calls[i].RequestID() && (id != "" || class != cloud.Unavailable) {
					t.Errorf("attempt %d: request id %q, the cloud has %q", i, id, calls[i].RequestID())
				}
			}
		})
	}
}

// TestNothingIsSentUntold: when an attempt reaches the cloud it has been told, and its outcome has
// not.
func TestNothingIsSentUntold(t *testing.T) {
	t.Parallel()
	a := &auditor{}
	var early []string
	l := newLab(t, sim.Options{OnCall: func(_ context.Context, c ec2.Call) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if c.Action == "CreateTags" && (len(a.all) != 1 || a.all[0].outcome != nil) {
			early = append(early, c.Action)
		}
		return nil
	}})
	l.provider = l.open(aws.Config{Audit: a})
	l.must(cloud.Op{Kind: cloud.OpTag, Target: network, Tags: map[string]string{"a": "b"}})
	if len(early) > 0 || len(a.take()) != 1 {
		t.Error("a call was on its way before it was told, or its outcome was told before it")
	}
}

// TestEveryChangingCallIsDescribed compares the calls that the record can describe with those that
// this package can make.
func TestEveryChangingCallIsDescribed(t *testing.T) {
	t.Parallel()
	inputs := func(file string, want func(*ast.SelectorExpr) bool) map[string]bool {
		out := map[string]bool{}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && strings.HasSuffix(sel.Sel.Name, "Input") && want(sel) {
				out[strings.TrimSuffix(sel.Sel.Name, "Input")] = true
			}
			return true
		})
		return out
	}
	described := inputs("audit.go", func(sel *ast.SelectorExpr) bool {
		pkg, ok := sel.X.(*ast.Ident)
		return ok && pkg.Name == "ec2"
	})
	permitted := map[string]bool{}
	for _, action := range slices.Concat(rights(t, "enforce.json").Actions(), written(t, policies.Pins{RouteTables: []string{"rtb-12345678"}}).Actions()) {
		name := strings.TrimPrefix(action, "ec2:")
		if !strings.HasPrefix(name, "Describe") && !strings.HasPrefix(name, "Get") {
			permitted[name] = true
		}
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(permitted)), slices.Sorted(maps.Keys(described))); d != "" {
		t.Errorf("(-permitted +described):\n%s", d)
	}
}
