package plan_test

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// database is small() where the group of interface 1, whose VM is not selected, names the group of
// interface 0, which is taken over.
func database() *estate {
	e := small()
	e.Groups[2].Rules = append(e.Groups[2].Rules, cloud.Rule{
		Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 5432, 5432), Peer: cloud.Peer{GroupID: "#1"},
	})
	e.VMs[1].Selected = false
	return e
}

func twinsOf(g *cloud.Group) (out []cloud.Rule) {
	for _, r := range g.Rules {
		if strings.HasPrefix(r.Description, "nephele.io/follow ") {
			out = append(out, r)
		}
	}
	return out
}

func TestFollow(t *testing.T) {
	e := database()
	e.Follows = []int{2}
	f := e.cloud()
	was := slices.Clone(f.group(groupID(2)).Rules)
	if res := settle(t, e, f, nil); len(res.Refusals) > 0 {
		t.Errorf("refused: %+v", res.Refusals)
	}
	if got := f.nic(nicID(0)).Tags[cloud.TagFormer]; got != groupID(1) {
		t.Fatalf("not taken over: %q", got)
	}
	twins := twinsOf(f.group(groupID(2)))
	if len(twins) != 1 || twins[0].Peer.GroupID == "" || !strings.HasSuffix(twins[0].Description, " "+groupID(1)) {
		t.Fatalf("the twins are %+v", twins)
	}
	if !admits(f, 1, "10.0.0.10", nicID(0), 5432) || admits(f, 1, "10.0.0.12", nicID(2), 5432) {
		t.Error("the database does not admit just those that it admitted")
	}

	// Somebody removes it, and writes rules that look like ours: of another controller, and without
	// the mark.
	others := []cloud.Rule{
		{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 1, 1), Peer: twins[0].Peer, Description: "nephele.io/follow another a/b " + groupID(1)},
		{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 2, 2), Peer: cloud.Peer{GroupID: groupID(1)}, Description: "mine"},
	}
	g := f.group(groupID(2))
	g.Rules = append(slices.DeleteFunc(g.Rules, func(r cloud.Rule) bool { return r.Same(twins[0]) }), others...)
	slices.SortFunc(g.Rules, cloud.Rule.Compare)
	settle(t, e, f, nil)
	if got := twinsOf(f.group(groupID(2))); len(got) != 3 {
		t.Errorf("after an edit by hand: %+v", got) // the first one again, one for port 2, and that of the other controller
	}

	e.History[0].Policies = nil
	settle(t, e, f, nil)
	g = f.group(groupID(2))
	g.Rules = slices.DeleteFunc(g.Rules, func(r cloud.Rule) bool { return r.Match.Protocol == cloud.TCP && r.Match.From < 3 })
	for i := range g.Rules {
		g.Rules[i].ID = ""
	}
	if !reflect.DeepEqual(g.Rules, was) {
		t.Errorf("given back with the rules %v, want %v", g.Rules, was)
	}
}

// TestForgedTwin: the owner of a group that is followed describes rules of his own as twins of
// ours. At most these rules are removed; the twin stays, and so do all other rules of his and all
// else.
func TestForgedTwin(t *testing.T) {
	e := database()
	e.Follows = []int{2}
	f := e.cloud()
	settle(t, e, f, nil)
	g := f.group(groupID(2))
	twins := twinsOf(g)
	if len(twins) != 1 {
		t.Fatalf("the twins are %+v", twins)
	}
	rules := slices.Clone(g.Rules)
	before := f.clone()
	forged := []cloud.Rule{
		{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 22, 22), Peer: twins[0].Peer, Description: twins[0].Description},
		{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 23, 23), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("203.0.113.0/24")}, Description: twins[0].Description},
		{Direction: cloud.Egress, Match: cloud.NewMatch(cloud.TCP, 24, 24), Peer: cloud.Peer{GroupID: groupID(1)}, Description: twins[0].Description},
	}
	g.Rules = append(g.Rules, forged...)
	slices.SortFunc(g.Rules, cloud.Rule.Compare)
	settle(t, e, f, nil)
	left := slices.DeleteFunc(slices.Clone(f.group(groupID(2)).Rules), func(r cloud.Rule) bool { return slices.ContainsFunc(forged, r.Same) })
	for i := range left {
		left[i].ID = ""
	}
	for i := range rules {
		rules[i].ID = ""
	}
	if !reflect.DeepEqual(left, rules) {
		t.Errorf("besides the forged ones there are %v, want %v", left, rules)
	}
	f.group(groupID(2)).Rules, before.group(groupID(2)).Rules = nil, nil
	if !reflect.DeepEqual(f.snap.Groups, before.snap.Groups) || !reflect.DeepEqual(f.snap.Interfaces, before.snap.Interfaces) {
		t.Error("something else was changed")
	}
}

