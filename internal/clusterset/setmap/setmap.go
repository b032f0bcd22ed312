package setmap

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/expect"
	mapclasses "github.com/nephele-io/nephele/internal/explain/classes"
)

// The bounds of a map. What is left out is counted.
const (
	maxNodes = 400
	maxEdges = 10000
	// maxWork bounds what comes of the answers of two clusters: kinds of flows of the one with
	// the kinds of the other, and the classes between which they go. What is more is not known.
	maxWork = 500_000
)

// Workload is somebody on the map.
type Workload struct {
	Cluster string
	wire.Ref
	Labels    map[string]string
	Addresses []netip.Addr
	// From and To: it is asked about as a source, and as a destination.
	From, To bool
}

// View is as what the Pods of a cluster are seen at an address elsewhere. The zero value is: by
// their own addresses.
type View struct {
	// Words say that they are hidden, and by what; Addresses are the addresses that are seen, as
	// far as they are known.
	Words     string
	Addresses []netip.Addr
}

// Map is one map that is being made: New, then Questions, one Answer for each, then Result.
type Map struct {
	asked    analysis.ReachReviewSpec
	all      []Workload
	clusters map[string]*cluster
	order    []string
	seen     func(cluster string, at netip.Addr) View
	unread   map[string]bool
	// packets are those that are asked about.
	packets forecast.Packets
}

// cluster is one of the clusters on a map.
type cluster struct {
	Question
	// own are the places in the map of the workloads in the question; to and from are the places of
	// addresses in To and From.
	own      []int
	to, from map[netip.Addr]int
	// views are as what its Pods are seen elsewhere, and where.
	views  []*view
	answer *Answer
}

// view is what is seen of the Pods of a cluster by some in another.
type view struct {
	View
	viewer string
	// family is 0 for IPv4, 1 for IPv6; at are the viewers that see it so, by addresses of that
	// family.
	family int
	at     bits
}

// New makes a map of workloads, all of which have addresses. Seen is as what the Pods of clusters
// are seen elsewhere. It fails for a protocol or a port that is none.
func New(asked analysis.ReachReviewSpec, all []Workload, seen func(cluster string, at netip.Addr) View) (*Map, error) {
	m := &Map{asked: asked, all: all, clusters: map[string]*cluster{}, seen: seen, unread: map[string]bool{}, packets: everything()}
	services, err := expect.Services(asked.Protocol, asked.Port)
	if err != nil {
		return nil, err
	}
	if len(services) > 0 {
		m.packets = forecast.PacketsOf(services, services)
	}
	slices.SortFunc(m.all, func(a, b Workload) int {
		return cmp.Or(strings.Compare(a.Cluster, b.Cluster), strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name))
	})
	for i := range m.all {
		w := &m.all[i]
		c := m.clusters[w.Cluster]
		if c == nil {
			c = &cluster{Question: Question{Packets: packetsOf(m.packets)}, to: map[netip.Addr]int{}, from: map[netip.Addr]int{}}
			m.clusters[w.Cluster] = c
			m.order = append(m.order, w.Cluster)
		}
		c.own, c.Own = append(c.own, i), append(c.Own, w.Ref)
	}
	for _, from := range m.order {
		for _, to := range m.order {
			if from != to {
				m.between(from, to)
			}
		}
	}
	return m, nil
}

// between adds to the questions what goes from one cluster to another.
func (m *Map) between(from, to string) {
	source, destination := m.clusters[from], m.clusters[to]
	for family := range 2 {
		for _, j := range destination.own {
			a, has := m.all[j].address(family)
			if !m.all[j].To || !has {
				continue
			}
			add(&source.To, source.to, a)
			as := m.seen(from, a)
			i := slices.IndexFunc(source.views, func(v *view) bool {
				return v.viewer == to && v.family == family && v.Words == as.Words && slices.Equal(v.Addresses, as.Addresses)
			})
			if i < 0 {
				i = len(source.views)
				source.views = append(source.views, &view{View: as, viewer: to, family: family, at: newBits(len(m.all))})
			}
			source.views[i].at.add(j)
		}
	}
	for _, v := range source.views {
		if v.viewer != to {
			continue
		}
		for _, i := range source.own {
			if a, known := m.all[i].seenBy(v); known && m.all[i].From {
				add(&destination.From, destination.from, a)
			}
		}
	}
}

