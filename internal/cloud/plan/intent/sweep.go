package intent

import (
	"encoding/binary"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// walked is what a list of rules makes of all addresses: what it allows, and what it leaves to the
// native tier.
type walked struct{ allowed, left addrset.Set }

// over is what is allowed where the native tier allows some addresses.
func (w walked) over(native addrset.Set) addrset.Set {
	return w.allowed.Union(native.Intersect(w.left))
}

// walked returns what the rules that match a service make of all addresses, and what they make of
// those that they name themselves. Many cells, and many kinds of VMs, are matched by the same
// rules.
func (s *Region) walked(rules []*Bound, service flow.Service, view *Network) (all, named walked) {
	var matching []*Bound
	var key []byte
	grouped := false
	for _, r := range rules {
		if r.matches(service) {
			matching = append(matching, r)
			key = binary.AppendVarint(key, int64(r.number))
			grouped = grouped || len(r.Groups) > 0
		}
	}
	if grouped {
		key = append(append(key, "| "+s.Snap.Region+"/"...), view.ID...)
	}
	r := s.Account.Recall
	if known := r.walks[string(key)]; known != nil {
		return known[0], known[1]
	}
	all = walk(matching, func(r *Bound) addrset.Set { return s.PeerAddrs(r, view) })
	if named = all; grouped {
		named = walk(matching, func(r *Bound) addrset.Set { return r.Blocks })
	}
	s.Account.MayStop()
	r.spans += all.allowed.Len() + all.left.Len() + named.allowed.Len() + named.left.Len()
	r.walks[string(key)] = &[2]walked{all, named}
	return all, named
}

// walk applies rules, in the order of evaluation, to all addresses. It decides each address once in
// a stage, whatever the number of rules: policies may bring long lists of addresses, and set
// operations rule by rule would cost the square of their length.
func walk(rules []*Bound, match func(*Bound) addrset.Set) walked {
	sets := make([]addrset.Set, len(rules))
	for i, r := range rules {
		sets[i] = match(r)
	}
	allowed4, left4 := sweep(rules, sets, addrset.Set.IPv4)
	allowed6, left6 := sweep(rules, sets, addrset.Set.IPv6)
	return walked{addrset.OfRanges(allowed4, allowed6), addrset.OfRanges(left4, left6)}
}

// sweep does it for a family. What no rule of a stage matches, and what the first that does passes
// on, goes on in the next stage.
func sweep(rules []*Bound, sets []addrset.Set, family func(addrset.Set) addrset.Ranges) (allowed, left []addrset.Range) {
	every := family(addrset.All())[0]
	ends := 0
	for _, set := range sets {
		ends += 2 * len(family(set))
	}
	starts := append(make([]addrset.Number, 0, 1+ends), every.From) // of pieces, in which all addresses fare alike
	for _, set := range sets {
		for _, part := range family(set) {
			starts = append(starts, part.From)
			if part.To.Less(every.To) {
				starts = append(starts, part.To.Next())
			}
		}
	}
	slices.SortFunc(starts, addrset.Number.Compare)
	starts = slices.Compact(starts)
	verdicts := slices.Repeat([]Verdict{pass}, len(starts))
	open := make(unmatched, len(starts)+1)
	for i, r := range rules {
		if i == 0 || r.Policy.Stage != rules[i-1].Policy.Stage {
			open.begin()
		}
		for _, part := range family(sets[i]) {
			from, _ := slices.BinarySearchFunc(starts, part.From, addrset.Number.Compare)
			for at := open.next(from); at < len(starts) && !part.To.Less(starts[at]); at = open.next(at) {
				open[at]++
				if verdicts[at] == pass {
					verdicts[at] = r.Verdict
				}
			}
		}
	}
	for i, from := range starts {
		piece := addrset.Range{From: from, To: every.To}
		if i+1 < len(starts) {
			piece.To = starts[i+1].Prev()
		}
		switch verdicts[i] {
		case Allow, Grant:
			allowed = append(allowed, piece)
		case pass:
			left = append(left, piece)
		}
	}
	return allowed, left
}

// unmatched are the pieces that no rule of a stage has matched yet: each refers to itself, and one
// that was matched to a later one. The end refers to itself, too.
type unmatched []int

func (u unmatched) begin() {
	for i := range u {
		u[i] = i
	}
}

// next is the first such piece from one on. Each lookup shortens the path of later ones.
func (u unmatched) next(i int) int {
	for u[i] != i {
		u[i] = u[u[i]]
		i = u[i]
	}
	return i
}
