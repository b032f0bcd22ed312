package forecast

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// Change is a set of flows that open, or that close: all that the packets, the sources and the
// destinations make together.
type Change struct {
	Region string
	Opens  bool
	// Packets are what the flows consist of.
	Packets Packets
	From    End
	To      End
}

// End is one end of flows: exactly one of VMs, Addresses and Unseen.
type End struct {
	// VMs are VMs by name (by ID if they have none, or share it), sorted. An interface of a VM with
	// several is written as VM/interface, one without a VM by its ID.
	VMs []string
	// Addresses are ranges of addresses. The addresses of interfaces in sight do not count, even
	// where they lie in a range.
	Addresses []netip.Prefix
	// Rest is true if interfaces in sight lie in these ranges: the end is the rest of the ranges
	// then.
	Rest bool
	// Unseen are peers whose addresses the account does not show: groups of other accounts, prefix
	// lists without their entries.
	Unseen []string
	// holes are addresses of interfaces in sight within Addresses.
	holes addrset.Set
}

// kind is a set of interfaces with the same network and the same groups, before and after.
type kind struct {
	network       string
	before, after []string // groups
	addrs         addrset.Set
	interfaces    []*cloud.Interface
	halves        [2]halfOf    // ingress, egress
	outside       addrset.Set  // addresses that no interface in reach has, of the families that the kind has
	inside        []netip.Addr // the addresses of interfaces in reach, sorted
}

// halfOf is what a kind allows in one direction.
type halfOf struct {
	cells   []cell
	changed bool
	// closed is set if everything that closes because of this half is reported already.
	closed bool
}

type cell struct {
	service       flow.Service
	before, after addrset.Set
	// unseen are peers that come and go, whose addresses are not known.
	comes, goes []string
	// opaque is true if there are such peers afterwards.
	opaque bool
}

// at returns the cell that holds a service, which lies in one cell.
func (h *halfOf) at(s flow.Service) *cell {
	for i := range h.cells {
		c := &h.cells[i]
		if c.service.Protocol == s.Protocol && c.service.From <= s.From && s.To <= c.service.To {
			return c
		}
	}
	return &h.cells[len(h.cells)-1]
}

// comparison is two snapshots of a region that differ in groups, rules and what interfaces hold.
type comparison struct {
	before, after *model.View
	kinds         []*kind
	names         map[string]string // of interfaces
	changes       changes
}

// Reach returns the flows that are allowed in only one of two snapshots of the same region, in
// words, those that open first. Flows from an interface to itself are left out where they can be
// told apart.
func Reach(before, after *cloud.Snapshot) []Change { return compare(before, after).reach() }

func compare(before, after *cloud.Snapshot) *comparison {
	before, after = before.Joined(), after.Joined()
	c := &comparison{before: model.NewView(before), after: model.NewView(after), names: names(before)}
	c.changes.region = before.Region
	c.findKinds()
	return c
}

// reach returns what differs, but for what a half that is closed tells.
func (c *comparison) reach() []Change {
	for _, k := range c.kinds {
		c.outer(k)
	}
	for _, to := range c.kinds {
		for _, from := range c.kinds {
			if (to.halves[0].changed || from.halves[1].changed) && c.before.Reaches(to.network, from.network) {
				c.inner(from, to)
			}
		}
	}
	return c.changes.merged()
}

// names are what people call the interfaces: see End.VMs.
func names(s *cloud.Snapshot) map[string]string {
	count := map[string]int{}
	for i := range s.VMs {
		count[s.VMs[i].Name]++
	}
	vms := map[string]string{}
	for i := range s.VMs {
		vm := &s.VMs[i]
		if vms[vm.ID] = vm.ID; vm.Name != "" && count[vm.Name] == 1 {
			vms[vm.ID] = vm.Name
		}
	}
	interfaces := map[string]int{}
	for i := range s.Interfaces {
		interfaces[s.Interfaces[i].VMID]++
	}
	out := map[string]string{}
	for i := range s.Interfaces {
		n := &s.Interfaces[i]
		switch name, ok := vms[n.VMID]; {
		case !ok:
			out[n.ID] = n.ID
		case interfaces[n.VMID] > 1:
			out[n.ID] = name + "/" + n.ID
		default:
			out[n.ID] = name
		}
	}
	return out
}

