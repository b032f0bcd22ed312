package review

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/classes"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/reach"
)

// The bounds of a map. What is left out is counted.
const (
	mostNodes     = 400
	mostEdges     = 10000
	mostMembers   = 20
	mostPolicies  = 10
	mostAddresses = 50
)

// MapQuestion is what a map is about. The zero value is everything that passes, or may.
type MapQuestion struct {
	reach.Question
	// Parties tells that Question names its parties; otherwise everybody is meant.
	Parties bool
}

// Map tells which endpoint can reach which, by classes of machines that are alike: now, and if then
// is not nil what changes. One machine of a class represents all, so that it costs what the classes
// cost. Endpoints that the caller may not see are not on it.
func Map(now, then *explain.World, q MapQuestion) *v1alpha1.ReachMap {
	if !q.Parties {
		q.From, q.To = reach.Everybody(), reach.Everybody()
	}
	all := slices.DeleteFunc(classes.Of(now, then), func(c *classes.Class) bool { return !q.meant(c) })
	out := &v1alpha1.ReachMap{Nodes: []v1alpha1.MapNode{}, Edges: []v1alpha1.MapEdge{}, Total: int32(len(all))}
	if len(all) > mostNodes {
		slices.SortStableFunc(all, func(a, b *classes.Class) int { return cmp.Compare(len(b.Names), len(a.Names)) })
		all = all[:mostNodes]
	}
	m := mapping{MapQuestion: q, nodes: map[string]*v1alpha1.MapNode{}, edges: map[edgeKey]*edge{}}
	for _, c := range all {
		m.nodes[c.Key] = nodeOf(c, cmp.Or(then, now), now)
	}
	m.flows(now, all, func(c *classes.Class) []*reach.Endpoint { return c.Now }, func(e *edge) *forecast.Packets { return &e.now })
	if then != nil {
		m.flows(then, all, func(c *classes.Class) []*reach.Endpoint { return c.Then }, func(e *edge) *forecast.Packets { return &e.then })
	}
	for key, e := range m.edges {
		out.Edges = append(out.Edges, e.told(key, then != nil)...)
	}
	slices.SortFunc(out.Edges, func(a, b v1alpha1.MapEdge) int {
		return cmp.Or(strings.Compare(b.Change, a.Change), strings.Compare(a.From, b.From), strings.Compare(a.To, b.To), strings.Compare(a.Verdict, b.Verdict),
			strings.Compare(a.By, b.By))
	})
	if more := len(out.Edges) - mostEdges; more > 0 {
		out.Edges, out.MoreEdges = out.Edges[:mostEdges], int32(more)
	}
	for _, n := range m.nodes {
		out.Nodes = append(out.Nodes, *n)
	}
	slices.SortFunc(out.Nodes, func(a, b v1alpha1.MapNode) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Label, b.Label), strings.Compare(a.Key, b.Key))
	})
	return out
}

// Members returns the members of a class, or none if there is no such class now.
func Members(w *explain.World, key string) []v1alpha1.ReachEnd {
	for _, c := range classes.Of(w, nil) {
		if c.Key != key {
			continue
		}
		out := make([]v1alpha1.ReachEnd, len(c.Now))
		for i, e := range c.Now {
			out[i] = endOf(e, e.Addresses, e.Blocks.Prefixes())
		}
		return out
	}
	return nil
}

// meant reports whether a class is one that is asked about.
func (q *MapQuestion) meant(c *classes.Class) bool {
	chosen := func(e *reach.Endpoint) bool {
		return q.From.Chosen != nil && q.From.Chosen(e) || q.To.Chosen != nil && q.To.Chosen(e)
	}
	return slices.ContainsFunc(c.Now, chosen) || slices.ContainsFunc(c.Then, chosen)
}

func nodeOf(c *classes.Class, w, now *explain.World) *v1alpha1.MapNode {
	n := &v1alpha1.MapNode{
		Key: c.Key, Label: c.Label, Kind: string(c.Kind), Service: c.Service, Count: int32(len(c.Names)),
		Role: c.Role, Tier: c.Tier, Namespace: c.Namespace, Account: c.Account, Region: c.Region, Network: c.Network,
		NotEnforced: c.Suspended, Members: c.Names[:min(len(c.Names), mostMembers)],
	}
	of := c.Then
	if w == now {
		of = c.Now
	}
	if len(of) == 0 {
		return n
	}
	holds := w.Applied(of[0])
	for _, p := range holds.Policies[:min(len(holds.Policies), mostPolicies)] {
		n.Policies = append(n.Policies, w.Policy(explain.PolicyOf(p)))
	}
	if holds.Ingress {
		n.Isolated = append(n.Isolated, "In")
	}
	if holds.Egress {
		n.Isolated = append(n.Isolated, "Out")
	}
	return n
}

// edgeKey tells edges apart.
type edgeKey struct{ from, to, verdict, by string }

// edge is what goes between two nodes, now and then.
type edge struct {
	now, then forecast.Packets
	policies  []v1alpha1.Policy
}

