package noderoutes

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Node is a Node of the cluster as far as routes are concerned.
type Node struct {
	Name string
	// VM is the ID of the Node's virtual machine, as the cluster's cloud controller tells it; empty
	// if none does.
	VM        string
	Created   time.Time
	Addresses []netip.Addr // internal ones
	PodCIDRs  []netip.Prefix
}

// Wish is what one region of an account should have.
type Wish struct {
	// Cluster is the id under which we claim route tables.
	Cluster string
	// Tables are those that routes are wanted in, with the ranges that are ours there.
	Tables map[string][]netip.Prefix
	// Former are the tables that may hold routes of ours, with the ranges that were ours there.
	Former map[string][]netip.Prefix
	// TurnedOff are the interfaces whose check of addresses we have turned off.
	TurnedOff []string
	Nodes     []Node
}

// Found is what a region has.
type Found struct {
	Tables     []cloud.RouteTable
	Forwarders []cloud.Forwarder
}

// Plan is what is to be done in a region.
type Plan struct {
	// Ops are in the order in which they are done.
	Ops []cloud.RouteOp
	// Routed counts the routes to Nodes per table, after all of Ops.
	Routed map[string]int
	// Forwarders are the interfaces that we have made forward, or will by Ops.
	Forwarders []string
	// Problems are sentences about tables and Nodes. Claimed is true if one of them is that
	// somebody else writes a table.
	Problems []string
	Claimed  bool
}

// Compute says what is to be done. Interfaces forward before routes lead to them, and until none
// does. A range that leads to the wrong interface is led elsewhere in one step.
func Compute(w Wish, f Found) Plan {
	p := &planning{wish: w, found: f, plan: Plan{Routed: map[string]int{}}, used: map[string]bool{}, kept: map[string]bool{}}
	p.nodes = distinct(w.Nodes, p.problem)
	tables := maps.Clone(w.Former)
	if tables == nil {
		tables = map[string][]netip.Prefix{}
	}
	for id, ranges := range w.Tables {
		tables[id] = append(slices.Clone(ranges), tables[id]...)
	}
	byID := map[string]*cloud.RouteTable{}
	for i := range f.Tables {
		byID[f.Tables[i].ID] = &f.Tables[i]
	}
	for _, id := range slices.Sorted(maps.Keys(tables)) {
		if t := byID[id]; t != nil {
			p.table(t, tables[id])
		}
	}
	p.forwarding()
	p.plan.Ops = slices.Concat(p.before, p.put, p.remove, p.after)
	slices.Sort(p.plan.Forwarders)
	p.plan.Problems = slices.Compact(slices.Sorted(slices.Values(p.plan.Problems)))
	return p.plan
}

type planning struct {
	wish  Wish
	found Found
	nodes []Node
	plan  Plan

	before, put, remove, after []cloud.RouteOp
	// used are the interfaces that routes will lead to, kept those that routes lead to which are
	// not ours to remove.
	used, kept map[string]bool
}

func (p *planning) problem(format string, args ...any) {
	p.plan.Problems = append(p.plan.Problems, fmt.Sprintf(format, args...))
}

