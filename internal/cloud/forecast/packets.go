package forecast

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Union returns the packets that are in one of the two sets, at least.
func (p Packets) Union(o Packets) Packets {
	return p.with(o, func(a, b bool) bool { return a || b })
}

// Minus returns the packets that are in the set and not in the other.
func (p Packets) Minus(o Packets) Packets {
	return p.with(o, func(a, b bool) bool { return a && !b })
}

// Intersect returns the packets that are in both sets.
func (p Packets) Intersect(o Packets) Packets {
	return p.with(o, func(a, b bool) bool { return a && b })
}

// Empty reports whether no packet is in the set.
func (p Packets) Empty() bool { return !p.Except && len(p.Ranges) == 0 }

// with cuts the packets at all borders of the two sets, and takes the pieces that are wanted.
func (p Packets) with(o Packets, wanted func(inP, inO bool) bool) Packets {
	borders := map[int][]int{}
	for _, r := range slices.Concat(p.Ranges, o.Ranges) {
		borders[r.Protocol] = append(borders[r.Protocol], r.From, r.To+1)
	}
	var in, possible []flow.Service
	take := func(s flow.Service, inP, inO bool) {
		possible = append(possible, s)
		if wanted(inP, inO) {
			in = append(in, s)
		}
	}
	take(flow.Any(), p.Except, o.Except)
	for _, protocol := range slices.Sorted(maps.Keys(borders)) {
		if protocol == cloud.AnyProtocol {
			continue
		}
		at := append(borders[protocol], 0, lastPort+1)
		slices.Sort(at)
		at = slices.Compact(at)
		for i := range at[1:] {
			take(flow.Service{Protocol: protocol, From: uint16(at[i]), To: uint16(at[i+1] - 1)}, p.Contain(protocol, at[i]), o.Contain(protocol, at[i]))
		}
	}
	return packetsOf(in, possible)
}
