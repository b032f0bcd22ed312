package reach

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/platform/work"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// Party is one side of a question: endpoints, and addresses that no endpoint has.
type Party struct {
	// Chosen reports whether an endpoint belongs to it; nil means none does.
	Chosen func(*Endpoint) bool
	// Addresses holds the addresses of the outside that belong to it. The addresses of endpoints do
	// not count.
	Addresses addrset.Set
}

// Everybody is everyone: all endpoints and all other addresses.
func Everybody() Party {
	return Party{Chosen: func(*Endpoint) bool { return true }, Addresses: addrset.All()}
}

// Question asks which endpoints of From reach which endpoints of To, and how.
type Question struct {
	From, To Party
	// Services are what is asked about; none means all traffic.
	Services []flow.Service
	// Refused asks for what is dropped and rejected, too.
	Refused bool
}

// Flows are all flows from each of From to each of To with any of the services: they have one
// outcome for one reason. Flows from an endpoint to itself are not meant.
type Flows struct {
	From, To Side
	// Services are disjoint. The one of cloud.AnyProtocol represents all protocols that Possible
	// does not name.
	Services []flow.Service
	// Possible are all services that the two ends tell apart, as far as they are asked about; only
	// for the words.
	Possible        []flow.Service
	Outcome         Outcome
	Egress, Ingress Decision
	// Apart tells that the ends are in networks of the snapshots without a peering between them:
	// there may be no way.
	Apart bool
}

// Decision is what one end decides.
type Decision struct {
	Outcome Outcome
	Cause
	// Passed are the Pass rules on the way.
	Passed []*evaluate.RuleRef
}

// Side is one end of Flows: endpoints, or addresses that no endpoint has.
type Side struct {
	Members []Member
	// Addresses are ranges as rules have them. With Rest, endpoints within them do not count.
	Addresses []netip.Prefix
	Rest      bool
}

// Member is an endpoint with the addresses of it that are meant.
type Member struct {
	*Endpoint
	Addresses []netip.Addr
	Blocks    addrset.Set
}

// Partly reports whether some of its addresses are not meant.
func (m Member) Partly() bool {
	return len(m.Addresses) < addrset.Of(m.Endpoint.Addresses...).Len() || !m.Blocks.Equal(m.Endpoint.Blocks)
}

// Reach answers a question. The flows are disjoint, and sorted by destination, source and service.
func (w *World) Reach(q Question) []Flows {
	from, to := w.side(q.From, out), w.side(q.To, in)
	c := collector{budget: w.budget, numbers: numbering{}}
	for _, t := range to {
		for _, f := range from {
			switch {
			case len(f.members)+len(t.members) == 0:
				continue // no one here has a say
			case f.public != t.public:
				continue // the other addresses of the machine represent it
			}
			for _, pair := range split(f, t) {
				w.between(&c, &q, pair[0], pair[1])
			}
		}
	}
	return c.flows(w)
}

// crowd are endpoints of one kind, or addresses of the outside.
type crowd struct {
	*kind
	members []*endpoint
	addrs   addrset.Set
}

// side groups a party by kind. Addresses of the outside come last.
func (w *World) side(p Party, half int) []crowd {
	var list []crowd
	at := map[*kind]int{}
	for _, e := range w.endpoints {
		if p.Chosen == nil || !p.Chosen(e.Endpoint) || e.addrs.Empty() {
			continue
		}
		k := e.halves[half]
		i, ok := at[k]
		if !ok {
			i = len(list)
			at[k] = i
			list = append(list, crowd{kind: k})
		}
		list[i].members = append(list[i].members, e)
	}
	for i := range list {
		sets := make([]addrset.Set, len(list[i].members))
		for k, e := range list[i].members {
			sets[k] = e.addrs
		}
		list[i].addrs = addrset.Union(sets...)
	}
	if rest := p.Addresses.Minus(w.everybody); !rest.Empty() {
		list = append(list, crowd{kind: outside(), addrs: rest})
	}
	return list
}

// of returns the part of a crowd.
func (c crowd) of(members []*endpoint) crowd {
	sets := make([]addrset.Set, len(members))
	for i, e := range members {
		sets[i] = e.addrs
	}
	return crowd{kind: c.kind, members: members, addrs: addrset.Union(sets...)}
}

