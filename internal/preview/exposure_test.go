package preview

import (
	"net/netip"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/manifest"
)

func tcp(from, to int) forecast.Packets {
	return forecast.Packets{Text: "tcp", Ranges: []forecast.Range{{Protocol: cloud.TCP, From: from, To: to}}}
}

func vms(names ...string) forecast.End { return forecast.End{VMs: names} }

func blocks(cidrs ...string) (out forecast.End) {
	for _, c := range cidrs {
		out.Addresses = append(out.Addresses, netip.MustParsePrefix(c))
	}
	return out
}

// TestChangesOfAccess: what opens to the Internet and what closes to somebody at work is one
// warning of each kind for a region, however many flows it is.
func TestChangesOfAccess(t *testing.T) {
	everything := forecast.Packets{Text: "everything", Except: true}
	change := func(opens bool, p forecast.Packets, from, to forecast.End) forecast.Change {
		return forecast.Change{Region: "r", Opens: opens, Packets: p, From: from, To: to}
	}
	internet, office := blocks("0.0.0.0/0"), blocks("198.51.100.0/24")
	for name, c := range map[string]struct {
		changes []forecast.Change
		want    []string
	}{
		"ssh":            {[]forecast.Change{change(true, tcp(22, 22), internet, vms("a"))}, []string{"OpensManagement opens ssh (tcp 22) to a from 0.0.0.0/0;"}},
		"both ways in":   {[]forecast.Change{change(true, tcp(22, 22), internet, vms("a")), change(true, tcp(3389, 3389), internet, vms("a"))}, []string{"OpensManagement opens ssh (tcp 22) and remote desktop (tcp 3389) to a from 0.0.0.0/0;"}},
		"by IPv6":        {[]forecast.Change{change(true, tcp(22, 22), blocks("::/0"), vms("a"))}, []string{"OpensManagement opens ssh"}},
		"in pieces":      {[]forecast.Change{change(true, tcp(22, 22), blocks("0.0.0.0/1", "128.0.0.0/1"), vms("a"))}, []string{"OpensManagement opens ssh"}},
		"an office":      {[]forecast.Change{change(true, tcp(22, 22), office, vms("a"))}, nil},
		"a web server":   {[]forecast.Change{change(true, tcp(443, 443), internet, vms("a"))}, []string{"OpensToInternet opens tcp to a from 0.0.0.0/0"}},
		"everything":     {[]forecast.Change{change(true, everything, internet, vms("a"))}, []string{"OpensManagement opens ssh (tcp 22) and remote desktop", "OpensToInternet opens everything to a"}},
		"from a VM":      {[]forecast.Change{change(true, tcp(22, 22), vms("b"), vms("a"))}, nil},
		"out of a VM":    {[]forecast.Change{change(true, tcp(22, 22), vms("a"), internet)}, nil},
		"nothing closes": {[]forecast.Change{change(false, tcp(443, 443), internet, vms("a"))}, nil},
		"five that close": {[]forecast.Change{change(false, tcp(22, 22), internet, vms("a")), change(false, tcp(22, 22), office, vms("b")), change(false, tcp(22, 22), vms("c"), vms("a")),
			change(false, tcp(22, 22), vms("d"), vms("b")), change(false, tcp(3389, 3389), internet, vms("w"))},
			[]string{"ClosesAccess closes ssh (tcp 22) to a, b from 0.0.0.0/0, 198.51.100.0/24, c, d, and remote desktop (tcp 3389) to w from 0.0.0.0/0; somebody may be at work"}},
	} {
		got := changesOfAccess(c.changes, func(string) *cloud.Snapshot { return nil })
		if len(got) != len(c.want) {
			t.Errorf("%s: %d warnings, want %d: %+v", name, len(got), len(c.want), got)
			continue
		}
		for i, w := range got {
			if text := w.Reason + " " + w.Message; !strings.HasPrefix(text, c.want[i]) {
				t.Errorf("%s: %q, want %q", name, text, c.want[i])
			}
		}
	}
}