// Without the word of the group's owner nothing of it is touched.
func TestFollowNeedsTheTag(t *testing.T) {
	e := database()
	f := e.cloud()
	was := slices.Clone(f.group(groupID(2)).Rules)
	res := settle(t, e, f, nil)
	if len(res.Policies[0].Failed) != 1 || !reflect.DeepEqual(f.group(groupID(2)).Rules, was) {
		t.Errorf("%+v, rules %v", res.Policies[0], f.group(groupID(2)).Rules)
	}
	f.group(groupID(2)).Tags = map[string]string{cloud.TagFollow: ""}
	settle(t, e, f, nil)
	if len(twinsOf(f.group(groupID(2)))) != 1 {
		t.Fatal("not followed")
	}
	// The owner takes his word back: the twins are his now, and what is under control stays so.
	f.group(groupID(2)).Tags = nil
	was = slices.Clone(f.group(groupID(2)).Rules)
	settle(t, e, f, nil)
	if got := f.group(groupID(2)).Rules; !reflect.DeepEqual(got, was) || len(f.nic(nicID(0)).Tags[cloud.TagFormer]) == 0 {
		t.Errorf("rules %v, want %v", got, was)
	}
}

// The group has no room for a twin.
func TestFollowWithoutRoom(t *testing.T) {
	e := database()
	e.Follows = []int{2}
	e.Limits.RulesPerGroup = 2
	f := e.cloud()
	res := settle(t, e, f, nil)
	if s := res.Policies[0]; len(s.Failed) != 1 || !s.Failed[0].Why.Is(reason.FollowNoRoom) {
		t.Errorf("%+v", s)
	}
	if got := f.nic(nicID(0)).GroupIDs; !slices.Equal(got, []string{groupID(1)}) {
		t.Errorf("taken over all the same: %v", got)
	}
}

// A class that is divided needs two twins where there was one. If there is room for one only, that
// is the one that is there, and the plan ends.
func TestFollowWithoutRoomForAll(t *testing.T) {
	e := database()
	e.Follows = []int{2}
	for i := range 57 {
		e.Groups[2].Rules = append(e.Groups[2].Rules, cloud.Rule{
			Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 9000+i, 9000+i), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("192.0.2.0/24")},
		})
	}
	e.NICs[2].Groups = []int{1}
	e.History[0].Applied[0] = []int{0, 2}
	f := e.cloud()
	f.next = 100
	settle(t, e, f, nil)
	if !admits(f, 1, "10.0.0.10", nicID(0), 5432) || !admits(f, 1, "10.0.0.12", nicID(2), 5432) {
		t.Fatal("the database does not admit the members of the group that it names")
	}
	twin := twinsOf(f.group(groupID(2)))
	more := e.History[0].Policies[0]
	more.Applied, more.Rules = []int{1}, []ruleSpec{{Action: "Allow", Blocks: []blockSpec{{CIDR: "198.51.100.0/24"}}}}
	e.History[0].Policies, e.History[0].Applied = append(e.History[0].Policies, more), append(e.History[0].Applied, []int{0})
	f.next = 0 // IDs have no order
	res := settle(t, e, f, nil)
	if got := twinsOf(f.group(groupID(2))); !reflect.DeepEqual(got, twin) {
		t.Errorf("the twins are %v, want %v", got, twin)
	}
	if len(res.Refusals) > 0 || !slices.ContainsFunc(res.Notes, func(n plan.Note) bool { return n.Why.Is(reason.FollowNoRoom) }) {
		t.Errorf("refusals %+v, notes %+v", res.Refusals, res.Notes)
	}
}

func TestCut(t *testing.T) {
	e := database()
	f := e.cloud()
	was := slices.Clone(f.group(groupID(2)).Rules)
	res := settle(t, e, f, func(in *plan.Input) {
		in.Dependents = plan.DependentsRule{Groups: map[string]intent.Dependents{groupID(2): plan.CutDependents}}
	})
	if len(res.Refusals) > 0 || admits(f, 1, "10.0.0.10", nicID(0), 5432) {
		t.Errorf("not cut: %+v", res.Refusals)
	}
	want := []plan.Cut{
		{
			Region:    testRegion,
			Interface: nicID(1),
			VMID:      vmID(1),
			Group:     groupID(2),
			Rule:      cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 5432, 5432), Peer: cloud.Peer{GroupID: groupID(1)}},
			Lost:      []string{nicID(0)},
		},
	}
	if !reflect.DeepEqual(res.Cuts, want) {
		t.Errorf("cuts %+v, want %+v", res.Cuts, want)
	}
	if !reflect.DeepEqual(f.group(groupID(2)).Rules, was) {
		t.Error("somebody else's group was changed")
	}
}

// TestFollowWorlds is TestWorlds where most groups of others may be extended.
func TestFollowWorlds(t *testing.T) {
	t.Parallel()
	seed := uint64(envInt("NEPHELE_PLAN_SEED", 1))
	n := uint64(0)
	st := checkWorlds(t, worldsOneIn(3), func(e *estate) {
		e.follow(rand.New(rand.NewPCG(seed+n, 51)))
		n++
	})
	if st.Twins == 0 {
		t.Error("no rule was added to a group of others; the test shows nothing")
	}
}

func (e *estate) follow(r *rand.Rand) {
	for i := range e.Groups {
		if r.IntN(4) > 0 {
			e.Follows = append(e.Follows, i)
		}
	}
	for i := range e.VMs {
		e.VMs[i].Selected = r.IntN(2) == 0 // others depend on them
	}
}