func add(list *[]netip.Addr, at map[netip.Addr]int, a netip.Addr) {
	if _, known := at[a]; !known {
		at[a] = len(*list)
		*list = append(*list, a)
	}
}

// address is the first of a family.
func (w *Workload) address(family int) (netip.Addr, bool) {
	i := slices.IndexFunc(w.Addresses, func(a netip.Addr) bool { return a.Is4() == (family == 0) })
	if i < 0 {
		return netip.Addr{}, false
	}
	return w.Addresses[i], true
}

// seenBy is the address by which a workload is seen, if that is known.
func (w *Workload) seenBy(v *view) (netip.Addr, bool) {
	own, has := w.address(v.family)
	if !has || v.Words == "" || w.Kind != wire.Pod {
		return own, has
	}
	return (&Workload{Addresses: v.Addresses}).address(v.family)
}

// Questions are what is to be asked, by cluster.
func (m *Map) Questions() map[string]*Question {
	out := make(map[string]*Question, len(m.clusters))
	for name, c := range m.clusters {
		out[name] = &c.Question
	}
	return out
}

// Answer takes over what a cluster has answered to its question; nil, and why, if it has not.
func (m *Map) Answer(name string, a *Answer, why error) {
	if why != nil {
		m.clusters[name].answer = nil
		m.unread[name+": "+why.Error()] = true
		return
	}
	m.clusters[name].answer = a
	lost := 0
	for _, hold := range a.Of {
		if hold < 0 {
			lost++
		}
	}
	if lost > 0 {
		m.unread[fmt.Sprintf("%s: %d of its workloads are not known there now", name, lost)] = true
	}
}

// half are flows as far as one end decides them.
type half struct {
	from, to bits
	packets  forecast.Packets
	Decision
}

// everything are all packets.
func everything() forecast.Packets {
	return forecast.PacketsOf([]flow.Service{flow.Any()}, []flow.Service{flow.Any()})
}

// unknown are flows that one end does not know.
func (m *Map) unknown(from, to bits) half {
	return half{from, to, m.packets, Decision{Outcome: "Unknown"}}
}

// flows are what goes from one cluster to another, as either decides it at its own end; or within
// one, which decides both.
type flows struct {
	within bool
	halves [2][]half
}

// Result is the map. What is not known is in unread, by cluster.
func (m *Map) Result() (out *analysis.ReachMap, unread []string) {
	var all []flows
	classes := m.oneEach()
	for _, from := range m.order {
		for _, to := range m.order {
			for family := range 2 {
				if from == to {
					all = append(all, flows{true, [2][]half{m.within(from, family), nil}})
					continue
				}
				all = append(all, flows{false, [2][]half{m.egress(from, to, family), m.ingress(from, to, family)}})
			}
		}
	}
	for i := range all {
		for _, halves := range all[i].halves {
			for k := range halves {
				classes.split(halves[k].from)
				classes.split(halves[k].to)
			}
		}
	}
	d := m.drawing(classes)
	for i := range all {
		d.draw(&all[i])
	}
	return d.result(), slices.Sorted(maps.Keys(m.unread))
}

// within is what goes on in a cluster, which decides both ends.
func (m *Map) within(name string, family int) []half {
	c := m.clusters[name]
	all := m.of(c.own, func(w *Workload) bool { _, has := w.address(family); return has })
	if c.answer == nil {
		return []half{m.unknown(all, all)}
	}
	var out []half
	for _, r := range c.answer.Within {
		out = append(out, m.half(c, r, m.ownSet(c, r[0]).and(all), m.ownSet(c, r[1]).and(all)))
	}
	strange := m.strange(c).and(all)
	return append(out, m.unknown(strange, all), m.unknown(all.minus(strange), strange))
}

