package transition_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent/intenttest"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
	"github.com/nephele-io/nephele/internal/cloud/plan/transition"
)

// id is the ID of a group by its short name: ours-a is one of ours, new-a one of ours that is still
// to be created, and all others are somebody else's.
func id(name string) string {
	if short, created := strings.CutPrefix(name, "new-"); created {
		return model.PlannedID("vpc", ours+short)
	}
	return name
}

// region reads a state: a line such as "ours-a: ingress tcp 80 from ours-b, egress all to
// 0.0.0.0/0" is a group with its rules, and "a holds ours-a sg" is the interface eni-a, 10.0.0.1,
// with its groups.
func region(lines ...string) *cloud.Snapshot {
	s := &cloud.Snapshot{Scope: cloud.Scope{Region: "r"}, Networks: []cloud.Network{{ID: "vpc"}}}
	for _, line := range lines {
		if nic, groups, held := strings.Cut(line, " holds "); held {
			n := cloud.Interface{ID: "eni-" + nic, NetworkID: "vpc", PrivateIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, 1 + nic[0] - 'a'})}}
			for g := range strings.FieldsSeq(groups) {
				n.GroupIDs = append(n.GroupIDs, id(g))
			}
			slices.Sort(n.GroupIDs)
			s.Interfaces = append(s.Interfaces, n)
			continue
		}
		name, rules, _ := strings.Cut(line, ":")
		g := cloud.Group{ID: id(name), Name: name, NetworkID: "vpc"}
		if short, is := strings.CutPrefix(strings.TrimPrefix(name, "new-"), "ours-"); is || name != short {
			g.Name = ours + short
		}
		if rules = strings.TrimSpace(rules); rules != "" {
			g.Rules = intenttest.Rules(strings.Split(rules, ", ")...)
		}
		for i := range g.Rules {
			g.Rules[i].Peer.GroupID = id(g.Rules[i].Peer.GroupID)
		}
		s.Groups = append(s.Groups, g)
	}
	slices.SortFunc(s.Groups, func(a, b cloud.Group) int { return strings.Compare(a.ID, b.ID) })
	return s
}

// steps says in what order what is done: the stage, the kind and the object, with the rules or
// groups.
func steps(o transition.Order) string {
	var out []string
	stage := -1
	for _, s := range o.Steps {
		text := fmt.Sprint(strings.TrimSuffix(string(s.Op.Kind), "InterfaceGroups"), " ", strings.Replace(strings.Join(append([]string{s.Op.Subject()}, s.Op.Others...), "+"), ours, "ours-", 1))
		if len(s.Op.Others) > 0 {
			text = fmt.Sprint(s.Op.Kind, " ", strings.Join(s.Op.Subjects(), "+"))
		}
		var parts []string
		for i, r := range s.Op.Rules {
			part := r.String()
			if s.Op.Kind == cloud.OpReplaceRules {
				part = s.Op.Replaced[i].String() + " -> " + part
			}
			parts = append(parts, strings.ReplaceAll(part, "group "+ours, "new-"))
		}
		parts = append(parts, s.Op.GroupIDs...)
		for _, name := range s.Op.GroupNames {
			parts = append(parts, "new-"+strings.TrimPrefix(name, ours))
		}
		for _, key := range slices.Sorted(maps.Keys(s.Op.Tags)) {
			parts = append(parts, key+"="+s.Op.Tags[key])
		}
		if len(parts) > 0 {
			text += " (" + strings.Join(parts, ", ") + ")"
		}
		if s.Urgent {
			text = "urgent " + text
		}
		if between := ", then "; s.Stage == stage {
			out[len(out)-1] += " & " + text
		} else if stage = s.Stage; len(out) > 0 {
			out = append(out, between+text)
		} else {
			out = append(out, text)
		}
	}
	return strings.Join(out, "")
}

// allows is what an interface allows by its groups.
func allows(s *cloud.Snapshot, nic string) (out [2]flow.Permit) {
	v := model.NewView(s)
	n := s.Interface(nic)
	for i, d := range flow.Directions() {
		out[i] = v.Permit(v.Rules(n.GroupIDs, d), n.NetworkID)
	}
	return out
}