// split separates what goes on within a machine, and what a Node sends to its own Pods, from the
// rest. No one's flows to himself are left in where that can be seen: crowds of one.
func split(f, t crowd) [][2]crowd {
	var pairs [][2]crowd
	for _, pair := range splitMachines(f, t) {
		pairs = append(pairs, splitNodes(pair[0], pair[1])...)
	}
	return pairs
}

// splitMachines separates what goes on within a machine in a cloud, which does not pass its
// interfaces. Crowds are of one kind: either all of their members are behind machines, or none.
func splitMachines(f, t crowd) [][2]crowd {
	if f.behind == nil && t.behind == nil {
		return [][2]crowd{{f, t}}
	}
	onto := map[string][]*endpoint{}
	for _, e := range t.members {
		if e.Machine != "" {
			onto[e.Machine] = append(onto[e.Machine], e)
		}
	}
	from := map[string][]*endpoint{}
	var machines []string // of both, in order
	var others []*endpoint
	for _, e := range f.members {
		if len(onto[e.Machine]) == 0 {
			others = append(others, e)
			continue
		}
		if len(from[e.Machine]) == 0 {
			machines = append(machines, e.Machine)
		}
		from[e.Machine] = append(from[e.Machine], e)
	}
	if len(machines) == 0 {
		return [][2]crowd{{f, t}}
	}
	var pairs [][2]crowd
	for _, m := range machines {
		some := f.of(from[m])
		here, there := some, t.of(onto[m])
		here.kind, there.kind = f.within(), t.within()
		pairs = append(pairs, [2]crowd{here, there})
		rest := slices.DeleteFunc(slices.Clone(t.members), func(e *endpoint) bool { return e.Machine == m })
		if len(rest) > 0 {
			pairs = append(pairs, [2]crowd{some, t.of(rest)})
		}
	}
	if len(others) > 0 {
		pairs = append(pairs, [2]crowd{f.of(others), t})
	}
	return pairs
}

// splitNodes separates what a Node sends to its own Pods, about which the Pods' policies are not
// asked.
func splitNodes(f, t crowd) [][2]crowd {
	if len(f.members) == 0 || len(t.members) == 0 {
		return [][2]crowd{{f, t}}
	}
	if len(f.members) == 1 && len(t.members) == 1 && f.members[0] == t.members[0] {
		return nil
	}
	var pairs [][2]crowd
	var others []*endpoint
	for _, e := range f.members {
		if e.Kind != policy.KindNode {
			others = append(others, e)
			continue
		}
		own, rest := []*endpoint(nil), []*endpoint(nil)
		for _, p := range t.members {
			if p.Kind == policy.KindPod && p.Host == e.EntityRef.Name {
				own = append(own, p)
			} else {
				rest = append(rest, p)
			}
		}
		if len(own) > 0 {
			free := t.of(own)
			free.kind = outside()
			pairs = append(pairs, [2]crowd{f.of([]*endpoint{e}), free})
		}
		if len(rest) > 0 && !(len(rest) == 1 && rest[0] == e) {
			pairs = append(pairs, [2]crowd{f.of([]*endpoint{e}), t.of(rest)})
		}
	}
	if len(others) == len(f.members) {
		return [][2]crowd{{f, t}}
	}
	if len(others) > 0 {
		pairs = append(pairs, [2]crowd{f.of(others), t})
	}
	return pairs
}

// asked cuts services down to those asked about.
func asked(possible, question []flow.Service) []flow.Service {
	if len(question) == 0 {
		return possible
	}
	possible = flow.Partition(slices.Concat(possible, question))
	return slices.DeleteFunc(possible, func(s flow.Service) bool { return !covers(question, s) })
}

// between finds the flows from one crowd to another.
func (w *World) between(c *collector, q *Question, f, t crowd) {
	possible := asked(flow.Partition(slices.Concat(f.services, t.services)), q.Services)
	possible = slices.DeleteFunc(possible, func(s flow.Service) bool {
		family := flow.Family(s.Protocol)
		return !family.Overlaps(f.addrs) || !family.Overlaps(t.addrs)
	})
	apart := f.groups != nil && t.groups != nil && !f.groups.Connected(t.groups)
	c.begin(possible)
	for _, s := range possible {
		c.budget.Spend(4)
		for _, family := range []addrset.Set{addrset.AllIPv4(), addrset.AllIPv6()} { // no flow goes from one to the other
			sources, destinations := f.addrs.Intersect(family), t.addrs.Intersect(family)
			if sources.Empty() || destinations.Empty() {
				continue
			}
			ingress := w.decide(t.kind, policy.Ingress, s, sources, f.kind)
			if len(ingress) == 0 || !q.Refused && !slices.ContainsFunc(ingress, half.mayPass) {
				continue
			}
			for _, e := range w.decide(f.kind, policy.Egress, s, destinations, t.kind) {
				for _, i := range ingress {
					outcome := together(e.possible, i.possible)
					if !q.Refused && (outcome == Drop || outcome == Reject) {
						continue
					}
					c.add(box{
						from: f.end(i.peers), to: t.end(e.peers), outcome: outcome, apart: apart, egress: e, ingress: i, possible: possible,
					}, s, &f, &t)
				}
			}
		}
	}
}

