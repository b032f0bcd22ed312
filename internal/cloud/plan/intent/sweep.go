package intent

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
)

// claimed is a range of addresses that a rule matches; rule is its index.
type claimed struct {
	addrset.Range
	rule int
}

// walked is what a list of rules makes of all addresses: what it allows, and what it leaves to the
// native tier.
type walked struct{ allowed, left addrset.Set }

// in returns the part of a family.
func (w walked) in(family addrset.Set) walked {
	return walked{w.allowed.Intersect(family), w.left.Intersect(family)}
}

// sweeper is the memory of many walks, each of which begins with it afresh.
type sweeper struct {
	v4, v6        []claimed
	edges         []addrset.Number
	allowed, left [2][]addrset.Range // of IPv4, of IPv6
}

// walk applies rules, in the order of evaluation, to all addresses. It goes through the addresses
// once, whatever the number of rules: policies may bring long lists of addresses, and set
// operations rule by rule would cost the square of their length.
func (w *sweeper) walk(rules []*Bound, match func(*Bound) addrset.Set) walked {
	v4, v6 := w.v4[:0], w.v6[:0]
	for i, r := range rules {
		set := match(r)
		for _, part := range set.IPv4() {
			v4 = append(v4, claimed{part, i})
		}
		for _, part := range set.IPv6() {
			v6 = append(v6, claimed{part, i})
		}
	}
	w.v4, w.v6 = v4, v6
	w.sweep(rules, 0, v4, addrset.AllIPv4().IPv4()[0])
	w.sweep(rules, 1, v6, addrset.AllIPv6().IPv6()[0])
	return walked{addrset.OfRanges(w.allowed[0], w.allowed[1]), addrset.OfRanges(w.left[0], w.left[1])}
}

// sweep does it for a family. What no rule of a stage matches, and what the first that does passes
// on, goes on in the next stage.
func (w *sweeper) sweep(rules []*Bound, family int, claims []claimed, every addrset.Range) {
	slices.SortFunc(claims, func(a, b claimed) int { return a.From.Compare(b.From) })
	allowed, left := w.allowed[family][:0], w.left[family][:0]
	edges := append(w.edges[:0], every.From)
	for _, c := range claims {
		edges = append(edges, c.From)
		if c.To.Less(every.To) {
			edges = append(edges, c.To.Next())
		}
	}
	slices.SortFunc(edges, addrset.Number.Compare)
	edges = slices.Compact(edges)
	var open [stageBaseline + 1]precedence
	for i, from := range edges {
		for ; len(claims) > 0 && claims[0].From == from; claims = claims[1:] {
			at := &open[rules[claims[0].rule].Policy.Stage]
			at.push(claims[0])
		}
		to := every.To
		if i+1 < len(edges) {
			to = edges[i+1].Prev()
		}
		v := pass
		for k := range open {
			if first := open[k].first(from); first >= 0 {
				v = rules[first].Verdict
			}
			if v != pass {
				break
			}
		}
		switch v {
		case Allow, Grant:
			allowed = append(allowed, addrset.Range{From: from, To: to})
		case pass:
			left = append(left, addrset.Range{From: from, To: to})
		}
	}
	w.edges, w.allowed[family], w.left[family] = edges[:0], allowed, left
}

// precedence is a heap of claims, that of the first rule on top.
type precedence []claimed

func (h *precedence) push(c claimed) {
	*h = append(*h, c)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if s[up].rule <= s[i].rule {
			return
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
}

// first returns the first rule whose claim reaches to the address, -1 if there is none. Claims that
// end before it are dropped.
func (h *precedence) first(at addrset.Number) int {
	for len(*h) > 0 && (*h)[0].To.Less(at) {
		s := *h
		last := len(s) - 1
		s[0] = s[last]
		s = s[:last]
		*h = s
		for i := 0; ; {
			down := 2*i + 1
			if down >= len(s) {
				break
			}
			if down+1 < len(s) && s[down+1].rule < s[down].rule {
				down++
			}
			if s[i].rule <= s[down].rule {
				break
			}
			s[i], s[down] = s[down], s[i]
			i = down
		}
	}
	if len(*h) == 0 {
		return -1
	}
	return (*h)[0].rule
}
