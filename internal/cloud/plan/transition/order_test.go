package transition_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
	"github.com/nephele-io/nephele/internal/cloud/plan/transition"
)

const ours = "nephele-"

func from(port int, group string) cloud.Rule {
	return cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, port, port), Peer: cloud.Peer{GroupID: group}}
}

func all(d cloud.Direction, group string) cloud.Rule {
	return cloud.Rule{Direction: d, Match: cloud.NewMatch(-1, -1, -1), Peer: cloud.Peer{GroupID: group}}
}

// snapshot has two interfaces, each with the groups that are given for it.
func snapshot(groups map[string][]cloud.Rule, held ...[]string) *cloud.Snapshot {
	s := &cloud.Snapshot{Scope: cloud.Scope{Region: "r"}, Networks: []cloud.Network{{ID: "vpc"}}}
	for id, rules := range groups {
		s.Groups = append(s.Groups, cloud.Group{ID: id, Name: strings.TrimPrefix(id, model.PlannedGroupID+"vpc/"), NetworkID: "vpc", Rules: rules})
	}
	slices.SortFunc(s.Groups, func(a, b cloud.Group) int { return strings.Compare(a.ID, b.ID) })
	for i, g := range held {
		s.Interfaces = append(s.Interfaces, cloud.Interface{ID: []string{"eni-a", "eni-b"}[i], NetworkID: "vpc", GroupIDs: g,
			PrivateIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + i)})}})
	}
	return s
}

func change(is, want *cloud.Snapshot) transition.Change {
	return transition.Change{
		From: is, To: want, Limits: cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 2, GroupsPerRegion: 10},
		Ours: func(g *cloud.Group) bool { return strings.HasPrefix(g.Name, ours) },
		Fits: func(rules []cloud.Rule) bool { return len(rules) <= 3 },
	}
}

// play applies the steps, and fails if the cloud would refuse one.
func play(t *testing.T, c transition.Change, o transition.Order) *cloud.Snapshot {
	t.Helper()
	m := model.New(c.From)
	for _, s := range o.Steps {
		if err := m.Refuses(s.Network, s.Op, c.Limits); err != nil {
			t.Fatalf("%s: %v", s.Op, err)
		}
		if err := m.Apply(s.Network, s.Op); err != nil {
			t.Fatalf("%s: %v", s.Op, err)
		}
	}
	return m.Snapshot()
}

// TestForeignCircle: two interfaces admit one another by a foreign group, before and by groups of ours after. One of them joins
// before and leaves after the other has moved; without a slot for that the change is blocked, and nothing moves.
func TestForeignCircle(t *testing.T) {
	a, b := model.PlannedGroupID+"vpc/"+ours+"a", model.PlannedGroupID+"vpc/"+ours+"b"
	native := map[string][]cloud.Rule{"sg": {all(cloud.Ingress, "sg"), all(cloud.Egress, "sg")}}
	is := snapshot(native, []string{"sg"}, []string{"sg"})
	want := snapshot(map[string][]cloud.Rule{
		"sg": native["sg"], a: {all(cloud.Ingress, b), all(cloud.Egress, b)}, b: {all(cloud.Ingress, a), all(cloud.Egress, a)},
	}, []string{a}, []string{b})
	c := change(is, want)
	o := transition.NewSurvey(c).Plan()
	if len(o.Blocked) > 0 {
		t.Fatalf("blocked: %+v", o.Blocked)
	}
	moves := 0
	for _, s := range o.Steps {
		if s.Op.Kind == cloud.OpSetInterfaceGroups {
			moves++
		}
	}
	if end := play(t, c, o); moves != 3 || end.Interfaces[0].GroupIDs[0] != a || end.Interfaces[1].GroupIDs[0] != b || len(end.Groups[0].Rules) != 2 {
		t.Errorf("%d moves, %+v", moves, end)
	}
	c.Limits.GroupsPerInterface = 1
	o = transition.NewSurvey(c).Plan()
	if !slices.ContainsFunc(o.Blocked, func(v transition.Violation) bool { return v.Kind == transition.Gap && len(v.Interfaces) == 1 }) {
		t.Errorf("blocked: %+v", o.Blocked)
	}
	for _, s := range o.Steps {
		if s.Op.Kind == cloud.OpSetInterfaceGroups {
			t.Errorf("%s", s.Op)
		}
	}
}

// TestFullGroup: a group with no room for both forms of a rule has the one turned into the other.
func TestFullGroup(t *testing.T) {
	id := "sg-1"
	group := func(port int) *cloud.Snapshot {
		s := snapshot(map[string][]cloud.Rule{id: {from(1, id), from(2, id), from(port, id)}}, []string{id}, []string{id})
		s.Groups[0].Name = ours + "x"
		return s
	}
	c := change(group(3), group(4))
	o := transition.NewSurvey(c).Plan()
	if len(o.Blocked) > 0 || len(o.Steps) != 1 || o.Steps[0].Op.Kind != cloud.OpReplaceRules {
		t.Fatalf("%+v", o)
	}
	if end := play(t, c, o); !slices.ContainsFunc(end.Groups[0].Rules, from(4, id).Same) {
		t.Errorf("%+v", end.Groups[0].Rules)
	}
}

// TestConflicts: a flow that the old state stops at one end and the new state at the other makes the end that becomes wider
// wait.
func TestConflicts(t *testing.T) {
	x, y := "sg-x", "sg-y"
	state := func(ingress, egress []cloud.Rule) *cloud.Snapshot {
		s := snapshot(map[string][]cloud.Rule{x: ingress, y: egress}, []string{x}, []string{y})
		s.Groups[0].Name, s.Groups[1].Name = ours+"x", ours+"y"
		return s
	}
	is, want := state(nil, []cloud.Rule{all(cloud.Egress, x)}), state([]cloud.Rule{all(cloud.Ingress, y)}, nil)
	held := transition.NewSurvey(change(is, want)).Conflicts()
	if len(held) != 1 || held["eni-a"] != [2]bool{true, false} {
		t.Errorf("held back: %v", held)
	}
	if held := transition.NewSurvey(change(want, want)).Conflicts(); len(held) != 0 {
		t.Errorf("held back though nothing changes: %v", held)
	}
}
