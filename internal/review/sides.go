package review

import (
	"encoding/json"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/clusterset/setmap"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/reach"
)

// Sides answers what the hub of a set asks for a map of several clusters: what is decided here
// about flows between workloads of this cluster and addresses elsewhere, and among these workloads.
func Sides(w *explain.World, q *setmap.Question) (json.RawMessage, error) {
	s := sides{b: setmap.NewBuilder(len(q.Own)), own: map[policy.EntityRef]int{}}
	for i, ref := range q.Own {
		kind := map[wire.Kind]policy.EntityKind{wire.Pod: policy.KindPod, wire.Machine: policy.KindExternalEntity, wire.Node: policy.KindNode}[ref.Kind]
		s.own[policy.EntityRef{Kind: kind, Namespace: ref.Namespace, Name: ref.Name}] = i
	}
	done := map[int]bool{}
	for i := range w.Endpoints {
		e := &w.Endpoints[i]
		at, is := s.own[e.EntityRef]
		if e.Kind == 0 || !is || done[at] {
			continue
		}
		done[at] = true
		applied := w.Applied(e)
		hold := setmap.Hold{In: applied.Ingress, Out: applied.Egress, Suspended: e.Suspended}
		for _, p := range applied.Policies {
			hold.Policies = append(hold.Policies, w.Policy(explain.PolicyOf(p)))
		}
		s.b.Hold(at, hold)
	}
	own := reach.Party{Chosen: func(e *reach.Endpoint) bool { _, is := s.own[e.EntityRef]; return is && e.Kind != 0 }}
	to, from := elsewhereOf(w, q.To), elsewhereOf(w, q.From)
	ask := func(source, destination reach.Party) []reach.Flows {
		return w.Reach(reach.Question{From: source, To: destination, Services: q.Services(), Refused: true})
	}
	for _, f := range ask(own, to.side()) {
		s.b.Out(s.places(f.From), to.places(f.To), forecast.PacketsOf(f.Services, f.Possible), endDecided(w, string(f.Egress.Outcome), f.Egress))
	}
	for _, f := range ask(from.side(), own) {
		s.b.In(from.places(f.From), s.places(f.To), forecast.PacketsOf(f.Services, f.Possible), endDecided(w, string(f.Ingress.Outcome), f.Ingress))
	}
	for _, f := range ask(own, own) {
		s.b.Within(s.places(f.From), s.places(f.To), forecast.PacketsOf(f.Services, f.Possible), endDecided(w, string(f.Outcome), f.Egress, f.Ingress))
	}
	return s.b.Answer(q)
}

// sides is an answer that is made.
type sides struct {
	b *setmap.Builder
	// own are the places of workloads of this cluster.
	own map[policy.EntityRef]int
}

// places returns the places of workloads of this cluster.
func (s *sides) places(side reach.Side) []int {
	var out []int
	for _, m := range side.Members {
		out = append(out, s.own[m.EntityRef])
	}
	return out
}

// elsewhere are addresses of other clusters.
type elsewhere struct {
	addresses []netip.Addr
	all       addrset.Set
	at        map[netip.Addr]int
	// here are the addresses that a workload of this cluster has, too.
	here map[netip.Addr]bool
}

func elsewhereOf(w *explain.World, addresses []netip.Addr) *elsewhere {
	e := &elsewhere{addresses: addresses, all: addrset.Of(addresses...), at: map[netip.Addr]int{}, here: map[netip.Addr]bool{}}
	for i, a := range addresses {
		e.at[a] = i
	}
	for i := range w.Endpoints {
		x := &w.Endpoints[i]
		for _, a := range x.Addresses {
			if _, asked := e.at[a]; asked {
				e.here[a] = true
			}
		}
		if x.Blocks.Overlaps(e.all) {
			for _, a := range addresses {
				e.here[a] = e.here[a] || x.Blocks.Contains(a)
			}
		}
	}
	return e
}

func (e *elsewhere) side() reach.Party {
	return reach.Party{Addresses: e.all, Chosen: func(x *reach.Endpoint) bool {
		return slices.ContainsFunc(x.Addresses, func(a netip.Addr) bool { return e.here[a] }) || x.Blocks.Overlaps(e.all)
	}}
}

// places returns the places of addresses.
func (e *elsewhere) places(side reach.Side) []int {
	var out []int
	for _, m := range side.Members {
		for _, a := range m.Addresses {
			if i, asked := e.at[a]; asked {
				out = append(out, i)
			}
		}
		for i, a := range e.addresses {
			if e.here[a] && m.Blocks.Contains(a) {
				out = append(out, i)
			}
		}
	}
	if len(side.Addresses) == 0 {
		return out
	}
	set := addrset.OfPrefixes(side.Addresses...)
	for i, a := range e.addresses {
		if !e.here[a] && set.Contains(a) {
			out = append(out, i)
		}
	}
	return out
}

// endDecided is what ends decide, and by which policies.
func endDecided(w *explain.World, outcome string, ends ...reach.Decision) setmap.Decision {
	d := setmap.Decision{Outcome: outcome}
	for _, end := range ends {
		d.Ruled = d.Ruled || end.Rule != nil || end.Isolated || end.Openings != reach.Owner{}
		d.Groups = d.Groups || end.Groups
		if end.Rule == nil {
			continue
		}
		if p := w.Policy(explain.PolicyOf(end.Rule.Policy)); !slices.Contains(d.Policies, p) {
			d.Policies = append(d.Policies, p)
		}
	}
	return d
}
