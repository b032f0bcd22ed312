package report_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent/intenttest"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
)

func policy(name string) *intent.Policy {
	return &intent.Policy{Ref: intent.PolicyRef{UID: name, Name: name}}
}

// TestTally: each VM that a policy selects is in exactly one of its lists, and services stand
// beside them.
func TestTally(t *testing.T) {
	p, q, idle := policy("p"), policy("q"), policy("idle")
	on := func(p *intent.Policy, realized bool, why *reason.Reason) report.VMPolicy {
		return report.VMPolicy{PolicyRef: p.Ref, Realized: realized, Why: why}
	}
	no, fixed := reason.Why(reason.RulesShort), reason.Why(reason.ServiceUnguarded)
	statuses := []report.VMStatus{
		{VM: intenttest.VM("a"), Policies: []report.VMPolicy{on(p, true, nil), on(q, false, nil)}},
		{VM: intenttest.VM("b"), Policies: []report.VMPolicy{on(p, false, no)}},
		{VM: intenttest.VM("c"), Mode: intent.Planned, Policies: []report.VMPolicy{on(p, false, no), on(q, true, nil)}},
		{VM: intenttest.VM("d"), Policies: []report.VMPolicy{on(p, false, nil)}},
	}
	services := []intent.Unguarded{
		{Entity: intenttest.Entity("rds"), Subject: intenttest.VM("rds"), Policies: []*intent.Policy{p, q}, Why: fixed},
		{Entity: intenttest.Entity("off"), Subject: intenttest.VM("off"), Mode: intent.Released, Policies: []*intent.Policy{p}, Why: fixed},
	}
	rds := report.UnguardedService{Entity: intenttest.Entity("rds"), VM: intenttest.VM("rds"), Why: fixed}
	want := []report.PolicyStatus{
		{PolicyRef: q.Ref, Pending: []intent.VMRef{intenttest.VM("a")}, Suspended: []intent.VMRef{intenttest.VM("c")}, Unguarded: []report.UnguardedService{rds}},
		{PolicyRef: p.Ref, Realized: []intent.VMRef{intenttest.VM("a")}, Pending: []intent.VMRef{intenttest.VM("d")}, Failed: []report.FailedVM{{VM: intenttest.VM("b"), Why: no}},
			Suspended: []intent.VMRef{intenttest.VM("c")}, Unguarded: []report.UnguardedService{rds}},
		{PolicyRef: idle.Ref},
	}
	if got := report.Tally([]*intent.Policy{q, p, idle}, statuses, services); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := report.Tally(nil, statuses, services); got != nil {
		t.Errorf("without policies: %+v", got)
	}
}

// TestOfServices: a policy on a service is refused where its mode lets policies be enforced. Where
// it does not, the service is a VM without interfaces, which has the policy once.
func TestOfServices(t *testing.T) {
	p, q := policy("p"), policy("q")
	why := reason.Why(reason.ServiceUnguarded)
	of := func(entity, service string, m intent.Mode, policies ...*intent.Policy) intent.Unguarded {
		return intent.Unguarded{Entity: intenttest.Entity(entity), Subject: intenttest.VM(service), Mode: m, Policies: policies, Why: why}
	}
	refused, suspended := report.OfServices([]intent.Unguarded{
		of("a", "rds", intent.Enforce, p, q), of("b", "cache", intent.Planned, p), of("c", "cache", intent.Planned, p, q), of("d", "queue", intent.BreakGlass, q),
	})
	if want := []report.Refusal{{Policy: p.Ref, Region: "here", Why: why}, {Policy: q.Ref, Region: "here", Why: why}}; !reflect.DeepEqual(refused, want) {
		t.Errorf("refused %+v", refused)
	}
	var got []string
	for _, s := range suspended {
		text := fmt.Sprint(s.VM, " ", s.Mode)
		for _, on := range s.Policies {
			text += " " + on.Name
		}
		got = append(got, text)
	}
	if is, want := strings.Join(got, "; "), "here/cache plan p q; here/queue break-glass q"; is != want {
		t.Errorf("suspended %q, want %q", is, want)
	}
}

// TestIsVM: what is one interface that stands for itself is no VM.
func TestIsVM(t *testing.T) {
	for want, nics := range map[bool][]string{true: {"eni-1", "i-1"}, false: {"i-1"}} {
		s := report.VMStatus{VM: intenttest.VM("i-1")}
		for _, id := range nics {
			s.Interfaces = append(s.Interfaces, report.InterfaceStatus{ID: id})
		}
		if s.IsVM() != want {
			t.Errorf("with %v: %v", nics, !want)
		}
	}
	if s := (report.VMStatus{VM: intenttest.VM("i-1"), Interfaces: []report.InterfaceStatus{{ID: "eni-1"}}}); !s.IsVM() {
		t.Error("a VM with one interface is none")
	}
}