// told is the edge, with changes if there are two worlds.
func (e *edge) told(key edgeKey, changes bool) []v1alpha1.MapEdge {
	var out []v1alpha1.MapEdge
	add := func(change string, p forecast.Packets) {
		if p.Empty() {
			return
		}
		row := v1alpha1.MapEdge{From: key.from, To: key.to, Verdict: key.verdict, By: key.by, Traffic: p.Text, Except: p.Except, Change: change, Policies: e.policies}
		for _, r := range p.Ranges {
			row.Ranges = append(row.Ranges, v1alpha1.ReachRange{Protocol: int32(r.Protocol), From: int32(r.From), To: int32(r.To)})
		}
		out = append(out, row)
	}
	if !changes {
		add("", e.now)
		return out
	}
	add("", e.now.Intersect(e.then))
	add(v1alpha1.ChangeOpens, e.then.Minus(e.now))
	add(v1alpha1.ChangeCloses, e.now.Minus(e.then))
	return out
}

// mapping collects a map.
type mapping struct {
	MapQuestion
	nodes map[string]*v1alpha1.MapNode
	edges map[edgeKey]*edge
}

// flows adds the flows of a world to the edges.
func (m *mapping) flows(w *explain.World, all []*classes.Class, members func(*classes.Class) []*reach.Endpoint, packets func(*edge) *forecast.Packets) {
	stands, single := map[*reach.Endpoint]string{}, map[string]bool{}
	for _, c := range all {
		list := members(c)
		for _, e := range list[:min(len(list), 2)] { // two, for what goes between members
			stands[e] = c.Key
		}
		single[c.Key] = len(list) == 1
	}
	q := m.Question
	from, to := q.From.Chosen, q.To.Chosen
	q.From.Chosen = func(e *reach.Endpoint) bool { return stands[e] != "" && from != nil && from(e) }
	q.To.Chosen = func(e *reach.Endpoint) bool { return stands[e] != "" && to != nil && to(e) }
	for _, f := range w.Reach(q) {
		if ownPods(f) {
			continue
		}
		p := forecast.PacketsOf(f.Services, f.Possible)
		by, policies := behind(w, f)
		for _, a := range m.keys(f.From, stands) {
			for _, b := range m.keys(f.To, stands) {
				if a == b && (single[a] || itself(f, a, stands)) {
					continue
				}
				key := edgeKey{a, b, string(f.Outcome), by}
				e := m.edges[key]
				if e == nil {
					e = &edge{}
					m.edges[key] = e
				}
				into := packets(e)
				*into = into.Union(p)
				for _, x := range policies {
					if !slices.Contains(e.policies, x) && len(e.policies) < mostPolicies {
						e.policies = append(e.policies, x)
					}
				}
			}
		}
	}
}

// keys are the nodes of an end. Addresses become nodes when they first occur.
func (m *mapping) keys(s reach.Side, stands map[*reach.Endpoint]string) []string {
	if len(s.Members) == 0 {
		return []string{m.addresses(s)}
	}
	var out []string
	for _, e := range s.Members {
		if key := stands[e.Endpoint]; key != "" && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}

// addresses is the node of addresses that no one known has.
func (m *mapping) addresses(s reach.Side) string {
	texts := make([]string, len(s.Addresses))
	for i, p := range s.Addresses {
		texts[i] = p.String()
	}
	text := strings.Join(texts, ", ")
	if s.Rest {
		text = "the rest of " + text
	}
	sum := sha256.Sum256([]byte(text))
	key := "a-" + hex.EncodeToString(sum[:8])
	if m.nodes[key] == nil {
		label := forecast.End{Addresses: s.Addresses, Rest: s.Rest}.Text(mostBlocks)
		m.nodes[key] = &v1alpha1.MapNode{Key: key, Label: label, Kind: v1alpha1.NodeAddresses, Addresses: texts[:min(len(texts), mostAddresses)], Rest: s.Rest}
	}
	return key
}

// itself reports whether of a class only the same one machine is at both ends.
func itself(f reach.Flows, key string, stands map[*reach.Endpoint]string) bool {
	var from, to []*reach.Endpoint
	for _, e := range f.From.Members {
		if stands[e.Endpoint] == key {
			from = append(from, e.Endpoint)
		}
	}
	for _, e := range f.To.Members {
		if stands[e.Endpoint] == key {
			to = append(to, e.Endpoint)
		}
	}
	return len(from) == 1 && len(to) == 1 && from[0] == to[0]
}

// ownPods reports whether a Node sends something to its own Pods, which is always let in, and holds
// for no other Node and Pod of their classes.
func ownPods(f reach.Flows) bool {
	if len(f.From.Members) != 1 || f.From.Members[0].EntityRef.Kind != policy.KindNode {
		return false
	}
	node := f.From.Members[0].EntityRef.Name
	return len(f.To.Members) > 0 && !slices.ContainsFunc(f.To.Members, func(e reach.Member) bool { return e.Kind != policy.KindPod || e.Host != node })
}

// behind says what decides a flow, and by which policies.
func behind(w *explain.World, f reach.Flows) (by string, policies []v1alpha1.Policy) {
	ruled, groups := false, false
	for _, d := range []reach.Decision{f.Egress, f.Ingress} {
		ruled = ruled || d.Rule != nil || d.Isolated || d.Openings != reach.Owner{}
		groups = groups || d.Groups
		if d.Rule == nil {
			continue
		}
		if p := w.Policy(explain.PolicyOf(d.Rule.Policy)); !slices.Contains(policies, p) {
			policies = append(policies, p)
		}
	}
	switch {
	case f.Outcome == reach.Unknown || f.Outcome == reach.Native:
		return v1alpha1.ByUnknown, policies
	case groups:
		return v1alpha1.ByGroups, policies
	case ruled:
		return v1alpha1.ByPolicies, policies
	}
	return v1alpha1.ByNobody, policies
}
