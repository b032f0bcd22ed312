package report_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent/intenttest"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
)

// vms are the names of the VMs of some interfaces.
func vms(refs []report.InterfaceRef) string {
	var out []string
	for _, r := range refs {
		out = append(out, r.Name)
	}
	return strings.Join(out, " ")
}

// first is the world in which nothing is under control yet.
func first() *intenttest.World {
	w := intenttest.New("web", "app", "db")
	w.Policy("p", "web", "allow ingress tcp 80 from app")
	return w
}

// TestProtection: which interfaces count, are guarded, will be and are refused, and what of it is a
// change.
func TestProtection(t *testing.T) {
	none := func(w *intenttest.World) { w.Policies = nil }
	deselected := func(w *intenttest.World) { w.Deselect("web", "app", "db") }
	mode := func(m intent.Mode) func(*intenttest.World) {
		return func(w *intenttest.World) { w.Modes[intenttest.VM("web")] = m }
	}
	both := func(a, b func(*intenttest.World)) func(*intenttest.World) {
		return func(w *intenttest.World) { a(w); b(w) }
	}
	blocked := func(w *intenttest.World) {
		w.Blocked = map[intent.InterfaceKey]string{{Region: intenttest.RegionName, ID: "eni-web"}: "no right"}
	}
	hold := func(groups ...string) func(*intenttest.World) {
		return func(w *intenttest.World) { w.NIC("web").GroupIDs = groups }
	}
	// db needs the members of the own group of web, so it is under control for its own rules.
	dependent := func(w *intenttest.World) {
		w.Native("sg-db", "ingress tcp 22 from sg-web")
		w.Take("db", []string{"ingress tcp 22 from ours-web"}, "none")
	}
	does := func(rule func(*guard.States, *guard.NIC)) func(*guard.States) {
		return func(s *guard.States) { rule(s, nicOf(s, "web")) }
	}
	type want struct{ all, now, then, refused, released, guarded string }
	const all = "app db web"
	web := want{all, "web", "web", "", "", ""}
	for name, c := range map[string]struct {
		world    func() *intenttest.World
		change   func(*intenttest.World)
		ruledOut func(*guard.States)
		want     want
	}{
		"the first policy":                      {first, nil, nil, want{all, "", "web", "", "", "web"}},
		"it is in force":                        {shop, nil, nil, web},
		"it is deleted":                         {shop, none, nil, want{all, "web", "", "", "web", ""}},
		"what selects the VMs is deleted":       {shop, deselected, nil, want{all, "web", "", "", "web", ""}},
		"the VM is released":                    {shop, mode(intent.Released), nil, want{all, "web", "", "", "web", ""}},
		"a planned VM stays as it is":           {shop, both(none, mode(intent.Planned)), nil, web},
		"and so does one that waits for a word": {shop, both(deselected, mode(intent.Braked)), nil, web},
		"one that waits and is not guarded yet": {first, mode(intent.Braked), nil, want{all, "", "", "", "", ""}},
		"broken glass does not count":           {shop, mode(intent.BreakGlass), nil, want{"app db", "", "", "", "", ""}},
		"nor where nothing was guarded":         {first, mode(intent.BreakGlass), nil, want{"app db", "", "", "", "", ""}},
		"nor does an interface without a VM":    {first, func(w *intenttest.World) { w.NIC("db").VMID = "" }, nil, want{"app web", "", "web", "", "", "web"}},
		"nor one of a service of the cloud":     {first, func(w *intenttest.World) { w.NIC("db").Managed = true }, nil, want{"app web", "", "web", "", "", "web"}},
		"nor one in the network of another controller": {first, func(w *intenttest.World) {
			w.Snap.Networks[0].Tags = map[string]string{cloud.TagClaim: "other"}
		}, nil, want{}},
		"nor one that another account holds": {shop, func(w *intenttest.World) { w.Snap.Group("ours-web").Tags[cloud.TagAccount] = "vms/other" }, nil, want{"app db", "", "", "", "", ""}},

		"somebody puts it into its own group beside ours": {shop, hold("ours-web", "sg-web"), nil, web},
		"somebody puts it back into its own":              {shop, hold("sg-web"), nil, web},
		"somebody puts it into another one":               {shop, hold("sg-db"), nil, web},

		"a dependent keeps all that its groups allow": {shop, dependent, nil, web},
		"until a policy is for it": {shop, both(dependent, func(w *intenttest.World) { w.Policy("q", "db", "allow ingress tcp 1 from app") }), nil,
			want{all, "web", "db web", "", "", "db"}},
		"of a group that says nothing of policies all count as in force": {shop, func(w *intenttest.World) { delete(w.Snap.Group("ours-web").Tags, cloud.TagPolicies) }, nil, web},

		"what does not fit is not on its way": {first, nil, does(func(s *guard.States, n *guard.NIC) {
			s.LeaveOut(n.VM, n.VM.Policies[0], reason.Why(reason.RulesShort))
			s.DecideStates()
		}), want{all, "", "", "web", "", ""}},
		"nor is what cannot be taken over": {first, func(w *intenttest.World) { w.NIC("web").Untouchable = "no" }, nil, want{all, "", "", "web", "", ""}},
		"what only waits for others is":    {first, nil, does(func(s *guard.States, n *guard.NIC) { s.Await([]*guard.NIC{n}, reason.Why(reason.RulesShort)) }), want{all, "", "web", "", "", "web"}},
		"there is no clean order": {shop, none, does(func(s *guard.States, n *guard.NIC) {
			s.Block(func(*guard.NIC) *reason.Reason { return reason.Why(reason.OrderGap) })
		}), web},
		"the cloud refuses to give back":                             {shop, both(none, blocked), nil, web},
		"somebody took it out, and the cloud refuses to put it back": {shop, both(hold("sg-db"), blocked), nil, web},
		"the cloud refuses to take":                                  {first, blocked, nil, want{all, "", "", "web", "", ""}},
	} {
		w := c.world()
		if c.change != nil {
			c.change(w)
		}
		s := states(w)
		if c.ruledOut != nil {
			c.ruledOut(s)
		}
		p := report.ProtectionOf([]*guard.States{s})
		got := want{vms(p.All), vms(p.Now), vms(p.Then), vms(p.Refused), vms(p.Released()), vms(p.Guarded())}
		if got != c.want || !slices.Equal(p.Regions, []string{intenttest.RegionName}) {
			t.Errorf("%s: in %v\n got %+v\nwant %+v", name, p.Regions, got, c.want)
		}
	}
}

