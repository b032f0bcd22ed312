package guard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent/intenttest"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
)

type world = intenttest.World

// shop are three VMs with a security group each: a policy lets app reach web, and nobody says
// anything of db.
func shop() *world {
	w := intenttest.New("web", "app", "db")
	w.Policy("p", "web", "allow ingress any from app")
	return w
}

// held is the shop with web under control for the policy.
func held() *world {
	w := shop()
	w.Take("web", []string{"ingress all from 10.0.0.11/32", "egress all to 0.0.0.0/0"}, "p")
	w.Native("sg-web", "egress all to 0.0.0.0/0")
	return w
}

func decide(w *world) *guard.States {
	s := guard.NewStates(w.Region())
	s.DecideStates()
	return s
}

func nicOf(s *guard.States, vm string) *guard.NIC {
	return s.NICs[slices.IndexFunc(s.NICs, func(n *guard.NIC) bool { return n.VMID == vm })]
}

// told says in words what was decided: the states of the interfaces, why one is not taken over, and
// why one stays as it is.
func told(s *guard.States) string {
	var out []string
	for _, n := range s.NICs {
		text := n.VMID + " " + string(n.State())
		if n.State() == guard.Untouched {
			text = ""
		}
		for what, why := range map[string]*reason.Reason{" refused ": n.Refusal(), " stays ": n.Frozen()} {
			if why != nil {
				text = n.VMID + " " + string(n.State()) + what + string(why.Code)
			}
		}
		if text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, "; ")
}

// notes are the codes of the remarks about an interface.
func notes(s *guard.States, id string) string {
	var out []string
	for _, n := range s.Region.Noted[id] {
		out = append(out, string(n.Why.Code))
	}
	return strings.Join(out, " ")
}

