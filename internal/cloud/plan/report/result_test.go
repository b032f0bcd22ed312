package report_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent/intenttest"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
)

// shop has web under control, for a policy that lets app reach it and that is in force, and db with
// its own group.
func shop() *intenttest.World {
	w := intenttest.New("web", "app", "db")
	w.Policy("p", "web", "allow ingress tcp 80 from app")
	w.Take("web", []string{"ingress tcp 80 from 10.0.0.11/32", "egress all to 0.0.0.0/0"}, "p")
	w.Native("sg-web", "egress all to 0.0.0.0/0")
	return w
}

// states reads a world and decides what becomes of interfaces.
func states(w *intenttest.World) *guard.States {
	s := guard.NewStates(w.Region())
	s.DecideStates()
	return s
}

func nicOf(s *guard.States, vm string) *guard.NIC {
	return s.NICs[slices.IndexFunc(s.NICs, func(n *guard.NIC) bool { return n.VMID == vm })]
}

// stays is the design in which everything is as it is.
func stays(w *intenttest.World, s *guard.States) *form.Design {
	d := &form.Design{Targets: map[*guard.NIC][]string{}, ByKey: map[string]*form.Group{}}
	for _, n := range s.NICs {
		d.Targets[n] = n.GroupIDs
	}
	for i := range w.Snap.Groups {
		if g := &w.Snap.Groups[i]; s.Region.Ours(g) {
			d.ByKey[g.ID] = &form.Group{Key: g.ID, Existing: g, Rules: cloud.RuleKeys(g.Rules)}
		}
	}
	return d
}

// codes returns the codes of a reason and of its causes.
func codes(why *reason.Reason) string {
	var out []string
	for ; why != nil; why = why.Because {
		out = append(out, string(why.Code))
	}
	return strings.Join(out, ">")
}

func set(dirty ...string) map[string]bool {
	out := map[string]bool{}
	for _, id := range dirty {
		out[id] = true
	}
	return out
}

