package realize

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// realAccount is a published account with all its VMs selected, and the flows that its own rules
// could tell apart.
type realAccount struct {
	*lab
	// vmOf is the VM of an interface.
	vmOf map[string]string
	// refers holds the VMs with a group of whose rules one refers to a group.
	refers map[string]bool
	flows  []realFlow
	native []packet.Verdict

	mu          sync.Mutex // guards what the hook uses
	old, wanted []bool
	found       []string
}

// realFlow is a flow with its ends as the engine knows them; an end outside has no VM.
type realFlow struct {
	packet.Flow
	src, dst string // VM
	asked    evaluate.Flow
}

// realPaths are the published accounts; the first one is compiled into the simulator.
var realPaths = []string{"", "../../../testdata/aws/web-tier", "../../../testdata/aws/collector-sg1.json"}

func realName(path string) string {
	if path == "" {
		return "hybrid-cloud"
	}
	return filepath.Base(path)
}

func newRealAccount(t *testing.T, path string) *realAccount {
	t.Helper()
	state, _, err := estate.HybridCloud()
	if path != "" {
		state, _, err = estate.Load(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	var regions []string
	for _, r := range state.Regions {
		if len(r.VPCs) > 0 {
			regions = append(regions, r.Name)
		}
	}
	a := &realAccount{lab: newLab(t, labConfig{regions: regions, state: &state}), vmOf: map[string]string{}, refers: map[string]bool{}}
	n := 0
	for _, r := range state.Regions {
		addrs := map[string][]netip.Addr{}
		referring := map[string]bool{}
		for _, g := range r.SecurityGroups {
			referring[g.ID] = slices.ContainsFunc(g.Rules, func(r aws.SecurityGroupRule) bool { return r.Group != nil })
		}
		for _, nic := range r.NetworkInterfaces {
			if nic.Attachment != nil && nic.Attachment.InstanceID != "" {
				vm := nic.Attachment.InstanceID
				a.vmOf[nic.ID] = vm
				a.refers[vm] = a.refers[vm] || slices.ContainsFunc(nic.Groups, func(g aws.GroupName) bool { return referring[g.ID] })
				addrs[vm] = append(addrs[vm], ownAddrs(&nic)...)
			}
		}
		for _, i := range r.Instances {
			if i.State == aws.Terminated {
				continue
			}
			a.vms[i.ID] = labVM{id: i.ID, region: r.Name, labels: map[string]string{"role": []string{"web", "db", "app"}[n%3]}}
			n++
			a.accounts.account.Entities[plan.EntityRef{Namespace: labNamespace, Name: i.ID}] = plan.VMRef{Region: r.Name, ID: i.ID}
			a.engine.PutEntity(policy.Entity{EntityRef: entityRef(i.ID), Labels: a.vms[i.ID].labels, Addresses: addrs[i.ID], Host: a.accounts.account.EnforcerKey})
		}
	}
	a.findFlows(state)
	for _, f := range a.flows {
		v, err := a.server.World().Allowed(f.Flow)
		if err != nil {
			t.Fatalf("%s: %v", f.Flow, err)
		}
		a.native = append(a.native, v)
	}
	return a
}

func ownAddrs(n *aws.NetworkInterface) []netip.Addr {
	var out []netip.Addr
	for _, p := range n.PrivateIPs {
		out = append(out, p.Addr)
	}
	return append(out, n.IPv6...)
}

// findFlows crosses every ordered pair of interfaces that have a private path, and every interface
// with addresses around every block, with protocols and ports around every edge of the account's
// rules.
func (a *realAccount) findFlows(state aws.State) {
	type end struct {
		nic, vpc string
		addr     netip.Addr
	}
	var inside, outside []end
	services := map[evaluate.Flow]bool{{Protocol: policy.ICMP, ICMPType: 8}: true, {Protocol: policy.SCTP, Port: 3868}: true, {Protocol: policy.UDP, Port: 53}: true}
	tcp := func(ports ...int) {
		for _, p := range ports {
			if p >= 0 && p <= 65535 {
				services[evaluate.Flow{Protocol: policy.TCP, Port: uint16(p)}] = true
			}
		}
	}
	tcp(21, 22, 23, 443, 3306, 5431, 5432, 8000, 8010, 8011)
	away := map[netip.Addr]bool{netip.MustParseAddr("8.8.8.8"): true, netip.MustParseAddr("198.51.100.7"): true, netip.MustParseAddr("2001:db8::7"): true}
	for _, r := range state.Regions {
		for _, n := range r.NetworkInterfaces {
			for _, addr := range ownAddrs(&n) {
				inside = append(inside, end{n.ID, n.VPCID, addr})
			}
		}
		for _, g := range r.SecurityGroups {
			for _, rule := range g.Rules {
				if rule.Protocol == "tcp" {
					tcp(int(rule.FromPort)-1, int(rule.FromPort), int(rule.ToPort), int(rule.ToPort)+1)
				}
				if rule.CIDR.IsValid() && rule.CIDR.Bits() > 0 {
					away[rule.CIDR.Masked().Addr()], away[rule.CIDR.Masked().Addr().Prev()] = true, true
				}
			}
		}
	}
	for addr := range away {
		if !slices.ContainsFunc(inside, func(e end) bool { return e.addr == addr }) {
			outside = append(outside, end{addr: addr})
		}
	}
	add := func(src, dst end) {
		for s := range services {
			f := realFlow{src: a.vmOf[src.nic], dst: a.vmOf[dst.nic], asked: s}
			f.Flow = packet.Flow{Src: packet.End{NIC: src.nic, Addr: src.addr}, Dst: packet.End{NIC: dst.nic, Addr: dst.addr}, Port: int(s.Port), ICMPType: int(s.ICMPType)}
			f.Protocol = map[policy.Protocol]int{policy.TCP: 6, policy.UDP: 17, policy.SCTP: 132, policy.ICMP: 1}[s.Protocol]
			if src.addr.Is6() && f.Protocol == 1 {
				f.Protocol = 58
			}
			f.asked.Source, f.asked.Destination = a.endOf(f.src, src.addr), a.endOf(f.dst, dst.addr)
			a.flows = append(a.flows, f)
		}
	}
	for _, src := range inside {
		for _, dst := range inside {
			if src.nic != dst.nic && src.addr.Is4() == dst.addr.Is4() && (src.vpc == dst.vpc || connected(state, src.vpc, dst.vpc)) {
				add(src, dst)
			}
		}
		for _, o := range outside {
			if src.addr.Is4() == o.addr.Is4() {
				add(src, o)
				add(o, src)
			}
		}
	}
}

func connected(s aws.State, a, b string) bool {
	return slices.ContainsFunc(s.Peerings, func(p aws.PeeringConnection) bool {
		x, y := p.Requester.VPCID, p.Accepter.VPCID
		return p.Status == aws.PeeringActive && (x == a && y == b || x == b && y == a)
	})
}

func (a *realAccount) endOf(vm string, addr netip.Addr) evaluate.Endpoint {
	if vm == "" {
		return evaluate.Endpoint{Addr: addr}
	}
	return evaluate.Endpoint{EntityRef: entityRef(vm), Addr: addr, Semantics: evaluate.VMSemantics}
}

func (a *realAccount) verdicts() []bool {
	out := make([]bool, len(a.flows))
	for i, f := range a.flows {
		passes, err := a.server.World().Passes(f.Flow)
		out[i] = err == nil && passes
	}
	return out
}

// watch checks the state after every mutation.
func (a *realAccount) watch(m aws.Mutation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, got := range a.verdicts() {
		if a.old[i] == a.wanted[i] && got != a.wanted[i] {
			a.found = append(a.found, fmt.Sprintf("%s %v: %s passes: %t", m.Action, m.Resources, a.flows[i].Flow, got))
		}
	}
}

// meant is what the policies mean, if those VMs are left to their own groups.
func (a *realAccount) meant(left map[string]bool) []bool {
	e := evaluate.New(a.engine.Listing())
	out := make([]bool, len(a.flows))
	for i, f := range a.flows {
		v, n := e.Evaluate(f.asked), a.native[i]
		half := func(vm string, d evaluate.Decision, native bool) bool {
			if vm == "" || left[vm] {
				return native
			}
			return passes(d, native)
		}
		out[i] = half(f.src, v.Egress, n.Egress.Allowed) && half(f.dst, v.Ingress, n.Ingress.Allowed)
	}
	return out
}

// expect says what the policies mean from now on, before the realizer can hear of it: those VMs are
// left to their own groups.
func (a *realAccount) expect(left map[string]bool) *policy.Delta {
	delta := a.engine.Commit()
	wanted := a.meant(left)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.old, a.wanted = a.wanted, wanted
	return delta
}

// change lets the realizer follow a change of the engine, and checks every state on the way and the
// end. It returns the VMs under control and why others are not.
func (a *realAccount) change(name string, left map[string]bool) (guarded int, refused map[string]string) {
	a.Helper()
	a.publishDelta(a.expect(left))
	return a.followed(name)
}

// leave takes a VM out of the account's selection. Its policies hear of it later, as they may in
// life.
func (a *realAccount) leave(vm string, left map[string]bool) {
	a.Helper()
	left[vm] = true
	a.expect(left)
	a.since = a.options.Clock.Now()
	a.accounts.change(func(acct *Account) { delete(acct.Entities, plan.EntityRef{Namespace: labNamespace, Name: vm}) })
	a.followed(vm + " leaves")
	a.engine.DeleteEntity(entityRef(vm))
	a.change(vm+" is gone", left)
}

// independent returns a VM none of whose groups refers to a group: given back alone it loses
// nothing. Others would lose what they allow to the members of groups that are still held; see
// docs/decisions/0003-dependents.md.
func (a *realAccount) independent() string {
	a.Helper()
	for _, id := range slices.Sorted(maps.Keys(a.vms)) {
		if !a.refers[id] {
			return id
		}
	}
	a.Fatal("every VM has a group that refers to another one")
	return ""
}

// followed waits until the realizer has followed, and checks what it met on the way and where it
// ended.
func (a *realAccount) followed(name string) (guarded int, refused map[string]string) {
	a.Helper()
	a.settle()
	r, _ := a.realizer.Report(labAccount)
	refused = map[string]string{}
	for _, vm := range r.Result.VMs {
		held := slices.ContainsFunc(vm.Interfaces, func(n plan.InterfaceStatus) bool { return n.State == plan.Guarded })
		if held {
			guarded++
		}
		for _, p := range vm.Policies {
			if p.Message != "" {
				refused[vm.VM.ID] = p.Message
			}
			if p.Message == "" && !p.Realized || p.Message == "" && !held && len(vm.Interfaces) > 0 {
				a.Errorf("%s: %s: %s is neither realized nor refused: %+v\n%s %v %v", name, vm.VM.ID, p.Name, vm, printed(r.Result.Plan), r.RealizedAt, r.Waiting)
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	wrong := slices.Clone(a.found)
	for i, got := range a.verdicts() {
		if got != a.wanted[i] {
			wrong = append(wrong, fmt.Sprintf("in the end %s passes: %t", a.flows[i].Flow, got))
		}
	}
	if len(wrong) > 0 {
		a.Fatalf("%s: %d verdicts are wrong; refused %v\n%s", name, len(wrong), refused, strings.Join(wrong[:min(10, len(wrong))], "\n"))
	}
	return guarded, refused
}

// begin starts the realizer without policies.
func (a *realAccount) begin() {
	a.Helper()
	a.wanted = a.verdicts()
	a.old = a.wanted
	a.Cleanup(a.server.World().OnMutation(a.watch))
	a.publish()
	a.start()
	a.settle()
}

// asIs lists policies that change nothing: directions stay open, and what they drop nobody sends.
func asIs() []policy.Policy {
	pass := clusterPolicy("pass", 1, 1)
	pass.Ingress, pass.Egress = []policy.Rule{{Action: policy.Pass}}, []policy.Rule{{Action: policy.Pass}}
	nobody := clusterPolicy("nobody", 1, 1)
	nobody.Ingress, nobody.Egress = []policy.Rule{{Action: policy.Drop, Peers: from("nobody")}}, []policy.Rule{{Action: policy.Drop, Peers: from("nobody")}}
	elsewhere := clusterPolicy("elsewhere", 1, 1)
	elsewhere.Ingress = []policy.Rule{{Action: policy.Drop, Peers: block("192.0.2.1/32"), Ports: ports(9)}}
	elsewhere.Egress = elsewhere.Ingress
	out := []policy.Policy{pass, nobody, elsewhere}
	for i := range out {
		out[i].AppliedTo = applied("web", "db", "app")
	}
	return out
}

// TestRealAccountsAsIs takes published accounts over by policies that change nothing: no verdict
// changes, at no call; interfaces that cannot be taken over without cutting others are refused and
// named; and in the end everything is as it was.
func TestRealAccountsAsIs(t *testing.T) {
	t.Parallel()
	for _, path := range realPaths {
		for _, p := range asIs() {
			t.Run(realName(path)+" "+p.Name, func(t *testing.T) {
				t.Parallel()
				a := newRealAccount(t, path)
				before := a.holdings()
				a.begin()
				a.engine.PutPolicy(p)
				guarded, refused := a.change("in", nil)
				if guarded == 0 {
					t.Error("nothing was taken over")
				}
				calls := a.mutations()
				a.engine.DeletePolicy(p.UID)
				a.change("out", nil)
				if d := gocmp.Diff(before, a.holdings()); d != "" {
					t.Errorf("not as it was (-before +after):\n%s", d)
				}
				t.Logf("%d of %d VMs taken over in %d calls, %d flows; refused: %v", guarded, len(a.vms), calls, len(a.flows), refused)
			})
		}
	}
}

// realPolicies are policies with all actions.
func realPolicies() []policy.Policy {
	web := clusterPolicy("web", 1, 10)
	web.AppliedTo = applied("web", "app")
	web.Ingress = []policy.Rule{
		{Action: policy.Drop, Peers: block("198.51.100.0/24")},
		{Action: policy.Allow, Peers: block("0.0.0.0/0"), Ports: ports(443, 8000)},
		{Action: policy.Pass, Peers: from("db"), Ports: ports(22)},
	}
	db := clusterPolicy("db", 1, 5)
	db.AppliedTo = applied("db")
	db.Ingress = []policy.Rule{{Action: policy.Allow, Peers: from("app", "web"), Ports: ports(3306, 5432)}}
	db.Egress = []policy.Rule{{Action: policy.Drop, Peers: from("web"), Ports: ports(22)}}
	return []policy.Policy{web, db}
}

// TestRealAccountsCycle plays a whole life of policies on the published accounts.
func TestRealAccountsCycle(t *testing.T) {
	t.Parallel()
	for _, path := range realPaths {
		t.Run(realName(path), func(t *testing.T) {
			t.Parallel()
			a := newRealAccount(t, path)
			before := a.holdings()
			a.begin()
			// An interface that is refused when all are taken over without a change of meaning is
			// refused with every policy; see docs/decisions/0003-dependents.md.
			a.engine.PutPolicy(asIs()[0])
			_, refused := a.change("as it is", nil)
			left := map[string]bool{}
			for vm := range refused {
				left[vm] = true
			}
			for _, p := range realPolicies() {
				a.engine.PutPolicy(p)
				a.change(p.Name+" in", left)
			}
			edited := realPolicies()[0]
			edited.Generation, edited.Ingress = 2, edited.Ingress[1:]
			a.engine.PutPolicy(edited)
			a.change("edited", left)
			a.leave(a.independent(), left)
			for _, p := range append(realPolicies(), asIs()[0]) {
				a.engine.DeletePolicy(p.UID)
			}
			a.change("out", left)
			if d := gocmp.Diff(before, a.holdings()); d != "" {
				t.Errorf("not as it was (-before +after):\n%s", d)
			}
			t.Logf("%d flows, %d calls that change something; left alone: %v", len(a.flows), a.mutations(), refused)
		})
	}
}
