package reach

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/policy"
)

// Alike returns for every endpoint of the input, in its place, a text that is equal for endpoints
// whose traffic with anybody is decided alike: the same policies and groups decide at them, and
// their addresses are in the same sets that policies and groups elsewhere name. Endpoints that
// counted says no to have no text, and what decides at them alone does not count.
//
// Not told apart are Pods by their Nodes, whose own Pods are let through to them.
func (w *World) Alike(counted func(*Endpoint) bool) []string {
	out := make([]string, len(w.endpoints))
	numbers := map[*kind]int{}
	var sets []addrset.Set
	known := map[uint64][]addrset.Set{}
	add := func(s addrset.Set) {
		w.budget.Spend(2 + s.Len())
		h := s.Hash()
		if !s.Empty() && !slices.ContainsFunc(known[h], s.Equal) {
			known[h] = append(known[h], s)
			sets = append(sets, s)
		}
	}
	var places []place
	for i, e := range w.endpoints {
		if !counted(e.Endpoint) {
			continue
		}
		for half, k := range e.halves {
			if _, ok := numbers[k]; !ok {
				numbers[k] = len(numbers)
				w.named(k, directionOf(half), add)
			}
			w.budget.Spend(2)
			out[i] += fmt.Sprint(numbers[k], " ")
		}
		for _, a := range e.Addresses {
			one := addrset.Of(a)
			for _, r := range one.IPv4() {
				places = append(places, place{r.From, i, false})
			}
			for _, r := range one.IPv6() {
				places = append(places, place{r.From, i, true})
			}
		}
	}
	slices.SortFunc(places, func(a, b place) int { return a.at.Compare(b.at) })
	in := make([][]byte, len(places))
	for n, s := range sets {
		for _, family := range []struct {
			ranges addrset.Ranges
			v6     bool
		}{{s.IPv4(), false}, {s.IPv6(), true}} {
			for _, r := range family.ranges {
				at, _ := slices.BinarySearchFunc(places, r.From, func(p place, n addrset.Number) int { return p.at.Compare(n) })
				for ; at < len(places) && !r.To.Less(places[at].at); at++ {
					w.budget.Spend(1)
					if places[at].v6 == family.v6 {
						in[at] = append(strconv.AppendInt(in[at], int64(n), 36), ',')
					}
				}
			}
		}
	}
	parts := make([][]string, len(w.endpoints))
	for at, p := range places {
		parts[p.endpoint] = append(parts[p.endpoint], fmt.Sprint(p.v6, string(in[at])))
	}
	for i, e := range w.endpoints {
		if out[i] == "" || e.Blocks.Empty() {
			continue
		}
		for n, s := range sets {
			w.budget.Spend(2 + e.Blocks.Len() + s.Len())
			switch part := e.Blocks.Intersect(s); {
			case part.Equal(e.Blocks):
				parts[i] = append(parts[i], fmt.Sprint("block ", n))
			case !part.Empty():
				parts[i] = append(parts[i], fmt.Sprint("block ", n, part.Prefixes()))
			}
		}
	}
	for i := range out {
		if out[i] != "" {
			slices.Sort(parts[i])
			out[i] += fmt.Sprint(slices.Compact(parts[i]))
		}
	}
	return out
}

// place is an address of an endpoint.
type place struct {
	at       addrset.Number
	endpoint int
	v6       bool
}

// named calls f with every set of addresses that decides something at endpoints of a kind.
func (w *World) named(k *kind, d policy.Direction, f func(addrset.Set)) {
	for _, i := range k.rules {
		r := &w.policies.rules[i]
		f(r.peersIn(k.region))
		f(r.blocks)
		for _, p := range r.ports {
			f(p.holders)
		}
	}
	for _, o := range k.implicitAllows {
		f(o.Peers)
	}
	if k.grouped {
		k.groups.Named(cloudDirection(d), f)
	}
	if k.behind != nil {
		w.named(k.behind, d, f)
	}
}

// Applied is what applies to an endpoint.
type Applied struct {
	// Policies are in the order of evaluation of their first rules.
	Policies []policy.PolicyRef
	// Ingress and Egress tell which directions are isolated.
	Ingress, Egress bool
}

// Applied tells what applies to an endpoint of the world.
func (w *World) Applied(e *Endpoint) Applied {
	ingress, egress := w.policies.class(policy.Ingress, e), w.policies.class(policy.Egress, e)
	out := Applied{Ingress: ingress.isolated, Egress: egress.isolated}
	rules := slices.Concat(ingress.rules, egress.rules)
	w.budget.Spend(len(rules))
	slices.Sort(rules)
	for _, i := range rules {
		if p := w.policies.rules[i].policy.Source; !slices.Contains(out.Policies, p) {
			out.Policies = append(out.Policies, p)
		}
	}
	return out
}
