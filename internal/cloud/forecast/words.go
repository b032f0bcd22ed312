package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// lastPort is the greatest value of the 16-bit axis of a flow.Service.
const lastPort = 0xffff

// changes collects differences cell by cell and puts them together.
type changes struct {
	region string
	order  []string
	byKey  map[string]*entry
}

// entry is all that changes in the same way between the same two ends.
type entry struct {
	Change
	services, possible []flow.Service
}

func (c *changes) add(opens bool, from, to End, s flow.Service, possible []flow.Service) {
	key := fmt.Sprint(opens, "|", from.key(), "|", to.key())
	if c.byKey == nil {
		c.byKey = map[string]*entry{}
	}
	e := c.byKey[key]
	if e == nil {
		e = &entry{Change: Change{Region: c.region, Opens: opens, From: from, To: to}, possible: possible}
		c.byKey[key] = e
		c.order = append(c.order, key)
	}
	e.services = append(e.services, s)
}

// merged returns the changes, those that differ in one end only put together.
func (c *changes) merged() []Change {
	var out []Change
	for _, key := range c.order {
		e := c.byKey[key]
		e.Packets = packetsOf(e.services, e.possible)
		out = append(out, e.Change)
	}
	out = merge(out, func(x *Change) string { return x.To.key() }, func(x, y *Change) { x.From, x.To = x.From.and(y.From), x.To.and(y.To) },
		func(x *Change) *End { return &x.From })
	out = merge(out, func(x *Change) string { return x.From.key() }, func(x, y *Change) { x.From, x.To = x.From.and(y.From), x.To.and(y.To) },
		func(x *Change) *End { return &x.To })
	slices.SortStableFunc(out, func(a, b Change) int {
		return cmp.Or(b2i(b.Opens)-b2i(a.Opens), strings.Compare(a.To.key(), b.To.key()), strings.Compare(a.From.key(), b.From.key()),
			strings.Compare(a.Packets.Text, b.Packets.Text))
	})
	return out
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// merge joins changes that agree in direction of change, services and one end, where the other ends
// are of the same form.
func merge(in []Change, same func(*Change) string, join func(x, y *Change), other func(*Change) *End) []Change {
	at := map[string]int{}
	var out []Change
	for i := range in {
		x := &in[i]
		key := fmt.Sprint(x.Opens, "|", x.Packets, "|", same(x), "|", other(x).form())
		if j, ok := at[key]; ok {
			join(&out[j], x)
			continue
		}
		at[key] = len(out)
		out = append(out, *x)
	}
	return out
}

func (e End) form() string {
	switch {
	case len(e.VMs) > 0:
		return "vms"
	case len(e.Unseen) > 0:
		return "unseen"
	default:
		return "addresses"
	}
}

func (e End) key() string {
	return e.form() + strings.Join(e.VMs, " ") + strings.Join(e.Unseen, " ") + fmt.Sprint(e.Addresses)
}

func (e End) and(o End) End {
	union := func(a, b []string) []string {
		all := slices.Concat(a, b)
		slices.Sort(all)
		return slices.Compact(all)
	}
	out := End{VMs: union(e.VMs, o.VMs), Unseen: union(e.Unseen, o.Unseen), holes: e.holes.Union(o.holes)}
	if len(e.Addresses)+len(o.Addresses) > 0 {
		out.Addresses = addrset.OfPrefixes(slices.Concat(e.Addresses, o.Addresses)...).Prefixes()
	}
	out.Rest = e.Rest || o.Rest
	return out
}

// named is how many VMs or addresses are listed before the rest is counted.
const named = 4

func (e End) String() string { return e.Text(named) }

// Text says what the end is; of more than limit VMs, ranges or exceptions of a range some are named
// and the rest is counted.
func (e End) Text(limit int) string {
	switch e.form() {
	case "vms":
		return list(e.VMs, limit)
	case "unseen":
		return "the members of " + list(e.Unseen, limit)
	}
	anywhere := "anywhere"
	if e.Rest {
		anywhere = "anywhere else"
	}
	return addrset.Say(addrset.OfPrefixes(e.Addresses...).Blocks(), limit, anywhere, func(b addrset.Block) bool {
		return e.holes.Overlaps(addrset.OfPrefixes(b.Prefix)) || e.Rest && e.holes.Empty() // in which of them is not known
	})
}

func list(items []string, limit int) string {
	if len(items) <= limit+1 {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:limit], ", "), len(items)-limit)
}

