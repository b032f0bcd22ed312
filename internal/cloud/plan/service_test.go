package plan_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// withDatabases is a world of three VMs and two interfaces of databases, 10.0.0.50 and 10.0.0.51.
// The policy lets the first VM send to the peers at the port postgres.
func withDatabases() *estate {
	e := small()
	for _, ip := range []string{"10.0.0.50", "10.0.0.51"} {
		e.NICs = append(e.NICs, nicSpec{Net: 0, VM: -1, IPs: []string{ip}, Groups: []int{3}, Managed: true})
	}
	r := &e.History[0].Policies[0].Rules[0]
	r.Out, r.Services = true, []serviceSpec{{Protocol: "TCP", Name: "postgres", Type: -1}}
	return e
}

// databases makes entities of databases the peers, each with the port postgres as given.
func databases(in *plan.Input, ports map[string]int32) {
	g := *in.AddressGroups[0]
	g.GroupMembers = nil
	in.Services = map[plan.EntityRef]plan.VMRef{}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range ports {
			if !yield(name) {
				return
			}
		}
	}) {
		m := v1beta2.GroupMember{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "vms", Name: name}}
		a := netip.MustParseAddr(name).As16()
		m.IPs = []v1beta2.IPAddress{a[:]}
		if ports[name] != 0 {
			m.Ports = []v1beta2.NamedPort{{Name: "postgres", Port: ports[name], Protocol: v1beta2.ProtocolTCP}}
		}
		g.GroupMembers = append(g.GroupMembers, m)
		in.Services[plan.EntityRef{Namespace: "vms", Name: name}] = plan.VMRef{Region: in.Regions[0].Snapshot.Region, ID: "arn:" + name}
	}
	in.AddressGroups[0] = &g
}

// sends reports whether the first VM may send to an address.
func sends(f *fakeCloud, to string, port int) bool {
	return f.prober().half(nicID(0), cloud.Egress, remote{netip.MustParseAddr(to), ""}, packet{cloud.TCP, port})
}

// TestServiceAsPeer: rules name a native service by its addresses, and a port of it by the name
// that it has there: each service its own number. An address of the network that no interface of a
// service holds (any more) is nobody's.
func TestServiceAsPeer(t *testing.T) {
	e := withDatabases()
	f := e.cloud()
	res := settle(t, e, f, func(in *plan.Input) {
		databases(in, map[string]int32{"10.0.0.50": 5432, "10.0.0.51": 5433, "10.0.0.99": 5432, "10.0.0.12": 5432, "192.0.2.9": 5432})
	})
	if len(res.Refusals) > 0 || len(res.Policies[0].Realized) != 1 {
		t.Fatalf("%+v %+v", res.Refusals, res.Policies)
	}
	for _, c := range []struct {
		to   string
		port int
		may  bool
	}{
		{"10.0.0.50", 5432, true}, {"10.0.0.50", 5433, false}, {"10.0.0.50", 22, false}, {"10.0.0.51", 5433, true}, {"10.0.0.51", 5432, false},
		{"10.0.0.99", 5432, false}, {"10.0.0.12", 5432, false}, {"10.0.0.11", 5432, false}, {"192.0.2.9", 5432, true},
	} {
		if got := sends(f, c.to, c.port); got != c.may {
			t.Errorf("to %s:%d: %v, want %v", c.to, c.port, got, c.may)
		}
	}
	// A failover: the other address has the number now.
	settle(t, e, f, func(in *plan.Input) { databases(in, map[string]int32{"10.0.0.51": 5432}) })
	if sends(f, "10.0.0.50", 5432) || !sends(f, "10.0.0.51", 5432) || sends(f, "10.0.0.51", 5433) {
		t.Error("the rules have not followed")
	}
}