// TestLosesPolicy: VMs that nothing guards any more are told once, by name. One of whose interfaces
// another is still guarded is none of them.
func TestLosesPolicy(t *testing.T) {
	ref := func(vm, nic string) plan.InterfaceRef {
		return plan.InterfaceRef{VM: plan.VMRef{Region: "r", ID: vm}, ID: nic}
	}
	names := map[string]string{"i-1": "web-1", "i-2": "web-2"}
	p := &plan.Protection{Now: []plan.InterfaceRef{ref("i-1", "e-1"), ref("i-1", "e-2"), ref("i-2", "e-3")}, Then: []plan.InterfaceRef{ref("i-1", "e-1")}}
	if got := losesPolicy(p, names); len(got) != 1 || got[0].Message != "no policy guards web-2 after this: its own security groups decide alone, and these may allow more" {
		t.Errorf("%+v", got)
	}
	p.Then = nil
	if got := losesPolicy(p, names); len(got) != 1 || !strings.HasPrefix(got[0].Message, "no policy guards web-1, web-2 after this: their own") {
		t.Errorf("%+v", got)
	}
	p.Then = p.Now
	if got := append(losesPolicy(p, names), losesPolicy(nil, names)...); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestNarrow: the plan of a policy says of VMs that it does not touch nothing, and that of anything
// else says all.
func TestNarrow(t *testing.T) {
	ours := plan.PolicyRef{Kind: "AntreaNetworkPolicy", Namespace: "n", Name: "ours"}
	vm := func(id string) plan.VMRef { return plan.VMRef{Region: "r", ID: id} }
	snapshot := &cloud.Snapshot{Scope: cloud.Scope{Region: "r"}, VMs: []cloud.VM{{ID: "i-1"}, {ID: "i-2"}, {ID: "i-3"}, {ID: "i-4"}}, Interfaces: []cloud.Interface{
		{ID: "e-1", VMID: "i-1"}, {ID: "e-2", VMID: "i-2", GroupIDs: []string{"sg-2"}}, {ID: "e-3", VMID: "i-3"}, {ID: "e-4", VMID: "i-4"}}}
	result := &plan.Result{}
	result.VMs = []plan.VMStatus{{VM: vm("i-1"), Policies: []plan.VMPolicy{{PolicyRef: ours}}}, {VM: vm("i-4"), Policies: []plan.VMPolicy{{PolicyRef: plan.PolicyRef{Kind: "AntreaNetworkPolicy", Namespace: "n", Name: "theirs"}}}}}
	result.Plan.Steps = []plan.Step{
		{Scope: cloud.Scope{Region: "r"}, Op: cloud.Op{Kind: cloud.OpAddRules, Target: "sg-2"}},
		{Scope: cloud.Scope{Region: "r"}, Op: cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: "e-3"}},
	}
	p := plannedAccount{ObservedAccount: &ObservedAccount{Regions: []plan.Region{{Snapshot: snapshot}}},
		Forecast: &forecast.Forecast{Rounds: []*plan.Result{result}, After: []*cloud.Snapshot{snapshot}}}
	notes := func() (out []analysis.PlanNote) {
		for _, object := range []string{"i-1", "i-2", "i-3", "i-4", "e-4", "sg-9", ""} {
			out = append(out, analysis.PlanNote{Region: "r", Object: object})
		}
		return out
	}
	a := analysis.AccountPlan{Notes: notes(), Warnings: notes()}
	in := &Inputs{Documents: map[string]*manifest.Document{objectKey(v1beta1.GroupName, "NetworkPolicy", "n", "ours"): {Group: v1beta1.GroupName, Kind: "NetworkPolicy"}}}
	if !in.narrow() {
		t.Error("a policy alone is not narrow")
	}
	p.keepTouched(&a, in.given)
	for _, list := range [][]analysis.PlanNote{a.Notes, a.Warnings} {
		var got []string
		for _, n := range list {
			got = append(got, n.Object)
		}
		if text := strings.Join(got, " "); text != "i-1 i-2 i-3 sg-9 " {
			t.Errorf("what is left is about %q", text)
		}
	}
	group := cloudv1alpha1.GroupVersion().Group
	in.Documents[objectKey(group, "CloudProviderAccount", "n", "a")] = &manifest.Document{Group: group, Kind: "CloudProviderAccount"}
	if in.narrow() || (&Inputs{}).narrow() {
		t.Error("an account, or nothing, is narrow")
	}
}