// distinct leaves out of the Nodes what overlaps with an older Node.
func distinct(nodes []Node, problem func(string, ...any)) []Node {
	sorted := slices.SortedFunc(slices.Values(nodes), func(a, b Node) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	type taken struct {
		prefix netip.Prefix
		by     string
	}
	var all []taken
	for i := range sorted {
		n := &sorted[i]
		var own []netip.Prefix
		for _, c := range n.PodCIDRs {
			at := slices.IndexFunc(all, func(t taken) bool { return t.prefix.Overlaps(c) && t.by != n.Name })
			if at >= 0 {
				problem("Node %s: its podCIDR %s overlaps %s of Node %s, which is older: it is not routed", n.Name, c, all[at].prefix, all[at].by)
				continue
			}
			own = append(own, c)
			all = append(all, taken{c, n.Name})
		}
		n.PodCIDRs = own
	}
	return sorted
}

// table plans one table. ranges are those that are or were ours there.
func (p *planning) table(t *cloud.RouteTable, ranges []netip.Prefix) {
	wanted, asked := p.wish.Tables[t.ID]
	claim := t.Tags[cloud.TagNodeRoutes]
	if claim != "" && claim != p.wish.Cluster {
		if asked {
			p.plan.Claimed = true
			p.problem("route table %s: the control plane %s writes its routes; nothing is changed (if that one is gone, remove the tag %s)", t.ID, claim, cloud.TagNodeRoutes)
		}
		for _, r := range t.Routes {
			p.kept[r.Interface] = true
		}
		return
	}
	if asked && claim == "" {
		p.before = append(p.before, cloud.RouteOp{Kind: cloud.RouteOpClaim, Table: t.ID, Claim: p.wish.Cluster, Reason: "routes to Nodes are written into it"})
	}
	if asked && t.NetworkID == "" {
		p.problem("route table %s: no subnet uses it, or subnets of several networks do: nothing can be led to Nodes there", t.ID)
	}
	leads := p.leads(t, wanted)
	there := map[netip.Prefix]cloud.Route{}
	for _, r := range t.Routes {
		there[r.Destination] = r
		switch {
		case r.Interface == "":
		case leads[r.Destination] != "":
		case asked && len(p.wish.Nodes) == 0 && within(r.Destination, ranges):
			// A cluster without Nodes sends nothing; more likely they cannot be seen.
			p.used[r.Interface] = true
		case within(r.Destination, ranges):
			p.remove = append(p.remove, cloud.RouteOp{
				Kind: cloud.RouteOpDelete, Table: t.ID, Destination: r.Destination, Interface: r.Interface, Reason: "no Node has these addresses",
			})
		default:
			p.kept[r.Interface] = true
		}
	}
	for _, c := range slices.SortedFunc(maps.Keys(leads), netip.Prefix.Compare) {
		switch r, exists := there[c]; {
		case exists && r.Interface == "":
			p.problem("route table %s: %s leads to %s already, and not to a Node: remove that route, or leave the range out of clusterCIDRs", t.ID, c, r.Other)
			continue
		case !exists || r.Interface != leads[c]:
			p.put = append(p.put, cloud.RouteOp{Kind: cloud.RouteOpPut, Table: t.ID, Destination: c, Interface: leads[c], Reason: "a Node has these addresses"})
		}
		p.used[leads[c]] = true
		p.plan.Routed[t.ID]++
	}
	if !asked && claim != "" {
		p.after = append(p.after, cloud.RouteOp{Kind: cloud.RouteOpUnclaim, Table: t.ID, Claim: p.wish.Cluster, Reason: "no more routes to Nodes are written into it"})
	}
}

// leads says which interface each podCIDR leads to in a table.
func (p *planning) leads(t *cloud.RouteTable, ranges []netip.Prefix) map[netip.Prefix]string {
	out := map[netip.Prefix]string{}
	if len(ranges) == 0 || t.NetworkID == "" {
		return out
	}
	for _, n := range p.nodes {
		to, ok := p.forwarder(t, n)
		if !ok {
			continue
		}
		for _, c := range n.PodCIDRs {
			if !within(c, ranges) {
				p.problem("Node %s: its podCIDR %s is in none of the clusterCIDRs of the account: it is not routed", n.Name, c)
				continue
			}
			out[c] = to
		}
	}
	return out
}

// forwarder is the interface of a Node that a table can lead to. A Node that is not in the account
// is none of its business.
func (p *planning) forwarder(t *cloud.RouteTable, n Node) (string, bool) {
	var elsewhere string
	for i := range p.found.Forwarders {
		f := &p.found.Forwarders[i]
		if n.VM != "" && f.VMID != n.VM || !slices.ContainsFunc(n.Addresses, func(a netip.Addr) bool { return slices.Contains(f.Addresses, a) }) {
			continue
		}
		if f.NetworkID == t.NetworkID {
			return f.ID, true
		}
		elsewhere = f.NetworkID
	}
	if n.VM != "" && elsewhere != "" {
		p.problem("Node %s: its interface is in %s; route table %s of %s cannot lead there", n.Name, elsewhere, t.ID, t.NetworkID)
	}
	return "", false
}

// forwarding plans the checks of addresses.
func (p *planning) forwarding() {
	turnedOff := map[string]bool{}
	for _, id := range p.wish.TurnedOff {
		turnedOff[id] = true
	}
	for _, f := range slices.SortedFunc(slices.Values(p.found.Forwarders), func(a, b cloud.Forwarder) int { return strings.Compare(a.ID, b.ID) }) {
		switch {
		case p.used[f.ID] && !f.Forwards:
			p.before = append(p.before, cloud.RouteOp{Kind: cloud.RouteOpForward, Interface: f.ID, Forwards: true, Reason: "Pods' packets are led to it"})
			p.plan.Forwarders = append(p.plan.Forwarders, f.ID)
		case p.used[f.ID] && turnedOff[f.ID]:
			p.plan.Forwarders = append(p.plan.Forwarders, f.ID)
		case turnedOff[f.ID] && p.kept[f.ID]:
			// Somebody else's route leads to it by now: what it needs is theirs to say.
		case turnedOff[f.ID] && f.Forwards:
			p.after = append(p.after, cloud.RouteOp{Kind: cloud.RouteOpForward, Interface: f.ID, Reason: "no more packets of Pods are led to it"})
		}
	}
}

func within(c netip.Prefix, ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(c.Addr()) && r.Bits() <= c.Bits() })
}
