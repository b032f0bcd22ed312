package preview_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// mixedPolicies let flows open and close at both ends, with and without isolation.
const mixedPolicies = `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: isolate, namespace: vms}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-vm-uid: i-075dc46a9bc347264}}}]
  ingress:
  - {name: ssh, action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 22}, {port: 8000, endPort: 8080}]}
  - {name: peer, action: Allow, from: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-vm-uid: i-0837c877110427f2b}}}], ports: [{protocol: UDP, port: 53}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: drop, namespace: vms}
spec:
  priority: 7
  appliedTo: [{externalEntitySelector: {}}]
  egress:
  - {name: smtp, action: Drop, to: [{ipBlock: {cidr: 0.0.0.0/0, except: [192.168.1.0/24]}}], ports: [{port: 25}]}
  ingress:
  - {name: ping, action: Drop, protocols: [{icmp: {icmpType: 8, icmpCode: 0}}]}
`

// TestForecastIsWhatHappens does what plans say on the simulator and asks it which flows have
// changed: exactly those that were told.
func TestForecastIsWhatHappens(t *testing.T) {
	server := previewtest.Simulated(t, previewtest.Loaded(t, previewtest.HybridCloud), 0)
	provider := previewtest.AWS(t, server, "us-west-2")
	p := previewtest.Planner(t, provider, previewtest.HybridManifests+"---"+mixedPolicies)
	planned, err := p.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := planned.Accounts[0].Regions[0].Snapshot
	changes := forecast.Reach(before, planned.Accounts[0].Forecast.After[0])
	flows := flowsOf(before)
	was := verdicts(t, server.World(), flows)
	previewtest.Perform(t, provider, p)
	now := verdicts(t, server.World(), flows)
	opened, closed, wrong := 0, 0, 0
	for i, f := range flows {
		told := [2]bool{f.told(changes, false), f.told(changes, true)}
		want := [2]bool{was[i] && !now[i], now[i] && !was[i]}
		if told != want && wrong < 10 {
			wrong++
			t.Errorf("%+v: was %v, is %v; told as closing %v, as opening %v", f, was[i], now[i], told[0], told[1])
		}
		if want[0] {
			closed++
		}
		if want[1] {
			opened++
		}
	}
	t.Logf("%d flows, %d opened, %d closed; %d changes told", len(flows), opened, closed, len(changes))
	if opened == 0 || closed == 0 {
		t.Errorf("of %d flows %d opened and %d closed: want some of both", len(flows), opened, closed)
	}
}

// probe is a flow; an end is an interface or, without a name, an address outside.
type probe struct {
	src, dst       packet.End
	from, to       string
	protocol, port int
}

// flowsOf are flows between all interfaces of the network of the policies, and with some addresses
// outside.
func flowsOf(s *cloud.Snapshot) []probe {
	type end struct {
		packet.End
		name string
	}
	vms := map[string]*cloud.VM{}
	for i := range s.VMs {
		vms[s.VMs[i].ID] = &s.VMs[i]
	}
	var ends []end
	network := ""
	for _, n := range s.Interfaces {
		if n.VMID == "i-075dc46a9bc347264" {
			network = n.NetworkID
		}
	}
	for _, n := range s.Interfaces {
		if n.NetworkID != network {
			continue
		}
		name := n.ID
		if vm := vms[n.VMID]; vm != nil {
			name = vm.Name
			if len(vm.Interfaces) > 1 {
				name += "/" + n.ID
			}
		}
		ends = append(ends, end{packet.End{NIC: n.ID, Addr: n.PrivateIPs[0]}, name})
	}
	for _, a := range []string{"10.1.2.3", "8.8.8.8", "192.168.1.77", "38.140.26.9"} {
		ends = append(ends, end{packet.End{Addr: netip.MustParseAddr(a), VPC: network}, ""})
	}
	var out []probe
	for _, a := range ends {
		for _, b := range ends {
			if a == b || a.name == "" && b.name == "" {
				continue
			}
			for _, s := range [][2]int{{6, 22}, {6, 23}, {6, 25}, {6, 7999}, {6, 8000}, {6, 8080}, {6, 8081}, {17, 53}, {17, 54}, {1, 8 << 8}, {1, 8<<8 | 1}, {1, 0}, {47, 0}} {
				out = append(out, probe{a.End, b.End, a.name, b.name, s[0], s[1]})
			}
		}
	}
	return out
}

func verdicts(t *testing.T, w *world.World, flows []probe) []bool {
	t.Helper()
	out := make([]bool, len(flows))
	for i, f := range flows {
		v, err := w.Allowed(packet.Flow{Src: f.src, Dst: f.dst, Protocol: f.protocol, Port: f.port, ICMPType: f.port >> 8, ICMPCode: f.port & 0xff})
		if err != nil {
			t.Fatal(fmt.Errorf("%+v: %w", f, err))
		}
		out[i] = v.Allowed
	}
	return out
}

// told reports whether the flow is in one of the changes.
func (f probe) told(changes []forecast.Change, opens bool) bool {
	holds := func(e forecast.End, name string, addr netip.Addr) bool {
		if name != "" {
			return slices.Contains(e.VMs, name)
		}
		return slices.ContainsFunc(e.Addresses, func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	return slices.ContainsFunc(changes, func(c forecast.Change) bool {
		return c.Opens == opens && c.Packets.Contain(f.protocol, f.port) && holds(c.From, f.from, f.src.Addr) && holds(c.To, f.to, f.dst.Addr)
	})
}
