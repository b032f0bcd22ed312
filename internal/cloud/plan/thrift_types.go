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
	common := alike(cells)
	for _, c := range cells {
		from, to := int(c.service.From), int(c.service.To)
		if from == to || c.all.Equal(common.all) && len(c.opaque) == len(common.opaque) {
			h.cells = append(h.cells, c)
			continue
		}
		for kind := from >> 8; kind <= to>>8; kind++ {
			first, last := max(from, kind<<8), min(to, kind<<8|0xff)
			switch {
			case from>>8 == to>>8 && last-first == 0xff, told[kind] > 0 && last-first == 0xff:
				h.append(c, first, last)
			case last-first == 0xff:
				h.reduced = true
				h.append(c.only(common), first, last)
			default:
				h.tellCodes(c, first, last, told[kind], alike(slices.DeleteFunc(slices.Clone(cells), func(o halfCell) bool {
					return int(o.service.To) < kind<<8 || kind<<8|0xff < int(o.service.From)
				})))
			}
		}
	}
}

// tellCodes appends what a cell has of the codes of one type that rules tell apart. What is allowed for all codes needs one rule, so it may stay as it is.
func (h *half) tellCodes(c halfCell, first, last, told int, common halfCell) {
	for at := first; at <= last; at++ {
		if at&0xff < told || first == last {
			h.append(c, at, at)
			continue
		}
		h.reduced = h.reduced || !c.all.Equal(common.all) || len(c.opaque) != len(common.opaque)
		h.append(c.only(common), at, last)
		return
	}
}

// alike is what all of the cells allow; whom they allow whoever he is may differ.
func alike(cells []halfCell) halfCell {
	common := cells[0]
	for _, c := range cells[1:] {
		common.all = common.all.Intersect(c.all)
		common.opaque = slices.DeleteFunc(slices.Clone(common.opaque), func(p cloud.Peer) bool { return !slices.Contains(c.opaque, p) })
	}
	return common
}

// only is the cell with nothing but what another one allows, too.
func (c halfCell) only(o halfCell) halfCell {
	c.all, c.anonymous, c.plain, c.opaque = o.all, c.anonymous.Intersect(o.all), c.plain.Intersect(o.all), o.opaque
	return c
}

// append adds the part of a cell, to the last cell if that allows the same and is its neighbour.
func (h *half) append(of halfCell, from, to int) {
	of.service.From, of.service.To = uint16(from), uint16(to)
	if n := len(h.cells) - 1; n >= 0 {
		if x := &h.cells[n]; x.service.Protocol == of.service.Protocol && int(x.service.To)+1 == from && x.all.Equal(of.all) &&
			x.anonymous.Equal(of.anonymous) && x.plain.Equal(of.plain) && slices.Equal(x.opaque, of.opaque) {
			x.service.To = of.service.To
			return
		}
	}
	h.cells = append(h.cells, of)
}