// TestNamedPortBesideNumbers: what a rule says of ports by number holds for all of its peers,
// blocks included; a name holds for those that have it.
func TestNamedPortBesideNumbers(t *testing.T) {
	e := withDatabases()
	e.History[0].Policies[0].Rules[0].Blocks = []blockSpec{{CIDR: "198.51.100.0/24"}}
	f := e.cloud()
	res := settle(t, e, f, func(in *plan.Input) {
		databases(in, map[string]int32{"10.0.0.50": 5432, "10.0.0.51": 0})
		p := in.Policies[0].DeepCopy()
		number, tcp := intstr.FromInt32(443), v1beta2.ProtocolTCP
		p.Rules[0].Services = append(p.Rules[0].Services, v1beta2.Service{Protocol: &tcp, Port: &number})
		in.Policies[0] = p
	})
	if len(res.Refusals) > 0 {
		t.Fatalf("%+v", res.Refusals)
	}
	for to, ports := range map[string][]int{"10.0.0.50": {443, 5432}, "10.0.0.51": {443}, "198.51.100.7": {443}, "10.0.0.11": nil} {
		for _, port := range []int{443, 5432, 5433} {
			if got := sends(f, to, port); got != slices.Contains(ports, port) {
				t.Errorf("to %s:%d: %v", to, port, got)
			}
		}
	}
}

// TestServiceAsSubject: a policy on a native service is refused there, and enforced on the VMs that
// it applies to as well.
func TestServiceAsSubject(t *testing.T) {
	e := small()
	f := e.cloud()
	db := plan.EntityRef{Namespace: "vms", Name: "db"}
	res := settle(t, e, f, func(in *plan.Input) {
		in.Services = map[plan.EntityRef]plan.VMRef{db: {Region: in.Regions[0].Snapshot.Region, ID: "arn:db"}}
		g := *in.AppliedToGroups[0]
		g.GroupMembers = append(slices.Clip(g.GroupMembers), v1beta2.GroupMember{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: db.Namespace, Name: db.Name}})
		in.AppliedToGroups[0] = &g
	})
	p := res.Policies[0]
	if len(p.Realized) != 1 || len(p.Failed) > 0 || len(p.Unguarded) != 1 || p.Unguarded[0].Entity != db || !strings.Contains(p.Unguarded[0].Message, "vms/db is a native service") {
		t.Errorf("%+v", p)
	}
	if len(res.Refusals) != 1 || res.Refusals[0].Policy != p.PolicyRef || res.Refusals[0].Message != p.Unguarded[0].Message {
		t.Errorf("%+v", res.Refusals)
	}
}

// TestModeOfFixedService: a policy on a native service whose groups cannot be set is suspended
// there while the service's mode lets nothing be enforced, as on a VM, and refused no sooner.
func TestModeOfFixedService(t *testing.T) {
	for _, mode := range []plan.Mode{plan.Planned, plan.Released, plan.BreakGlass, plan.Enforce} {
		e := small()
		db, ref := plan.EntityRef{Namespace: "vms", Name: "db"}, plan.VMRef{}
		res := settle(t, e, e.cloud(), func(in *plan.Input) {
			ref = plan.VMRef{Region: in.Regions[0].Snapshot.Region, ID: "arn:db"}
			in.Services, in.Modes = map[plan.EntityRef]plan.VMRef{db: ref}, map[plan.VMRef]plan.Mode{ref: mode}
			g := *in.AppliedToGroups[0]
			g.GroupMembers = append(slices.Clip(g.GroupMembers), v1beta2.GroupMember{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: db.Namespace, Name: db.Name}})
			in.AppliedToGroups[0] = &g
		})
		p := res.Policies[0]
		at := slices.IndexFunc(res.VMs, func(vm plan.VMStatus) bool { return vm.VM == ref })
		if mode == plan.Enforce {
			if at >= 0 || len(p.Suspended) > 0 || len(p.Unguarded) != 1 || p.Unguarded[0].VM != ref || len(res.Refusals) != 1 {
				t.Errorf("enforced: %+v, %+v", p, res.Refusals)
			}
			continue
		}
		if at < 0 || res.VMs[at].Mode != mode || len(res.VMs[at].Policies) != 1 || res.VMs[at].Policies[0].Message != "" {
			t.Errorf("%s: the service is told as %+v", mode, res.VMs)
		}
		if len(p.Realized) != 1 || !slices.Equal(p.Suspended, []plan.VMRef{ref}) || len(p.Failed)+len(p.Unguarded)+len(res.Refusals) > 0 {
			t.Errorf("%s: %+v, %+v", mode, p, res.Refusals)
		}
	}
}