// end is one end of a box: the endpoints of a crowd that have some of the addresses; for the
// outside the addresses themselves.
type end struct {
	who   []member
	addrs addrset.Set
	// crowd tells ends with equal addresses apart: two endpoints may have one address.
	crowd []*endpoint
}

func (c *crowd) end(addrs addrset.Set) end { return end{addrs: addrs, crowd: c.members} }

// member is a Member with its place in the world.
type member struct {
	Member
	at int
}

// same reports whether two ends are the same.
func (e *end) same(o *end) bool { return e.addrs.Equal(o.addrs) && slices.Equal(e.crowd, o.crowd) }

// fill finds the endpoints.
func (e *end) fill(c *crowd) {
	for _, m := range c.members {
		var some []netip.Addr
		for _, a := range m.Addresses {
			if e.addrs.Contains(a) {
				some = append(some, a)
			}
		}
		blocks := e.addrs.Intersect(m.Blocks)
		if len(some) > 0 || !blocks.Empty() {
			e.who = append(e.who, member{Member{m.Endpoint, some, blocks}, m.at})
		}
	}
}

// box is all flows between two ends.
type box struct {
	from, to        end
	outcome         Outcome
	apart           bool
	egress, ingress half
	// services lists what was found to go this way, of those that are possible.
	services, possible []flow.Service
	// why is equal for boxes that may be put together; told and among are the numbers of possible,
	// the latter without what one family of addresses has alone.
	why             string
	reported, among int
}

// reason is equal for boxes that may be put together.
func (b *box) reason() string {
	text := append([]byte(b.outcome), strconv.FormatBool(b.apart)...)
	return string(b.ingress.reason(b.egress.reason(text)))
}

// mayPass reports whether the end lets anything through, for all that is known.
func (h half) mayPass() bool { return h.possible&^(drop|reject) != 0 }

// reason adds why a half decides as it does. Its cause names no rule yet.
func (h *half) reason(text []byte) []byte {
	text = append(text, '|', byte(h.possible))
	text = binary.AppendVarint(text, int64(h.by))
	text = binary.AppendUvarint(text, uint64(len(h.passed)))
	for _, i := range h.passed {
		text = binary.AppendVarint(text, int64(i))
	}
	text = fmt.Appendf(text, "%t%t%t%q%q", h.cause.Isolated, h.cause.Groups, h.cause.Unread, h.cause.Openings.Account, h.cause.Openings.Host)
	return text
}

// collector puts boxes together.
type collector struct {
	boxes   []*box
	budget  *work.Budget
	numbers numbering
	// of finds the boxes of the two crowds that are at work, between which so many services are
	// distinguished.
	of              map[boxKey][]*box
	reported, among int
}

// boxKey is equal for boxes that may be the same.
type boxKey struct {
	why      string
	from, to uint64
}

// begin turns to two other crowds.
func (c *collector) begin(possible []flow.Service) {
	c.of = map[boxKey][]*box{}
	c.reported, c.among = c.numbers.services(possible), c.numbers.services(withoutICMP(possible))
}

func (c *collector) add(b box, s flow.Service, f, t *crowd) {
	b.why, b.reported, b.among = b.reason(), c.reported, c.among
	c.budget.Spend(20 + b.from.addrs.Len() + b.to.addrs.Len())
	key := boxKey{b.why, b.from.addrs.Hash(), b.to.addrs.Hash()}
	for _, known := range c.of[key] {
		if known.from.same(&b.from) && known.to.same(&b.to) {
			known.services = append(known.services, s)
			return
		}
	}
	b.services = []flow.Service{s}
	c.budget.Spend(50 + 4*len(f.members) + 4*len(t.members))
	b.from.fill(f)
	b.to.fill(t)
	if len(b.from.who) == 1 && len(b.to.who) == 1 && b.from.who[0].at == b.to.who[0].at {
		return // to itself only
	}
	c.of[key] = append(c.of[key], &b)
	c.boxes = append(c.boxes, &b)
}

