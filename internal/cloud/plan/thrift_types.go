package plan

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// toldTypes are the types of ICMP and ICMPv6 that are kept apart from one another where a rule takes some types out of what the whole protocol
// was allowed, with the number of their codes: those in use according to IANA (errors, echo, router and neighbour discovery, multicast
// listeners, path discovery, timestamps, photuris, extended echo).
var toldTypes = map[int]map[int]int{
	cloud.ICMP: {0: 1, 3: 16, 4: 1, 5: 4, 8: 1, 9: 1, 10: 1, 11: 2, 12: 3, 13: 1, 14: 1, 40: 1, 42: 1, 43: 1},
	cloud.ICMPv6: {
		1: 8, 2: 1, 3: 2, 4: 4, 128: 1, 129: 1, 130: 1, 131: 1, 132: 1, 133: 1, 134: 1, 135: 1, 136: 1, 137: 1, 141: 1, 142: 1, 143: 1, 148: 1, 149: 1,
		151: 1, 152: 1, 153: 1, 160: 1, 161: 1,
	},
}

// thriftyTypes returns the half in a form that rules can express without naming every one of the 256 types of ICMP, in the way of thrifty.
func (h half) thriftyTypes() half {
	out := half{reduced: h.reduced}
	for i := 0; i < len(h.cells); {
		j := i + 1
		for j < len(h.cells) && h.cells[j].service.Protocol == h.cells[i].service.Protocol {
			j++
		}
		if told := toldTypes[h.cells[i].service.Protocol]; told == nil || j == i+1 {
			out.cells = append(out.cells, h.cells[i:j]...)
		} else {
			out.tellTypes(h.cells[i:j], told)
		}
		i = j
	}
	return out
}

// tellTypes appends the cells of one protocol.
func (h *half) tellTypes(cells []halfCell, told map[int]int) {
	common := cells[0]
	for _, c := range cells[1:] {
		common.all = common.all.Intersect(c.all)
		common.opaque = slices.DeleteFunc(slices.Clone(common.opaque), func(p cloud.Peer) bool { return !slices.Contains(c.opaque, p) })
	}
	for _, c := range cells {
		from, to := int(c.service.From), int(c.service.To)
		oneType := from&0xff == 0 && to == from|0xff
		if from == to || oneType || c.all.Equal(common.all) && len(c.opaque) == len(common.opaque) {
			h.cells = append(h.cells, c)
			continue
		}
		h.reduced = true
		rest := from // of the types and codes that are not told
		piece := func(from, to int, of halfCell) {
			if from > to {
				return
			}
			of.service, of.anonymous = Service{c.service.Protocol, uint16(from), uint16(to)}, c.anonymous.Intersect(of.all)
			h.cells = append(h.cells, of)
		}
		for kind := from >> 8; kind <= to>>8; kind++ {
			first, last := max(from, kind<<8), min(to, kind<<8|0xff)
			codes := told[kind]
			switch {
			case codes == 0:
			case last-first == 0xff:
				piece(rest, first-1, common)
				piece(first, last, c)
				rest = last + 1
			default:
				for at := first; at <= last && at&0xff < codes; at++ {
					piece(rest, at-1, common)
					piece(at, at, c)
					rest = at + 1
				}
			}
		}
		piece(rest, to, common)
	}
}
