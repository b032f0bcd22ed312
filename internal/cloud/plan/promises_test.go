package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// TestTightWorlds plays random accounts with quotas so small that hardly anything fits.
func TestTightWorlds(t *testing.T) {
	t.Parallel()
	worlds := worldsOneIn(5)
	st := checkWorlds(t, worlds, func(e *estate) { e.Limits.RulesPerGroup, e.Limits.GroupsPerInterface = 6, 3 })
	if worlds > 10 && st.WithRefusals == 0 {
		t.Errorf("%+v", st)
	}
}

// TestModeWorlds plays random histories of policies and modes. No operation touches what a planned
// VM holds, what is released has exactly its own groups back, and when all is over nothing of ours
// is left.
func TestModeWorlds(t *testing.T) {
	t.Parallel()
	next := uint64(envInt("NEPHELE_PLAN_SEED", 1))
	checkWorlds(t, worldsOneIn(4), func(e *estate) {
		e.Limits.RulesPerGroup = 200
		e.randomModes(rand.New(rand.NewPCG(next, 21)))
		next++
	})
}

// randomModes adds a policy set and gives all of them modes.
func (e *estate) randomModes(r *rand.Rand) {
	e.History = append(e.History, e.History[0].clone())
	at := map[int]plan.Mode{}
	kinds := []plan.Mode{plan.Enforce, plan.Planned, plan.Released}
	if r.IntN(4) == 0 {
		kinds = append(kinds, plan.BreakGlass)
	}
	for i := range e.History {
		for vm := range e.VMs {
			if r.IntN(2) == 0 {
				at[vm] = pick(r, kinds)
			}
		}
		e.History[i].Modes = map[int]plan.Mode{}
		for vm, m := range at {
			e.History[i].Modes[vm] = m
		}
	}
}

// promises is what the modes of a phase promise.
type promises struct {
	*estate
	set    policySet
	native map[string][]string // groups that released interfaces shall have
	sacred map[string]bool     // what must not be touched
	// strange are interfaces that nobody has selected, and that are not under control.
	strange map[string]bool
	// stands are interfaces that are under control and only planned for.
	stands map[int]bool
	// noted are the interfaces of which the planner says that they do not wait.
	noted map[string]bool
}

func (p *phase) promised(f *fakeCloud) *promises {
	out := &promises{estate: p.estate, set: p.set, native: map[string][]string{}, sacred: map[string]bool{}, strange: map[string]bool{}, stands: map[int]bool{}, noted: map[string]bool{}}
	before := p.cloud()
	for i, n := range p.NICs {
		nic := f.nic(nicID(i))
		if n.VM < 0 || !p.VMs[n.VM].Selected {
			out.strange[nic.ID] = nic.Tags[cloud.TagFormer] == "" && !slices.ContainsFunc(nic.GroupIDs, func(g string) bool { return f.group(g).Tags[cloud.TagCluster] != "" })
			continue
		}
		switch p.set.Modes[n.VM] {
		case plan.Planned:
			out.sacred[nic.ID] = true
			for _, g := range nic.GroupIDs {
				out.sacred[g] = true
				out.stands[i] = out.stands[i] || f.group(g).Tags[cloud.TagCluster] != ""
			}
		case plan.Released, plan.BreakGlass:
			if !n.Managed {
				out.native[nic.ID] = before.nic(nic.ID).GroupIDs
			}
		}
	}
	return out
}

// take remembers what the planner says that it cannot keep. It reports whether there is anything.
func (p *promises) take(res *plan.Result) (any bool) {
	for _, n := range res.Notes {
		if n.Why.Is(reason.NotWaiting) {
			p.noted[n.Object], any = true, true
		}
	}
	return any
}

// allows reports an operation on something that is to stay as it is.
func (p *promises) allows(op cloud.Op) error {
	switch id := op.Target; {
	case p.sacred[id] && !p.ofDependents(op):
		return fmt.Errorf("touches %s, which a planned VM holds", id)
	case op.Kind == cloud.OpSetInterfaceGroups && p.strange[id]:
		return fmt.Errorf("touches %s, which nobody has selected", id)
	}
	return nil
}

// ofDependents reports whether an operation is about nothing but rules that the owner of a group
// permits for its dependents: an interface that holds the group allows what it allowed before.
func (p *promises) ofDependents(op cloud.Op) bool {
	follows := slices.ContainsFunc(p.Follows, func(group int) bool { return groupID(group) == op.Target })
	ours := func(to cloud.Peer) bool {
		for i := range p.Groups {
			if to.GroupID == groupID(i) {
				return false
			}
		}
		return to.GroupID != "" || to.GroupName != ""
	}
	return follows && !slices.ContainsFunc(op.Rules, func(r cloud.Rule) bool { return !ours(r.Peer) })
}

// kept reports what is not as it was promised when nothing is left to do.
func (p *promises) kept(f *fakeCloud) error {
	for id, groups := range p.native {
		if n := f.nic(id); !slices.Equal(n.GroupIDs, groups) {
			return fmt.Errorf("the released interface %s holds %v, not %v", id, n.GroupIDs, groups)
		}
	}
	return nil
}

// breaks reports whether no promise can be kept for a flow: one end is given back without waiting,
// at once in an emergency, or beside a planned VM at the other end that nothing is done to, as the
// planner says.
func (p *promises) breaks(fl connection) bool {
	mode := func(nic int) plan.Mode {
		if nic < 0 || p.NICs[nic].VM < 0 || !p.VMs[p.NICs[nic].VM].Selected {
			return plan.Enforce
		}
		return p.set.Modes[p.NICs[nic].VM]
	}
	alone := func(a, b int) bool {
		gives := a >= 0 && (mode(a) == plan.Released || mode(a) == plan.Enforce)
		return mode(a) == plan.BreakGlass || gives && p.noted[nicID(a)] && mode(b) == plan.Planned
	}
	return alone(fl.src, fl.dst) || alone(fl.dst, fl.src)
}

// waitsForNothing reports a policy that is neither realized nor refused although nothing is left to
// do.
func (p *phase) waitsForNothing(res *plan.Result) error {
	for _, s := range res.Policies {
		if len(s.Pending) > 0 {
			return fmt.Errorf("the policy %s is for ever to be realized on %v; refusals %v; ops:\n%s", s.UID, s.Pending, res.Refusals, strings.Join(p.ops, "\n"))
		}
	}
	return nil
}
