package plan_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// naive answers for single flows by walking the rules, straight from the text of the design. It
// shares no code with the planner.
type naive struct {
	*estate
	set policySet
	// without holds "policy uid/VM" of what the planner refused; guarded the interfaces that it
	// took over.
	without map[string]bool
	guarded map[string]bool
	// blind leaves out native rules that refer to groups of other accounts.
	blind bool
	// known are the ends around networks, and boundaries the packets; see around.
	known      map[int][]remote
	boundaries []packet
	// ordered are the rules of VMs, prefixes texts, and members addresses, as far as they were
	// asked for.
	ordered  map[ruleKey]orderedRules
	prefixes map[string]netip.Prefix
	members  map[int][]netip.Addr
	// generous has native rules allow everything.
	generous bool
	// older is the same before memberships changed, and stale tells whose membership is still that;
	// nil if everybody's is that of set.
	older *naive
	stale func(member int) bool
}

// of returns the evaluator whose memberships count for a member: a VM, or somebody outside.
func (v *naive) of(member int) *naive {
	if v.older != nil && v.stale(member) {
		return v.older
	}
	return v
}

func (v *naive) prefix(text string) netip.Prefix {
	p, known := v.prefixes[text]
	if !known {
		p = netip.MustParsePrefix(text)
		v.prefixes[text] = p
	}
	return p
}

func (v *naive) half(nic int, d cloud.Direction, r remote, k packet) bool {
	n := &v.NICs[nic]
	if n.VM >= 0 && v.VMs[n.VM].Selected && v.of(n.VM).guarded[nicID(nic)] {
		rules, isolated := v.rules(n.VM, d)
		if v.failsafeAllows(n.VM, d, r, k) {
			return true
		}
		if let, left := v.of(n.VM).set.Agents[n.VM]; left {
			return isolated && let[flow.Index(d)] || v.native(nic, d, r, k)
		}
		at := 0 // the stage that decides: 0 Antrea, 1 Kubernetes, 2 baseline
		for i := range rules {
			x := &rules[i]
			if x.stage < at || !v.matches(nic, &x.ruleSpec, r, k) {
				continue
			}
			switch x.Action {
			case "Allow":
				return true
			case "Pass":
				at = x.stage + 1
			default:
				return false
			}
		}
		if isolated {
			return false
		}
	}
	return v.native(nic, d, r, k)
}

type orderedRule struct {
	ruleSpec
	stage  int
	policy policySpec
	index  int
	name   int
}

// ruleKey says whose rules, and by which of its memberships.
type ruleKey struct {
	vm    int
	d     cloud.Direction
	stale bool
}

type orderedRules struct {
	rules    []orderedRule
	isolated bool
}

func (v *naive) rules(vm int, d cloud.Direction) ([]orderedRule, bool) {
	key := ruleKey{vm, d, v.of(vm) != v}
	out, known := v.ordered[key]
	if !known {
		out.rules, out.isolated = v.inOrder(vm, d)
		v.ordered[key] = out
	}
	return out.rules, out.isolated
}

func (v *naive) inOrder(vm int, d cloud.Direction) (out []orderedRule, isolated bool) {
	for i, p := range v.set.Policies {
		if v.of(vm).without[policyName(p, i)+"/"+v.subject(vm)] {
			continue
		}
		for k, rule := range p.Rules {
			applied := p.Applied
			if len(applied) == 0 {
				applied = rule.Applied
			}
			on := slices.ContainsFunc(applied, func(a int) bool { return slices.Contains(v.of(vm).set.Applied[a], vm) })
			if !on || rule.Out != (d == cloud.Egress) {
				continue
			}
			x := orderedRule{ruleSpec: rule, policy: p, index: k, name: i}
			switch {
			case p.K8s:
				x.stage, x.index, x.policy.Priority, x.policy.Tier = 1, -1, 0, 0
			case p.Tier >= 253:
				x.stage = 2
			}
			isolated = isolated || rule.Action == "Allow"
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b orderedRule) int {
		return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(a.policy.Tier, b.policy.Tier), cmp.Compare(a.policy.Priority, b.policy.Priority),
			cmp.Compare(a.index, b.index), strings.Compare(fmt.Sprintf("p%d", a.name), fmt.Sprintf("p%d", b.name)))
	})
	return out, isolated
}

