package intent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent/intenttest"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
)

// taken is a world of which web is under control: it holds ours-web in place of sg-web.
func taken() *world {
	w := intenttest.New("web", "app")
	w.Policy("p", "web", "allow ingress tcp 80 from app")
	w.Take("web", nil, "p")
	return w
}

// TestRecords: which groups an interface natively belongs to, by what it holds, what its record
// says and whether that is believed.
func TestRecords(t *testing.T) {
	sealed := func(vms ...string) func(*world) { return func(w *world) { w.Seal(vms...) } }
	confirm := func(groups ...string) func(*world) {
		return func(w *world) {
			w.Seal()
			w.Confirmed = map[string][]string{"eni-web": groups}
		}
	}
	remember := func(groups ...string) func(*world) {
		return func(w *world) { w.Regions[0].Former = map[string][]string{"eni-web": groups} }
	}
	hold := func(groups ...string) func(*world) { return func(w *world) { w.NIC("web").GroupIDs = groups } }
	for name, c := range map[string]struct {
		changes []func(*world)
		want    string // native groups; then what is said of the record
	}{
		"the record says so":                                   {nil, "[sg-web] taken"},
		"a signed one, where records are signed":               {[]func(*world){sealed("web")}, "[sg-web] taken"},
		"one that is not signed is not believed":               {[]func(*world){sealed()}, "[] taken RecordUnsigned"},
		"unless it may be older than the key":                  {[]func(*world){sealed(), func(w *world) { w.Input.Seal.Lenient = true }}, "[sg-web] taken unsigned"},
		"one of a former key is, and outdated":                 {[]func(*world){sealed("web"), (*world).SealAnew}, "[sg-web] taken outdated"},
		"a record that is gone":                                {[]func(*world){func(w *world) { w.NIC("web").Tags = nil; w.Seal() }}, "[] taken RecordGone"},
		"without a seal that is a member":                      {[]func(*world){func(w *world) { w.NIC("web").Tags = nil }}, "[]"},
		"what is remembered goes before the record":            {[]func(*world){remember("sg-app")}, "[sg-app] taken forged"},
		"and makes up for one that is not believed":            {[]func(*world){sealed(), remember("sg-web")}, "[sg-web] taken forged"},
		"what is confirmed does, too":                          {[]func(*world){confirm("sg-app", "sg-web")}, "[sg-app sg-web] taken forged"},
		"but not a group that does not exist":                  {[]func(*world){confirm("sg-app", "sg-none")}, "[] taken RecordUnsigned>ConfirmedGone"},
		"nor one of ours":                                      {[]func(*world){confirm("ours-web")}, "[] taken RecordUnsigned>ConfirmedOurs"},
		"nor one of another network":                           {[]func(*world){confirm("sg-app"), func(w *world) { w.Snap.Group("sg-app").NetworkID = "vpc-2" }}, "[] taken RecordUnsigned>ConfirmedAbroad"},
		"taken out by hand it keeps its record":                {[]func(*world){hold("sg-app")}, "[sg-web]"},
		"half way back it has its own groups":                  {[]func(*world){hold("sg-web")}, "[sg-web]"},
		"what was planted before we come says nothing":         {[]func(*world){hold("sg-app"), sealed()}, "[sg-app] forged"},
		"a service's interface has no record that can be read": {[]func(*world){func(w *world) { w.NIC("web").Managed = true }}, "[] taken OfService"},
	} {
		w := taken()
		for _, change := range c.changes {
			change(w)
		}
		n := nicOf(w.Region(), "web")
		text := []string{fmt.Sprint(n.Groups.Former)}
		for what, is := range map[string]bool{"taken": n.Taken()} {
			if is {
				text = append(text, what)
			}
		}
		switch {
		case n.Record.Forged:
			text = append(text, "forged")
		case n.Record.Unsigned:
			text = append(text, "unsigned")
		case n.Record.Outdated:
			text = append(text, "outdated")
		case n.Record.Unproven != nil:
			text = append(text, codes(n.Record.Unproven))
		}
		if got := strings.Join(text, " "); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestWhoMayBeControlled: why an interface is not controlled, must not be, or cannot be changed.
func TestWhoMayBeControlled(t *testing.T) {
	mode := func(m intent.Mode) func(*world) { return func(w *world) { w.Modes[intenttest.VM("web")] = m } }
	other := func(tag, value string) func(*world) {
		return func(w *world) { w.Snap.Group("ours-web").Tags[tag] = value }
	}
	for name, c := range map[string]struct {
		change func(*world)
		want   string
	}{
		"it may be":                               {func(*world) {}, ""},
		"its VM is planned":                       {mode(intent.Planned), "alien ModePlanned, pinned"},
		"its VM waits for a confirmation":         {mode(intent.Braked), "alien ModeBraked, pinned"},
		"its VM is released":                      {mode(intent.Released), "released ModeReleased"},
		"its glass is broken":                     {mode(intent.BreakGlass), "released ModeReleased"},
		"another controller holds it":             {other(cloud.TagCluster, "other"), "alien HeldElsewhere"},
		"another account holds it":                {other(cloud.TagAccount, "vms/other"), "alien HeldElsewhere"},
		"somebody's group with our tags alone is": {func(w *world) { w.Snap.Group("ours-web").Name = "other" }, ""},
		"it cannot be set":                        {func(w *world) { w.NIC("web").Untouchable = "of a scale set" }, "alien Untouchable"},
		"its service cannot be read":              {func(w *world) { w.NIC("app").Unread = "denied"; w.NIC("app").VMID, w.NIC("web").VMID = "web", "x" }, "alien Untouchable"},
		"a service of the cloud has made it":      {func(w *world) { w.NIC("app").Managed = true; w.NIC("app").VMID, w.NIC("web").VMID = "web", "x" }, "alien OfService"},
		"the cloud refuses to change it":          {func(w *world) { w.Blocked = map[intent.InterfaceKey]string{{Region: "here", ID: "eni-web"}: "no"} }, "blocked no"},
		"and it is not under control": {func(w *world) {
			w.NIC("web").GroupIDs, w.NIC("web").Tags = []string{"sg-web"}, nil
			w.Blocked = map[intent.InterfaceKey]string{{Region: "here", ID: "eni-web"}: "no"}
		}, "alien CloudRefuses"},
		"the rules of its group cannot be changed": {func(w *world) { w.Locked = map[intent.GroupKey]bool{{Region: "here", ID: "ours-web"}: true} }, "pinned"},
	} {
		w := taken()
		c.change(w)
		r := w.Region()
		n := nicOf(r, "web")
		var text []string
		switch {
		case n.Alien != nil:
			text = append(text, "alien "+codes(n.Alien))
		case n.Released != nil:
			text = append(text, "released "+codes(n.Released))
		case n.Blocked != "":
			text = append(text, "blocked "+n.Blocked)
		}
		if r.Pinned["ours-web"] {
			text = append(text, "pinned")
			if r.Owned(r.Groups["ours-web"]) {
				t.Errorf("%s: a pinned group is ours to change", name)
			}
		}
		if got := strings.Join(text, ", "); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestHandEdits: what somebody has done to an interface under control.
func TestHandEdits(t *testing.T) {
	for name, c := range map[string]struct {
		hold                 []string
		into                 string
		controlled, halfBack bool
	}{
		"nothing":                        {[]string{"ours-web"}, "[]", true, false},
		"into a group beside ours":       {[]string{"ours-web", "sg-app"}, "[sg-app]", true, false},
		"into its own beside ours":       {[]string{"ours-web", "sg-web"}, "[]", false, false},
		"out of ours, into another":      {[]string{"sg-app"}, "[sg-app]", true, false},
		"back into its own":              {[]string{"sg-web"}, "[]", false, false},
		"back into its own, and another": {[]string{"sg-app", "sg-web"}, "[sg-app]", true, true},
		"into one that was ours":         {[]string{"ours-old"}, "[]", true, false},
	} {
		w := taken()
		w.Snap.Groups = append(w.Snap.Groups, cloud.Group{ID: "ours-old", Name: cloud.NamePrefix + "old", NetworkID: intenttest.Network})
		w.NIC("web").GroupIDs = c.hold
		r := w.Region()
		n := nicOf(r, "web")
		if got := fmt.Sprint(r.PutInto(n)); got != c.into || n.Controlled() != c.controlled || n.HalfBack() != c.halfBack {
			t.Errorf("%s: into %s, controlled %v, half back %v", name, got, n.Controlled(), n.HalfBack())
		}
	}
}

// TestInForce: which policies count as in force on a VM.
func TestInForce(t *testing.T) {
	group := func(change func(*cloud.Group)) func(*world) {
		return func(w *world) { change(w.Snap.Group("ours-web")) }
	}
	for name, c := range map[string]struct {
		change func(*world)
		want   bool
		known  string
	}{
		"its group names it":                        {func(*world) {}, true, "[" + record.Shortened("p") + "]"},
		"its group names another":                   {group(func(g *cloud.Group) { g.Tags[cloud.TagPolicies] = record.Shortened("q") }), false, "[" + record.Shortened("q") + "]"},
		"its group names none":                      {group(func(g *cloud.Group) { g.Tags[cloud.TagPolicies] = "" }), false, "[]"},
		"its group says nothing":                    {group(func(g *cloud.Group) { delete(g.Tags, cloud.TagPolicies) }), true, "all"},
		"its own groups decide still":               {func(w *world) { w.NIC("web").GroupIDs = []string{"ours-web", "sg-web"} }, false, "nothing"},
		"it is not under control":                   {func(w *world) { w.NIC("web").GroupIDs = []string{"sg-web"} }, false, "nothing"},
		"a group that holds only members says none": {group(func(g *cloud.Group) { g.Tags[cloud.TagKind] = "members" }), false, "nothing"},
	} {
		w := taken()
		c.change(w)
		r := w.Region()
		web := vmOf(r, "web")
		known := "nothing"
		if e, any := r.EnforcedOn(web.NICs[0]); any && e == nil {
			known = "all"
		} else if any {
			var names []string
			for name := range e {
				names = append(names, name)
			}
			known = fmt.Sprint(names)
		}
		if got := r.InForce(web, web.Policies[0]); got != c.want || known != c.known {
			t.Errorf("%s: in force %v, known %s, want %v, %s", name, got, known, c.want, c.known)
		}
	}
}

// TestRestorable: an interface gets back what is left of its former groups, or the default group of
// its network; what is gone is said once.
func TestRestorable(t *testing.T) {
	for name, c := range map[string]struct {
		former []string
		want   string
		notes  string
	}{
		"all are there":   {[]string{"sg-app", "sg-web"}, "[sg-app sg-web]", ""},
		"one is gone":     {[]string{"sg-gone", "sg-web"}, "[sg-web]", "FormerGone"},
		"all of them are": {[]string{"sg-gone"}, "[sg-0]", "FormerGone FormerAllGone"},
	} {
		w := taken()
		w.Snap.Groups = append(w.Snap.Groups, cloud.Group{ID: "sg-0", NetworkID: intenttest.Network, Default: true}, cloud.Group{ID: "sg-1", NetworkID: "vpc-2", Default: true})
		w.NIC("web").Tags = record.FormerTags(c.former)
		r := w.Region()
		n := nicOf(r, "web")
		r.Restorable(n)
		got := fmt.Sprint(r.Restorable(n))
		var notes []string
		for _, note := range r.Noted["eni-web"] {
			notes = append(notes, codes(note.Why))
		}
		if got != c.want || strings.Join(notes, " ") != c.notes {
			t.Errorf("%s: %s, said %q, want %s, %q", name, got, notes, c.want, c.notes)
		}
	}
}

// TestUnguarded: policies on what nobody can guard are found, each once, in their order.
func TestUnguarded(t *testing.T) {
	w := intenttest.New("web", "app", "db")
	w.Deselect("app", "db")
	w.Policy("p", "rds", "allow ingress tcp 80 from web", "allow ingress tcp 81 from web")
	w.Policy("q", "rds nic", "allow ingress tcp 80 from web")
	w.Services = map[intent.EntityRef]intent.VMRef{intenttest.Entity("rds"): intenttest.VM("arn"), intenttest.Entity("nic"): intenttest.VM("eni-db"), intenttest.Entity("idle"): intenttest.VM("arn")}
	w.Modes[intenttest.VM("arn")] = intent.Planned
	w.Snap.Services = []cloud.Service{{ID: "arn", Fixed: "its groups belong to a cluster"}}
	var got []string
	for _, u := range intent.New(w.Input, intenttest.Everything{}, nil).Unguarded {
		text := fmt.Sprint(u.Entity, " ", u.Subject, " ", u.Mode, " ", codes(u.Why), " ", u.Why.Quoted)
		for _, p := range u.Policies {
			text += " " + p.Ref.Name
		}
		got = append(got, text)
	}
	want := "vms/nic here/eni-db  InterfaceUnguarded it is of the virtual machine db, which is selected, and has what applies to that q; " +
		"vms/rds here/arn plan ServiceUnguarded its groups belong to a cluster p q"
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("got  %q\nwant %q", text, want)
	}
}

// TestNote: a remark is made once, however often there is reason for it.
func TestNote(t *testing.T) {
	r := taken().Region()
	for range 2 {
		r.Note("eni-web", reason.Why(reason.FormerGone, "sg-1"))
		r.Note("eni-web", reason.Why(reason.FormerGone, "sg-2"))
	}
	if n := r.Noted["eni-web"]; len(n) != 2 || n[0].Region != intenttest.RegionName || n[0].Object != "eni-web" {
		t.Errorf("%+v", n)
	}
}
