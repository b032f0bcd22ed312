package form_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent/intenttest"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// designed is a design of a world: web, whose rules are asked for, and classes of other VMs.
type designed struct {
	states *guard.States
	design *form.Design
	fitter *form.Fitter
	web    form.Demand
}

// design makes a class of the VMs of each text. Its group is called ours and its VMs, as ours-a-b;
// "all: a b" is a gathering of these.
func design(w *intenttest.World, classes ...string) *designed {
	d := &designed{states: guard.NewStates(w.Region()), design: &form.Design{WantHeld: map[string][]*guard.NIC{}, Memberships: map[*guard.NIC][]*form.Class{}}}
	d.states.DecideStates()
	for _, n := range d.states.NICs {
		for _, g := range n.Groups.Former {
			if n.State() != guard.Guarded {
				d.design.WantHeld[g] = append(d.design.WantHeld[g], n)
			}
		}
	}
	for _, text := range classes {
		d.design.Classes = append(d.design.Classes, d.class(text))
	}
	d.fitter = form.NewFitter(d.states.Region, d.design, lower.AWS{})
	web := d.class("web")
	d.web = form.Demand{Class: web, Want: d.states.Wanted(web.NICs[0])}
	return d
}

func (d *designed) class(text string) *form.Class {
	c := &form.Class{Network: d.states.Region.Networks[intenttest.Network], State: guard.Guarded}
	gathering, vms, gathers := strings.Cut(text, ": ")
	if c.Gathers = gathers; !gathers {
		vms = text
	}
	for _, n := range d.states.NICs {
		if slices.Contains(strings.Fields(vms), n.VMID) {
			c.NICs = append(c.NICs, n)
		}
	}
	c.Addrs = guard.AddressesOf(c.NICs, c.Network)
	id := "ours-" + strings.ReplaceAll(text, " ", "-")
	if gathers {
		id = "ours-" + gathering
	}
	c.Groups = []*form.Group{{Class: c, Key: id, Existing: &cloud.Group{ID: id}}}
	return c
}

// fit says in which rules a demand fits, or what is lacking.
func (d *designed) fit() string {
	rules, packed, short := d.fitter.Fit(d.web)
	if short != nil {
		s := short()
		atLeast := map[bool]string{true: "at least "}[s.AtLeast]
		return fmt.Sprintf("%s%d of %d %s %s %s", atLeast, s.Needed, s.Available, s.Quota, s.Direction, s.Family)
	}
	var out []string
	for _, r := range rules {
		out = append(out, r.String())
	}
	slices.Sort(out)
	text := strings.ReplaceAll(strings.Join(out, "; "), "all protocols", "all")
	if len(packed) > 1 {
		text += fmt.Sprintf(" in %d groups", len(packed))
	}
	return text
}