func policyName(p policySpec, i int) string {
	return fmt.Sprintf("uid-%d-%v-%v-%d", i, p.Tier, p.Priority, len(p.Rules))
}

func (v *naive) matches(nic int, rule *ruleSpec, r remote, k packet) bool {
	// A name of a port is the receiver's: the interface's own coming in, that of the member going
	// out. An address has none.
	named := func(vm int) bool {
		return slices.ContainsFunc(rule.Services, func(s serviceSpec) bool { return v.matchesService(vm, s, k) })
	}
	receiver := v.NICs[nic].VM
	if rule.Out {
		receiver = -1
	}
	service := len(rule.Services) == 0 || named(receiver)
	for _, b := range rule.Blocks {
		in := v.prefix(b.CIDR).Contains(r.addr)
		for _, x := range b.Except {
			in = in && !v.prefix(x).Contains(r.addr)
		}
		if in && service {
			return true
		}
	}
	for _, a := range rule.Address {
		for m := range len(v.VMs) + len(outsiders) {
			if slices.Contains(v.of(m).set.Address[a], m) && (service || rule.Out && named(m)) && v.isMember(nic, m, r) {
				return true
			}
		}
	}
	return false
}

// matchesService reports whether a packet is of a service, whose named ports are the VM's; of no
// VM, if that is none of the account's.
func (v *naive) matchesService(vm int, s serviceSpec, k packet) bool {
	if s.Name == "" {
		return s.matches(k)
	}
	return slices.ContainsFunc(v.resolve(s, vm), func(s serviceSpec) bool { return s.matches(k) })
}

func (s serviceSpec) matches(k packet) bool {
	switch s.Protocol {
	case "ICMP":
		return (k.protocol == 1 || k.protocol == 58) && (s.Type < 0 || int(s.Type) == k.port>>8 && (s.Code < 0 || int(s.Code) == k.port&0xff))
	case "IGMP":
		return k.protocol == 2
	case "SCTP":
		return k.protocol == 132
	}
	if s.Protocol == "TCP" && k.protocol != 6 || s.Protocol == "UDP" && k.protocol != 17 {
		return false
	}
	return s.From == 0 || int(s.From) <= k.port && k.port <= int(s.To)
}

// near reports whether two networks can refer to each other's groups.
func (e *estate) near(a, b int) bool {
	return a == b || e.arePeered(a, b) && e.region(a) == e.region(b)
}

// isMember reports whether the remote end is the member, as seen from the interface.
func (v *naive) isMember(nic, member int, r remote) bool {
	home := v.NICs[nic].Net
	if member < len(v.VMs) {
		if !v.VMs[member].Selected {
			return false
		}
		if v.VMs[member].Is != "" {
			return v.isAddressOf(nic, member, r.addr)
		}
		for i, n := range v.NICs {
			if nicID(i) == r.nic && v.near(home, n.Net) {
				return n.VM == member
			}
		}
	}
	if member >= len(v.VMs) {
		return slices.Contains(v.addrs(member), r.addr) // a Pod; its address is nobody else's
	}
	// Not a machine within reach: the addresses that are known of it, unless they mean somebody
	// else here.
	for i, n := range v.Networks {
		if v.near(home, i) && (v.prefix(n.V4).Contains(r.addr) || n.V6 != "" && v.prefix(n.V6).Contains(r.addr)) {
			return false
		}
	}
	for _, n := range v.NICs {
		if n.VM == member && v.near(home, n.Net) && n.Public == r.addr.String() {
			return false
		}
	}
	return slices.Contains(v.addrs(member), r.addr)
}

// addrs are the addresses of a member.
func (v *naive) addrs(member int) []netip.Addr {
	out, known := v.members[member]
	if !known {
		out = v.memberAddrs(member)
		v.members[member] = out
	}
	return out
}