// TestHash: it is that of what is guarded in the end, in one account.
func TestHash(t *testing.T) {
	ref := func(region, vm, id string) report.InterfaceRef {
		return report.InterfaceRef{VM: intent.VMRef{Region: region, ID: vm}, ID: id}
	}
	of := func(account string, then ...report.InterfaceRef) string {
		return (&report.Protection{Then: then}).Hash(account)
	}
	seen := map[string]string{}
	for name, hash := range map[string]string{
		"none": of("a/b"), "none elsewhere": of("a/c"), "one": of("a/b", ref("r", "i", "n")), "another": of("a/b", ref("r", "i", "m")),
		"another region": of("a/b", ref("s", "i", "n")), "two": of("a/b", ref("r", "i", "m"), ref("r", "i", "n")),
	} {
		if other, found := seen[hash]; found || len(hash) != 16 {
			t.Errorf("%s: %s, as %s", name, hash, other)
		}
		seen[hash] = name
	}
	a := report.Protection{Then: []report.InterfaceRef{ref("r", "i", "n")}, Now: []report.InterfaceRef{ref("r", "j", "k")}}
	if a.Hash("a/b") != of("a/b", ref("r", "i", "n")) {
		t.Error("it depends on what is guarded now")
	}
}

// TestRecords: the records of a region are counted by how far they are proven, if that is asked.
func TestRecords(t *testing.T) {
	world := func() *intenttest.World {
		w := intenttest.New("web", "app", "db", "api", "own")
		for _, vm := range []string{"web", "app", "db", "api"} {
			w.Take(vm, nil)
		}
		w.Deselect("db")
		return w
	}
	count := func(w *intenttest.World) (out report.Records) {
		out.Count(states(w))
		return out
	}
	if r := count(world()); r.Signed+r.Outdated+r.Unsigned+len(r.Unproven) != 0 {
		t.Errorf("nobody asks: %+v", r)
	}
	w := world()
	w.Seal("web", "api")
	r := count(w)
	if r.Signed != 2 || r.Outdated != 0 || r.Unsigned != 0 || len(r.Unproven) != 2 {
		t.Fatalf("%+v", r)
	}
	for i, want := range []report.Unproven{
		{Region: intenttest.RegionName, Interface: "eni-app", VM: intenttest.VM("app")},
		{Region: intenttest.RegionName, Interface: "eni-db"}, // nobody selects it
	} {
		got := r.Unproven[i]
		if codes(got.Why) != "RecordUnsigned" {
			t.Errorf("%+v", got)
		}
		if got.Why = nil; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	w.Input.Seal.Lenient = true
	if r := count(w); r.Signed != 2 || r.Unsigned != 2 || len(r.Unproven) != 0 {
		t.Errorf("records may be older than the key: %+v", r)
	}
	w.SealAnew()
	w.Input.Seal.Lenient = false
	if r := count(w); r.Signed != 2 || r.Outdated != 2 || len(r.Unproven) != 2 {
		t.Errorf("with another key: %+v", r)
	}
}