// TestPolicyOnVM: what is said of the policy p on web, and what of it is a refusal.
func TestPolicyOnVM(t *testing.T) {
	short := func(n int) *reason.Reason {
		r := reason.Why(reason.RulesShort)
		r.Lack = &reason.Lack{Quota: reason.QuotaRulesPerGroup, Direction: "ingress", Needed: n}
		return r
	}
	mode := func(m intent.Mode) func(*intenttest.World) {
		return func(w *intenttest.World) { w.Modes[intenttest.VM("web")] = m }
	}
	leaveOut := func(s *guard.States) {
		vm := nicOf(s, "web").VM
		s.LeaveOut(vm, vm.Policies[0], short(7))
		s.DecideStates()
	}
	for name, c := range map[string]struct {
		world    func(*intenttest.World)
		ruledOut func(*guard.States)
		dirty    []string
		want     string // the state of the policy, then its warnings
		refused  string // VM or network, the reason, the direction, whether the interface stays
	}{
		"nothing is to be done":          {want: "realized"},
		"its interface changes":          {dirty: []string{"eni-web"}, want: "pending"},
		"its group changes":              {dirty: []string{"ours-web"}, want: "pending"},
		"others change":                  {dirty: []string{"eni-db", "sg-db"}, want: "realized"},
		"a direction is held back":       {ruledOut: func(s *guard.States) { s.Restrict(nicOf(s, "web"), [2]bool{true, false}) }, want: "pending"},
		"the interface waits for others": {ruledOut: func(s *guard.States) { s.Await([]*guard.NIC{nicOf(s, "web")}, short(7)) }, want: "pending"},
		"it does not fit, and an earlier form is in force": {ruledOut: leaveOut, want: "failed Kept>RulesShort",
			refused: "here/web p Kept>RulesShort ingress needs 7, kept"},
		"it does not fit, and never was in force": {world: func(w *intenttest.World) {
			*w = *intenttest.New("web", "app")
			w.Policy("p", "web", "allow ingress tcp 80 from app")
		}, ruledOut: leaveOut, want: "failed RulesShort", refused: "here/web p RulesShort ingress needs 7, left out"},
		"there is no clean order": {ruledOut: func(s *guard.States) {
			s.Block(func(n *guard.NIC) *reason.Reason {
				if n.VMID == "web" {
					return reason.Why(reason.OrderGroupLater)
				}
				return nil
			})
		}, want: "failed InterfaceStays>OrderGroupLater", refused: "here/web  InterfaceStays>OrderGroupLater , kept"},
		"nobody may change the interface": {world: func(w *intenttest.World) {
			*w = *intenttest.New("web", "app")
			w.Policy("p", "web", "allow ingress tcp 80 from app")
			w.NIC("web").Untouchable = "it is of a scale set"
		}, want: "failed Untouchable", refused: "here/web  Untouchable , left out"},
		"its interface is not seen": {world: func(w *intenttest.World) {
			w.Snap.Interfaces = slices.DeleteFunc(w.Snap.Interfaces, func(n cloud.Interface) bool { return n.VMID == "web" })
		}, want: "failed NoInterface"},
		"its interface is not seen, and an agent enforces": {world: func(w *intenttest.World) {
			w.Agents = map[intent.VMRef][2]bool{intenttest.VM("web"): {true, true}}
			w.Snap.Interfaces = slices.DeleteFunc(w.Snap.Interfaces, func(n cloud.Interface) bool { return n.VMID == "web" })
		}, want: "realized"},
		"the VM is planned":  {world: mode(intent.Planned), dirty: []string{"eni-web"}, want: "said nothing of in mode plan"},
		"the VM is released": {world: mode(intent.Released), want: "said nothing of in mode released"},
		"it rejects":         {world: func(w *intenttest.World) { w.Policy("q", "web", "reject ingress tcp 81 from app") }, want: "realized"},
		"an interface is a service's": {world: func(w *intenttest.World) {
			n := *w.NIC("db")
			n.VMID, n.Managed = "web", true
			*w.NIC("db") = n
		}, want: "failed OfService", refused: "here/web  OfService , left out"},
		"nobody may change an interface, and an agent enforces": {world: func(w *intenttest.World) {
			w.Agents = map[intent.VMRef][2]bool{intenttest.VM("web"): {}}
			w.NIC("web").Untouchable = "it is of a scale set"
		}, want: "realized"},
		"an interface is a service's, and an agent enforces what the cloud must let in": {world: func(w *intenttest.World) {
			w.Agents = map[intent.VMRef][2]bool{intenttest.VM("web"): {true, true}}
			n := *w.NIC("db")
			n.VMID, n.Managed = "web", true
			*w.NIC("db") = n
		}, want: "failed OfService", refused: "here/web  OfService , left out"},
		"it takes a port out of all protocols": {world: func(w *intenttest.World) {
			*w.Policies[0] = *intenttest.New("web").Policy("p", "web", "drop egress tcp 25 to 192.0.2.0/24")
			w.AppliedToGroups[0].Name = "to-p"
		}, want: "realized, ProtocolsReduced"},
	} {
		w := shop()
		if c.world != nil {
			c.world(w)
		}
		s := states(w)
		if c.ruledOut != nil {
			c.ruledOut(s)
		}
		var out report.Outcome
		out.Add(s, stays(w, s), set(c.dirty...))
		if got := stateOf(out, "web", "p"); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		var refused []string
		for _, r := range out.Refusals {
			text := fmt.Sprintf("%s %s %s %s", r.VM, r.Policy.Name, codes(r.Why), r.Direction)
			if r.Lack != nil {
				text += fmt.Sprintf(" needs %d", r.Lack.Needed)
			}
			text += map[bool]string{true: ", kept", false: ", left out"}[r.Kept]
			if r.Network != intenttest.Network || r.Region != intenttest.RegionName {
				text += " in " + r.Region + "/" + r.Network
			}
			refused = append(refused, text)
		}
		if got := strings.Join(refused, "; "); got != c.refused {
			t.Errorf("%s: refused %q, want %q", name, got, c.refused)
		}
	}
}

// stateOf says in a word what a policy is on a VM, and the codes of why.
func stateOf(out report.Outcome, vm, policy string) string {
	for _, status := range out.VMs {
		for _, p := range status.Policies {
			if status.VM.ID != vm || p.Name != policy {
				continue
			}
			text := "pending"
			switch {
			case status.Mode != intent.Enforce:
				text = "said nothing of in mode " + string(status.Mode)
			case p.Why != nil:
				text = "failed " + codes(p.Why)
			case p.Realized:
				text = "realized"
			}
			if p.Realized && text != "realized" {
				text += ", and realized"
			}
			for _, why := range p.Warnings {
				text += ", " + codes(why)
			}
			return text
		}
	}
	return "not told"
}

// TestWarnings: a policy that rejects says so on every VM on which the cloud enforces it, and on no
// other.
func TestWarnings(t *testing.T) {
	w := shop()
	w.Policy("q", "web db", "reject ingress tcp 81 from app")
	w.Agents = map[intent.VMRef][2]bool{intenttest.VM("db"): {true, true}}
	s := states(w)
	var out report.Outcome
	out.Add(s, stays(w, s), nil)
	for on, want := range map[string]string{"web p": "realized", "web q": "realized, RejectIsDrop", "app p": "not told"} {
		vm, policy, _ := strings.Cut(on, " ")
		if got := stateOf(out, vm, policy); got != want {
			t.Errorf("%s: %s, want %s", on, got, want)
		}
	}
	if got := stateOf(out, "db", "q"); strings.Contains(got, "RejectIsDrop") {
		t.Errorf("on a VM that is left to its agent: %s", got)
	}
}