// egress is what the senders' cluster decides of what goes to another.
func (m *Map) egress(from, to string, family int) []half {
	c := m.clusters[from]
	has := func(w *Workload) bool { _, has := w.address(family); return has }
	senders, receivers := m.of(c.own, has), m.of(m.clusters[to].own, has)
	if !senders.some() || !receivers.some() {
		return nil
	}
	if c.answer == nil {
		return []half{m.unknown(senders, receivers)}
	}
	var out []half
	for _, r := range c.answer.Out {
		there := newBits(len(m.all))
		for _, j := range m.clusters[to].own {
			if a, is := m.all[j].address(family); is && m.all[j].To && within(c.answer.Sets[r[1]], c.to[a]) {
				there.add(j)
			}
		}
		out = append(out, m.half(c, r, m.ownSet(c, r[0]).and(senders), there))
	}
	return append(out, m.unknown(m.strange(c).and(senders), receivers))
}

// ingress is what the receivers' cluster decides of what comes from another.
func (m *Map) ingress(from, to string, family int) []half {
	source, c := m.clusters[from], m.clusters[to]
	var out []half
	for _, v := range source.views {
		if v.viewer != to || v.family != family {
			continue
		}
		known, hidden := newBits(len(m.all)), newBits(len(m.all))
		for _, i := range source.own {
			if _, has := m.all[i].address(family); !has || !m.all[i].From {
				continue
			}
			if _, is := m.all[i].seenBy(v); is {
				known.add(i)
			} else {
				hidden.add(i)
			}
		}
		if hidden.some() {
			m.unread[to+": it is not known by which address: "+v.Words] = true
			out = append(out, m.unknown(hidden, v.at))
		}
		if c.answer == nil {
			out = append(out, m.unknown(known, v.at))
			continue
		}
		for _, r := range c.answer.In {
			there := newBits(len(m.all))
			for i := range known.each() {
				if a, _ := m.all[i].seenBy(v); within(c.answer.Sets[r[0]], c.from[a]) {
					there.add(i)
				}
			}
			out = append(out, m.half(c, r, there, m.ownSet(c, r[1]).and(v.at)))
		}
		out = append(out, m.unknown(known, m.strange(c).and(v.at)))
	}
	return out
}

// half is a row of an answer, as far as it is about what was asked.
func (m *Map) half(c *cluster, r Row, from, to bits) half {
	packets := c.answer.Packets[r[2]].set()
	if !m.packets.Except {
		packets = packets.Intersect(m.packets)
	}
	return half{from, to, packets, c.answer.Decisions[r[3]]}
}

// of are the workloads at some places that are as is wanted.
func (m *Map) of(places []int, wanted func(*Workload) bool) bits {
	out := newBits(len(m.all))
	for _, i := range places {
		if wanted(&m.all[i]) {
			out.add(i)
		}
	}
	return out
}

// ownSet are the workloads of a set of an answer.
func (m *Map) ownSet(c *cluster, set int) bits {
	out, runs := newBits(len(m.all)), c.answer.Sets[set]
	for i := 0; i < len(runs); i += 2 {
		for n := runs[i]; n <= runs[i+1]; n++ {
			out.add(c.own[n])
		}
	}
	return out
}

// strange are the workloads of a cluster that it does not know itself.
func (m *Map) strange(c *cluster) bits {
	out := newBits(len(m.all))
	for i, hold := range c.answer.Of {
		if hold < 0 {
			out.add(c.own[i])
		}
	}
	return out
}

// within reports whether a place is in runs.
func within(runs []int, place int) bool {
	for i := 0; i < len(runs); i += 2 {
		if runs[i] <= place && place <= runs[i+1] {
			return true
		}
	}
	return false
}

// classes puts workloads together that are treated alike.
type classes struct {
	of   []int
	next int
	done map[string]bool
}

