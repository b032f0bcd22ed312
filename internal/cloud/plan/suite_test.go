package plan_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// subject is a planner that the random worlds are played with.
type subject struct {
	name    string
	compute func(plan.Input, plan.Lowerer) *plan.Result
	// mixes says what "in between" means. If not set, every flow stays between (old and new) and
	// (old or new), whatever changes. If set, that holds where policies change; while they are
	// unchanged, a flow may be decided by any mix of the old and the new membership of its two
	// ends.
	mixes bool
}

// subjects are all planners; the first one is what Compute is.
var subjects = []subject{
	{name: "layers", compute: plan.Compute, mixes: true},
}

// subjectOf returns the planner that NEPHELE_PLAN_SUBJECT names, the first one if it names none.
func subjectOf(t *testing.T) subject {
	t.Helper()
	name := os.Getenv("NEPHELE_PLAN_SUBJECT")
	at := slices.IndexFunc(subjects, func(s subject) bool { return name == "" || s.name == name })
	if at < 0 {
		t.Fatalf("there is no planner %q", name)
	}
	return subjects[at]
}

// relabels reports whether nothing but memberships changes in this phase: policies and modes are
// as in the phase before.
func (p *phase) relabels() bool {
	if p.earlier == nil {
		return false
	}
	before := p.earlier.set
	return reflect.DeepEqual(before.Policies, p.set.Policies) && reflect.DeepEqual(before.Modes, p.set.Modes) && reflect.DeepEqual(before.Agents, p.set.Agents) &&
		len(before.Applied) == len(p.set.Applied) && len(before.Address) == len(p.set.Address)
}

// mixed reports whether some mix of the old and the new memberships of its ends decides the flow
// like that. An end that is no VM stands for everybody else.
func (p *phase) mixed(fl connection, verdict bool) bool {
	if !p.relabels() {
		return false
	}
	v := *p.oracleOf(p.result)
	v.older = p.earlier
	vm := func(nic int) int {
		if nic < 0 {
			return -1
		}
		return p.NICs[nic].VM
	}
	src, dst := vm(fl.src), vm(fl.dst)
	for _, stale := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
		v.stale = func(member int) bool {
			switch {
			case member == src:
				return stale[0]
			case member == dst:
				return stale[1]
			}
			return src < 0 && stale[0] || dst < 0 && stale[1]
		}
		if fl.verdict(v.half) == verdict {
			return true
		}
	}
	return false
}

// TestInBetween: a VM that leaves a group on one side of a flow while the VM on the other side
// joins one. What only the mix of both allows may open on the way if nothing but memberships
// changes, and must not if a policy changes as well.
func TestInBetween(t *testing.T) {
	e := small()
	web := []ruleSpec{{Action: "Allow", Address: []int{0}, Services: []serviceSpec{{Protocol: "TCP", From: 80, To: 80, Type: -1}}}}
	deny := []ruleSpec{{Out: true, Action: "Drop", Blocks: []blockSpec{{CIDR: "10.0.0.0/8"}}}}
	// VM 0 admits the members of address group 0; the VMs of applied-to group 1 may send nothing.
	set := policySet{Address: [][]int{{}}, Applied: [][]int{{0}, {}}, Policies: []policySpec{
		{Tier: 250, Priority: 1, Applied: []int{0}, Rules: web}, {Tier: 250, Priority: 2, Applied: []int{1}, Rules: deny}}}
	labelled := set.clone()
	labelled.Address, labelled.Applied = [][]int{{1}}, [][]int{{0}, {1}} // VM 1 becomes a peer, and is denied
	edited := labelled.clone()
	edited.Policies[1].Priority = 3
	var toWeb connection
	for _, fl := range e.flows() {
		if fl.src == 1 && fl.dst == 0 && fl.private && fl.protocol == 6 && fl.port == 80 {
			toWeb = fl
		}
	}
	for name, c := range map[string]struct {
		to    policySet
		mixes bool
		want  bool // the flow may be open in between
	}{
		"labels, each by itself":        {labelled, true, false},
		"labels, all as one":            {labelled, false, false},
		"a policy as well":              {edited, true, false},
		"two VMs, each by itself":       {labelled, true, true},
		"two VMs, and a policy as well": {edited, true, false},
	} {
		to := c.to.clone()
		from := set.clone()
		if name[:3] == "two" {
			// Both ends change: VM 0, which admits nobody at first, comes under the policy, and VM
			// 1 is no peer any more.
			from.Applied[0], to.Applied[0] = []int{}, []int{0}
			from.Address, to.Address = [][]int{{1}}, [][]int{{}}
			to.Applied[1] = []int{}
		}
		res := &plan.Result{}
		for i := range e.VMs {
			res.VMs = append(res.VMs, plan.VMStatus{VM: plan.VMRef{ID: vmID(i)}, Interfaces: []plan.InterfaceStatus{{ID: nicID(i), State: plan.Guarded}}})
		}
		before := e.oracle(from, res)
		p := &phase{estate: e, by: subject{mixes: c.mixes}, set: to, flows: []connection{toWeb}, result: res, earlier: before}
		p.strict = &promises{estate: e, set: to}
		after := e.oracle(to, res)
		old, final := toWeb.verdict(before.half), toWeb.verdict(after.half)
		if old || final {
			t.Fatalf("%s: the flow is allowed before (%v) or after (%v)", name, old, final)
		}
		if err := p.between([]bool{true}, []bool{final}, []bool{old}, nil); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOneWorld plays the world that NEPHELE_PLAN_WORLD describes, as a failing test prints it, with
// the seed of NEPHELE_PLAN_SEED.
func TestOneWorld(t *testing.T) {
	text := os.Getenv("NEPHELE_PLAN_WORLD")
	if text == "" {
		return
	}
	var e estate
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	if err := subjectOf(t).checkEstate(&e, uint64(envInt("NEPHELE_PLAN_SEED", 1)), &stats{}); err != nil {
		t.Error(err)
	}
}
