package design_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan/design"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent/intenttest"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
)

type world = intenttest.World

func settle(w *world) *design.Designer {
	s := design.New(w.Region(), lower.AWS{})
	s.Settle()
	return s
}

func nicOf(s *design.Designer, vm string) *guard.NIC {
	return s.Guard.NICs[slices.IndexFunc(s.Guard.NICs, func(n *guard.NIC) bool { return n.VMID == vm })]
}

// vms returns the VMs of a class, which stand for its name.
func vms(c *form.Class) string {
	var out []string
	for _, n := range c.NICs {
		out = append(out, n.VMID)
	}
	slices.Sort(out)
	text := strings.Join(out, "+")
	if c.Gathers {
		text = "members(" + text + ")"
	}
	return text
}

// groups says which groups a design has: whose each is, "=" if there is one already, and its rules.
// A group that is to be created is called after its VMs, "*" for a further one.
func groups(s *design.Designer) string {
	names := map[string]string{}
	var classes []string
	for _, c := range s.Classes {
		for i, g := range c.Groups {
			names["group "+g.Name] = "new(" + vms(c) + strings.Repeat("*", i) + ")"
		}
	}
	for _, c := range s.Classes {
		for i, g := range c.Groups {
			text := vms(c) + strings.Repeat("*", i)
			if g.Existing != nil {
				text += "=" + g.Existing.ID
			}
			var rules []string
			for _, r := range g.Rules {
				rule := strings.ReplaceAll(r.String(), "all protocols", "all")
				for name, is := range names {
					rule = strings.ReplaceAll(rule, name, is)
				}
				rules = append(rules, rule)
			}
			slices.Sort(rules)
			classes = append(classes, text+" {"+strings.Join(rules, ", ")+"}")
		}
	}
	slices.Sort(classes)
	for _, vm := range s.Guard.Order {
		for _, p := range vm.Policies {
			if why := vm.Left(p); why != nil {
				classes = append(classes, fmt.Sprintf("%s without %s: %s", vm.Ref.ID, p.Ref.Name, why.Code))
			}
		}
	}
	return strings.Join(classes, "; ")
}

func limits(rules, groups int) func(*world) {
	return func(w *world) { w.Limits().RulesPerGroup, w.Limits().GroupsPerInterface = rules, groups }
}

