package plan_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// fragile is AWS with mistakes: reading panics on some services, and writing rules on some traffic.
type fragile struct {
	lower.AWS
	reading func(flow.Service) bool
	writing func(cloud.Rule) bool
}

// Unsupported implements plan.Lowerer.
func (f fragile) Unsupported(s flow.Service) string {
	if f.reading != nil && f.reading(s) {
		panic("reading")
	}
	return f.AWS.Unsupported(s)
}

// Lower implements plan.Lowerer.
func (f fragile) Lower(t flow.Traffic) []cloud.Rule {
	out := f.AWS.Lower(t)
	if f.writing != nil && slices.ContainsFunc(out, f.writing) {
		var list []int
		_ = list[len(out)]
	}
	return out
}

// many is an account in which seven policies apply to six VMs, each on a port of its own.
func many() *estate {
	e := small()
	for i := 3; i < 6; i++ {
		e.Groups = append(e.Groups, groupSpec{Net: 0, Rules: e.Groups[1].Rules})
		e.VMs = append(e.VMs, vmSpec{Selected: true})
		e.NICs = append(e.NICs, nicSpec{Net: 0, VM: i, IPs: []string{netip.AddrFrom4([4]byte{10, 0, 0, byte(10 + i)}).String()}, Groups: []int{1 + i}})
	}
	set := policySet{Address: [][]int{{1}}, Applied: [][]int{{0, 2}, {3}, {4, 5}}}
	for i := range 7 {
		p := small().History[0].Policies[0]
		p.Applied, p.Priority = []int{i % 3}, float64(5+i)
		p.Rules = slices.Clone(p.Rules)
		p.Rules[0].Services = []serviceSpec{{Protocol: "TCP", From: int32(1000 + i), To: int32(1000 + i), Type: -1}}
		set.Policies = append(set.Policies, p)
	}
	e.History = []policySet{set}
	return e
}

func about(port int) func(cloud.Rule) bool {
	return func(r cloud.Rule) bool {
		return r.Match.Protocol == cloud.TCP && r.Match.From <= port && port <= r.Match.To
	}
}

// TestFaultOfOneStopsNobodyElse: what the planner panics on is left out, the least of it;
// everything else is planned as it is without that, and the statuses say why.
func TestFaultOfOneStopsNobodyElse(t *testing.T) {
	e := many()
	odd := slices.Clone(e.Groups[3].Rules)
	odd[0].Peer.CIDR = netip.MustParsePrefix("192.0.2.99/32")
	strange := func(r cloud.Rule) bool { return r.Peer.CIDR == odd[0].Peer.CIDR }
	for name, c := range map[string]struct {
		lower          fragile
		policies, nics []int
		openDirection  bool
	}{
		"one policy cannot be read":     {lower: fragile{reading: func(s flow.Service) bool { return s.From == 1003 && s.To == 1003 }}, policies: []int{3}},
		"two policies cannot be read":   {lower: fragile{reading: func(s flow.Service) bool { return s.From == s.To && (s.From == 1000 || s.From == 1006) }}, policies: []int{0, 6}},
		"one policy cannot be written":  {lower: fragile{writing: about(1002)}, policies: []int{2}},
		"one VM cannot be written":      {lower: fragile{writing: strange}, nics: []int{2}, openDirection: true},
		"nothing can be written at all": {lower: fragile{writing: func(cloud.Rule) bool { return true }}, nics: []int{0, 2, 3, 4, 5}},
	} {
		e := many()
		if c.openDirection { // the own group of the VM counts, because its only policy drops
			e.Groups[3].Rules = odd
			e.History[0].Applied[0] = []int{0, 2}
			for i := range e.History[0].Policies {
				e.History[0].Policies[i].Rules[0].Action = "Drop"
			}
		}
		f := e.cloud()
		res := plan.Compute(e.input(e.History[0], f), c.lower)
		var policies, nics []string
		for _, fault := range res.Faults {
			if fault.Stack == "" || fault.Text == "" {
				t.Errorf("%s: the fault says nothing: %+v", name, fault)
			}
			if fault.Policy != "" {
				policies = append(policies, fault.Policy)
			} else {
				nics = append(nics, fault.Interface)
			}
		}
		in := e.input(e.History[0], f)
		var wantPolicies, wantNICs []string
		in.Faulty, in.Blocked = map[string]string{}, map[plan.InterfaceKey]string{}
		for _, i := range c.policies {
			wantPolicies = append(wantPolicies, string(in.Policies[i].UID))
			in.Faulty[string(in.Policies[i].UID)] = "x"
		}
		for _, i := range c.nics {
			wantNICs = append(wantNICs, nicID(i))
			in.Blocked[plan.InterfaceKey{Region: testRegion, ID: nicID(i)}] = "x"
		}
		slices.Sort(policies)
		slices.Sort(wantPolicies)
		if res.Failed || !slices.Equal(policies, wantPolicies) || !slices.Equal(nics, wantNICs) {
			t.Errorf("%s: left out %q and %q, want %q and %q", name, policies, nics, wantPolicies, wantNICs)
			continue
		}
		want := plan.Compute(in, lower.AWS{})
		if got, want := len(res.Plan.Steps), len(want.Plan.Steps); got != want || len(c.nics) < 5 && want == 0 {
			t.Errorf("%s: %d steps, want %d", name, got, want)
		}
		for _, p := range res.Policies {
			refused := slices.Contains(wantPolicies, p.UID)
			if refused && (len(p.Failed) == 0 || !p.Failed[0].Why.Is(reason.PlannerFault) || !strings.Contains(p.Failed[0].Message, "a fault of Nephele, please report it")) || !refused && len(c.nics) == 0 && len(p.Failed) > 0 {
				t.Errorf("%s: %+v", name, p)
			}
		}
	}
}

// TestFaultOfEverythingChangesNothing: where nothing helps, nothing is planned, and that is said.
func TestFaultOfEverythingChangesNothing(t *testing.T) {
	e := many()
	in := e.input(e.History[0], e.cloud())
	in.Stop = func() bool { panic("asked") }
	res := plan.Compute(in, lower.AWS{})
	if !res.Failed || !res.Plan.Empty() || len(res.Faults) != 1 || len(res.Refusals) != 1 || !strings.Contains(res.Refusals[0].Message, "a fault of Nephele") {
		t.Errorf("%+v", res)
	}
}

// TestStopEndsTheSearch: nobody wants the result any more.
func TestStopEndsTheSearch(t *testing.T) {
	e := many()
	in := e.input(e.History[0], e.cloud())
	asked := 0
	in.Stop = func() bool { asked++; return asked > 3 }
	res := plan.Compute(in, fragile{reading: func(flow.Service) bool { return true }})
	if !res.Stopped && len(res.Faults) == 0 {
		t.Errorf("%+v", res)
	}
}
