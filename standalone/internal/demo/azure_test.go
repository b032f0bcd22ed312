package demo

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

func bothClouds(t *testing.T) account {
	t.Helper()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	dataTier(&state)
	server, err := sim.Start(t.Context(), sim.Options{State: state, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return account{server}
}

// TestDatabasesAreAsTheStoryBegins holds the second table against both simulators, and its picture
// on a terminal of 80 columns against the one that the story shows.
func TestDatabasesAreAsTheStoryBegins(t *testing.T) {
	a := bothClouds(t)
	m, err := a.dataMatrix()
	if err != nil {
		t.Fatal(err)
	}
	if got := m.differences(dataTable(expectDataBefore).cells); len(got) > 0 {
		t.Error(got)
	}
	if m.flows != 60 {
		t.Errorf("%d verdicts", m.flows)
	}
	const want = `  from \ to         db-1       db-2
  CVP Server Test   d [s] .    d [s] .
  border_01        [d][s] .   [d][s] .
  border_02        [d][s] .   [d][s] .
  core_01          [d][s] .   [d][s] .
  Pod reports       d  .  .    d  .  .
  db-1              -          d [s][p]
  db-2              d [s][p]   -
  203.0.113.7       .  .  .    .  .  .
  (d postgres tcp/5432, s ssh tcp/22, p ping, . blocked; [ ] has changed)
`
	if got := m.Text(dataTable(expectDataGuarded).cells, narrowest); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	var names []string
	for _, p := range m.from {
		names = append(names, p.name)
	}
	for _, text := range []string{expectDataBefore, expectDataImported, expectDataGuarded} {
		if got := strings.Join(dataTable(text).from, "|"); got != strings.Join(names, "|") {
			t.Errorf("the table is about %s, the matrix about %s", got, strings.Join(names, "|"))
		}
	}
}

// TestBothEndsAreAsked: what one of the clouds stops does not arrive, whichever it is.
func TestBothEndsAreAsked(t *testing.T) {
	a := bothClouds(t)
	r, err := a.server.World().Region(a.regionState().Account, region)
	if err != nil {
		t.Fatal(err)
	}
	before, err := a.dataMatrix()
	if err != nil {
		t.Fatal(err)
	}
	if aws, azureSide, err := a.halves(border01); err != nil || aws != "" || azureSide != "" {
		t.Errorf("%q, %q, %v: nobody stops it yet", aws, azureSide, err)
	}
	var rules []string
	for _, g := range a.regionState().SecurityGroups {
		for i := range g.Rules {
			if g.ID == "sg-331ad04e" && g.Rules[i].Egress {
				rules = append(rules, g.Rules[i].ID)
			}
		}
	}
	if _, err := r.Groups().RevokeSecurityGroup(simaws.RevokeInput{GroupID: "sg-331ad04e", Egress: true, RuleIDs: rules}); err != nil {
		t.Fatal(err)
	}
	after, err := a.dataMatrix()
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range after.from {
		want := before.cells[i][0]
		if p.nics != nil {
			want = "..." // what is on AWS gets nowhere; the others do as before
		}
		if after.cells[i][0] != want {
			t.Errorf("%s: %s, want %s", p.name, after.cells[i][0], want)
		}
	}
}
