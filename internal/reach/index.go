package reach

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/policy"
)

// serviceIndex finds the rules of a class that may match a service, so that a rule costs nothing
// where it has no say.
type serviceIndex struct {
	// always are the rules that name no service.
	always     []int
	byProtocol map[int][]span
}

// span is an interval of services that a rule matches. Spans are sorted by their beginning and make
// a balanced tree, the root of a part being its middle: last is the greatest end in that part.
type span struct {
	from, to, last uint16
	rule           int
}

// indexOf indexes the rules of a class.
func (p *policies) indexOf(c *class) *serviceIndex {
	x := &serviceIndex{byProtocol: map[int][]span{}}
	for _, i := range c.rules {
		r := &p.rules[i]
		if r.traffic.all || r.unseen && r.rule.Direction == policy.Egress && len(r.traffic.named) > 0 {
			x.always = append(x.always, i)
			continue
		}
		for _, s := range r.services(c.ports) {
			x.byProtocol[s.Protocol] = append(x.byProtocol[s.Protocol], span{from: s.From, to: s.To, rule: i})
		}
	}
	for _, spans := range x.byProtocol {
		slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.rule, b.rule)) })
		raise(spans)
	}
	return x
}

// raise sets last in a part of the tree, and returns that of its root.
func raise(spans []span) uint16 {
	if len(spans) == 0 {
		return 0
	}
	m := len(spans) / 2
	spans[m].last = max(spans[m].to, raise(spans[:m]), raise(spans[m+1:]))
	return spans[m].last
}

// rules are those that may match a service, in order of evaluation.
func (x *serviceIndex) rules(s flow.Service) []int {
	hits := collect(x.byProtocol[s.Protocol], s, nil)
	if len(hits) == 0 {
		return x.always
	}
	hits = append(hits, x.always...)
	slices.Sort(hits)
	return slices.Compact(hits)
}

// collect adds the rules of the spans that overlap s.
func collect(spans []span, s flow.Service, into []int) []int {
	if len(spans) == 0 {
		return into
	}
	m := len(spans) / 2
	root := &spans[m]
	if root.last < s.From {
		return into
	}
	into = collect(spans[:m], s, into)
	if root.from > s.To {
		return into
	}
	if root.to >= s.From {
		into = append(into, root.rule)
	}
	return collect(spans[m+1:], s, into)
}

// numbering gives equal texts equal numbers.
type numbering map[string]int

func (n numbering) of(text []byte) int {
	number, known := n[string(text)]
	if !known {
		number = len(n)
		n[string(text)] = number
	}
	return number
}

// services is the number of a list of services.
func (n numbering) services(list []flow.Service) int {
	text := make([]byte, 0, 8*len(list))
	for _, s := range list {
		text = binary.AppendVarint(text, int64(s.Protocol))
		text = binary.BigEndian.AppendUint16(text, s.From)
		text = binary.BigEndian.AppendUint16(text, s.To)
	}
	return n.of(text)
}