// clean fails if, after any of the steps, an interface allows what it allows neither before nor
// after, or lacks what it allows both before and after.
func clean(t *testing.T, name string, c transition.Change, o transition.Order) *cloud.Snapshot {
	t.Helper()
	m := model.New(c.From)
	for _, s := range o.Steps {
		if err := m.Apply(s.Network, s.Op); err != nil {
			t.Fatalf("%s: %s: %v", name, s.Op, err)
		}
		for _, n := range c.From.Interfaces {
			was, will, is := allows(c.From, n.ID), allows(c.To, n.ID), allows(m.Snapshot(), n.ID)
			for i, d := range flow.Directions() {
				if leak := is[i].Minus(was[i].Union(will[i])); len(leak) > 0 {
					t.Errorf("%s: after %s %s allows in %s %v", name, s.Op, n.ID, d, leak)
				}
				if gap := was[i].Intersect(will[i]).Minus(is[i]); len(gap) > 0 {
					t.Errorf("%s: after %s %s lacks in %s %v", name, s.Op, n.ID, d, gap)
				}
			}
		}
	}
	return m.Snapshot()
}

// TestSteps: in which order a change is made. No step of any of these opens what is allowed neither
// before nor after, or cuts what is allowed both before and after.
func TestSteps(t *testing.T) {
	type lines = []string
	for name, c := range map[string]struct {
		is, want lines
		change   func(*transition.Change)
		steps    string
		blocked  string
	}{
		"nothing changes": {lines{"ours-a: ingress tcp 80 from 10.0.0.0/8", "a holds ours-a"}, lines{"ours-a: ingress tcp 80 from 10.0.0.0/8", "a holds ours-a"}, nil, "", ""},
		"rules come before members": {lines{"sg: ingress tcp 80 from 10.0.0.0/8", "a holds sg"}, lines{"sg: ingress tcp 80 from 10.0.0.0/8", "new-a: ingress tcp 80 from 10.0.0.0/8", "a holds new-a"}, nil,
			"CreateGroup ours-a, then AddRules ours-a (ingress tcp 80 from 10.0.0.0/8), then Set eni-a (new-a)", ""},
		"members go before their group": {lines{"sg: ", "ours-a: ingress tcp 80 from 10.0.0.0/8", "a holds ours-a"}, lines{"sg: ", "a holds sg"}, nil,
			"Set eni-a (sg), then DeleteGroup ours-a", ""},
		"rules that refer to a group go before it": {lines{"sg: ", "ours-a: ingress tcp 80 from ours-b", "ours-b: ", "a holds ours-a"}, lines{"sg: ", "a holds sg"}, nil,
			"Set eni-a (sg), then RemoveRules ours-a (ingress tcp 80 from ours-b), then DeleteGroup ours-a & DeleteGroup ours-b", ""},
		"of rules what comes does before what goes": {lines{"ours-a: ingress tcp 80 from 10.0.0.0/8", "a holds ours-a"}, lines{"ours-a: egress tcp 80 to 10.0.0.0/8, egress udp 1 to 10.0.0.0/8", "a holds ours-a"}, nil,
			"AddRules ours-a (egress tcp 80 to 10.0.0.0/8, egress udp 1 to 10.0.0.0/8), then RemoveRules ours-a (ingress tcp 80 from 10.0.0.0/8)", ""},
		"a rule with the same peer is turned into another": {lines{"ours-a: ingress tcp 80 from 10.0.0.0/8", "a holds ours-a"}, lines{"ours-a: ingress tcp 81 from 10.0.0.0/8", "a holds ours-a"}, nil,
			"ReplaceRules ours-a (ingress tcp 80 from 10.0.0.0/8 -> ingress tcp 81 from 10.0.0.0/8)", ""},
		"a peer that moves goes on being let in": {lines{"ours-a: ingress tcp 80 from ours-b", "ours-b: egress all to 10.0.0.0/8", "ours-c: egress all to 10.0.0.0/8", "a holds ours-a", "b holds ours-b"},
			lines{"ours-a: ingress tcp 80 from ours-c", "ours-b: egress all to 10.0.0.0/8", "ours-c: egress all to 10.0.0.0/8", "a holds ours-a", "b holds ours-c"}, nil,
			"AddRules ours-a (ingress tcp 80 from ours-c), then Set eni-b (ours-c), then RemoveRules ours-a (ingress tcp 80 from ours-b)", ""},
		"a member that is not to be let in any more leaves at once": {lines{"ours-a: ingress tcp 80 from ours-b", "ours-b: ", "ours-c: ", "a holds ours-a", "b holds ours-b"},
			lines{"ours-a: ingress tcp 80 from ours-b", "ours-b: ", "ours-c: ", "a holds ours-a", "b holds ours-c"}, nil, "Set eni-b (ours-c)", ""},
		"interfaces alike move together": {lines{"sg: ", "ours-a: ", "a holds sg", "b holds sg"}, lines{"sg: ", "ours-a: ", "a holds ours-a", "b holds ours-a"}, nil,
			"Set eni-a (ours-a) & Set eni-b (ours-a)", ""},
		"in a full region no group comes": {lines{"sg: ", "a holds sg"}, lines{"sg: ", "new-a: ", "a holds new-a"}, func(c *transition.Change) { c.Limits.GroupsPerRegion = 1 },
			"", "room new-a 2 of 1; room new-a 0 of 0"},
		"unless one goes first": {lines{"sg: ", "ours-b: ", "a holds sg"}, lines{"sg: ", "new-a: ", "a holds new-a"}, func(c *transition.Change) { c.Limits.GroupsPerRegion = 2 },
			"DeleteGroup ours-b, then CreateGroup ours-a, then Set eni-a (new-a)", ""},
		"a full group takes no more rules": {lines{"ours-a: ingress tcp 1 from 10.0.0.0/8, ingress tcp 2 from 10.0.0.0/8, ingress tcp 3 from 10.0.0.0/8", "a holds ours-a"},
			lines{"ours-a: ingress tcp 1 from 10.0.0.0/8, ingress tcp 2 from 10.0.0.0/8, ingress tcp 3 from 10.0.0.0/8, egress tcp 4 to 10.0.0.0/8", "a holds ours-a"}, nil, "", "room ours-a 4 of 60 egress"},
		"one rule goes and the next has room": {lines{"ours-a: ingress tcp 1 from 10.0.0.0/8, ingress tcp 2 from 10.0.0.0/8, ingress tcp 3 from 10.0.0.0/8", "a holds ours-a"},
			lines{"ours-a: ingress tcp 1 from 10.0.0.0/8, ingress tcp 2 from 10.0.0.0/8, egress tcp 4 to 10.0.0.0/8", "a holds ours-a"}, nil,
			"RemoveRules ours-a (ingress tcp 3 from 10.0.0.0/8), then AddRules ours-a (egress tcp 4 to 10.0.0.0/8)", ""},
		"what is nobody's is not touched": {lines{"sg: ingress tcp 80 from 10.0.0.0/8", "a holds sg"}, lines{"sg: ingress tcp 80 from 10.0.0.0/8", "a holds sg"}, nil, "", ""},
		"an urgent interface goes first": {lines{"sg: ", "ours-a: ", "ours-b: ingress tcp 80 from 10.0.0.0/8", "a holds ours-a", "b holds ours-b"},
			lines{"sg: ", "ours-a: ", "ours-b: ingress tcp 80 from 10.0.0.0/8, egress all to 10.0.0.0/8", "a holds sg", "b holds ours-b"}, func(c *transition.Change) { c.Urgent = map[string]bool{"eni-a": true} },
			"urgent Set eni-a (sg), then AddRules ours-b (egress all to 10.0.0.0/8)", ""},
	} {
		ch := change(region(c.is...), region(c.want...))
		if c.change != nil {
			c.change(&ch)
		}
		o := transition.NewSurvey(ch).Plan()
		if got := steps(o); got != c.steps {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.steps)
		}
		var blocked []string
		for _, v := range o.Blocked {
			blocked = append(blocked, strings.TrimSpace(fmt.Sprintf("%s %s %d of %d %s", v.Kind, strings.Replace(v.Group, model.PlannedID("vpc", ours), "new-", 1), v.Needed, v.Available, v.Rule.Direction)))
		}
		if got := strings.Join(slices.Compact(blocked), "; "); got != c.blocked {
			t.Errorf("%s: blocked %q, want %q", name, got, c.blocked)
		}
		end := clean(t, name, ch, o)
		if c.blocked == "" && fmt.Sprint(held(end)) != fmt.Sprint(held(model.New(ch.To).Snapshot())) {
			t.Errorf("%s: in the end %v, want %v", name, held(end), held(ch.To))
		}
		for _, n := range end.Interfaces {
			for _, g := range n.GroupIDs {
				if !o.Holds(g) {
					t.Errorf("%s: %s holds %s, which nobody is said to hold", name, n.ID, g)
				}
			}
		}
	}
}