func (c *comparison) findKinds() {
	now := map[string][]string{}
	for i := range c.after.Snapshot().Interfaces {
		now[c.after.Snapshot().Interfaces[i].ID] = c.after.Snapshot().Interfaces[i].GroupIDs
	}
	byKey := map[string]*kind{}
	addrs := map[*kind][]netip.Addr{}
	for i := range c.before.Snapshot().Interfaces {
		n := &c.before.Snapshot().Interfaces[i]
		key := strings.Join([]string{n.NetworkID, strings.Join(n.GroupIDs, " "), strings.Join(now[n.ID], " ")}, "|")
		k := byKey[key]
		if k == nil {
			k = &kind{network: n.NetworkID, before: n.GroupIDs, after: now[n.ID]}
			byKey[key] = k
			c.kinds = append(c.kinds, k)
		}
		k.interfaces = append(k.interfaces, n)
		addrs[k] = append(addrs[k], n.PrivateIPs...)
		for _, p := range n.Prefixes {
			addrs[k] = append(addrs[k], p.Addr())
		}
	}
	for _, k := range c.kinds {
		k.addrs = model.Private(k.interfaces...)
	}
	for _, k := range c.kinds {
		k.outside = families(k.addrs)
		for _, o := range c.kinds {
			if c.before.Reaches(k.network, o.network) {
				k.outside = k.outside.Minus(o.addrs)
				k.inside = append(k.inside, addrs[o]...)
			}
		}
		slices.SortFunc(k.inside, netip.Addr.Compare)
		k.inside = slices.Compact(k.inside)
		k.halves[0], k.halves[1] = c.half(k, cloud.Ingress), c.half(k, cloud.Egress)
	}
}

// families are all addresses of the families that the set has addresses of.
func families(s addrset.Set) addrset.Set {
	var out addrset.Set
	for _, f := range []addrset.Set{addrset.AllIPv4(), addrset.AllIPv6()} {
		if s.Overlaps(f) {
			out = out.Union(f)
		}
	}
	return out
}

func (c *comparison) half(k *kind, d cloud.Direction) halfOf {
	old, now := c.before.Rules(k.before, d), c.after.Rules(k.after, d)
	var out halfOf
	for _, s := range flow.Partition(servicesOf(old, now)) {
		x := cell{service: s}
		var unseenOld, unseenNow []cloud.Peer
		x.before, unseenOld = c.before.Allowed(old, k.network, s)
		x.after, unseenNow = c.after.Allowed(now, k.network, s)
		x.comes, x.goes = without(unseenNow, unseenOld), without(unseenOld, unseenNow)
		x.opaque = len(unseenNow) > 0
		out.changed = out.changed || !x.before.Equal(x.after) || len(x.comes)+len(x.goes) > 0
		out.cells = append(out.cells, x)
	}
	return out
}

// servicesOf are what rules match.
func servicesOf(rules ...[]cloud.Rule) []flow.Service {
	var out []flow.Service
	for _, r := range slices.Concat(rules...) {
		out = append(out, flow.ServiceOf(r.Match))
	}
	return out
}

