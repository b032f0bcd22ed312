package setmap

import (
	"cmp"
	"encoding/binary"
	"iter"
	"maps"
	mathbits "math/bits"
	"slices"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
)

// bits is a set of places in the list of workloads.
type bits []uint64

func newBits(n int) bits { return make(bits, (n+63)/64) }

func (b bits) add(i int) { b[i/64] |= 1 << (i % 64) }

func (b bits) count() int {
	n := 0
	for _, w := range b {
		n += mathbits.OnesCount64(w)
	}
	return n
}

func (b bits) some() bool { return slices.ContainsFunc(b, func(w uint64) bool { return w != 0 }) }

func (b bits) and(o bits) bits {
	out := make(bits, len(b))
	for i := range b {
		out[i] = b[i] & o[i]
	}
	return out
}

func (b bits) minus(o bits) bits {
	out := make(bits, len(b))
	for i := range b {
		out[i] = b[i] &^ o[i]
	}
	return out
}

func (b bits) each() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range b {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + mathbits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

func (b bits) key() string {
	out := make([]byte, 0, 8*len(b))
	for _, w := range b {
		out = binary.LittleEndian.AppendUint64(out, w)
	}
	return string(out)
}

// edgeKey identifies an edge.
type edgeKey struct {
	from, to    int
	verdict, by string
}

// edge is what goes between two classes.
type edge struct {
	packets  forecast.Packets
	policies []analysis.Policy
}

// drawing is a map that is drawn.
type drawing struct {
	*Map
	nodes []node
	total int
	// from and to represent the nodes that are asked about as sources and as destinations, at is
	// which node each represents.
	from, to bits
	at       map[int]int
	edges    map[edgeKey]*edge
}

func (m *Map) drawing(c *classes) *drawing {
	d := &drawing{Map: m, from: newBits(len(m.all)), to: newBits(len(m.all)), at: map[int]int{}, edges: map[edgeKey]*edge{}}
	d.nodes, d.total = m.nodes(c)
	for i := range d.nodes {
		first := d.nodes[i].first
		d.at[first] = i
		if m.all[first].From {
			d.from.add(first)
		}
		if m.all[first].To {
			d.to.add(first)
		}
	}
	return d
}

// drawnFlow is what goes from some to others, with what is decided about it.
type drawnFlow struct {
	from, to bits
	packets  forecast.Packets
	verdict  string
	by       [2]*Decision
}

// each are the flows between two clusters, or in one, that are drawn.
func (d *drawing) each(f *flows) iter.Seq[drawnFlow] {
	return func(yield func(drawnFlow) bool) {
		for i := range f.halves[0] {
			e := &f.halves[0][i]
			whole := drawnFlow{e.from.and(d.from), e.to.and(d.to), e.packets, e.Outcome, [2]*Decision{&e.Decision}}
			if f.within {
				if d.drawn(&whole) && !whole.packets.Empty() && !yield(whole) {
					return
				}
				continue
			}
			for k := range f.halves[1] {
				in := &f.halves[1][k]
				x := drawnFlow{whole.from.and(in.from), whole.to.and(in.to), whole.packets, together(e.Outcome, in.Outcome), [2]*Decision{&e.Decision, &in.Decision}}
				if !d.drawn(&x) {
					continue
				}
				if x.packets = e.packets.Intersect(in.packets); !x.packets.Empty() && !yield(x) {
					return
				}
			}
		}
	}
}

// drawn reports whether a flow is between anybody, and asked for.
func (d *drawing) drawn(x *drawnFlow) bool {
	return x.from.some() && x.to.some() && (d.asked.Refused || x.verdict != "Drop" && x.verdict != "Reject")
}

// draw adds flows of the ends of two clusters, or of one which decides both ends.
func (d *drawing) draw(f *flows) {
	work := 0
	for x := range d.each(f) {
		if work += x.from.count() * x.to.count(); work > maxWork {
			d.tooMuch(f)
			return
		}
	}
	for x := range d.each(f) {
		d.add(&x)
	}
}

// tooMuch draws that it is not known what goes between the two.
func (d *drawing) tooMuch(f *flows) {
	x := drawnFlow{newBits(len(d.all)), newBits(len(d.all)), d.packets, "Unknown", [2]*Decision{}}
	for i := range f.halves[0] {
		for k := range x.from {
			x.from[k] |= f.halves[0][i].from[k] & d.from[k]
			x.to[k] |= f.halves[0][i].to[k] & d.to[k]
		}
	}
	var from, to string
	for i := range x.from.each() {
		from = d.all[i].Cluster
	}
	for i := range x.to.each() {
		to = d.all[i].Cluster
	}
	d.unread[from+" to "+to+": too many kinds of flows: narrow it with from and to, protocol and port"] = true
	d.add(&x)
}

// add adds a flow to the edges between the classes that its ends are.
func (d *drawing) add(x *drawnFlow) {
	by := behind(x.verdict, x.by)
	destinations := slices.Collect(x.to.each())
	for a := range x.from.each() {
		for _, b := range destinations {
			if a != b || d.nodes[d.at[a]].Count > 1 {
				d.put(edgeKey{d.at[a], d.at[b], x.verdict, by}, x)
			}
		}
	}
}

// together is what two ends decide.
func together(egress, ingress string) string {
	for _, o := range []string{egress, ingress} {
		if o == "Drop" || o == "Reject" {
			return o
		}
	}
	for _, o := range []string{"Unknown", "Native"} {
		if egress == o || ingress == o {
			return o
		}
	}
	return "Allow"
}

// behind is what is behind a flow.
func behind(verdict string, by [2]*Decision) string {
	ruled, groups := false, false
	for _, d := range by {
		ruled, groups = ruled || d != nil && d.Ruled, groups || d != nil && d.Groups
	}
	switch {
	case verdict == "Unknown" || verdict == "Native":
		return analysis.ByUnknown
	case groups:
		return analysis.ByGroups
	case ruled:
		return analysis.ByPolicies
	}
	return analysis.ByNobody
}

func (d *drawing) put(key edgeKey, x *drawnFlow) {
	e, p := d.edges[key], x.packets
	switch {
	case e == nil:
		e = &edge{packets: p.Union(p)} // with its words
		d.edges[key] = e
	case e.packets.Except != p.Except || !slices.Equal(e.packets.Ranges, p.Ranges):
		e.packets = e.packets.Union(p)
	}
	for i, end := range x.by {
		if end == nil {
			continue
		}
		at := &d.all[d.nodes[[2]int{key.from, key.to}[i]].first]
		for _, p := range policiesOf(at.Cluster, end.Policies) {
			if !slices.Contains(e.policies, p) && len(e.policies) < maxPolicies {
				e.policies = append(e.policies, p)
			}
		}
	}
}

// result is the map.
func (d *drawing) result() *analysis.ReachMap {
	out := &analysis.ReachMap{Nodes: []analysis.MapNode{}, Edges: []analysis.MapEdge{}, Total: int32(d.total)}
	for i := range d.nodes {
		out.Nodes = append(out.Nodes, d.nodes[i].MapNode)
	}
	keys := slices.Collect(maps.Keys(d.edges))
	if more := len(keys) - maxEdges; more > 0 { // the edges of the smallest classes go
		size := func(k edgeKey) int64 { return int64(d.nodes[k.from].Count) * int64(d.nodes[k.to].Count) }
		slices.SortFunc(keys, func(a, b edgeKey) int {
			return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), strings.Compare(a.verdict, b.verdict), strings.Compare(a.by, b.by))
		})
		keys, out.MoreEdges = keys[:maxEdges], int32(more)
	}
	for _, key := range keys {
		e := d.edges[key]
		row := analysis.MapEdge{
			From: out.Nodes[key.from].Key, To: out.Nodes[key.to].Key, Verdict: key.verdict, By: key.by, Traffic: e.packets.Text, Except: e.packets.Except, Policies: e.policies,
		}
		for _, r := range e.packets.Ranges {
			row.Ranges = append(row.Ranges, analysis.ReachRange{Protocol: int32(r.Protocol), From: int32(r.From), To: int32(r.To)})
		}
		out.Edges = append(out.Edges, row)
	}
	slices.SortFunc(out.Edges, func(a, b analysis.MapEdge) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To), strings.Compare(a.Verdict, b.Verdict), strings.Compare(a.By, b.By))
	})
	slices.SortFunc(out.Nodes, func(a, b analysis.MapNode) int {
		return cmp.Or(strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Label, b.Label),
			strings.Compare(a.Key, b.Key))
	})
	return out
}
