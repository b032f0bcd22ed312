package transition_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
	"github.com/nephele-io/nephele/internal/cloud/plan/model/modeltest"
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
		if err := modeltest.Refuses(m, s.Network, s.Op, c.Limits); err != nil {
			t.Fatalf("%s: %v", s.Op, err)
		}
		if err := m.Apply(s.Network, s.Op); err != nil {
			t.Fatalf("%s: %v", s.Op, err)
		}
	}
	return m.Snapshot()
}

// TestForeignCircle: two interfaces admit one another by a foreign group, before and by groups of
// ours after. One of them joins before and leaves after the other has moved; without a slot for
// that the change is blocked, and nothing moves, unless the flows of one may pause.
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
	c.Pausing = map[string][]string{"eni-a": nil}
	o = transition.NewSurvey(c).Plan()
	if end := play(t, c, o); len(o.Blocked) > 0 || end.Interfaces[0].GroupIDs[0] != a || end.Interfaces[1].GroupIDs[0] != b {
		t.Errorf("if the flows of one may pause: %+v, blocked %+v", end, o.Blocked)
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

// TestWholeGroup: where a cloud writes the rules of a group as one, those that come and those that
// go take one step; where others have to move in between, two.
func TestWholeGroup(t *testing.T) {
	id := "sg-1"
	group := func(ports ...int) *cloud.Snapshot {
		var rules []cloud.Rule
		for _, p := range ports {
			rules = append(rules, from(p, id))
		}
		s := snapshot(map[string][]cloud.Rule{id: rules}, []string{id}, []string{id})
		s.Groups[0].Name = ours + "x"
		return s
	}
	c := change(group(1, 2, 3), group(3, 4, 5))
	c.Limits.WholeGroups = true
	o := transition.NewSurvey(c).Plan()
	if len(o.Blocked) > 0 || len(o.Steps) != 1 || o.Steps[0].Op.Kind != cloud.OpSetRules {
		t.Fatalf("%+v", o)
	}
	if op := o.Steps[0].Op; len(op.Rules) != 3 || len(op.Added()) != 2 || len(op.Removed()) != 2 {
		t.Errorf("%+v", op)
	}
	if end := play(t, c, o); len(end.Groups[0].Rules) != 3 || !slices.ContainsFunc(end.Groups[0].Rules, from(4, id).Same) {
		t.Errorf("%+v", end.Groups[0].Rules)
	}
	open := func(port int) *cloud.Snapshot {
		s := group(port)
		s.Groups[0].Rules[0].Peer = cloud.Peer{CIDR: netip.MustParsePrefix("203.0.113.0/24")}
		return s
	}
	c = change(open(1), open(2))
	c.Limits.WholeGroups = true
	c.End = open(1) // what the next change brings back is not cut by this one
	if o := transition.NewSurvey(c).Plan(); slices.ContainsFunc(o.Steps, func(s transition.Step) bool { return s.Op.Kind == cloud.OpSetRules }) {
		t.Errorf("%+v", o)
	}
}

// TestConflicts: a flow that the old state stops at one end and the new state at the other makes
// the end that becomes wider wait.
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

// two adds a second network with one interface, that is not connected with the first one.
func two(s *cloud.Snapshot, rules []cloud.Rule, doomed bool) *cloud.Snapshot {
	s.Networks = append(s.Networks, cloud.Network{ID: "vpz"})
	s.Interfaces = append(s.Interfaces, cloud.Interface{ID: "eni-z", NetworkID: "vpz", GroupIDs: []string{"sg-z"},
		PrivateIPs: []netip.Addr{netip.MustParseAddr("10.0.9.1")}})
	s.Groups = append(s.Groups, cloud.Group{ID: "sg-z", Name: ours + "z", NetworkID: "vpz", Rules: rules})
	if doomed {
		s.Groups = append(s.Groups, cloud.Group{ID: "sg-zz", Name: ours + "zz", NetworkID: "vpz"})
	}
	return s
}

// TestBlockedNetworkHoldsUpNobody: what is blocked in one network does not keep another one from
// its end.
func TestBlockedNetworkHoldsUpNobody(t *testing.T) {
	a, b := model.PlannedGroupID+"vpc/"+ours+"a", model.PlannedGroupID+"vpc/"+ours+"b"
	native := map[string][]cloud.Rule{"sg": {all(cloud.Ingress, "sg"), all(cloud.Egress, "sg")}}
	is := two(snapshot(native, []string{"sg"}, []string{"sg"}), nil, true)
	want := two(snapshot(map[string][]cloud.Rule{
		"sg": native["sg"], a: {all(cloud.Ingress, b), all(cloud.Egress, b)}, b: {all(cloud.Ingress, a), all(cloud.Egress, a)},
	}, []string{a}, []string{b}), []cloud.Rule{from(1, "sg-z")}, false)
	for _, s := range []*cloud.Snapshot{is, want} {
		slices.SortFunc(s.Groups, func(a, b cloud.Group) int { return strings.Compare(a.ID, b.ID) })
	}
	for i := range want.Networks {
		want.Networks[i].Tags = map[string]string{"mark": "done"}
	}
	c := change(is, want)
	c.Limits.GroupsPerInterface, c.Mark = 1, "mark"
	o := transition.NewSurvey(c).Plan()
	if len(o.Blocked) == 0 || slices.ContainsFunc(o.Blocked, func(v transition.Violation) bool { return v.Network != "vpc" }) {
		t.Errorf("blocked: %+v", o.Blocked)
	}
	end := model.New(play(t, c, o))
	if g := end.Group("sg-z"); len(g.Rules) != 1 || end.Group("sg-zz") != nil || end.Network("vpz").Tags["mark"] != "done" {
		t.Errorf("the other network is not done: %+v, %v", g, end.Network("vpz").Tags)
	}
	if tags := end.Network("vpc").Tags; tags["mark"] != "" {
		t.Errorf("the blocked one is said to be done: %v", tags)
	}
}

// TestAlikeInterfacesMoveTogether: two interfaces that hold the same group admit one of them by its
// address, and by a foreign group in the end, with no slot to hold both. They are blocked until
// their flows may pause.
func TestAlikeInterfacesMoveTogether(t *testing.T) {
	rule := cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 80, 80), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("10.0.0.2/32")}}
	out := cloud.Rule{Direction: cloud.Egress, Match: cloud.NewMatch(-1, -1, -1), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("10.0.0.0/8")}}
	native := []cloud.Rule{from(80, "sg"), out}
	is := snapshot(map[string][]cloud.Rule{"sg": native, "sg-o": {rule, out}}, []string{"sg-o"}, []string{"sg-o"})
	want := snapshot(map[string][]cloud.Rule{"sg": native}, []string{"sg"}, []string{"sg"})
	is.Groups[1].Name = ours + "o"
	c := change(is, want)
	c.Limits.GroupsPerInterface = 1
	if o := transition.NewSurvey(c).Plan(); len(o.Blocked) == 0 {
		t.Errorf("%+v", o.Steps)
	}
	c.Pausing = map[string][]string{"eni-a": nil, "eni-b": nil}
	o := transition.NewSurvey(c).Plan()
	if end := play(t, c, o); len(o.Blocked) > 0 || end.Interfaces[0].GroupIDs[0] != "sg" || end.Interfaces[1].GroupIDs[0] != "sg" {
		t.Errorf("%+v, blocked %+v", end, o.Blocked)
	}
}

