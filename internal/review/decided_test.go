package review_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/reach"
	"github.com/nephele-io/nephele/internal/review"
)

// TestDecided: every rule says what it has decided; the unused ones are those that decide nothing
// or have decided nothing. Of a Kubernetes NetworkPolicy with several rules nobody knows which.
func TestDecided(t *testing.T) {
	rows := func() (out []v1alpha1.RuleUse) {
		for i, kind := range []string{"AntreaNetworkPolicy", "AntreaNetworkPolicy", "AntreaNetworkPolicy", "K8sNetworkPolicy", "K8sNetworkPolicy"} {
			use := string(reach.Used)
			if i == 2 {
				use = string(reach.Shadowed)
			}
			out = append(out, v1alpha1.RuleUse{Use: use, Rule: v1alpha1.Rule{Policy: v1alpha1.Policy{Type: kind, Name: "p"}, Direction: "In", Index: int32(i)}})
		}
		out = append(out, v1alpha1.RuleUse{Use: string(reach.Used), Rule: v1alpha1.Rule{Policy: v1alpha1.Policy{Type: "K8sNetworkPolicy", Name: "p"}, Direction: "Out", Index: 9}})
		return out
	}
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	hits := func(r v1alpha1.Rule) (int64, time.Time) {
		if r.Index == 0 {
			return 0, time.Time{}
		}
		return int64(r.Index), at
	}
	text := func(unused bool) (out string) {
		for _, r := range review.Decided(rows(), unused, hits) {
			out += fmt.Sprintf("%d: %d %v %v; ", r.Rule.Index, *r.Connections, r.Last != nil && r.Last.Time.Equal(at), r.Together)
		}
		return out
	}
	if got, want := text(false), "0: 0 false false; 1: 1 true false; 2: 2 true false; 3: 3 true true; 4: 4 true true; 9: 9 true false; "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := text(true), "0: 0 false false; 2: 2 true false; "; got != want {
		t.Errorf("unused: %q, want %q", got, want)
	}
}
