package apiserver_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/policy/policytest"
	"github.com/nephele-io/nephele/internal/seed"
)

// TestExplainedAsEnforced holds what explain says against what the agent that is responsible for an
// end makes of the objects that it has been sent, as patches and by its own span, in random worlds:
// the outcome, the deciding rule and what was passed on the way.
func TestExplainedAsEnforced(t *testing.T) {
	t.Parallel()
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 2))
	draw := policytest.Draw(random.IntN)
	w := newWorld(t)
	agents := map[string]*agent{}
	for key, encoding := range map[string]string{"h0": runtime.ContentTypeProtobuf, "h1": runtime.ContentTypeJSON, "h2": runtime.ContentTypeProtobuf} {
		agents[key] = newAgent(t, key, encoding, newWire(t, w.address).config(w))
	}
	engine, objects := compute.New(compute.Options{}), policytest.NewWorld()
	check := w.client(t, "agent", runtime.ContentTypeProtobuf)
	seen := map[string]int{}
	for range 12 {
		for range 40 {
			o := draw.Object()
			policytest.Put(engine, o)
			objects.Put(o)
			w.store.Publish(convert.Delta(engine.Commit()))
		}
		for _, a := range agents {
			eventually(t, "in sync", func() error { return a.inSync(t.Context(), check) })
		}
		explained, ends := evaluate.New(engine.Listing()), endsOf(objects)
		for range 400 {
			f := drawFlow(random, ends)
			if named := toServices(agents); random.IntN(3) == 0 && len(named) > 0 {
				f.Service = named[random.IntN(len(named))]
			}
			v := explained.Evaluate(f)
			for _, d := range []policy.Direction{policy.Egress, policy.Ingress} {
				local, said := f.Destination, v.Ingress
				if d == policy.Egress {
					local, said = f.Source, v.Egress
				}
				got := reading{outcomes: []string{string(evaluate.OutcomeNative)}}
				if e := objects.Entities[local.EntityRef]; agents[hostOf(e)] != nil && !stays(f, d, hostOf(e)) {
					got = read(t, agents[hostOf(e)].Known(), f, d)
				}
				seen[string(said.Outcome)+string(said.Exempt)]++
				if want := readingOf(said); !got.agrees(want) {
					t.Fatalf("%s of %+v: the agent does %+v, explain says %+v", d, f, got, want)
				}
			}
		}
	}
	t.Logf("outcomes: %v", seen)
	if seen[string(evaluate.OutcomeAllow)] == 0 || seen[string(evaluate.OutcomeDrop)] == 0 {
		t.Error("no rule decided anything")
	}
}

// stays reports whether an agent lets the packet through before it looks at any rule: what an end
// sends to itself does not even reach the agent, unless it takes the way through a Service, from
// which it only comes back; and to the Pods of its Node everything may come that the Node sends.
func stays(f evaluate.Flow, d policy.Direction, agent string) bool {
	none := policy.EntityRef{}
	toItself := f.Source.Addr == f.Destination.Addr
	if from := f.Source.EntityRef; from == f.Destination.EntityRef && from != none && from.Kind != policy.KindExternalEntity {
		toItself = true // a machine may have several interfaces, a Pod or Node does not filter between its addresses
	}
	if toItself && (d == policy.Ingress || f.Service.Name == "") {
		return true
	}
	own := policy.EntityRef{Kind: policy.KindNode, Name: agent}
	return d == policy.Ingress && f.Source.EntityRef == own && f.Destination.Kind == policy.KindPod
}