// Packets is a set of packets as seen by protocol and port.
type Packets struct {
	// Text says it in words, for example "tcp 443" or "everything but udp 53".
	Text string
	// Except means all packets that are possible between the two ends but those in Ranges.
	Except bool
	// Ranges are disjoint and sorted.
	Ranges []Range
}

// Range is an interval of the packets of one IP protocol.
type Range struct {
	Protocol int
	// From and To are destination ports (TCP, UDP), or type*256+code (ICMP, ICMPv6), inclusive. For
	// other protocols they are 0 and 65535.
	From int
	To   int
}

// Contain reports whether a packet is in the set. Port is type*256+code for ICMP and ICMPv6, and of
// no meaning for other protocols without ports.
func (p Packets) Contain(protocol, port int) bool {
	in := slices.ContainsFunc(p.Ranges, func(r Range) bool { return r.Protocol == protocol && r.From <= port && port <= r.To })
	return in != p.Except
}

// packetsOf says which packets the cells hold, given all cells that are possible between the two
// ends.
func packetsOf(in, possible []flow.Service) Packets {
	if !slices.ContainsFunc(in, func(s flow.Service) bool { return s.Protocol == cloud.AnyProtocol }) {
		out := Packets{Ranges: joined(in)}
		out.Text = words(out.Ranges)
		return out
	}
	var missing []flow.Service
	there := map[flow.Service]bool{}
	for _, s := range in {
		there[s] = true
	}
	for _, s := range possible {
		if !there[s] {
			missing = append(missing, s)
		}
	}
	out := Packets{Except: true, Ranges: joined(missing)}
	out.Text = allBut(joined(in), out.Ranges)
	return out
}

// allBut says in words what all protocols are but the missing ranges. Of a protocol of which little
// is left, that is said first; it would be hard to guess from what is missing.
func allBut(in, missing []Range) string {
	sizes := map[int][2]int{}
	for i, ranges := range [][]Range{in, missing} {
		for _, r := range ranges {
			n := sizes[r.Protocol]
			n[i] += r.To - r.From + 1
			sizes[r.Protocol] = n
		}
	}
	var first, but []string
	most, whole := map[int]bool{}, true
	for _, r := range missing {
		n := sizes[r.Protocol]
		switch {
		case n[0] > 0 && n[0] < n[1]:
			if !most[r.Protocol] {
				most[r.Protocol] = true
				but = append(but, cloud.ProtocolName(r.Protocol))
			}
		default:
			whole = whole && n[0] == 0
			but = append(but, r.String())
		}
	}
	for _, r := range in {
		if most[r.Protocol] {
			first = append(first, r.String())
		}
	}
	text := "everything"
	if whole && len(but) > 0 {
		text = "all protocols"
	}
	if len(first) > 0 {
		text = strings.Join(first, ", ") + ", and " + text
	}
	if len(but) > 0 {
		text += " but " + strings.Join(but, ", ")
	}
	return text
}

// joined returns the services as ranges, neighbours put together.
func joined(services []flow.Service) []Range {
	services = slices.Clone(services)
	slices.SortFunc(services, flow.Service.Compare)
	out := []Range{}
	for _, s := range slices.Compact(services) {
		if k := len(out) - 1; k >= 0 && out[k].Protocol == s.Protocol && out[k].To+1 >= int(s.From) {
			out[k].To = max(out[k].To, int(s.To))
			continue
		}
		out = append(out, Range{s.Protocol, int(s.From), int(s.To)})
	}
	return out
}

func words(ranges []Range) string {
	texts := make([]string, len(ranges))
	for i, r := range ranges {
		texts[i] = r.String()
	}
	return strings.Join(texts, ", ")
}

func (r Range) String() string {
	return flow.Service{Protocol: r.Protocol, From: uint16(r.From), To: uint16(r.To)}.String()
}

// PacketsOf says which packets services hold, given all that are distinguished between the two
// ends: each is in one of those, and the one of cloud.AnyProtocol represents all protocols that
// none of them names.
func PacketsOf(in, possible []flow.Service) Packets { return packetsOf(in, possible) }