// without returns the names of the peers of a that are not in b.
func without(a, b []cloud.Peer) []string {
	var out []string
	for _, p := range a {
		if !slices.Contains(b, p) {
			out = append(out, p.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// outer compares flows between a kind and addresses that no interface in reach has: one half
// decides.
func (c *comparison) outer(k *kind) {
	self := c.end(k, k.addrs)
	for i := range k.halves {
		h := &k.halves[i]
		if !h.changed || h.closed {
			continue
		}
		var possible []flow.Service
		for j := range h.cells {
			if flow.Family(h.cells[j].service.Protocol).Overlaps(k.addrs) {
				possible = append(possible, h.cells[j].service)
			}
		}
		tell := func(opens bool, s flow.Service, other End) {
			from, to := other, self
			if i == 1 {
				from, to = self, other
			}
			c.changes.add(opens, from, to, s, possible)
		}
		for j := range h.cells {
			x := &h.cells[j]
			for _, opens := range []bool{true, false} {
				now, was, unseen := x.after, x.before, x.comes
				if !opens {
					now, was, unseen = x.before, x.after, x.goes
				}
				if set := now.Minus(was).Intersect(k.outside); !set.Empty() {
					all := filled(set, k.inside)
					holes := all.Minus(set)
					tell(opens, x.service, End{Addresses: all.Prefixes(), Rest: !holes.Empty(), holes: holes})
				}
				if len(unseen) > 0 {
					tell(opens, x.service, End{Unseen: unseen})
				}
			}
		}
	}
}

// filled closes the holes that interfaces leave in ranges of addresses, so that a range is shown as
// a rule writes it.
func filled(set addrset.Set, inside []netip.Addr) addrset.Set {
	var holes []netip.Addr
	for i := 0; i < len(inside); {
		j := i + 1
		for j < len(inside) && inside[j] == inside[j-1].Next() {
			j++
		}
		if set.Contains(inside[i].Prev()) && set.Contains(inside[j-1].Next()) {
			holes = append(holes, inside[i:j]...)
		}
		i = j
	}
	return set.Union(addrset.Of(holes...))
}

// inner compares flows between interfaces of two kinds: both halves decide, and within two kinds
// all flows that are allowed are all flows from some sources to some destinations.
func (c *comparison) inner(from, to *kind) {
	if from == to && len(to.interfaces) == 1 {
		return
	}
	in, out := &to.halves[0], &from.halves[1]
	services := overlay(in, out)
	var possible []flow.Service
	for _, s := range services {
		if f := flow.Family(s.Protocol); f.Overlaps(from.addrs) && f.Overlaps(to.addrs) {
			possible = append(possible, s)
		}
	}
	for _, s := range possible {
		x, y := in.at(s), out.at(s)
		for _, family := range []addrset.Set{addrset.AllIPv4(), addrset.AllIPv6()} { // no flow goes from one to the other
			packets := family.Intersect(flow.Family(s.Protocol))
			senders, receivers := from.addrs.Intersect(packets), to.addrs.Intersect(packets)
			old := box{x.before.Intersect(senders), y.before.Intersect(receivers)}
			now := box{x.after.Intersect(senders), y.after.Intersect(receivers)}
			for _, d := range now.minus(old) {
				c.changes.add(true, c.end(from, d.from), c.end(to, d.to), s, possible)
			}
			for _, d := range old.minus(now) {
				if out.closed && !d.to.Overlaps(y.after) || in.closed && !d.from.Overlaps(x.after) {
					continue
				}
				c.changes.add(false, c.end(from, d.from), c.end(to, d.to), s, possible)
			}
		}
	}
}

// overlay returns the common refinement of the cells of two halves.
func overlay(a, b *halfOf) []flow.Service {
	var services []flow.Service
	for _, h := range []*halfOf{a, b} {
		for i := range h.cells {
			services = append(services, h.cells[i].service)
		}
	}
	return flow.Partition(services)
}

// box is all flows from some addresses to some addresses.
type box struct{ from, to addrset.Set }

// minus returns the flows of b that are not in o, as boxes that are not empty and do not overlap.
func (b box) minus(o box) []box {
	var out []box
	for _, d := range []box{{b.from.Minus(o.from), b.to}, {b.from.Intersect(o.from), b.to.Minus(o.to)}} {
		if !d.from.Empty() && !d.to.Empty() {
			out = append(out, d)
		}
	}
	return out
}

// end names the interfaces of a kind that have some of the addresses.
func (c *comparison) end(k *kind, addrs addrset.Set) End {
	var out []string
	for _, n := range k.interfaces {
		if model.Private(n).Overlaps(addrs) {
			out = append(out, c.names[n.ID])
		}
	}
	slices.Sort(out)
	return End{VMs: slices.Compact(out)}
}