// flows returns what was collected: first sources with equal services are put together, then
// destinations, then the two families.
func (c *collector) flows(w *World) []Flows {
	list := c.joined(c.boxes, func(b *box) (end, *end) { return b.to, &b.from })
	list = c.joined(list, func(b *box) (end, *end) { return b.from, &b.to })
	list = c.families(list)
	out := make([]Flows, 0, len(list))
	for _, b := range list {
		c.budget.Spend(20 + len(b.from.who) + len(b.to.who) + b.from.addrs.Len() + b.to.addrs.Len())
		out = append(out, Flows{
			From: w.reported(&b.from), To: w.reported(&b.to), Services: b.services, Possible: b.possible, Outcome: b.outcome, Apart: b.apart,
			Egress: w.decision(&b.egress), Ingress: w.decision(&b.ingress),
		})
	}
	slices.SortStableFunc(out, func(a, b Flows) int {
		return cmp.Or(a.To.compare(b.To), a.From.compare(b.From), slices.CompareFunc(a.Services, b.Services, flow.Service.Compare))
	})
	return out
}

// joined puts together what differs in one end only. Endpoints and addresses stay apart.
func (c *collector) joined(list []*box, ends func(*box) (same end, differs *end)) []*box {
	type joint struct {
		*box
		others []*end
	}
	var joints []*joint
	type jointKey struct {
		outside            bool
		same               uint64
		why                string
		services, reported int
	}
	at := map[jointKey][]*joint{}
next:
	for _, b := range list {
		same, differs := ends(b)
		c.budget.Spend(10 + len(b.services) + same.addrs.Len())
		key := jointKey{len(differs.who) == 0, same.addrs.Hash(), b.why, c.numbers.services(b.services), b.reported}
		for _, known := range at[key] {
			if kept, _ := ends(known.box); kept.same(&same) {
				known.others = append(known.others, differs)
				continue next
			}
		}
		j := &joint{box: b}
		at[key] = append(at[key], j)
		joints = append(joints, j)
	}
	out := make([]*box, len(joints))
	for i, j := range joints {
		out[i] = j.box
		if len(j.others) == 0 {
			continue
		}
		_, grows := ends(j.box)
		all := append([]*end{grows}, j.others...)
		var sum end
		sets := make([]addrset.Set, len(all))
		for k, e := range all {
			sets[k] = e.addrs
			sum.who, sum.crowd = append(sum.who, e.who...), append(sum.crowd, e.crowd...)
		}
		sum.addrs = addrset.Union(sets...)
		*grows = sum
	}
	return out
}

// families puts together what holds for IPv4 and for IPv6 between the same ends. No flow goes from
// one to the other, so nothing is said that is not so.
func (c *collector) families(list []*box) []*box {
	type familyKey struct {
		family          int
		why             string
		services, among int
		from, to        string
	}
	var out []*box
	at := map[familyKey]*box{}
	for _, b := range list {
		other := 4
		if len(b.from.addrs.IPv4()) > 0 {
			other = 6
		}
		services, from, to := c.numbers.services(withoutICMP(b.services)), b.from.names(), b.to.names()
		c.budget.Spend(10 + len(b.services) + len(from) + len(to))
		key := func(family int) familyKey { return familyKey{family, b.why, services, b.among, from, to} }
		if known := at[key(other)]; known != nil {
			delete(at, key(other))
			for _, e := range [][2]*end{{&known.from, &b.from}, {&known.to, &b.to}} {
				e[0].who, e[0].addrs = append(e[0].who, e[1].who...), e[0].addrs.Union(e[1].addrs)
			}
			known.services, known.possible = united(known.services, b.services), united(known.possible, b.possible)
			continue
		}
		at[key(10-other)] = b
		out = append(out, b)
	}
	return out
}

func withoutICMP(services []flow.Service) []flow.Service {
	return slices.DeleteFunc(slices.Clone(services), func(s flow.Service) bool { return s.Protocol == cloud.ICMP || s.Protocol == cloud.ICMPv6 })
}

func united(a, b []flow.Service) []flow.Service {
	out := slices.Concat(a, b)
	slices.SortFunc(out, flow.Service.Compare)
	return slices.Compact(out)
}