// TestInterfaces: what is said of interfaces when the plan is done, and as they are.
func TestInterfaces(t *testing.T) {
	w := shop()
	s := states(w)
	design := stays(w, s)
	design.Targets[nicOf(s, "app")] = []string{"+ours", "sg-app"}
	var out report.Outcome
	out.Add(s, design, nil)
	got := map[string]string{}
	for _, vm := range out.VMs {
		for _, n := range vm.Interfaces {
			got[n.ID] = fmt.Sprint(n.State, " ", n.Former, " ", n.Groups, " ", n.Network, " ", n.Held)
		}
	}
	for id, want := range map[string]string{"eni-web": "Guarded [sg-web] [ours-web] vpc true", "eni-app": "Member [] [+ours sg-app] vpc false", "eni-db": "Untouched [] [sg-db] vpc false"} {
		if got[id] != want {
			t.Errorf("%s: %s, want %s", id, got[id], want)
		}
	}

	w.NIC("app").GroupIDs = []string{"ours-web", "sg-app"}
	s = states(w)
	for vm, want := range map[string]string{"web": "Guarded[sg-web]", "app": "Member[]", "db": "Untouched[]"} {
		if is := report.AsObserved(nicOf(s, vm)); fmt.Sprint(is.State, is.Former) != want || is.WhyUnproven != nil {
			t.Errorf("%s is observed as %+v, want %s", vm, is, want)
		}
	}
	w.NIC("web").Managed = true
	if is := report.AsObserved(nicOf(states(w), "web")); is.State != guard.Guarded || is.Former != nil || codes(is.WhyUnproven) != "OfService" {
		t.Errorf("of a service: %+v", is)
	}
}

// TestDrift: what somebody has changed by hand is told, with what that may cut while it is put
// right.
func TestDrift(t *testing.T) {
	hold := func(groups ...string) func(*intenttest.World) {
		return func(w *intenttest.World) { w.NIC("web").GroupIDs = groups }
	}
	ours := func(w *intenttest.World) *cloud.Group { return w.Snap.Group("ours-web") }
	describe := func(text string) func(*intenttest.World) {
		return func(w *intenttest.World) {
			added := intenttest.Rules("ingress tcp 22 from 0.0.0.0/0")
			added[0].Description = text
			ours(w).Rules = append(ours(w).Rules, added...)
		}
	}
	for name, c := range map[string]struct {
		change func(*intenttest.World)
		want   []string
	}{
		"nobody did anything":             {func(*intenttest.World) {}, nil},
		"into a group that gives nothing": {hold("ours-web", "sg-db"), []string{"eni-web PutInto[sg-db]"}},
		"into a group that is all that gives it what it shall have": {func(w *intenttest.World) {
			w.Native("sg-db", "ingress tcp 80-81 from 10.0.0.0/24")
			ours(w).Rules = nil
			hold("ours-web", "sg-db")(w)
		}, []string{"eni-web PutInto[sg-db]", "eni-web MayPause[eni-web] ingress tcp 80 10.0.0.11"}},
		"out of its group":             {hold("sg-db"), []string{"eni-web PutInto[sg-db]", "eni-web TakenOut[]"}},
		"back into its own":            {hold("sg-web"), nil},
		"a rule":                       {describe(""), []string{"ours-web RuleAdded[ingress tcp 22 from 0.0.0.0/0]"}},
		"a rule, said to be of others": {describe("mine"), []string{"ours-web RuleAdded[ingress tcp 22 from 0.0.0.0/0]"}},
		"a rule of ours that goes":     {describe("managed by Nephele"), nil},
		"a rule of a planned VM": {func(w *intenttest.World) {
			w.Modes[intenttest.VM("web")] = intent.Planned
			describe("")(w)
		}, []string{"ours-web RuleAdded[ingress tcp 22 from 0.0.0.0/0], kept"}},
		"the tags of its group":            {func(w *intenttest.World) { ours(w).Tags = nil }, []string{"ours-web TagsChanged[nephele-web]"}},
		"the interface is a service's now": {func(w *intenttest.World) { w.NIC("web").Managed = true }, []string{"eni-web OfService[eni-web], kept"}},
		"the record of web, on which db relies, for its own group lets the group of web in": {func(w *intenttest.World) {
			w.Native("sg-db", "ingress tcp 5432 from sg-web")
			w.Take("db", []string{"ingress tcp 5432 from 10.0.0.10/32"})
			w.Seal("db")
		}, []string{"eni-db RecordCuts[eni-db] ingress tcp 5432 10.0.0.10", "eni-web RecordUnsigned[eni-web], kept"}},
	} {
		w := shop()
		s := states(w)
		was := stays(w, s)
		c.change(w)
		s = states(w)
		design := stays(w, s)
		for key, g := range was.ByKey {
			design.ByKey[key] = g
		}
		var out report.Outcome
		out.Add(s, design, nil)
		var got []string
		for _, d := range out.Drift {
			text := fmt.Sprint(d.Object, " ", d.Why.Code, d.Why.Objects)
			if d.Why.Flow != nil {
				text += fmt.Sprint(" ", d.Why.Flow.Direction, " ", d.Why.Flow.Service, " ", d.Why.Flow.Addrs.Words(3))
			}
			if d.Kept {
				text += ", kept"
			}
			got = append(got, text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