// native decides by the groups that the interface natively has.
func (v *naive) native(nic int, d cloud.Direction, r remote, k packet) bool {
	if v.generous {
		return true
	}
	for _, g := range v.NICs[nic].Groups {
		rules := v.Groups[g].Rules
		for i := range rules {
			rule := &rules[i]
			if rule.Direction != d || !matches(rule.Match, k) {
				continue
			}
			switch {
			case rule.Peer.CIDR.IsValid():
				if rule.Peer.CIDR.Contains(r.addr) {
					return true
				}
			case rule.Peer.PrefixListID != "":
				if slices.ContainsFunc(v.Lists[numbered(rule.Peer.PrefixListID)], func(c string) bool { return v.prefix(c).Contains(r.addr) }) {
					return true
				}
			case rule.Peer.GroupOwner != "":
				if !v.blind && v.isAbroad(rule.Peer.GroupID, v.NICs[nic].Net, r.addr) {
					return true
				}
			default:
				group := numbered(rule.Peer.GroupID)
				for j := range v.NICs {
					if n := &v.NICs[j]; nicID(j) == r.nic && v.near(v.NICs[nic].Net, n.Net) && slices.Contains(n.Groups, group) {
						return true
					}
				}
			}
		}
	}
	return false
}

// numbered is the number of a group or list of the estate that is called "#3".
func numbered(name string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "#"))
	if err != nil {
		panic(fmt.Sprintf("%q is neither a group nor a list of the estate", name))
	}
	return n
}

// connection is a flow that begins; src and dst are interfaces, -1 for an address outside.
type connection struct {
	src, dst         int
	srcAddr, dstAddr netip.Addr // as the other end sees them
	private          bool       // the two ends are interfaces that see each other's private addresses
	packet
}

func (f connection) String() string {
	name := func(i int, a netip.Addr) string {
		if i < 0 {
			return a.String()
		}
		return nicID(i) + "(" + a.String() + ")"
	}
	return fmt.Sprintf("%s -> %s protocol %d port %d", name(f.src, f.srcAddr), name(f.dst, f.dstAddr), f.protocol, f.port)
}

func (f connection) remoteOfSource() remote { return f.remote(f.dst, f.dstAddr) }
func (f connection) remoteOfDest() remote   { return f.remote(f.src, f.srcAddr) }

func (f connection) remote(i int, a netip.Addr) remote {
	if i >= 0 && f.private {
		return remote{a, nicID(i)}
	}
	return remote{a, ""}
}

// verdict combines the halves of both ends.
func (f connection) verdict(half func(nic int, d cloud.Direction, r remote, k packet) bool) bool {
	return (f.src < 0 || half(f.src, cloud.Egress, f.remoteOfSource(), f.packet)) &&
		(f.dst < 0 || half(f.dst, cloud.Ingress, f.remoteOfDest(), f.packet))
}

// flows lists all flows worth looking at: every ordered pair of interfaces and of interfaces and
// boundary addresses, for every boundary of a service.
func (e *estate) flows() []connection {
	packets := e.packets()
	outside := e.outsideAddrs()
	var out []connection
	add := func(f connection) {
		v6 := f.srcAddr.Is6()
		if v6 != f.dstAddr.Is6() {
			return
		}
		for _, p := range packets {
			if p.protocol == 1 && v6 || p.protocol == 58 && !v6 {
				continue
			}
			f.packet = p
			out = append(out, f)
		}
	}
	for i := range e.NICs {
		for j := range e.NICs {
			e.pairFlows(i, j, add)
		}
		for _, a := range outside {
			for _, s := range e.NICs[i].IPs {
				own := netip.MustParseAddr(s)
				add(connection{src: i, dst: -1, srcAddr: own, dstAddr: a})
				add(connection{src: -1, dst: i, srcAddr: a, dstAddr: own})
			}
		}
	}
	return out
}