// held are the groups of interfaces and the rules of groups.
func held(s *cloud.Snapshot) map[string]string {
	out := map[string]string{}
	for _, n := range s.Interfaces {
		out[n.ID] = fmt.Sprint(n.GroupIDs)
	}
	for _, g := range s.Groups {
		out[g.ID] = fmt.Sprint(cloud.RuleKeys(g.Rules))
	}
	return out
}

// TestTags: what is remembered is written when it is so. A mark goes before anything else changes,
// and is written last, by a call of its own; what is written first says the change.
func TestTags(t *testing.T) {
	tags := func(s *cloud.Snapshot, object string, pairs ...string) *cloud.Snapshot {
		at := map[string]string{}
		for _, p := range pairs {
			key, value, _ := strings.Cut(p, "=")
			at[key] = value
		}
		switch {
		case object == "vpc":
			s.Networks[0].Tags = at
		case strings.HasPrefix(object, "eni-"):
			s.Interface(object).Tags = at
		default:
			s.Group(object).Tags = at
		}
		return s
	}
	plain := func(rules string) *cloud.Snapshot {
		return region("sg: ", "ours-a: "+rules, "a holds ours-a", "b holds ours-a", "c holds ours-a")
	}
	const before, after = "", "egress all to 10.0.0.0/8"
	for name, c := range map[string]struct {
		is, want *cloud.Snapshot
		change   func(*transition.Change)
		steps    string
	}{
		"a mark stands for what is done": {tags(plain(before), "vpc", "mark=1"), tags(plain(after), "vpc", "mark=2"), nil,
			"Untag vpc (mark=1) & AddRules ours-a (egress all to 10.0.0.0/8), then Tag vpc (mark=2)"},
		"where nothing else changes it is written at once": {tags(plain(before), "vpc", "mark=1"), tags(plain(before), "vpc", "mark=2"), nil, "Tag vpc (mark=2)"},
		"tags of networks come before the mark, at the end": {tags(plain(before), "vpc"), tags(plain(after), "vpc", "k=v", "mark=2"), nil,
			"AddRules ours-a (egress all to 10.0.0.0/8), then Tag vpc (k=v), then Tag vpc (mark=2)"},
		"unless they are to be first": {tags(plain(before), "vpc"), tags(plain(after), "vpc", "k=v"), func(c *transition.Change) {
			c.First = func(key string, g *cloud.Group) bool { return key == "k" }
		}, "Tag vpc (k=v), then AddRules ours-a (egress all to 10.0.0.0/8)"},
		"interfaces with the same tags take one call": {plain(before), tags(tags(tags(plain(before), "eni-a", "k=v"), "eni-b", "k=v"), "eni-c", "k=w"), nil, "Tag eni-a+eni-b (k=v) & Tag eni-c (k=w)"},
		"of as many as one call takes": {plain(before), tags(tags(tags(plain(before), "eni-a", "k=v"), "eni-b", "k=v"), "eni-c", "k=v"), func(c *transition.Change) { c.Batch = 2 },
			"Tag eni-a+eni-b (k=v) & Tag eni-c (k=v)"},
		"what comes is written before what goes is removed": {tags(plain(before), "eni-a", "old=1"), tags(plain(before), "eni-a", "new=1"), nil, "Tag eni-a (new=1), then Untag eni-a (old=1)"},
		"and emptied by the same call if the two are read together": {tags(plain(before), "eni-a", "j=1", "j.1=2"), tags(plain(before), "eni-a", "j=3"), func(c *transition.Change) { c.Joint = "j" },
			"Tag eni-a (j=3, j.1=), then Untag eni-a (j.1=)"},
		"groups are told at the end": {tags(plain(before), "ours-a", "k=1"), tags(plain(after), "ours-a", "k=2"), nil, "AddRules ours-a (egress all to 10.0.0.0/8), then Tag ours-a (k=2)"},
	} {
		ch := change(c.is, c.want)
		ch.Mark = "mark"
		if c.change != nil {
			c.change(&ch)
		}
		if got := steps(transition.NewSurvey(ch).Plan()); got != c.steps {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.steps)
		}
	}
}