// TestFit: in which form rules name the peers of web, 10.0.0.10. x is 10.0.0.11, and a, b, c and d
// are the block 10.0.0.12/30.
func TestFit(t *testing.T) {
	limits := func(rules, groups int) func(*intenttest.World) {
		return func(w *intenttest.World) { w.Limits().RulesPerGroup, w.Limits().GroupsPerInterface = rules, groups }
	}
	list := func(weight int, entries ...string) func(*intenttest.World) {
		return func(w *intenttest.World) {
			l := cloud.PrefixList{ID: "pl-1", OwnerID: intenttest.Owner, MaxEntries: weight}
			for _, e := range entries {
				l.Entries = append(l.Entries, netip.MustParsePrefix(e))
			}
			w.Snap.PrefixLists = []cloud.PrefixList{l}
			w.Native("sg-web", "egress all to pl-1")
			limits(3, 1)(w)
		}
	}
	const abcd = "allow ingress tcp 80 from a b c d"
	for name, c := range map[string]struct {
		change  func(*intenttest.World)
		policy  string
		classes []string
		demand  func(*designed)
		want    string
	}{
		"peers are named by the groups of their classes": {nil, "allow ingress tcp 80 from a b x", []string{"a b", "x"}, nil,
			"ingress tcp 80 from ours-a-b; ingress tcp 80 from ours-x"},
		"a class of which one is to stay out is named by addresses": {nil, "allow ingress tcp 80 from a x", []string{"a b", "x"}, nil,
			"ingress tcp 80 from 10.0.0.12/32; ingress tcp 80 from ours-x"},
		"so is a peer without a class":             {nil, "allow egress tcp 80 to b x", []string{"b"}, nil, "egress tcp 80 to 10.0.0.11/32; egress tcp 80 to ours-b"},
		"a block is a block, whatever its members": {nil, "allow ingress tcp 80 from 10.0.0.8/29", []string{"a b", "c d"}, nil, "ingress tcp 80 from 10.0.0.8/29"},
		"a gathering stands for its classes":       {nil, abcd, []string{"a", "b c", "d", "all: a b c d"}, nil, "ingress tcp 80 from ours-all"},
		"unless one of them is to stay out":        {nil, "allow ingress tcp 80 from a b c", []string{"a", "b c", "d", "all: a b c d"}, nil, "ingress tcp 80 from ours-a; ingress tcp 80 from ours-b-c"},
		"a gathering that might be made is tried": {nil, abcd, []string{"a", "b", "c", "d"}, func(d *designed) {
			d.web.Trial = []form.Candidate{form.MadeUp("trial", addrset.OfPrefixes(netip.MustParsePrefix("10.0.0.12/30")))}
		}, "ingress tcp 80 from group trial"},
		"for its slot something has to go": {limits(2, 2), "allow ingress any from a b c x", []string{"a", "b", "c", "x"}, func(d *designed) {
			d.web.Trial, d.web.Slots = []form.Candidate{form.MadeUp("trial", addrset.OfPrefixes(netip.MustParsePrefix("10.0.0.12/31")))}, 1
		}, "3 of 2 rulesPerGroup ingress IPv4"},

		"rules that fit stay references":                {limits(4, 1), abcd, []string{"a", "b", "c", "d"}, nil, "ingress tcp 80 from ours-a; ingress tcp 80 from ours-b; ingress tcp 80 from ours-c; ingress tcp 80 from ours-d"},
		"neighbours become a block where they do not":   {limits(3, 1), abcd, []string{"a", "b", "c", "d"}, nil, "ingress tcp 80 from 10.0.0.12/30"},
		"a separate peer goes on being referred to":     {limits(2, 1), "allow ingress tcp 80 from a b c d x", []string{"a", "b", "c", "d", "x"}, nil, "ingress tcp 80 from 10.0.0.12/30; ingress tcp 80 from ours-x"},
		"where both do not fit the shortest form tells": {limits(1, 1), "allow ingress tcp 80 from a b c d x", []string{"a", "b", "c", "d", "x"}, nil, "2 of 1 rulesPerGroup ingress IPv4"},
		"a list that fits is not taken apart":           {func(w *intenttest.World) { list(9, "192.0.2.0/25")(w); limits(60, 5)(w) }, "allow ingress tcp 80 from a", []string{"a"}, nil, "egress all to pl-1; ingress tcp 80 from ours-a"},
		"rules spill into another group":                {limits(1, 2), "allow ingress tcp 80 from a x", []string{"a", "x"}, nil, "ingress tcp 80 from ours-a; ingress tcp 80 from ours-x in 2 groups"},
		"gatherings take slots": {limits(1, 2), "allow ingress tcp 80 from a x", []string{"a", "x"}, func(d *designed) {
			d.design.Memberships[d.web.Class.NICs[0]] = []*form.Class{d.class("all: web")}
		}, "2 of 1 rulesPerGroup ingress IPv4"},
		"until none is left": {limits(1, 1), "allow ingress tcp 80 from a", []string{"a"}, func(d *designed) {
			d.design.Memberships[d.web.Class.NICs[0]] = []*form.Class{d.class("all: web")}
		}, "at least 1 of 0 groupsPerInterface  "},
		"of far too many blocks there are at least so many": {limits(1, 1), "allow ingress tcp 80 from 192.0.2.0/32 192.0.2.2/32 192.0.2.4/32 192.0.2.6/32 192.0.2.8/32 192.0.2.10/32", nil, nil,
			"at least 6 of 1 rulesPerGroup ingress IPv4"},

		"what its own rules name goes on being named by its own groups": {func(w *intenttest.World) { w.Native("sg-web", "egress tcp 5432 to sg-x") }, "allow ingress tcp 80 from a", []string{"a"}, nil,
			"egress tcp 5432 to sg-x; ingress tcp 80 from ours-a"},
		"a policy's peers never are": {func(w *intenttest.World) { w.Native("sg-web", "ingress tcp 80 from sg-x") }, "allow ingress tcp 80 from x", nil, nil,
			"ingress tcp 80 from 10.0.0.11/32"},

		"a list is named as it is":               {list(2, "192.0.2.0/25", "198.51.100.0/24"), "allow ingress tcp 80 from a", []string{"a"}, nil, "egress all to pl-1; ingress tcp 80 from ours-a"},
		"and by its entries where these fit":     {list(9, "192.0.2.0/25", "198.51.100.0/24"), "allow ingress tcp 80 from a", []string{"a"}, nil, "egress all to 192.0.2.0/25; egress all to 198.51.100.0/24; ingress tcp 80 from ours-a"},
		"a list of which a part is taken is not": {list(2, "192.0.2.0/25"), "drop egress any to 192.0.2.0/26", nil, nil, "egress all to 192.0.2.64/26"},
	} {
		w := intenttest.New("web", "x", "a", "b", "c", "d")
		w.Policy("p", "web", c.policy)
		if c.change != nil {
			c.change(w)
		}
		d := design(w, c.classes...)
		if c.demand != nil {
			c.demand(d)
		}
		mayFit := d.fitter.MayFit(d.web)
		got := d.fit()
		if got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
		_, _, short := d.fitter.Fit(d.web)
		if fits := d.fitter.Fits(d.web); fits != (short == nil) || d.fitter.KnownToFit(d.web) && !fits || fits && !mayFit {
			t.Errorf("%s: fits %v, known %v, may fit %v", name, fits, d.fitter.KnownToFit(d.web), mayFit)
		}
		if again := d.fit(); again != got {
			t.Errorf("%s: asked again it is %q, was %q", name, again, got)
		}
	}
}

