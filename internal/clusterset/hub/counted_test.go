package hub

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

// tally is what a hub has passed on, by policy.
type tally map[string]*wire.Counted

func (t tally) PutElsewhere(_, _ string, c *wire.Counted) { t[c.UID] = c }
func (tally) DropElsewhere(string)                        {}

// TestCountedIsBounded: a member counts for the policies that are for it, and the rules of these,
// and for nothing else. What nobody can have counted is told and left out.
func TestCountedIsBounded(t *testing.T) {
	t.Parallel()
	h, m, _ := connected()
	got := tally{}
	h.Statistics, m.hello, m.cluster.Name = got, &wire.Hello{Epoch: "e"}, "east"
	for _, uid := range []string{"mine", "negative", "many"} {
		h.outline.targets = append(h.outline.targets, target{uid: uid, clusters: []string{"east"}, rules: []string{"r"}})
	}
	h.outline.targets = append(h.outline.targets, target{uid: "others", clusters: []string{"west"}, rules: []string{"r"}})
	one := wire.Count{Packets: 1}
	h.counted(m, []wire.Counted{
		{UID: "mine", Count: one, Rules: []wire.RuleCount{{Name: "invented", Count: one}, {Name: "r", Count: one}}},
		{UID: "others", Count: one}, {UID: "none", Count: one},
		{UID: "negative", Count: one, Rules: []wire.RuleCount{{Name: "r", Count: wire.Count{Bytes: -1}}}},
	})
	if len(got) != 1 || got["mine"] == nil || len(got["mine"].Rules) != 1 || got["mine"].Rules[0].Name != "r" {
		t.Errorf("%v", slices.Collect(maps.Keys(got)))
	}
	if !strings.Contains(m.wrong, "less than nothing") {
		t.Errorf("told: %q", m.wrong)
	}
	h.counted(m, []wire.Counted{{UID: "many", Rules: make([]wire.RuleCount, wire.MostRules+1)}})
	if got["many"] != nil || !strings.Contains(m.wrong, "1025 rules") {
		t.Errorf("%v %q", got["many"], m.wrong)
	}
}
