package halves

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

// TestPack: what is unpacked is what was packed, each decision sent once.
func TestPack(t *testing.T) {
	rule := &analysis.Rule{Policy: analysis.Policy{Type: "K8sNetworkPolicy", Name: "p"}, Direction: "In", Name: "r"}
	all := []Told{
		Short(&analysis.Decision{Outcome: "Allow", DecidedBy: rule}), Short(&analysis.Decision{Outcome: "Drop", IsolatedBy: []analysis.Policy{{Name: "p"}}}),
		Unknown("gone"), Short(&analysis.Decision{Outcome: "Allow", DecidedBy: rule}),
	}
	packed, err := Pack(all)
	if err != nil || len(packed.Decisions) != 3 || !slices.Equal(packed.Of, []int{0, 1, 2, 0}) {
		t.Fatal(packed, err)
	}
	got, err := Unpack(packed, 4)
	if err != nil || got[3].Rule.Name != "r" || !got[1].Isolated || got[2].Known() || got[2].Why != "gone" {
		t.Error(got, err)
	}
	for i := range all { // each with words of its own is too much
		all[i].Why = strings.Repeat("x", wire.MostAnswer/2) + string(rune('a'+i))
	}
	if _, err := Pack(all); err == nil {
		t.Error("an answer of any length")
	}
}

// TestUnpackIsStrict: what a member says is taken only if it answers what was asked.
func TestUnpackIsStrict(t *testing.T) {
	allow := json.RawMessage(`{"outcome":"Allow"}`)
	for what, d := range map[string]*wire.Decided{
		"nothing":              nil,
		"too few":              {Decisions: []json.RawMessage{allow}, Of: []int{0}},
		"too many":             {Decisions: []json.RawMessage{allow}, Of: []int{0, 0, 0}},
		"a decision not told":  {Decisions: []json.RawMessage{allow}, Of: []int{0, 1}},
		"a negative one":       {Decisions: []json.RawMessage{allow}, Of: []int{0, -1}},
		"no decision":          {Decisions: []json.RawMessage{allow, json.RawMessage(`7`)}, Of: []int{0, 1}},
		"a long decision":      {Decisions: []json.RawMessage{json.RawMessage(`{"outcome":"Allow","failsafe":"` + strings.Repeat("x", mostDecision) + `"}`)}, Of: []int{0, 0}},
		"an outcome of no one": {Decisions: []json.RawMessage{json.RawMessage(`{"outcome":"Sure"}`)}, Of: []int{0, 0}},
	} {
		if got, err := Unpack(d, 2); err == nil {
			t.Errorf("%s: %v", what, got)
		}
	}
	long, err := Unpack(&wire.Decided{Decisions: []json.RawMessage{json.RawMessage(`{"outcome":"Unknown","why":"` + strings.Repeat("x", 9999) + `"}`)}, Of: []int{0}}, 1)
	if err != nil || len(long[0].Why) > mostText {
		t.Error(len(long[0].Why), err)
	}
}

// TestOf: several addresses have one answer if all do the same.
func TestOf(t *testing.T) {
	allow, drop := &analysis.Decision{Outcome: "Allow"}, &analysis.Decision{Outcome: "Drop"}
	of := func(s analysis.FlowAnswer, side string) string {
		d, why := Of(&analysis.FlowReviewStatus{FlowAnswer: s}, side)
		if d == nil {
			return why
		}
		return d.Outcome
	}
	flows := []analysis.Flow{{Egress: allow, Ingress: allow}, {Egress: allow, Ingress: drop}}
	for _, c := range [][2]string{
		{of(analysis.FlowAnswer{Egress: allow, Ingress: drop}, Egress), "Allow"}, {of(analysis.FlowAnswer{Egress: allow, Ingress: drop}, Ingress), "Drop"},
		{of(analysis.FlowAnswer{Flows: flows}, Egress), "Allow"}, {of(analysis.FlowAnswer{Flows: flows}, Ingress), "it depends on which of several addresses it is: ask there"},
		{of(analysis.FlowAnswer{}, Egress), "it says nothing of it"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s, want %s", c[0], c[1])
		}
	}
}
