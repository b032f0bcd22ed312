package plan_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
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

// TestUnreadFronts: while those services cannot be read whose addresses nothing else tells, an
// address that nobody is seen to hold is theirs still, so that neither what lets in nor what drops
// loses them. It is so for no other service, and for no address that somebody else has.
func TestUnreadFronts(t *testing.T) {
	fault := func(kinds ...cloud.ServiceKind) *cloud.Snapshot {
		return &cloud.Snapshot{ServiceFaults: []cloud.ServiceFault{{API: "an API", Kinds: kinds, Err: errors.New("denied")}}}
	}
	shown := fault(cloud.LoadBalancer)
	shown.Services = []cloud.Service{{ID: "arn:10.0.0.99", Kind: cloud.LoadBalancer}}
	for _, action := range []v1beta2.RuleAction{"Allow", "Drop"} {
		for what, c := range map[string]struct {
			told    *cloud.Snapshot
			matches bool
		}{
			"all are read":                   {&cloud.Snapshot{}, false},
			"load balancers are not":         {fault(cloud.RDSInstance, cloud.LoadBalancer), true},
			"application gateways are not":   {fault(cloud.ApplicationGateway), true},
			"databases are not":              {fault(cloud.RDSInstance), false},
			"tags are not":                   {fault(), false},
			"it is shown without an address": {shown, false},
		} {
			e := withDatabases()
			e.History[0].Policies[0].Rules[0].Action = action
			f := e.cloud()
			settle(t, e, f, func(in *plan.Input) {
				databases(in, map[string]int32{"10.0.0.50": 5432, "10.0.0.99": 5432, "10.0.0.12": 5432})
				snap := *in.Regions[0].Snapshot
				snap.Services, snap.ServiceFaults = c.told.Services, c.told.ServiceFaults
				in.Regions[0].Snapshot = &snap
			})
			for to, matches := range map[string]bool{"10.0.0.50": true, "10.0.0.99": c.matches, "10.0.0.12": false} {
				if got := sends(f, to, 5432); got != (matches == (action == "Allow")) {
					t.Errorf("%s, %s: to %s: %v", action, what, to, got)
				}
			}
		}
	}
}

// TestNamedPortOfPeers: a name that no peer has is refused, and so is one that means very many
// numbers; without peers there is nothing to allow.
func TestNamedPortOfPeers(t *testing.T) {
	why := func(change func(*plan.Input)) []string {
		e := withDatabases()
		in := e.input(e.History[0], e.cloud())
		change(&in)
		var out []string
		for _, r := range plan.Compute(in, lower.AWS{}).Refusals {
			out = append(out, r.Message)
		}
		return out
	}
	if got := why(func(in *plan.Input) { databases(in, nil) }); len(got) > 0 {
		t.Errorf("without peers: %q", got)
	}
	if got := why(func(in *plan.Input) { databases(in, map[string]int32{"10.0.0.50": 0}) }); len(got) != 1 || !strings.Contains(got[0], `named port "postgres" is not a port of any of the peers`) {
		t.Errorf("%q", got)
	}
	if got := why(func(in *plan.Input) { databases(in, map[string]int32{"10.0.0.50": 0, "10.0.0.51": 5432}) }); len(got) > 0 {
		t.Errorf("one has the name: %q", got)
	}
	many := why(func(in *plan.Input) {
		databases(in, map[string]int32{"10.0.0.50": 5432})
		m := &in.AddressGroups[0].GroupMembers[0]
		for port := range int32(100) {
			m.Ports = append(m.Ports, v1beta2.NamedPort{Name: "postgres", Port: 6000 + port})
		}
	})
	if len(many) != 1 || !strings.Contains(many[0], "more than 64 numbers") {
		t.Errorf("%q", many)
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