// TestDecideStates: what becomes of the three interfaces, one reason after the other.
func TestDecideStates(t *testing.T) {
	needs := func(w *world) { w.Native("sg-db", "ingress tcp 22 from sg-web") }
	follow := func(w *world) {
		needs(w)
		w.Deselect("db")
		w.Dependents.Default = intent.FollowDependents
	}
	abroad := func(w *world) {
		w.Snap.References = []cloud.Reference{{GroupID: "sg-web", NetworkID: "theirs", OwnerID: "they", PeeringID: "pcx"}}
	}
	mode := func(vm string, m intent.Mode) func(*world) {
		return func(w *world) { w.Modes[intenttest.VM(vm)] = m }
	}
	for _, c := range []struct {
		name   string
		base   func() *world
		change func(*world)
		want   string
	}{
		{"a policy guards web, and app has a group by which it is named", shop, func(*world) {}, "app Member; web Guarded"},
		{"nothing is said", shop, func(w *world) { w.Policies = nil }, ""},
		{"web is only planned", shop, mode("web", intent.Planned), ""},
		{"web is released", shop, mode("web", intent.Released), ""},
		{"the glass of web is broken", held, mode("web", intent.BreakGlass), "web Untouched refused ModeReleased"},
		{"app is released: it is named by address", shop, mode("app", intent.Released), "web Guarded"},
		{"app is nobody's: it is named by address", shop, func(w *world) { w.Deselect("app") }, "web Guarded"},
		{"app has no slot for one more group", shop, func(w *world) { w.Limits().GroupsPerInterface = 1 }, "web Guarded"},
		{"a rule that drops names nobody", shop, func(w *world) { w.Policy("q", "web", "drop ingress any from db") }, "app Member; web Guarded"},
		{"there is no room for the tags of web", shop, func(w *world) { w.Limits().TagsPerResource = 0 }, ""},
		{"nor for the tags of app, which needs none to be named", shop, func(w *world) {
			w.NIC("app").Tags = map[string]string{}
			for i := range w.Limits().TagsPerResource {
				w.NIC("app").Tags[fmt.Sprint(i)] = ""
			}
		}, "app Member; web Guarded"},
		{"but it has them already", held, func(w *world) { w.Limits().TagsPerResource = 0; w.Deselect("app") }, "web Guarded"},
		{"the network is another controller's", shop, func(w *world) { w.Snap.Networks[0].Tags = map[string]string{cloud.TagClaim: "other"} }, ""},
		{"the cloud refuses to change web", shop, func(w *world) { w.Blocked = map[intent.InterfaceKey]string{{Region: "here", ID: "eni-web"}: "no"} }, ""},
		{"the cloud refuses to give web back", held, func(w *world) {
			w.Policies, w.Blocked = nil, map[intent.InterfaceKey]string{{Region: "here", ID: "eni-web"}: "no"}
		}, "web Guarded stays CloudRefuses"},
		{"nobody knows what web had", held, func(w *world) { w.Seal() }, "app Member; web Guarded stays RecordUnsigned"},

		{"db depends on web: its own rules guard it, too", shop, needs, "app Member; db Guarded; web Guarded"},
		{"a dependent of db does so with it", shop, func(w *world) { needs(w); w.Native("sg-app", "egress tcp 22 to sg-db") }, "app Guarded; db Guarded; web Guarded"},
		{"db has the same by address", shop, func(w *world) { needs(w); w.Native("sg-db", "ingress tcp 20-25 from 10.0.0.0/24") }, "app Member; web Guarded"},
		{"but only a part of it", shop, func(w *world) { needs(w); w.Native("sg-db", "ingress tcp 20-21 from 10.0.0.0/24") }, "app Member; db Guarded; web Guarded"},
		{"nobody selected db, which depends on web", shop, func(w *world) { needs(w); w.Deselect("db") }, "web Untouched refused DependentLoses"},
		{"web is under control when db comes to depend on it", held, func(w *world) { needs(w); w.Deselect("db") }, "app Member; web Guarded"},
		{"db is released, so that it cannot depend on web", shop, func(w *world) { needs(w); mode("db", intent.Released)(w) }, "web Untouched refused DependentLoses"},
		{"the account says to cut", shop, func(w *world) {
			needs(w)
			w.Deselect("db")
			w.Dependents.Default = intent.CutDependents
		}, "app Member; web Guarded"},
		{"the account says to cut, but not of this group", shop, func(w *world) {
			needs(w)
			w.Deselect("db")
			w.Dependents = intent.DependentsRule{Default: intent.CutDependents, Groups: map[string]intent.Dependents{"sg-db": intent.RefuseDependents}}
		}, "web Untouched refused DependentLoses"},
		{"the account says to follow, and the owner of the group does not", shop, follow, "web Untouched refused DependentLoses"},
		{"both say so", shop, func(w *world) { follow(w); w.Snap.Group("sg-db").Tags = map[string]string{cloud.TagFollow: ""} }, "app Member; web Guarded"},
		{"rules of another account name the group of web", shop, abroad, "web Untouched refused ReferredAbroad"},
		{"and did not when web was taken over", held, abroad, "app Member; web Guarded"},
	} {
		w := c.base()
		c.change(w)
		if got := told(decide(w)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestRemarks: what is not refused is said of the interface that it is about.
func TestRemarks(t *testing.T) {
	w := held()
	w.Native("sg-db", "ingress tcp 22 from sg-web")
	w.Deselect("db")
	if s := decide(w); notes(s, "eni-db") != "DependentLoses" {
		t.Errorf("the dependent of one under control: %q", notes(s, "eni-db"))
	}
	w.Snap.References = []cloud.Reference{{GroupID: "sg-web"}}
	if s := decide(w); notes(s, "eni-web") != "ReferredAbroad" {
		t.Errorf("named abroad: %q", notes(s, "eni-web"))
	}
}

// TestCuts: what those lose that nobody may guard, where the account lets it happen; and what is
// added to the groups of those that follow.
func TestCuts(t *testing.T) {
	w := shop()
	w.Native("sg-db", "ingress tcp 22 from sg-web", "ingress tcp 80-90 from sg-web", "ingress tcp 80 from sg-app")
	w.Deselect("db")
	w.Dependents.Default = intent.CutDependents
	s := decide(w)
	var got []string
	for _, c := range s.Cuts() {
		got = append(got, fmt.Sprint(c.Region, " ", c.Interface, " ", c.VMID, " ", c.Group, " ", c.Rule, " ", c.Lost))
	}
	want := []string{"here eni-db db sg-db ingress tcp 22 from sg-web [eni-web]", "here eni-db db sg-db ingress tcp 80-90 from sg-web [eni-web]"}
	if !slices.Equal(got, want) || len(s.Followed()) > 0 {
		t.Errorf("got %q, want %q; followed %v", got, want, s.Followed())
	}
	w.Dependents.Default, w.Snap.Group("sg-db").Tags = intent.FollowDependents, map[string]string{cloud.TagFollow: ""}
	s = decide(w)
	if got := fmt.Sprint(s.Followed(), s.Cuts()); got != "map[sg-db:map[sg-web:true]] []" {
		t.Errorf("followed and cut: %s", got)
	}
	full := reason.Why(reason.FollowNoRoom)
	if !s.Unfollow("sg-db", full) || s.Unfollow("sg-db", reason.Why(reason.NotSelected)) {
		t.Error("a group without room for twins is new once")
	}
	s.DecideStates()
	if got := told(s); got != "web Untouched refused FollowNoRoom" || len(s.Followed()) > 0 {
		t.Errorf("there is no room for twins: %s, followed %v", got, s.Followed())
	}
}

// TestLeaveOut: a policy that is in force stays so in its earlier form; what never was is left out,
// and the VM goes on without it.
func TestLeaveOut(t *testing.T) {
	why := reason.Why(reason.RulesShort)
	for name, c := range map[string]struct {
		world *world
		kept  bool
		want  string
	}{
		"it never was in force": {shop(), false, ""},
		"it is in force":        {held(), true, "app Member; web Guarded stays RulesShort"},
		"others are in force": {func() *world {
			w := held()
			w.Snap.Group("ours-web").Tags[cloud.TagPolicies] = record.Shortened("q")
			return w
		}(), false, ""},
		"nobody knows what is": {func() *world { w := held(); delete(w.Snap.Group("ours-web").Tags, cloud.TagPolicies); return w }(), true, "app Member; web Guarded stays RulesShort"},
		"the VM is released":   {func() *world { w := held(); w.Modes[intenttest.VM("web")] = intent.Released; return w }(), false, ""},
	} {
		s := decide(c.world)
		vm := nicOf(s, "web").VM
		p := vm.Policies[0]
		s.LeaveOut(vm, p, why)
		s.DecideStates()
		if told(s) != c.want || vm.Keeps(p) != c.kept || vm.KeepsAny() != c.kept || vm.Left(p) != why || vm.Enforces(p) {
			t.Errorf("%s: %q, kept %v, want %q", name, told(s), vm.Keeps(p), c.want)
		}
		if got := vm.WhyLeft(p); got.Is(reason.Kept) != c.kept || !got.Is(reason.RulesShort) {
			t.Errorf("%s: it is said to be left out for %s", name, got.Code)
		}
		if inForce := len(vm.InForce()) > 0; inForce != c.kept {
			t.Errorf("%s: its peers matter: %v", name, inForce)
		}
		if s.Begin(); vm.Left(p) != nil || nicOf(s, "web").Frozen() != nil {
			t.Errorf("%s: a new beginning remembers it", name)
		}
	}
}

// TestNoRoom: of interfaces for which not even their own rules fit, those that are not under
// control are not taken over; where all are, they stay as they are.
func TestNoRoom(t *testing.T) {
	why := reason.Why(reason.RulesShort)
	w := held()
	w.Policy("q", "db", "allow ingress any from app")
	s := decide(w)
	s.NoRoom([]*guard.NIC{nicOf(s, "web"), nicOf(s, "db")}, why)
	if s.DecideStates(); told(s) != "app Member; db Untouched refused TakeOverShort; web Guarded" || nicOf(s, "db").Refusal().Because != why {
		t.Errorf("some are under control: %s", told(s))
	}
	s.NoRoom([]*guard.NIC{nicOf(s, "web")}, why)
	if s.DecideStates(); told(s) != "app Member; db Untouched refused TakeOverShort; web Guarded stays RulesShort" {
		t.Errorf("all are under control: %s", told(s))
	}
}

// texts says what is allowed of TCP 80, by direction.
func texts(permits [2]flow.Permit) string {
	var out []string
	for _, p := range permits {
		out = append(out, p.At(flow.Service{Protocol: cloud.TCP, From: 80, To: 80}).All.Words(3))
	}
	return strings.Join(out, " | ")
}

// TestRestrict: a direction that is held allows what is allowed both now and in the end, and what
// waits beside it allows no more than now. A blocked interface stays as it is.
func TestRestrict(t *testing.T) {
	w := held()
	w.Policies = nil
	w.Policy("p", "web", "allow ingress tcp 80 from 10.0.0.8/29 10.9.0.0/16", "allow egress any to 10.0.0.0/30")
	w.Take("db", []string{"ingress tcp 80 from 10.0.0.10/32"})
	w.Native("sg-db", "ingress tcp 80 from 10.0.0.0/24")
	s := decide(w)
	web, db := nicOf(s, "web"), nicOf(s, "db")
	none, both := [2]bool{}, [2]bool{true, true}
	if s.Restricts() || s.Between() || s.Held(db) != none {
		t.Fatal("somebody is held from the beginning")
	}
	ingress := [2]bool{true, false}
	if !s.Restrict(web, ingress) || s.Restrict(web, ingress) || !s.Restricts() || !s.Between() {
		t.Error("it is new once that a direction is held")
	}
	s.DecideStates()
	if got, want := texts(s.Wanted(web)), "10.0.0.8/29, 10.9.0.0/16 | 10.0.0.0/30"; got != want {
		t.Errorf("in the end: %s, want %s", got, want)
	}
	if got, want := texts(s.WantedNow(web)), "10.0.0.11 | 10.0.0.0/30"; got != want {
		t.Errorf("now: %s, want %s", got, want)
	}
	if s.Held(db) != both || texts(s.WantedNow(db)) != "10.0.0.10 | " {
		t.Errorf("beside it, what waits to be given back is held: %v, %s", s.Held(db), texts(s.WantedNow(db)))
	}
	s.Account.In.Forced = map[intent.InterfaceKey]bool{{Region: "here", ID: "eni-web"}: true}
	if got, want := texts(s.WantedNow(web)), " | 10.0.0.0/30"; got != want {
		t.Errorf("by force it closes first: %s, want %s", got, want)
	}
	s.Block(func(n *guard.NIC) *reason.Reason {
		if n == web {
			return reason.Why(reason.OrderOpposite)
		}
		return nil
	})
	if s.Between() || s.Restricts() || web.Frozen() == nil || db.Frozen() != nil || texts(s.Wanted(web)) != "10.0.0.11 | 0.0.0.0/0" {
		t.Errorf("blocked: %s, it allows %s", told(s), texts(s.Wanted(web)))
	}
}

// TestAwait: an interface that waits for others stays as it is, or is not taken over yet, and
// neither is for good.
func TestAwait(t *testing.T) {
	w := held()
	w.Policy("q", "db", "allow ingress any from app")
	s := decide(w)
	s.Await([]*guard.NIC{nicOf(s, "web"), nicOf(s, "db")}, reason.Why(reason.RulesShort))
	s.DecideStates()
	if got, want := told(s), "app Member; db Untouched refused WaitsBetween; web Guarded stays RulesShort"; got != want || !nicOf(s, "web").Waiting() || nicOf(s, "app").Waiting() {
		t.Errorf("got %q, want %q", got, want)
	}
	s.Block(func(*guard.NIC) *reason.Reason { return nil })
	if nicOf(s, "web").Waiting() || nicOf(s, "db").Waiting() {
		t.Error("they wait although nothing has an order")
	}
}

// TestEnforcedBy: which policies will be said to be in force on an interface.
func TestEnforcedBy(t *testing.T) {
	all := record.Enforcement{record.Shortened("p"): true, record.Shortened("q"): true}
	only := record.Enforcement{record.Shortened("p"): true}
	more := func(w *world) { w.Policy("q", "web", "allow ingress any from app") }
	for name, c := range map[string]struct {
		world  func() *world
		change func(*world)
		does   func(*guard.States)
		want   record.Enforcement
	}{
		"what is enforced":                     {shop, more, nil, all},
		"what was, where it stays as it is":    {held, more, func(s *guard.States) { s.Block(func(*guard.NIC) *reason.Reason { return reason.Why(reason.OrderGap) }) }, only},
		"what was and will be, while it waits": {held, more, func(s *guard.States) { s.Restrict(nicOf(s, "web"), [2]bool{true, false}) }, only},
		"nothing, if nobody knows what was": {held, func(w *world) { more(w); delete(w.Snap.Group("ours-web").Tags, cloud.TagPolicies) },
			func(s *guard.States) { s.Restrict(nicOf(s, "web"), [2]bool{true, false}) }, nil},
		"failsafe flows are no policy": {shop, func(w *world) { w.Failsafe = []intent.FailsafeFlow{{Direction: cloud.Ingress}} }, nil, only},
	} {
		w := c.world()
		c.change(w)
		s := decide(w)
		if c.does != nil {
			c.does(s)
			s.DecideStates()
		}
		if got := s.EnforcedBy(nicOf(s, "web")); fmt.Sprint(got) != fmt.Sprint(c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