func (e *estate) pairFlows(i, j int, add func(connection)) {
	a, b := &e.NICs[i], &e.NICs[j]
	if i == j {
		return
	}
	if a.Net == b.Net || e.arePeered(a.Net, b.Net) {
		for _, x := range a.IPs {
			for _, y := range b.IPs {
				add(connection{src: i, dst: j, srcAddr: netip.MustParseAddr(x), dstAddr: netip.MustParseAddr(y), private: true})
			}
		}
	}
	if a.Public != "" && b.Public != "" {
		add(connection{src: i, dst: j, srcAddr: netip.MustParseAddr(a.Public), dstAddr: netip.MustParseAddr(b.Public)})
	}
}

func (e *estate) packets() []packet {
	seen := map[packet]bool{{47, 0}: true, {2, 0}: true, {112, 0}: true, {132, 0}: true, {50, 0}: true, {1, 0}: true, {58, 0}: true, {200, 0}: true}
	edge := func(protocol, port int) {
		if port >= 0 && port <= 0xffff {
			seen[packet{protocol, port}] = true
		}
	}
	for _, port := range []int{0, 21, 22, 23, 79, 80, 81, 82, 443, 444, 65535} {
		edge(6, port)
	}
	for _, set := range e.History {
		for _, p := range set.Policies {
			for _, r := range p.Rules {
				for _, s := range r.Services {
					number := map[string]int{"TCP": 6, "UDP": 17, "ICMP": 1}[string(s.Protocol)]
					if number == 6 || number == 17 {
						for _, at := range []int{int(s.From) - 1, int(s.From), int(s.To), int(s.To) + 1} {
							edge(number, at)
						}
					}
					if number == 1 && s.Type >= 0 {
						for _, at := range []int{int(s.Type) << 8, int(s.Type)<<8 + 1, int(s.Type)<<8 - 1, int(s.Type+1) << 8} {
							edge(1, at)
							edge(58, at)
						}
					}
				}
			}
		}
	}
	e.richEdges(edge)
	edge(17, 53)
	edge(1, 8<<8)
	out := make([]packet, 0, len(seen))
	for p := range seen {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b packet) int { return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.port, b.port)) })
	return out
}

// outsideAddrs are addresses with no machine of the estate behind them: all ends of the policies'
// blocks and their neighbours.
func (e *estate) outsideAddrs() []netip.Addr {
	seen := map[netip.Addr]bool{}
	for _, s := range e.listBounds() {
		first := netip.MustParsePrefix(s).Addr()
		seen[first], seen[first.Prev()] = true, true
	}
	for _, s := range e.outside() {
		seen[netip.MustParseAddr(s)] = true
	}
	for _, set := range e.History {
		for _, p := range set.Policies {
			for _, r := range p.Rules {
				for _, b := range r.Blocks {
					for _, c := range append([]string{b.CIDR}, b.Except...) {
						first := netip.MustParsePrefix(c).Addr()
						seen[first], seen[first.Prev()] = true, true
					}
				}
			}
		}
	}
	for _, n := range e.NICs {
		for _, s := range append([]string{n.Public}, n.IPs...) {
			if s != "" {
				delete(seen, netip.MustParseAddr(s))
			}
		}
	}
	delete(seen, netip.Addr{})
	var out []netip.Addr
	for a := range seen {
		out = append(out, a)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// oracle returns the naive evaluator for a policy set, given what the planner says it refused.
func (e *estate) oracle(set policySet, res *plan.Result) *naive {
	v := &naive{
		estate: e, set: set, without: map[string]bool{}, guarded: map[string]bool{}, known: map[int][]remote{}, boundaries: e.packets(),
		ordered: map[ruleKey]orderedRules{}, prefixes: map[string]netip.Prefix{}, members: map[int][]netip.Addr{},
	}
	for _, r := range res.Refusals {
		if r.Policy.UID != "" {
			v.without[r.Policy.UID+"/"+r.VM.ID] = true
		}
	}
	for _, vm := range res.VMs {
		for _, n := range vm.Interfaces {
			v.guarded[n.ID] = n.State == plan.Guarded
		}
	}
	return v
}