// oneEach begins with one class for each kind of workloads in one Namespace for which the same
// policies hold.
func (m *Map) oneEach() *classes {
	c := &classes{of: make([]int, len(m.all)), done: map[string]bool{}}
	known := map[string]int{}
	for _, name := range m.order {
		at := m.clusters[name]
		for i, place := range at.own {
			w, hold := &m.all[place], -1
			if at.answer != nil {
				hold = at.answer.Of[i]
			}
			key := fmt.Sprint(name, "|", w.Kind, "|", w.Namespace, "|", hold, w.From, w.To)
			n, is := known[key]
			if !is {
				n = c.next
				known[key] = n
				c.next++
			}
			c.of[place] = n
		}
	}
	return c
}

// split parts classes of which some are in a set, and some are not.
func (c *classes) split(set bits) {
	key := set.key()
	if c.done[key] {
		return
	}
	c.done[key] = true
	into := map[int]int{}
	for i := range set.each() {
		n, is := into[c.of[i]]
		if !is {
			n = c.next
			into[c.of[i]] = n
			c.next++
		}
		c.of[i] = n
	}
}

// node is a class on the map. One member represents all.
type node struct {
	analysis.MapNode
	first int
}

// nodes are the largest classes, in the order of the workloads, and how many there are in all.
func (m *Map) nodes(c *classes) (all []node, total int) {
	members := map[int][]int{}
	for i, n := range c.of {
		members[n] = append(members[n], i)
	}
	for _, places := range members {
		all = append(all, m.node(places))
	}
	order := func(a, b node) int { return cmp.Compare(a.first, b.first) }
	slices.SortFunc(all, order)
	if total = len(all); total > maxNodes {
		slices.SortStableFunc(all, func(a, b node) int { return cmp.Compare(b.Count, a.Count) })
		all = all[:maxNodes]
		slices.SortFunc(all, order)
	}
	return all, total
}

func (m *Map) node(places []int) node {
	first := &m.all[places[0]]
	kind := map[wire.Kind]string{wire.Pod: analysis.NodePod, wire.Machine: analysis.NodeExternal, wire.Node: analysis.NodeNode}[first.Kind]
	sum := sha256.Sum256([]byte(first.title()))
	n := node{analysis.MapNode{Key: "c-" + hex.EncodeToString(sum[:8]), Kind: kind, Count: int32(len(places)), Namespace: first.Namespace, Cluster: first.Cluster}, places[0]}
	var labels []map[string]string
	for _, i := range places {
		labels = append(labels, m.all[i].Labels)
		n.Members = append(n.Members, m.all[i].title())
	}
	if n.Label, n.Role, n.Tier = mapclasses.Named(labels); n.Label == "" {
		n.Label = first.Name
		if len(places) > 1 {
			n.Label = fmt.Sprintf("%s and %d more", first.Name, len(places)-1)
		}
	}
	c := m.clusters[first.Cluster]
	if c.answer == nil {
		return n
	}
	if at, is := slices.BinarySearch(c.own, places[0]); is && c.answer.Of[at] >= 0 {
		hold := &c.answer.Holds[c.answer.Of[at]]
		n.Policies, n.NotEnforced = policiesOf(first.Cluster, hold.Policies), hold.Suspended
		if hold.In {
			n.Isolated = append(n.Isolated, "In")
		}
		if hold.Out {
			n.Isolated = append(n.Isolated, "Out")
		}
	}
	return n
}

// title is how a workload can be asked about in the hub.
func (w *Workload) title() string {
	switch w.Kind {
	case wire.Node:
		return w.Cluster + ":node/" + w.Name
	case wire.Machine:
		return w.Cluster + ":ee/" + w.Namespace + "/" + w.Name
	}
	return w.Cluster + ":pod/" + w.Namespace + "/" + w.Name
}

// policiesOf are policies with the cluster that they are in.
func policiesOf(cluster string, all []analysis.Policy) []analysis.Policy {
	out := slices.Clone(all)
	for i := range out {
		out[i].Cluster = cluster
	}
	return out
}
