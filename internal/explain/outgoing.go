package explain

import (
	"net/netip"
	"slices"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/trace"
	"github.com/nephele-io/nephele/internal/explain/leaving"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// outgoing follows a packet that may leave the cluster with the address of an Egress. Its
// destination sees that address, and it goes through clouds from where that is.
func (c *Computation) outgoing(p pair, from, to end, f evaluate.Flow) passage {
	target := p.dst.Addr
	if p.dst.Public.IsValid() {
		target = p.dst.Public
	}
	pod := from.ref.Kind == policy.KindPod && from.at == from.ref && to.ref.Kind != policy.KindPod && to.ref.Kind != policy.KindNode
	if !pod {
		return c.passageOf(p, from, to, f)
	}
	l := leaving.Of(c.Objects, c.Ends[from.ref], p.src.Addr, target)
	if l == nil {
		return c.passageOf(p, from, to, f)
	}
	moved := p
	if a, err := netip.ParseAddr(l.Address); err == nil {
		moved.src = trace.Point{Addr: a}
		if c.clouds != nil {
			moved.src = c.clouds.Now.At(a, p.dst.Network())
		}
	}
	out := c.passageOf(moved, from, to, f)
	out.from, out.leaving, out.sent.Source.Addr = p.src, l, p.src.Addr
	out.come.Source = evaluate.Endpoint{Addr: out.come.Source.Addr}
	return out
}

// beyond is what becomes of a packet after it has left its Node: dropped where an Egress that
// applies has no address in use, and else what the destination decides.
func beyond(l *analysis.Leaving, ingress *analysis.Decision) *analysis.Decision {
	switch {
	case l == nil || l.State == leaving.Leaves:
		return ingress
	case l.State == leaving.Dropped:
		return &analysis.Decision{Outcome: outcomeDrop}
	}
	outcomes := append(slices.Clone(ingress.Possible), outcomeDrop)
	if ingress.Outcome != outcomeUnknown {
		outcomes = append(outcomes, ingress.Outcome)
	}
	slices.Sort(outcomes)
	if outcomes = slices.Compact(outcomes); len(outcomes) == 1 {
		return &analysis.Decision{Outcome: outcomeDrop}
	}
	return &analysis.Decision{Outcome: outcomeUnknown, Possible: outcomes}
}