// TestClasses: which interfaces share a group, which groups they get, and what is in them.
func TestClasses(t *testing.T) {
	from := func(vms, peers string) func(*world) {
		return func(w *world) {
			w.Policy(string(rune('p'+len(w.Policies))), vms, "allow ingress tcp 80 from "+peers)
		}
	}
	native := func(group string, rules ...string) func(*world) { return func(w *world) { w.Native(group, rules...) } }
	take := func(vm string, rules ...string) func(*world) { return func(w *world) { w.Take(vm, rules, "p") } }
	join := func(vm, group string) func(*world) {
		return func(w *world) {
			w.NIC(vm).Tags, w.NIC(vm).GroupIDs = record.FormerTags(w.NIC(vm).GroupIDs), []string{group}
		}
	}
	const world10 = "10.9.0.0/16"
	for name, c := range map[string]struct {
		changes []func(*world)
		want    string
	}{
		"nothing is wanted":                               {nil, ""},
		"interfaces that are alike share":                 {[]func(*world){from("web api", world10)}, "api+web {ingress tcp 80 from 10.9.0.0/16}"},
		"a peer has an empty group, by which it is named": {[]func(*world){from("web", "app")}, "app {}; web {ingress tcp 80 from new(app)}"},
		"peers of the same rules share one":               {[]func(*world){from("web", "app api")}, "api+app {}; web {ingress tcp 80 from new(api+app)}"},
		"peers of other rules have their own": {[]func(*world){from("web", "app api"), from("db", "app")},
			"api {}; app {}; db {ingress tcp 80 from new(app)}; web {ingress tcp 80 from new(api), ingress tcp 80 from new(app)}"},
		"a VM that a rule drops is apart, so that the others can be named": {[]func(*world){from("web api", world10), func(w *world) { w.Policy("q", "db", "drop ingress any from api") }},
			"api {ingress tcp 80 from 10.9.0.0/16}; db {}; web {ingress tcp 80 from 10.9.0.0/16}"},
		"a guarded VM that is a peer has one group for both": {[]func(*world){from("web", "app"), from("app", world10)}, "app {ingress tcp 80 from 10.9.0.0/16}; web {ingress tcp 80 from new(app)}"},

		"where their own groups decide, the rules of these matter": {[]func(*world){from("web api", world10), native("sg-web", "egress tcp 1 to 10.8.0.0/16")},
			"api {ingress tcp 80 from 10.9.0.0/16}; web {egress tcp 1 to 10.8.0.0/16, ingress tcp 80 from 10.9.0.0/16}"},
		"not which groups they are": {[]func(*world){from("web api", world10), native("sg-web", "egress tcp 1 to 10.8.0.0/16"), native("sg-api", "egress tcp 1 to 10.8.0.0/16")},
			"api+web {egress tcp 1 to 10.8.0.0/16, ingress tcp 80 from 10.9.0.0/16}"},
		"where policies decide, they do not": {[]func(*world){from("web api", world10), native("sg-web", "ingress tcp 1 from 10.8.0.0/16")}, "api+web {ingress tcp 80 from 10.9.0.0/16}"},
		"an interface that is alone shares with nobody": {[]func(*world){from("web api", world10), func(w *world) { w.NIC("web").Alone = true }},
			"api {ingress tcp 80 from 10.9.0.0/16}; web {ingress tcp 80 from 10.9.0.0/16}"},
		"networks share nothing": {[]func(*world){from("web api", world10), func(w *world) {
			w.Snap.Networks = append(w.Snap.Networks, cloud.Network{ID: "vpc-2", OwnerID: intenttest.Owner})
			w.NIC("api").NetworkID = "vpc-2"
		}}, "api {ingress tcp 80 from 10.9.0.0/16}; web {ingress tcp 80 from 10.9.0.0/16}"},

		"a class goes on with the group that it holds": {[]func(*world){from("web", world10), take("web", "ingress tcp 1 from 10.9.0.0/16")}, "web=ours-web {ingress tcp 80 from 10.9.0.0/16}"},
		"with that which most of it hold":              {[]func(*world){from("web api db", world10), take("api"), take("web"), join("db", "ours-web")}, "api+db+web=ours-web {ingress tcp 80 from 10.9.0.0/16}"},
		"and a VM that leaves gets another": {[]func(*world){from("web api", world10), from("db", "10.8.0.0/16"), take("web"), join("api", "ours-web"), join("db", "ours-web")},
			"api+web=ours-web {ingress tcp 80 from 10.9.0.0/16}; db {ingress tcp 80 from 10.8.0.0/16}"},
		"what must not change stays word for word": {[]func(*world){from("web", world10), take("web", "ingress tcp 1 from 10.9.0.0/16"), func(w *world) {
			w.Blocked, w.Locked = map[intent.InterfaceKey]string{{Region: "here", ID: "eni-web"}: "no"}, map[intent.GroupKey]bool{{Region: "here", ID: "ours-web"}: true}
		}}, "web=ours-web {ingress tcp 1 from 10.9.0.0/16}"},

		"rules spill into another group": {[]func(*world){from("web", "10.9.0.0/16 10.7.0.0/16"), limits(1, 2)}, "web {ingress tcp 80 from 10.7.0.0/16}; web* {ingress tcp 80 from 10.9.0.0/16}"},
		"what does not fit is left out, the last in precedence first": {[]func(*world){from("web", "10.9.0.0/16"), from("web", "10.7.0.0/16"), limits(1, 1)},
			"web {ingress tcp 80 from 10.9.0.0/16}; web without q: RulesShort"},
		"however the others fit": {[]func(*world){from("web", "10.9.0.0/16"), from("web", "10.5.0.0/16 10.3.0.0/16"), from("web", "10.7.0.0/16"), limits(2, 1)},
			"web {ingress tcp 80 from 10.7.0.0/16, ingress tcp 80 from 10.9.0.0/16}; web without q: RulesShort"},
		"where its own rules do not fit it is not taken over": {[]func(*world){func(w *world) { w.Policy("p", "web", "allow ingress tcp 80 from 10.9.0.0/16") }, limits(1, 1),
			native("sg-web", "egress tcp 1 to 10.8.0.0/16", "egress tcp 1 to 10.6.0.0/16")}, "web without p: RulesShort"},
	} {
		w := intenttest.New("web", "app", "api", "db")
		for _, change := range c.changes {
			change(w)
		}
		if got := groups(settle(w)); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

// TestTargets: which groups each interface shall hold.
func TestTargets(t *testing.T) {
	w := intenttest.New("web", "app", "db", "old")
	w.Policy("p", "web", "allow ingress tcp 80 from app")
	w.Take("web", nil, "p")
	w.Take("old", nil, "p")
	w.NIC("db").GroupIDs = []string{"sg-db", "sg-app"}
	s := settle(w)
	member := s.ClassOf[nicOf(s, "app")].Groups[0].Key
	for vm, want := range map[string][]string{"web": {"ours-web"}, "app": {member, "sg-app"}, "db": {"sg-db", "sg-app"}, "old": {"sg-old"}} {
		got := s.Targets[nicOf(s, vm)]
		if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%s shall hold %v, want %v", vm, got, want)
		}
	}
	var holders []string
	for _, n := range s.WantHeld["sg-app"] {
		holders = append(holders, n.VMID)
	}
	if !slices.Equal(holders, []string{"app", "db"}) {
		t.Errorf("sg-app will be held by %v", holders)
	}
	if then, known := s.Addresses(cloud.Peer{GroupID: "sg-old"}, nicOf(s, "web").Network); !known || then.Words(3) != "10.0.0.13" {
		t.Errorf("sg-old will mean %s", then.Words(3))
	}
	if _, known := s.Addresses(cloud.Peer{GroupID: "sg-gone"}, nicOf(s, "web").Network); known {
		t.Error("a group that is gone means something")
	}
}

// TestNames: a new group has a name of the cluster and of its class, which nobody else has, and one
// that was made for a class and that nobody holds is used again.
func TestNames(t *testing.T) {
	make := func(groups ...cloud.Group) *form.Group {
		w := intenttest.New("web")
		w.Policy("p", "web", "allow ingress tcp 80 from 10.9.0.0/16")
		w.Snap.Groups = append(w.Snap.Groups, groups...)
		return settle(w).AllGroups()[0]
	}
	fresh := make()
	if !strings.HasPrefix(fresh.Name, cloud.NamePrefix) || !strings.HasSuffix(fresh.Name, "-"+fresh.Class.Hash) || fresh.Key != "+"+fresh.Name {
		t.Errorf("it is called %q, with the key %q", fresh.Name, fresh.Key)
	}
	if again := make(); again.Name != fresh.Name {
		t.Errorf("the next time it is called %q", again.Name)
	}
	taken := cloud.Group{ID: "sg-x", Name: strings.ToUpper(fresh.Name), NetworkID: intenttest.Network}
	if other := make(taken); other.Name != fresh.Name+".2" {
		t.Errorf("where the name is taken it is called %q", other.Name)
	}
	tags := map[string]string{cloud.TagCluster: intenttest.Cluster, cloud.TagAccount: intenttest.Account, cloud.TagKind: cloud.KindClass, cloud.TagClass: fresh.Class.Hash}
	if made := make(cloud.Group{ID: "sg-made", Name: fresh.Name, NetworkID: intenttest.Network, Tags: tags}); made.Key != "sg-made" {
		t.Errorf("one that was made for it is not used: %q", made.Key)
	}
	if made := make(cloud.Group{ID: "sg-made", Name: fresh.Name, NetworkID: "vpc-2", Tags: tags}); made.Key != "+"+fresh.Name {
		t.Errorf("one of another network is used: %q", made.Key)
	}
}

// TestSpilledGroups: a class goes back to one group when its rules fill half of it.
func TestSpilledGroups(t *testing.T) {
	for name, c := range map[string]struct {
		rules int
		want  string
	}{
		"they fill more than half": {3, "web=ours-web web=ours-web-s1"},
		"they fill half":           {2, "web=ours-web"},
		"they do not fit into one": {5, "web=ours-web web=ours-web-s1"},
	} {
		w := intenttest.New("web")
		var peers, first, second []string
		for i := range c.rules {
			peer := fmt.Sprintf("10.9.%d.0/32", 2*i)
			peers = append(peers, peer)
			if rule := "ingress tcp 80 from " + peer; i%2 == 0 {
				first = append(first, rule)
			} else {
				second = append(second, rule)
			}
		}
		w.Policy("p", "web", "allow ingress tcp 80 from "+strings.Join(peers, " "))
		limits(4, 2)(w)
		g := *w.Take("web", first, "p")
		g.ID, g.Name, g.Rules = "ours-web-s1", "nephele-web-s1", intenttest.Rules(second...)
		g.Tags = map[string]string{cloud.TagCluster: intenttest.Cluster, cloud.TagAccount: intenttest.Account, cloud.TagKind: form.KindSpill, cloud.TagClass: "web"}
		w.Snap.Groups = append(w.Snap.Groups, g)
		w.NIC("web").GroupIDs = []string{"ours-web", "ours-web-s1"}
		var got []string
		for _, g := range settle(w).AllGroups() {
			got = append(got, vms(g.Class)+"="+g.Key)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

// TestFullRegion: where there are too few groups the newest policy is refused, by precedence, with
// the numbers; what is in force is not.
func TestFullRegion(t *testing.T) {
	for name, c := range map[string]struct {
		most    int
		inForce bool // the policy that comes last
		want    string
		needed  int
	}{
		"there is room":                    {6, false, "", 0},
		"for one less":                     {5, false, "db without r: GroupsShort", 6},
		"for two less":                     {4, false, "api without q: GroupsShort; db without r: GroupsShort", 6},
		"what is in force comes before":    {5, true, "api without q: GroupsShort", 6},
		"what needs no new group is given": {4, true, "api without q: GroupsShort; web without p: GroupsShort", 6},
	} {
		w := intenttest.New("web", "api", "db")
		w.Policy("p", "web", "allow ingress tcp 80 from 10.9.0.0/16")
		w.Policy("q", "api", "allow ingress tcp 81 from 10.9.0.0/16")
		w.Policy("r", "db", "allow ingress tcp 82 from 10.9.0.0/16")
		w.Limits().GroupsPerRegion = c.most
		if c.inForce {
			w.Take("db", []string{"ingress tcp 82 from 10.9.0.0/16"}, "r")
		}
		s := settle(w)
		var left []string
		for _, text := range strings.Split(groups(s), "; ") {
			if strings.Contains(text, "without") {
				left = append(left, text)
			}
		}
		if got := strings.Join(left, "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		for _, vm := range s.Guard.Order {
			for _, p := range vm.Policies {
				if why := vm.Left(p); why != nil && (why.Lack.Needed != c.needed || why.Lack.Available != c.most || why.Lack.WouldDo != c.needed || why.Lack.Quota != reason.QuotaGroupsPerRegion) {
					t.Errorf("%s: %+v", name, why.Lack)
				}
			}
		}
	}
}

// TestGatherings: where so many classes of peers lie scattered that no form of rules names them
// all, their members get a group for it.
func TestGatherings(t *testing.T) {
	const peers = 24
	var names []string
	for i := range peers {
		names = append(names, fmt.Sprintf("vm-%02d", i))
	}
	world := func(named int) *world {
		w := intenttest.New(append([]string{"web"}, names...)...)
		var members []string
		for i, name := range names {
			w.Policy("own-"+name, name, fmt.Sprintf("allow ingress tcp %d from 192.0.2.1/32", 1000+i))
			if i < 2*named && i%2 == 0 {
				members = append(members, name)
			}
		}
		w.Policy("p", "web", "allow ingress tcp 80 from "+strings.Join(members, " "))
		limits(4, 2)(w)
		return w
	}
	if got := groups(settle(world(4))); strings.Contains(got, "members(") || strings.Contains(got, "without") {
		t.Errorf("four peers are gathered, or do not fit: %s", got)
	}
	s := settle(world(12))
	text := groups(s)
	gathering := "members(vm-00+vm-02+vm-04+vm-06+vm-08+vm-10+vm-12+vm-14+vm-16+vm-18+vm-20+vm-22)"
	if !strings.Contains(text, "web {ingress tcp 80 from new("+gathering+")}") || !strings.Contains(text, gathering+" {}") {
		t.Errorf("twelve peers are not gathered: %s", text)
	}
	if n := len(s.Targets[nicOf(s, "vm-00")]); n != 2 || len(s.Targets[nicOf(s, "vm-01")]) != 1 {
		t.Errorf("a member holds %d groups, and one that is none %d", n, len(s.Targets[nicOf(s, "vm-01")]))
	}
	w := world(12)
	w.Limits().GroupsPerInterface = 1
	if got := groups(settle(w)); !strings.Contains(got, "web without p: RulesShort") {
		t.Errorf("no member has a slot for it: %s", got)
	}
}

// TestTwins: beside a rule of somebody else's group that names a group which others give up stands
// one that names theirs, if the account and the owner say so and there is room.
func TestTwins(t *testing.T) {
	world := func() *world {
		w := intenttest.New("web", "db", "api")
		w.Policy("p", "web", "allow ingress tcp 80 from 10.9.0.0/16")
		w.Take("web", nil, "p")
		w.Native("sg-db", "ingress tcp 22 from sg-web", "ingress tcp 23 from 10.9.0.0/16")
		w.Snap.Group("sg-db").Tags = map[string]string{cloud.TagFollow: ""}
		w.Deselect("db")
		w.Dependents.Default = intent.FollowDependents
		return w
	}
	for name, c := range map[string]struct {
		change func(*intenttest.World)
		want   string
	}{
		"its group is named": {func(*intenttest.World) {}, "ingress tcp 22 from ours-web"},
		"so is that of another one that gives it up": {func(w *intenttest.World) {
			w.NIC("api").GroupIDs = []string{"sg-web"}
			w.Policy("q", "api", "allow ingress tcp 81 from 10.9.0.0/16")
			w.Take("api", nil, "q")
		}, "ingress tcp 22 from ours-api; ingress tcp 22 from ours-web"},
		"there is no room":          {limits(2, 5), ""},
		"the owner does not say so": {func(w *intenttest.World) { w.Snap.Group("sg-db").Tags = nil }, ""},
	} {
		w := world()
		c.change(w)
		s := settle(w)
		var got []string
		for _, r := range s.Twins["sg-db"] {
			got = append(got, r.String())
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
		if _, followed := s.Twins["sg-db"]; s.Extended(s.Region.Groups["sg-db"]) != followed {
			t.Errorf("%s: extended is not followed", name)
		}
	}
}

// TestStays: what keeps its rules word for word, and what has them written anew when what they name
// changes; and which policies will be in force.
func TestStays(t *testing.T) {
	w := intenttest.New("web", "api", "app")
	w.Policy("p", "web api", "allow ingress tcp 80 from app")
	w.Take("web", []string{"ingress tcp 80 from 10.9.0.0/16"}, "p")
	w.Take("api", []string{"ingress tcp 81 from 10.9.0.0/16"}, "q")
	w.Blocked = map[intent.InterfaceKey]string{{Region: "here", ID: "eni-web"}: "no", {Region: "here", ID: "eni-api"}: "no"}
	w.Locked = map[intent.GroupKey]bool{{Region: "here", ID: "ours-web"}: true}
	s := settle(w)
	literal, kept := s.Stays()
	if fmt.Sprint(literal, kept) != "map[eni-web:true] map[eni-api:true]" {
		t.Errorf("word for word %v, kept %v", literal, kept)
	}
	for vm, want := range map[string]string{"web": "p", "api": "q"} {
		if got := s.Enforced(s.ClassOf[nicOf(s, vm)]); len(got) != 1 || !got[record.Shortened(want)] {
			t.Errorf("on %s there will be in force %v, want %s", vm, got, want)
		}
	}
	if got := s.Enforced(s.ClassOf[nicOf(s, "web")]); got == nil {
		t.Error("nothing is known of what is in force")
	}
}

// TestBetween: in a state in between, what does not fit waits, and nobody does without a policy.
func TestBetween(t *testing.T) {
	w := intenttest.New("web", "app")
	w.Policy("p", "web", "allow ingress tcp 80 from 10.0.0.0/8")
	w.Take("web", []string{"ingress tcp 80 from 10.9.1.0/32", "ingress tcp 80 from 10.9.3.0/32"}, "p")
	w.Limits().RulesPerGroup, w.Limits().GroupsPerInterface = 2, 1
	s := settle(w)
	if got, want := groups(s), "web=ours-web {ingress tcp 80 from 10.0.0.0/8}"; got != want {
		t.Fatalf("in the end: %q, want %q", got, want)
	}
	s.Guard.Restrict(nicOf(s, "web"), [2]bool{true, false})
	s.Settle()
	if got, want := groups(s), "web=ours-web {ingress tcp 80 from 10.9.1.0/32, ingress tcp 80 from 10.9.3.0/32}"; got != want {
		t.Errorf("in between: %q, want %q", got, want)
	}
	w.Limits().RulesPerGroup = 1
	s = settle(w)
	s.Guard.Restrict(nicOf(s, "web"), [2]bool{true, false})
	if s.Settle(); !nicOf(s, "web").Waiting() || nicOf(s, "web").VM.Left(nicOf(s, "web").VM.Policies[0]) != nil {
		t.Errorf("what does not fit in between does not wait: %s", groups(s))
	}
}