// TestFitKnowsNewNames: what fits is remembered for the next attempt, and named as the groups are
// called by then.
func TestFitKnowsNewNames(t *testing.T) {
	w := intenttest.New("web", "x", "a", "b")
	w.Policy("p", "web", "allow ingress tcp 80 from a b")
	d := design(w, "a", "b")
	if got, want := d.fit(), "ingress tcp 80 from ours-a; ingress tcp 80 from ours-b"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	d.fitter.Forget()
	if !d.fitter.KnownToFit(d.web) {
		t.Error("a new attempt does not know any more what fits")
	}
	d.design.Classes[0].Groups[0].Existing.ID = "ours-new"
	d.fitter.Forget()
	if got, want := d.fit(), "ingress tcp 80 from ours-b; ingress tcp 80 from ours-new"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	d.design.Classes[1] = d.class("b x")
	d.fitter.Forget()
	if d.fitter.KnownToFit(d.web) {
		t.Error("for other classes nothing was found out")
	}
}

// TestGroups: what a group is called as a peer, and what its tag says it is.
func TestGroups(t *testing.T) {
	c := &form.Class{Existing: []*cloud.Group{{ID: "sg-1", Rules: intenttest.Rules("ingress tcp 80 from sg-2")}}}
	old, made := &form.Group{Class: c, Key: "sg-1", Existing: c.Existing[0]}, &form.Group{Class: c, Key: "+new", Name: "new"}
	c.Groups = []*form.Group{old, made}
	gathering := &form.Class{Gathers: true}
	gathering.Groups = []*form.Group{{Class: gathering, Key: "+all", Name: "all"}}
	for g, want := range map[*form.Group]string{old: "class", made: "class-spill", gathering.Groups[0]: "members"} {
		if g.Kind() != want || form.GroupKey(g.Peer()) != g.Key {
			t.Errorf("%s is a %s and its peer has the key %s", g.Key, g.Kind(), form.GroupKey(g.Peer()))
		}
	}
	if key := form.GroupKey(intenttest.Rules("ingress all from 10.0.0.0/8")[0].Peer); key != "" {
		t.Errorf("a block has the key %q", key)
	}
	c.Existing[0].Rules[0].Description = "whatever"
	if held := c.Held(); len(held) != 1 || len(held[0]) != 1 || held[0][0] != intenttest.Rules("ingress tcp 80 from sg-2")[0] {
		t.Errorf("it holds %v", held)
	}
	proven, not := &guard.NIC{NIC: &intent.NIC{}}, &guard.NIC{NIC: &intent.NIC{Record: intent.Record{Unproven: reason.Why(reason.RecordGone)}}}
	for want, nics := range map[bool][]*guard.NIC{true: {not, not}, false: {not, proven}} {
		if c.NICs = nics; c.Unproven() != want {
			t.Errorf("unproven: %v", !want)
		}
	}
}