// names is equal for ends with equal endpoints.
func (e *end) names() string {
	places := make([]int, len(e.who))
	for i, m := range e.who {
		places[i] = m.at
	}
	slices.Sort(places)
	var out []byte
	for _, p := range slices.Compact(places) {
		out = append(strconv.AppendInt(out, int64(p), 36), ' ')
	}
	return string(out)
}

// reported is an end as it is given.
func (w *World) reported(e *end) Side {
	if len(e.who) == 0 {
		all := w.filled(e.addrs)
		return Side{Addresses: all.Prefixes(), Rest: !all.Equal(e.addrs)}
	}
	slices.SortStableFunc(e.who, func(a, b member) int { return a.compare(b.Endpoint) })
	var s Side
	for _, m := range e.who {
		if n := len(s.Members) - 1; n >= 0 && s.Members[n].Endpoint == m.Endpoint {
			s.Members[n].Addresses = slices.Concat(s.Members[n].Addresses, m.Addresses)
			s.Members[n].Blocks = s.Members[n].Blocks.Union(m.Blocks)
			continue
		}
		s.Members = append(s.Members, m.Member)
	}
	for i := range s.Members {
		slices.SortFunc(s.Members[i].Addresses, netip.Addr.Compare)
		s.Members[i].Addresses = slices.Compact(s.Members[i].Addresses)
	}
	return s
}

// filled closes the holes that endpoints leave in ranges of addresses.
func (w *World) filled(s addrset.Set) addrset.Set {
	fill := func(set, holes addrset.Ranges) []addrset.Range {
		var out []addrset.Range
		for _, h := range holes {
			if h.From.Prev().Less(h.From) && h.To.Less(h.To.Next()) && set.Contains(h.From.Prev()) && set.Contains(h.To.Next()) {
				out = append(out, h)
			}
		}
		return out
	}
	return s.Union(addrset.OfRanges(fill(s.IPv4(), w.everybody.IPv4()), fill(s.IPv6(), w.everybody.IPv6())))
}

func (e *Endpoint) compare(o *Endpoint) int {
	return cmp.Or(cmp.Compare(e.Name, o.Name), cmp.Compare(e.Interface, o.Interface))
}

// compare puts endpoints before addresses.
func (s Side) compare(o Side) int {
	if (len(s.Members) == 0) != (len(o.Members) == 0) {
		return cmp.Compare(len(o.Members), len(s.Members))
	}
	return cmp.Or(
		slices.CompareFunc(s.Members, o.Members, func(a, b Member) int { return a.compare(b.Endpoint) }),
		slices.CompareFunc(s.Addresses, o.Addresses, func(a, b netip.Prefix) int {
			return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
		}),
	)
}

func (w *World) decision(h *half) Decision {
	d := Decision{Outcome: Outcome(h.possible.outcome()), Cause: h.cause}
	if h.by != noRule {
		d.Rule = w.policies.rules[h.by].ref()
	}
	for _, i := range h.passed {
		d.Passed = append(d.Passed, w.policies.rules[i].ref())
	}
	return d
}

// Service returns the service of one port, or of a whole protocol; of ICMP port is type*256+code.
func Service(protocol, port int) flow.Service {
	if port < 0 || protocol == cloud.AnyProtocol {
		return flow.Whole(protocol)
	}
	return flow.Service{Protocol: protocol, From: uint16(port), To: uint16(port)}
}

// Holds reports whether the flows hold that of one packet, of a service of one port or protocol. An
// end is an endpoint of the world with one of its addresses, or nil with an address that none has.
func (f *Flows) Holds(from, to *Endpoint, source, destination netip.Addr, s flow.Service) bool {
	if !f.From.holds(from, source) || !f.To.holds(to, destination) {
		return false
	}
	named := slices.ContainsFunc(f.Possible, func(o flow.Service) bool { return o.Protocol == s.Protocol })
	return slices.ContainsFunc(f.Services, func(o flow.Service) bool {
		if o.Protocol == cloud.AnyProtocol {
			return !named
		}
		return o.Covers(s)
	})
}

func (s *Side) holds(e *Endpoint, a netip.Addr) bool {
	if e == nil {
		return slices.ContainsFunc(s.Addresses, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return slices.ContainsFunc(s.Members, func(m Member) bool {
		return m.Endpoint == e && (slices.Contains(m.Addresses, a) || m.Blocks.Contains(a))
	})
}