// toServices are the Services that rules of the agents name.
func toServices(agents map[string]*agent) []policy.NamespacedName {
	found := map[policy.NamespacedName]bool{}
	for _, a := range agents {
		for _, np := range a.Known().Policies {
			for _, r := range np.Rules {
				for _, s := range r.To.ToServices {
					found[policy.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = true
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b policy.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

func hostOf(e policy.Entity) string {
	if e.Kind == policy.KindNode {
		return e.Name
	}
	return e.Host
}

// endsOf are all ends that packets can have, in a fixed order. Pods in the network of their Node
// are that Node.
func endsOf(w *policytest.World) []evaluate.Endpoint {
	out := []evaluate.Endpoint{{Addr: netip.MustParseAddr("10.0.0.4")}, {Addr: netip.MustParseAddr("192.0.2.1")}, {Addr: netip.MustParseAddr("2001:db8::9")}}
	for _, e := range w.Entities {
		for _, a := range e.Addresses {
			end := evaluate.Endpoint{EntityRef: e.EntityRef, Addr: a}
			switch {
			case e.Kind == policy.KindExternalEntity:
				end.Semantics = evaluate.VMSemantics
			case e.HostNetwork:
				end.EntityRef = policy.EntityRef{Kind: policy.KindNode, Name: e.Host}
			}
			out = append(out, end)
		}
	}
	slices.SortFunc(out, func(a, b evaluate.Endpoint) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return out
}

func drawFlow(r *rand.Rand, ends []evaluate.Endpoint) evaluate.Flow {
	for {
		f := evaluate.Flow{
			Source: ends[r.IntN(len(ends))], Destination: ends[r.IntN(len(ends))], SourcePort: uint16(999 + r.IntN(3)), Port: uint16(79 + r.IntN(5)),
			ICMPType: uint8(8 * r.IntN(2)), IGMPType: 0x11, Direct: r.IntN(3) == 0,
			Protocol: []policy.Protocol{policy.TCP, policy.TCP, policy.TCP, policy.UDP, policy.ICMP, policy.IGMP}[r.IntN(6)],
		}
		if f.Source.Addr.Is4() == f.Destination.Addr.Is4() {
			return f
		}
	}
}

// reading is what may become of a flow in one direction: the outcomes in sorted order and, if
// nothing is uncertain about the rules, which one decides and which were passed.
type reading struct {
	outcomes  []string
	by        string
	passed    []string
	uncertain bool
}

func (r reading) agrees(said reading) bool {
	if len(r.outcomes) > 1 {
		return said.outcomes[0] == string(evaluate.OutcomeUnknown)
	}
	if r.outcomes[0] != said.outcomes[0] {
		return false
	}
	return r.uncertain || said.uncertain || r.by == said.by && slices.Equal(r.passed, said.passed)
}

func readingOf(d evaluate.Decision) reading {
	name := func(r evaluate.RuleRef) string {
		return fmt.Sprintf("%s %s %d", r.Policy.UID, r.Direction, r.Rule.Priority)
	}
	out := reading{outcomes: []string{string(d.Outcome)}, uncertain: len(d.Uncertain) > 0}
	if d.By != nil {
		out.by = name(*d.By)
	}
	for _, p := range d.Passed {
		out.passed = append(out.passed, name(p))
	}
	return out
}

// flows is what an agent installs for one workload and direction: three tables of rules, each in
// order.
type flows struct {
	tables   [3][]flowRule
	isolated bool
}

type flowRule struct {
	name     string
	rank     []float64
	source   string
	action   policy.Action
	hit, may bool
}

// read is an evaluator of its own: of the objects that one agent has, by addresses and member
// references alone.
func read(t *testing.T, has enforcer.Computed, f evaluate.Flow, d policy.Direction) reading {
	p := packet{flow: f, local: f.Destination, remote: f.Source, direction: v1beta2.DirectionIn, has: has}
	if d == policy.Egress {
		p.local, p.remote, p.direction = f.Source, f.Destination, v1beta2.DirectionOut
	}
	in := p.install(t)
	for i := range in.tables {
		slices.SortStableFunc(in.tables[i], func(a, b flowRule) int {
			return cmp.Or(slices.Compare(a.rank, b.rank), strings.Compare(a.source, b.source))
		})
	}
	var out reading
	in.follow(0, 0, reading{}, func(end reading) {
		out.uncertain = out.uncertain || end.uncertain
		out.by, out.passed = end.by, end.passed
		if !slices.Contains(out.outcomes, end.outcomes[0]) {
			out.outcomes = append(out.outcomes, end.outcomes[0])
		}
	})
	return out
}

// follow goes on at a rule of a table and tells every end that the packet may come to.
func (in *flows) follow(table, at int, so reading, end func(reading)) {
	if table == 1 && len(in.tables[1]) > 0 && at == len(in.tables[1]) {
		so.outcomes = []string{string(evaluate.OutcomeDrop)} // what Kubernetes NetworkPolicies do not allow
		end(so)
		return
	}
	if table == len(in.tables) {
		so.outcomes = []string{string(evaluate.OutcomeNative)}
		if in.isolated {
			so.outcomes = []string{string(evaluate.OutcomeDrop)}
		}
		end(so)
		return
	}
	if at == len(in.tables[table]) {
		in.follow(table+1, 0, so, end)
		return
	}
	r := in.tables[table][at]
	if !r.hit {
		if r.may {
			so.uncertain = true
		}
		in.follow(table, at+1, so, end)
	}
	switch {
	case !r.hit && !r.may || r.action == "":
		if r.hit {
			in.follow(table, at+1, so, end)
		}
	case r.action == policy.Pass:
		so.passed = append(slices.Clone(so.passed), r.name)
		in.follow(table+1, 0, so, end) // from the tiers to Kubernetes NetworkPolicies, from the baseline to the default
	default:
		so.outcomes, so.by = []string{string(r.action)}, r.name
		end(so)
	}
}

// packet is the first one of a flow, as the agent at its local end sees it.
type packet struct {
	flow          evaluate.Flow
	local, remote evaluate.Endpoint
	direction     v1beta2.Direction
	has           enforcer.Computed
}

// install finds the rules that apply to the local end, and whether they match the packet.
func (p *packet) install(t *testing.T) *flows {
	var out flows
	for _, np := range p.has.Policies {
		for i := range np.Rules {
			r := &np.Rules[i]
			applied := np.AppliedToGroups
			if len(applied) == 0 {
				applied = r.AppliedToGroups
			}
			members := p.appliedTo(applied)
			if r.Direction != p.direction || len(members) == 0 {
				continue
			}
			one := flowRule{name: fmt.Sprintf("%s %s %d", np.UID, r.Direction, r.Priority)}
			one.source = fmt.Sprintf("%s\x00%s\x00%s\x00%s", np.SourceRef.Type, np.SourceRef.Namespace, np.SourceRef.Name, np.SourceRef.UID)
			if r.Action != nil {
				one.action = policy.Action(*r.Action)
			}
			one.hit, one.may = p.matches(t, r, members)
			table := 1
			if np.TierPriority != nil {
				table = 0
				if *np.TierPriority >= 253 {
					table = 2
				}
				one.rank = []float64{float64(*np.TierPriority), *np.Priority, float64(r.Priority)}
			}
			out.tables[table] = append(out.tables[table], one)
			out.isolated = out.isolated || p.local.Semantics == evaluate.VMSemantics && one.action == policy.Allow
		}
	}
	return &out
}

// appliedTo are the member values of the local end in the groups.
func (p *packet) appliedTo(groups []string) []v1beta2.GroupMember {
	var out []v1beta2.GroupMember
	for _, g := range p.has.AppliedToGroups {
		for _, m := range g.GroupMembers {
			var ref policy.EntityRef
			switch {
			case m.Pod != nil:
				ref = policy.EntityRef{Kind: policy.KindPod, Namespace: m.Pod.Namespace, Name: m.Pod.Name}
			case m.ExternalEntity != nil:
				ref = policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: m.ExternalEntity.Namespace, Name: m.ExternalEntity.Name}
			case m.Node != nil:
				ref = policy.EntityRef{Kind: policy.KindNode, Name: m.Node.Name}
			}
			if slices.Contains(groups, g.Name) && ref == p.local.EntityRef && ref != (policy.EntityRef{}) {
				out = append(out, m)
			}
		}
	}
	return out
}

// matches says whether the rule matches for sure, and whether it may, depending on a name or
// Service.
func (p *packet) matches(t *testing.T, r *v1beta2.NetworkPolicyRule, applied []v1beta2.GroupMember) (hit, may bool) {
	peer := r.From
	if p.direction == v1beta2.DirectionOut {
		peer = r.To
	}
	var found bool
	var peers []v1beta2.GroupMember
	for _, name := range peer.AddressGroups {
		at := slices.IndexFunc(p.has.AddressGroups, func(g *enforcer.AddressGroup) bool { return g.GetName() == name })
		if at < 0 {
			t.Fatalf("the agent has no address group %s: its rule cannot be realized", name)
		}
		for _, m := range p.has.AddressGroups[at].Object().GroupMembers {
			if slices.ContainsFunc(m.IPs, func(ip v1beta2.IPAddress) bool { return address(ip) == p.remote.Addr }) {
				found, peers = true, append(peers, m)
			}
		}
	}
	for _, b := range peer.IPBlocks {
		inside := inNet(b.CIDR, p.remote.Addr)
		outside := slices.ContainsFunc(b.Except, func(n v1beta2.IPNet) bool { return inNet(n, p.remote.Addr) })
		found = found || inside && !outside
	}
	named := applied
	if p.direction == v1beta2.DirectionOut {
		named = peers
	}
	if len(r.Services) > 0 && !slices.ContainsFunc(r.Services, func(s v1beta2.Service) bool { return p.service(s, named) }) {
		return false, false
	}
	may = len(peer.FQDNs) > 0
	// What load balancing does not look at was not sent to a Service. Of what was, the agent knows
	// to which one.
	balanced := p.flow.Protocol == policy.TCP || p.flow.Protocol == policy.UDP || p.flow.Protocol == policy.SCTP
	switch sentTo := p.flow.Service; {
	case p.flow.Direct || !balanced:
	case sentTo.Name == "":
		may = may || len(peer.ToServices) > 0
	default:
		found = found || slices.Contains(peer.ToServices, v1beta2.ServiceReference{Namespace: sentTo.Namespace, Name: sentTo.Name})
	}
	return found, found || may
}

func (p *packet) service(s v1beta2.Service, named []v1beta2.GroupMember) bool {
	f := p.flow
	if s.Protocol != nil && string(*s.Protocol) != string(f.Protocol) {
		return false
	}
	is := func(want *int32, got int32) bool { return want == nil || *want == got }
	if f.Protocol == policy.ICMP {
		return s.Protocol != nil && is(s.ICMPType, int32(f.ICMPType)) && is(s.ICMPCode, int32(f.ICMPCode))
	}
	within := func(from, to *int32, got uint16) bool {
		return from == nil || int32(got) >= *from && int32(got) <= *cmp.Or(to, from)
	}
	switch {
	case !within(s.SrcPort, s.SrcEndPort, f.SourcePort):
		return false
	case s.Port == nil:
		return true
	case s.Port.Type == intstr.Int:
		return within(&s.Port.IntVal, s.EndPort, f.Port)
	}
	for _, m := range named {
		for _, x := range m.Ports {
			if x.Name == s.Port.StrVal && x.Port == int32(f.Port) && string(x.Protocol) == string(f.Protocol) {
				return true
			}
		}
	}
	return false
}

// address reads the bytes of an address.
func address(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a.Unmap()
}

func inNet(n v1beta2.IPNet, a netip.Addr) bool {
	p, err := address(n.IP).Prefix(int(n.PrefixLength))
	return err == nil && p.Contains(a)
}