// TestPutByHandIsUndoneFirst: interfaces that somebody has put into a group leave it before
// anything else, though they miss one another meanwhile.
func TestPutByHandIsUndoneFirst(t *testing.T) {
	among := func(group string) []cloud.Rule {
		return []cloud.Rule{all(cloud.Ingress, group), all(cloud.Egress, group)}
	}
	state := func(held ...string) *cloud.Snapshot {
		s := snapshot(map[string][]cloud.Rule{"sg-o": nil, "sg-own": among("sg-own"), "sg-put": among("sg-put")}, held, held)
		s.Groups[0].Name = ours + "o"
		return s
	}
	c := change(state("sg-o", "sg-put"), state("sg-own"))
	c.Pausing = map[string][]string{"eni-a": {"sg-put"}, "eni-b": {"sg-put"}}
	o := transition.NewSurvey(c).Plan()
	var held []string
	for _, s := range o.Steps {
		held = append(held, strings.Join(s.Op.GroupIDs, " "))
	}
	if !slices.Equal(held, []string{"sg-o", "sg-o", "sg-own", "sg-own"}) || len(o.Blocked) > 0 {
		t.Errorf("%q, blocked %+v", held, o.Blocked)
	}
	play(t, c, o)
}

// TestKeptInBetween: what an interface is allowed now and by the state in between is not cut on the
// way to that, though a later change takes it away.
func TestKeptInBetween(t *testing.T) {
	open := cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 80, 80), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("203.0.113.0/24")}}
	state := func(a, b []cloud.Rule, holdsA, holdsB string) *cloud.Snapshot {
		s := snapshot(map[string][]cloud.Rule{"sg-a": a, "sg-b": b, "sg-c": nil}, []string{holdsA}, []string{holdsB})
		for i := range s.Groups {
			s.Groups[i].Name = ours + s.Groups[i].ID
		}
		return s
	}
	c := change(state([]cloud.Rule{open}, nil, "sg-a", "sg-b"), state(nil, []cloud.Rule{open}, "sg-b", "sg-c"))
	c.End = state(nil, nil, "sg-b", "sg-c")
	o := transition.NewSurvey(c).Plan()
	if len(o.Blocked) > 0 {
		t.Fatalf("blocked: %+v", o.Blocked)
	}
	m := model.New(c.From)
	for _, s := range o.Steps {
		if err := m.Apply(s.Network, s.Op); err != nil {
			t.Fatal(err)
		}
		if held := m.Snapshot().Interfaces[0].GroupIDs; !slices.ContainsFunc(m.Group(held[0]).Rules, open.Same) {
			t.Errorf("cut off by %s", s.Op)
		}
	}
}