// TestDescriptions: a rule that is not called ours is, if the cloud keeps descriptions.
// One with any description of ours keeps it.
func TestDescriptions(t *testing.T) {
	state := func(texts ...string) *cloud.Snapshot {
		s := region("ours-a: ingress tcp 80 from 10.0.0.0/8, ingress tcp 81 from 10.0.0.0/8", "a holds ours-a")
		for i, text := range texts {
			s.Groups[0].Rules[i].Description = text
		}
		return s
	}
	for name, c := range map[string]struct {
		is   *cloud.Snapshot
		want string
	}{
		"all are ours":                 {state("ours: one", "ours: two"), ""},
		"one is not":                   {state("mine", "ours: two"), "ReplaceRules ours-a (ingress tcp 80 from 10.0.0.0/8 -> ingress tcp 80 from 10.0.0.0/8)"},
		"the cloud seems to keep none": {state("", ""), ""},
	} {
		ch := change(c.is, state())
		ch.Described = func(text string) bool { return strings.HasPrefix(text, "ours") }
		if got := steps(transition.NewSurvey(ch).Plan()); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestWhoWaits: of two interfaces of which one becomes narrower and the other wider towards it, the
// one that becomes wider waits, in this region or across two.
func TestWhoWaits(t *testing.T) {
	type lines = []string
	is := lines{"ours-a: ", "ours-b: egress tcp 80 to 10.0.0.1/32", "a holds ours-a", "b holds ours-b"}
	want := lines{"ours-a: ingress tcp 80 from 10.0.0.2/32", "ours-b: ", "a holds ours-a", "b holds ours-b"}
	for name, c := range map[string]struct {
		is, want lines
		change   func(*transition.Change)
		held     string
		hasty    string
	}{
		"the wider one waits":               {is, want, nil, "map[eni-a:[true false]]", "[]"},
		"not for another port":              {is, lines{"ours-a: ingress tcp 81 from 10.0.0.2/32", "ours-b: ", "a holds ours-a", "b holds ours-b"}, nil, "map[]", "[]"},
		"nor for another address":           {is, lines{"ours-a: ingress tcp 80 from 10.0.0.9/32", "ours-b: ", "a holds ours-a", "b holds ours-b"}, nil, "map[]", "[]"},
		"both become wider":                 {want[:0:0], nil, nil, "map[]", "[]"},
		"one that is urgent waits for none": {is, want, func(c *transition.Change) { c.Urgent = map[string]bool{"eni-a": true} }, "map[]", "[]"},
		"one that nobody holds back makes the other go in two steps": {is, want, func(c *transition.Change) { c.Beyond = map[string]bool{"eni-a": true} },
			"map[eni-a:[true false] eni-b:[false true]]", "[]"},
		"one that is given back does not wait for one that stays still": {
			lines{"sg: ingress tcp 80 from 10.0.0.2/32", "ours-a: ", "ours-b: egress tcp 80 to ours-a", "a holds ours-a", "b holds ours-b"},
			lines{"sg: ingress tcp 80 from 10.0.0.2/32", "ours-a: ", "ours-b: egress tcp 80 to ours-a", "a holds sg", "b holds ours-b"},
			func(c *transition.Change) {
				c.Leaving, c.Still, c.Apart = map[string]bool{"eni-a": true}, map[string]bool{"eni-b": true}, map[string]bool{"eni-a": true}
			}, "map[]", "[eni-a]"},
	} {
		ch := change(region(c.is...), region(c.want...))
		if c.change != nil {
			c.change(&ch)
		}
		s := transition.NewSurvey(ch)
		held := s.Conflicts()
		if got := fmt.Sprint(held); got != c.held || fmt.Sprint(s.Hasty()) != c.hasty {
			t.Errorf("%s: held back %s, want %s; not waiting %v, want %s", name, got, c.held, s.Hasty(), c.hasty)
		}
	}
	// The same two, of which each is in a region of its own.
	here := transition.NewSurvey(change(region(is[0], is[2]), region(want[0], want[2])))
	there := transition.NewSurvey(change(region(is[1], is[3]), region(want[1], want[3])))
	if held := fmt.Sprint(here.Across(there), there.Across(here), here.Conflicts(), there.Conflicts()); held != "map[eni-a:[true false]] map[] map[] map[]" {
		t.Errorf("across regions: %s", held)
	}
}

// TestBreaksOffAnywhere: whatever part of a plan was done, the next one, made of what is observed
// then, leads to the same end, and no moment of the two is unclean.
func TestBreaksOffAnywhere(t *testing.T) {
	type lines = []string
	const among = "ingress all from 10.0.0.0/8, egress all to 10.0.0.0/8"
	for name, c := range map[string]struct{ is, want lines }{
		"taken over": {lines{"sg: " + among, "a holds sg", "b holds sg"}, lines{"sg: " + among, "new-a: ingress tcp 80 from new-b, egress all to 10.0.0.0/8", "new-b: " + among, "a holds new-a", "b holds new-b"}},
		"given back": {lines{"sg: " + among, "ours-a: ingress tcp 80 from ours-b, egress all to 10.0.0.0/8", "ours-b: " + among, "a holds ours-a", "b holds ours-b"}, lines{"sg: " + among, "a holds sg", "b holds sg"}},
		"one moves, and a rule with it": {lines{"ours-a: ingress tcp 80 from ours-b", "ours-b: " + among, "ours-c: " + among, "a holds ours-a", "b holds ours-b"},
			lines{"ours-a: ingress tcp 80 from ours-c, ingress tcp 81 from ours-c", "ours-c: " + among, "a holds ours-a", "b holds ours-c"}},
	} {
		whole := change(region(c.is...), region(c.want...))
		o := transition.NewSurvey(whole).Plan()
		if len(o.Steps) < 3 || len(o.Blocked) > 0 {
			t.Fatalf("%s: %d steps, blocked %+v", name, len(o.Steps), o.Blocked)
		}
		for done := range o.Steps {
			m := model.New(whole.From)
			for _, s := range o.Steps[:done] {
				if err := m.Apply(s.Network, s.Op); err != nil {
					t.Fatal(err)
				}
			}
			rest := change(m.Snapshot(), whole.To)
			again := transition.NewSurvey(rest).Plan()
			end := clean(t, fmt.Sprintf("%s, after %d steps", name, done), rest, again)
			if len(again.Blocked) > 0 || fmt.Sprint(held(end)) != fmt.Sprint(held(whole.To)) {
				t.Errorf("%s, after %d steps: in the end %v, want %v, blocked %+v", name, done, held(end), held(whole.To), again.Blocked)
			}
		}
	}
}
