package flow

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// keptTypes are the types of ICMP and ICMPv6 that are kept apart from one another where a rule
// takes some types out of what the whole protocol was allowed, with the number of their codes:
// those in use according to IANA (errors, echo, router and neighbour discovery, multicast
// listeners, path discovery, timestamps, photuris, extended echo).
var keptTypes = map[int]map[int]int{
	cloud.ICMP: {0: 1, 3: 16, 4: 1, 5: 4, 8: 1, 9: 1, 10: 1, 11: 2, 12: 3, 13: 1, 14: 1, 40: 1, 42: 1, 43: 1},
	cloud.ICMPv6: {
		1: 8, 2: 1, 3: 2, 4: 4, 128: 1, 129: 1, 130: 1, 131: 1, 132: 1, 133: 1, 134: 1, 135: 1, 136: 1, 137: 1, 141: 1, 142: 1, 143: 1, 148: 1, 149: 1,
		151: 1, 152: 1, 153: 1, 160: 1, 161: 1,
	},
}

// CollapseTypes returns the permit in a form that rules can express without naming every one of the
// 256 types of ICMP, in the way of CollapseProtocols.
func (p Permit) CollapseTypes() Permit {
	out := Permit{Reduced: p.Reduced}
	for i := 0; i < len(p.Grants); {
		j := i + 1
		for j < len(p.Grants) && p.Grants[j].Service.Protocol == p.Grants[i].Service.Protocol {
			j++
		}
		if kept := keptTypes[p.Grants[i].Service.Protocol]; kept == nil || j == i+1 {
			out.Grants = append(out.Grants, p.Grants[i:j]...)
		} else {
			out.appendTypes(p.Grants[i:j], kept)
		}
		i = j
	}
	return out
}

// appendTypes appends the grants of one protocol.
func (p *Permit) appendTypes(grants []Grant, kept map[int]int) {
	most := common(grants)
	for _, c := range grants {
		from, to := int(c.Service.From), int(c.Service.To)
		if from == to || c.allowsAs(most) {
			p.Grants = append(p.Grants, c)
			continue
		}
		for kind := from >> 8; kind <= to>>8; kind++ {
			first, last := max(from, kind<<8), min(to, kind<<8|0xff)
			switch {
			case from>>8 == to>>8 && last-first == 0xff, kept[kind] > 0 && last-first == 0xff:
				p.add(c, first, last)
			case last-first == 0xff:
				p.Reduced = true
				p.add(c.only(most), first, last)
			default:
				p.appendCodes(c, first, last, kept[kind], common(slices.DeleteFunc(slices.Clone(grants), func(o Grant) bool {
					return int(o.Service.To) < kind<<8 || kind<<8|0xff < int(o.Service.From)
				})))
			}
		}
	}
}

// appendCodes appends what a grant has of the codes of one type that rules tell apart. What is
// allowed for all codes needs one rule, so it may stay as it is.
func (p *Permit) appendCodes(c Grant, first, last, kept int, most Grant) {
	for at := first; at <= last; at++ {
		if at&0xff < kept || first == last {
			p.add(c, at, at)
			continue
		}
		p.Reduced = p.Reduced || !c.allowsAs(most)
		p.add(c.only(most), at, last)
		return
	}
}

// add adds the part of a grant, to the last grant if that allows the same and is its neighbour.
func (p *Permit) add(of Grant, from, to int) {
	of.Service.From, of.Service.To = uint16(from), uint16(to)
	if n := len(p.Grants) - 1; n >= 0 {
		if x := &p.Grants[n]; x.Service.Protocol == of.Service.Protocol && int(x.Service.To)+1 == from &&
			x.allowsAs(of) && x.Anonymous.Equal(of.Anonymous) && x.Plain.Equal(of.Plain) {
			x.Service.To = of.Service.To
			return
		}
	}
	p.Grants = append(p.Grants, of)
}
