package demo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// published is the account of the story as it is published, simulated.
func published(t *testing.T) account {
	t.Helper()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	server, err := sim.Start(t.Context(), sim.Options{State: state})
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

func TestPublishedAccountIsAsTheStoryBegins(t *testing.T) {
	m, err := published(t).matrix()
	if err != nil {
		t.Fatal(err)
	}
	want := table(expectBefore)
	if diff := cmp.Diff(want.cells, m.cells); diff != "" {
		t.Errorf("cells (-expected +simulated):\n%s", diff)
	}
	// 7 interfaces, of which 3 VMs have two: 3*2*4+2*3*2 pairs between VMs, 7 to outside, 7 from
	// each of two outside addresses.
	if want := (3*2*4 + 2*3*2 + 3*7) * len(services()); m.flows != want {
		t.Errorf("%d verdicts, want %d", m.flows, want)
	}
}

func TestTablesNameThePlacesOfTheMatrix(t *testing.T) {
	m, err := published(t).matrix()
	if err != nil {
		t.Fatal(err)
	}
	var from, to []string
	for _, p := range m.from {
		from = append(from, p.name)
	}
	for _, p := range m.to {
		to = append(to, p.name)
	}
	if diff := cmp.Diff(destinations(), to); diff != "" {
		t.Error(diff)
	}
	for name, text := range map[string]string{"before": expectBefore, "guarded": expectGuarded, "moved": expectMoved} {
		e := table(text)
		if diff := cmp.Diff(e.from, from); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for i, row := range e.cells {
			for j, cell := range row {
				checkCell(t, name+" "+from[i]+" -> "+to[j], cell, m.cells[i][j])
			}
		}
	}
}

// checkCell checks that a cell of a table is one that a matrix can hold: the same questions, and
// answers to them.
func checkCell(t *testing.T, name, cell, like string) {
	t.Helper()
	if len(cell) != len(services()) || (cell == "----") != (like == "----") {
		t.Errorf("%s: cell %q", name, cell)
		return
	}
	for i, s := range services() {
		if c := cell[i]; c != s.letter && c != blocked && c != noTraffic {
			t.Errorf("%s: sign %q for %s", name, c, s.name)
		}
	}
}

func TestAChangeOfOneInterfaceIsNeverHidden(t *testing.T) {
	a := published(t)
	machines, err := vms(a.regionState())
	if err != nil {
		t.Fatal(err)
	}
	before, err := a.matrix()
	if err != nil {
		t.Fatal(err)
	}
	// The second interface of border_01 leaves the group that allows anything for the VPC's default
	// group.
	r, err := a.server.World().Region(a.regionState().Account, region)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Interfaces().ModifyNetworkInterfaceGroups(machines[1].nics[1].ID, []string{"sg-55510831"}); err != nil {
		t.Fatal(err)
	}
	after, err := a.matrix()
	if err != nil {
		t.Fatal(err)
	}
	if got := after.cells[0][1]; got != "????" {
		t.Errorf("from CVP to border_01: %q, want it to say that only some interfaces may", got)
	}
	if len(after.differences(table(expectBefore).cells)) != 5 {
		t.Errorf("differences: %v, want the five ways to border_01", after.differences(table(expectBefore).cells))
	}
	if text := after.Text(before.cells, width); !strings.Contains(text, "[?][?][?][?]") {
		t.Errorf("nothing is marked in\n%s", text)
	}
	if got := changed(bystanders(asPublished(t)), bystanders(a.regionState())); len(got) != 0 {
		t.Errorf("an interface of the story's VMs counts as bystander: %v", got)
	}
}

func asPublished(t *testing.T) aws.RegionState {
	t.Helper()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	r, err := regionOf(state)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMatrixIsPrintedWithinTheWidth(t *testing.T) {
	m, err := published(t).matrix()
	if err != nil {
		t.Fatal(err)
	}
	text := m.Text(table(expectGuarded).cells, width)
	narrow := m.Text(table(expectGuarded).cells, narrowest)
	for line := range strings.Lines(narrow) {
		if len(line) > narrowest+1 && !strings.HasPrefix(line, legendMark) {
			t.Errorf("%d columns on a narrow terminal: %s", len(line), line)
		}
	}
	for _, want := range []string{"  border_01        s h t p          -          s*h*t*p    s*h*t*p   s h t p\n", "* has changed"} {
		if !strings.Contains(narrow, want) {
			t.Errorf("no %q in\n%s", want, narrow)
		}
	}
	for line := range strings.Lines(text) {
		if len(line) > width+1 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	for _, want := range []string{
		"  border_01         s  h  t  p       -            [s][h][t] p   [s][h][t] p    s  h  t  p\n",
		"  203.0.113.7      [s] .  .  .      [s] .  .  .   [s] .  .  .   [s] .  .  .    -\n",
		"[ ] has changed",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(m.Text(nil, width), "changed") {
		t.Error("a matrix without a former one speaks of changes")
	}
}

func TestPristineIsWhatTheSimulatorStartsFrom(t *testing.T) {
	if got := changed(objects(asPublished(t)), objects(published(t).regionState())); len(got) != 0 {
		t.Errorf("nothing was done, but %v", got)
	}
}

func TestChangesOfBystandersAreSeen(t *testing.T) {
	a := published(t)
	r, err := a.server.World().Region(a.regionState().Account, region)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CreateTags([]string{"sg-331ad04e", "eni-0681f828", "vpc-925131f4", vpcID}, []aws.Tag{{Key: "touched", Value: "yes"}}); err != nil {
		t.Fatal(err)
	}
	want := []string{"VPC vpc-925131f4 has changed", "interface eni-0681f828 has changed", "security group sg-331ad04e has changed"}
	if diff := cmp.Diff(want, changed(bystanders(asPublished(t)), bystanders(a.regionState()))); diff != "" {
		t.Error(diff)
	}
}
