package report_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent/intenttest"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
)

// TestObstructed: of what policies allow a VM it is told what the filter of its subnet denies, and
// nothing of what they leave to the groups that the VM has of its own.
func TestObstructed(t *testing.T) {
	entry := func(number int, allow bool, protocol, from, to int, peers ...string) cloud.ACLEntry {
		e := cloud.ACLEntry{Number: number, Name: fmt.Sprint(number), Allow: allow, Protocol: protocol, From: from, To: to}
		for _, p := range peers {
			e.Peers = append(e.Peers, netip.MustParsePrefix(p))
		}
		return e
	}
	all := func(number int, allow bool) cloud.ACLEntry {
		return entry(number, allow, cloud.AnyProtocol, -1, -1, "0.0.0.0/0")
	}
	out := func(e cloud.ACLEntry) cloud.ACLEntry {
		e.Egress = true
		return e
	}
	for name, c := range map[string]struct {
		entries []cloud.ACLEntry
		change  func(*intenttest.World)
		want    string
	}{
		"all may pass": {[]cloud.ACLEntry{all(100, true), out(all(100, true))}, nil, "[]"},
		"one peer may not": {[]cloud.ACLEntry{entry(90, false, cloud.TCP, 0, 100, "10.0.0.11/32"), all(100, true), out(all(100, true))}, nil,
			"[eni-web ingress acl edge [90] [p] tcp 80 10.0.0.11]"},
		"the port is another one":                {[]cloud.ACLEntry{entry(90, false, cloud.TCP, 81, 100, "10.0.0.11/32"), all(100, true)}, nil, "[]"},
		"an admitted source comes first":         {[]cloud.ACLEntry{entry(90, false, cloud.TCP, 0, 100, "10.0.0.0/8"), entry(80, true, cloud.TCP, 80, 80, "10.0.0.8/29")}, nil, "[]"},
		"nobody is let in by an entry":           {[]cloud.ACLEntry{entry(80, true, cloud.TCP, 80, 80, "10.0.0.0/29")}, nil, "[eni-web ingress acl edge [] [p] tcp 80 10.0.0.11]"},
		"egress is left to the groups of the VM": {[]cloud.ACLEntry{all(100, true), out(all(100, false))}, nil, "[]"},
		"egress is what a policy is about": {[]cloud.ACLEntry{all(100, true), out(all(100, false))},
			func(w *intenttest.World) { w.Policy("q", "web", "allow egress udp 53 to 192.0.2.0/24") }, "[eni-web egress acl edge [100] [q] udp 53 192.0.2.0/24]"},
		"two policies allow it": {[]cloud.ACLEntry{all(100, false)}, func(w *intenttest.World) { w.Policy("q", "web", "allow ingress any from app") },
			"[eni-web ingress acl edge [100] [p q] tcp 0-79 10.0.0.11; tcp 80 10.0.0.11; tcp 81-65535 10.0.0.11; any protocol 10.0.0.11]"},
		"of two policies one is about the port": {[]cloud.ACLEntry{entry(90, false, cloud.TCP, 0, 80, "10.0.0.11/32"), all(100, true)},
			func(w *intenttest.World) { w.Policy("q", "web", "allow ingress tcp 90 from app") }, "[eni-web ingress acl edge [90] [p] tcp 80 10.0.0.11]"},
		"a policy that drops is none of them": {[]cloud.ACLEntry{all(100, false)}, func(w *intenttest.World) { w.Policy("q", "web", "drop ingress tcp 80 from app") },
			"[eni-web ingress acl edge [100] [p] tcp 80 10.0.0.11]"},
		"it is not sure":           {[]cloud.ACLEntry{func() cloud.ACLEntry { e := all(90, true); e.Unsure = true; return e }(), all(100, false)}, nil, "[]"},
		"the VM is planned":        {[]cloud.ACLEntry{all(100, false)}, func(w *intenttest.World) { w.Modes[intenttest.VM("web")] = intent.Planned }, "[]"},
		"the subnet has no filter": {[]cloud.ACLEntry{all(100, false)}, func(w *intenttest.World) { w.NIC("web").SubnetID = "other" }, "[]"},
		"the interface stays as it is": {[]cloud.ACLEntry{all(100, false)}, func(w *intenttest.World) {
			w.Blocked = map[intent.InterfaceKey]string{{Region: intenttest.RegionName, ID: "eni-web"}: "no right"}
		}, "[]"},
	} {
		w := shop()
		w.Snap.ACLs = []cloud.NetworkACL{{ID: "acl", Name: "edge", SubnetIDs: []string{"front"}, Entries: c.entries}}
		w.NIC("web").SubnetID = "front"
		if c.change != nil {
			c.change(w)
		}
		s := states(w)
		var told report.Outcome
		told.Add(s, stays(w, s), nil)
		got := []string{}
		for _, o := range told.VMs[slices.IndexFunc(told.VMs, func(vm report.VMStatus) bool { return vm.VM.ID == "web" })].Obstructed {
			text := fmt.Sprint(o.Interface, " ", o.Direction, " ", o.ACL, " ", o.Name, " ", o.Entries, " ", names(o.Policies))
			for i, g := range o.Denied {
				text += map[bool]string{true: " ", false: "; "}[i == 0] + fmt.Sprint(g.Service, " ", g.All.Words(3))
			}
			got = append(got, text)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: got %v, want %s", name, got, c.want)
		}
	}
}

func names(refs []intent.PolicyRef) (out []string) {
	for _, p := range refs {
		out = append(out, p.Name)
	}
	return out
}

// TestWaitingIsNoRefusal: what only waits for others is refused nowhere, whatever the wait is for.
func TestWaitingIsNoRefusal(t *testing.T) {
	w := shop()
	s := states(w)
	s.Await([]*guard.NIC{nicOf(s, "web")}, reason.Why(reason.RulesShort))
	var told report.Outcome
	if told.Add(s, stays(w, s), nil); len(told.Refusals) > 0 {
		t.Errorf("%+v", told.Refusals)
	}
}
