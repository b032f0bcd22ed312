package aws_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestProbe: with all rights nothing is missing; with the rights of mode plan exactly what changes
// something is, by name; and nothing is changed.
func TestProbe(t *testing.T) {
	t.Parallel()
	for file, denied := range map[string][]string{
		"enforce.json": nil,
		"plan.json":    {"ec2:CreateSecurityGroup", "ec2:CreateTags", "ec2:DeleteTags", "ec2:ModifyNetworkInterfaceAttribute"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			l := newRestrictedLab(t, file)
			snap, err := l.provider.Observe(t.Context(), l.scope())
			if err != nil {
				t.Fatal(err)
			}
			before := l.server.World().State()
			out, err := l.provider.Probe(t.Context(), l.scope(), snap)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			allowed := 0
			for _, trial := range out.Trials {
				switch {
				case trial.Denied && !slices.Contains(got, trial.Action):
					got = append(got, trial.Action)
				case !trial.Denied && trial.Untried == "":
					allowed++
				case trial.Untried != "" && !strings.Contains(trial.Untried, "no security group of this cluster yet"):
					t.Errorf("%s on %s: %s", trial.Action, trial.On, trial.Untried)
				}
			}
			if diff := cmp.Diff(denied, got); diff != "" || allowed < 8 {
				t.Errorf("%d allowed; denied (-want +got):\n%s", allowed, diff)
			}
			if !reflect.DeepEqual(before.Regions, l.server.World().State().Regions) {
				t.Error("something was changed")
			}
			if out.CloudTime.IsZero() || out.LocalTime.IsZero() {
				t.Errorf("the cloud's time %s, ours %s", out.CloudTime, out.LocalTime)
			}
		})
	}
}
