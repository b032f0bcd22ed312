package plan_test

import (
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// TestDescriptionsAreNoIdentity: a description that somebody changed is put right without a word,
// and nothing counts as pending for it; a rule that somebody added is told and removed, whatever it
// says of itself.
func TestDescriptionsAreNoIdentity(t *testing.T) {
	e := small()
	f := e.cloud()
	settle(t, e, f, nil)
	g := f.group(f.nic(nicID(0)).GroupIDs[0])
	ours := g.Rules[0].Description
	before := slices.Clone(g.Rules)
	g.Rules[0].Description = "mine"
	res := plan.Compute(e.input(e.History[0], f.clone()), lower.AWS{})
	if len(res.Drift) != 0 || len(res.Plan.Steps) != 1 || len(res.Policies[0].Realized) != 1 {
		t.Errorf("drift %v, steps %v, %+v", res.Drift, res.Plan.Steps, res.Policies[0])
	}
	settle(t, e, f, nil)
	if after := f.group(g.ID).Rules; !slices.Equal(before, after) {
		t.Errorf("the descriptions are %+v, were %+v", after, before)
	}
	g = f.group(g.ID)
	added := g.Rules[0]
	added.Match = cloud.NewMatch(cloud.TCP, 23, 23)
	for _, text := range []string{"", "mine", ours} {
		added.Description = text
		g.Rules = append(slices.Clone(g.Rules), added)
		slices.SortFunc(g.Rules, cloud.Rule.Compare)
		res = plan.Compute(e.input(e.History[0], f.clone()), lower.AWS{})
		told := len(res.Drift) == 1 && res.Drift[0].Code == reason.RuleAdded
		if told != (text != ours) {
			t.Errorf("%q: drift %v", text, res.Drift)
		}
		settle(t, e, f, nil)
		if g = f.group(g.ID); slices.ContainsFunc(g.Rules, added.Same) {
			t.Errorf("%q: the rule stays", text)
		}
	}
	// A cloud that keeps no descriptions is not asked to.
	bare := f.clone()
	for i := range bare.snap.Groups {
		for k := range bare.snap.Groups[i].Rules {
			bare.snap.Groups[i].Rules[k].Description = ""
		}
	}
	if res := plan.Compute(e.input(e.History[0], bare), lower.AWS{}); !res.Plan.Empty() || len(res.Drift) > 0 {
		t.Errorf("without descriptions: %v, drift %v", res.Plan.Steps, res.Drift)
	}
	// A group that a planned VM holds is not written to.
	g.Rules[0].Description = "mine"
	before = slices.Clone(g.Rules)
	settle(t, e, f, modes(plan.Planned, 0))
	if !slices.Equal(before, f.group(g.ID).Rules) {
		t.Errorf("%+v", f.group(g.ID).Rules)
	}
}
