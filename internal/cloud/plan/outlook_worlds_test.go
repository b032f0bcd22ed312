package plan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
	"github.com/nephele-io/nephele/internal/cloud/signs"
	"github.com/nephele-io/nephele/internal/tier"
)

// TestOutlookIsWhatPlanningLeadsTo: on random worlds, from nothing and from another set of
// policies, what is said of VMs in mode plan is what the plans that are shown say, and what the
// cloud differs by when all of them are done.
func TestOutlookIsWhatPlanningLeadsTo(t *testing.T) {
	t.Parallel()
	first, n := envInt("NEPHELE_PLAN_SEED", 12000), tier.Pick(40, 40, 120)
	several, later := 0, 0
	for seed := first; seed < first+n; seed++ {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		e := randomEstate(r)
		before := e.cloud().snap
		for i, set := range e.History {
			in := e.input(set, &fakeCloud{snap: before, limits: e.Limits})
			in.Modes = map[plan.VMRef]plan.Mode{}
			for _, vm := range in.Entities {
				in.Modes[vm] = plan.Planned
			}
			if planned := plan.Compute(in, e.lowerer()); writes(planned.Plan) {
				t.Fatalf("seed %d: with all VMs in mode plan there is a plan: %v", seed, planned.Plan.Steps)
			}
			f, err := forecast.Run(in.WithoutPlanned(), e.lowerer())
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if !f.Complete {
				t.Errorf("seed %d: the forecast does not end: %v", seed, f.Rounds[len(f.Rounds)-1].Plan.Steps)
			}
			for _, g := range f.After[0].Groups {
				for _, rule := range g.Rules {
					if g.OwnedBy(in.ClusterID) && !signs.Ours(rule.Description) {
						t.Errorf("seed %d: %s of %s is described as %q", seed, rule, g.Name, rule.Description)
					}
				}
			}
			sum := render.Sum(maps.Values(render.Outlooks(f.Rounds)))
			if got, want := sum.Rules(), ruleChange(before, f.After[0], f.Rounds[len(f.Rounds)-1]); got != want {
				t.Errorf("seed %d, policies %d, %d rounds: said %+v, is %+v", seed, i, len(f.Rounds)-1, got, want)
			}
			if got, want := sum.Guarded+sum.Members+sum.Returned, editedOfVMs(before, in, f); got != want {
				t.Errorf("seed %d, policies %d, %d rounds: %d interfaces said to change, the plans change %d", seed, i, len(f.Rounds)-1, got, want)
			}
			closures, changes := forecast.Told(before, f.After[0])
			for _, c := range closures {
				if c.Text(4) == "" {
					t.Errorf("seed %d, policies %d: no words for %+v", seed, i, c)
				}
			}
			for _, c := range changes {
				if c.From.String() == "" || c.To.String() == "" {
					t.Errorf("seed %d, policies %d: no words for %+v", seed, i, c)
				}
			}
			if len(f.Rounds) > 2 {
				several++
				if render.Sum(maps.Values(render.Outlooks(f.Rounds[:1]))).Rules() != sum.Rules() {
					later++
				}
			}
			before = f.After[0]
			if err := settled(before, i); err != "" {
				t.Fatalf("seed %d: %s", seed, err)
			}
		}
	}
	t.Logf("%d changes take several rounds, the first of them does not tell %d", several, later)
	if later == 0 {
		t.Error("no world in which the first round does not tell all")
	}
}

// writes reports whether a plan does more than claim and tag.
func writes(p plan.Plan) bool {
	return slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Op.Kind != cloud.OpTag && s.Op.Kind != cloud.OpUntag })
}

// settled gives the groups of the forecast for a policy set IDs as a cloud gives them, so that the
// next plan begins as it would there.
func settled(s *cloud.Snapshot, set int) string {
	ids := map[string]string{}
	for i := range s.Groups {
		if id := s.Groups[i].ID; strings.Contains(id, "/") {
			ids[id] = fmt.Sprintf("sg-f%03d%05d", set, i)
			s.Groups[i].ID = ids[id]
		}
	}
	for i := range s.Groups {
		for k := range s.Groups[i].Rules {
			if id := ids[s.Groups[i].Rules[k].Peer.GroupID]; id != "" {
				s.Groups[i].Rules[k].Peer.GroupID = id
			}
		}
		slices.SortFunc(s.Groups[i].Rules, cloud.Rule.Compare)
	}
	for i := range s.Interfaces {
		for k, id := range s.Interfaces[i].GroupIDs {
			if ids[id] != "" {
				s.Interfaces[i].GroupIDs[k] = ids[id]
			}
		}
		slices.Sort(s.Interfaces[i].GroupIDs)
	}
	slices.SortFunc(s.Groups, func(a, b cloud.Group) int { return strings.Compare(a.ID, b.ID) })
	for i := range s.Groups {
		for _, r := range s.Groups[i].Rules {
			if strings.Contains(r.Peer.GroupID, "/") {
				return "a rule refers to " + r.Peer.GroupID + ", which is no group"
			}
		}
	}
	return ""
}

// ruleChange compares the rules of the groups that VMs hold in the end with what these were.
func ruleChange(before, after *cloud.Snapshot, end *plan.Result) (c render.RuleChange) {
	was := map[string][]cloud.Rule{}
	for _, g := range before.Groups {
		was[g.ID] = g.Rules
	}
	held := map[string]bool{}
	for _, vm := range end.VMs {
		for _, n := range vm.Interfaces {
			for i := range after.Interfaces {
				if after.Interfaces[i].ID == n.ID {
					for _, g := range after.Interfaces[i].GroupIDs {
						held[g] = true
					}
				}
			}
		}
	}
	for _, g := range after.Groups {
		old, existed := was[g.ID]
		if !held[g.ID] {
			continue
		}
		gone, come := difference(old, g.Rules), difference(g.Rules, old)
		if existed {
			c.Added, c.Removed = c.Added+len(come), c.Removed+len(gone)
			continue
		}
		if len(come) > 0 {
			c.Groups++
		}
		for _, r := range come {
			if r.Direction == cloud.Ingress {
				c.Ingress++
			} else {
				c.Egress++
			}
		}
	}
	return c
}

func difference(a, b []cloud.Rule) (out []cloud.Rule) {
	for _, r := range a {
		if !slices.ContainsFunc(b, r.Same) {
			out = append(out, r)
		}
	}
	return out
}

// editedOfVMs counts the interfaces of selected VMs that the documents of the plans change, round
// after round.
func editedOfVMs(before *cloud.Snapshot, in plan.Input, f *forecast.Forecast) int {
	selected := map[string]bool{}
	for _, vm := range in.Entities {
		for _, n := range before.Interfaces {
			if n.VMID == vm.ID {
				selected[n.ID] = true
			}
		}
	}
	d := render.NewDescriber(render.Setting{Snapshots: []*cloud.Snapshot{before}})
	edited := map[string]bool{}
	for _, round := range f.Rounds {
		for _, s := range d.Describe(round.Plan).Steps {
			if s.Kind == string(cloud.OpSetInterfaceGroups) && selected[s.Target] {
				edited[s.Target] = true
			}
		}
	}
	return len(edited)
}
