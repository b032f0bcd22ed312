package addrset

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Block is a prefix without some prefixes inside it, the way people write sets of addresses.
type Block struct {
	netip.Prefix
	// Except are disjoint, sorted and smaller than the prefix.
	Except []netip.Prefix
}

// fewPrefixes is how many prefixes are read as easily as a block with exceptions.
const fewPrefixes = 5

// Blocks returns blocks that together are exactly the set: its prefixes where these are few, and
// else about the fewest that say it. Two of them may overlap: what one leaves out, another may
// name again in part.
func (s Set) Blocks() []Block {
	prefixes := s.Prefixes()
	if len(prefixes) > fewPrefixes {
		v4, _ := blocks(s.v4, Number{}, 32, 32)
		v6, _ := blocks(s.v6, Number{}, 128, 128)
		if out := append(v4, v6...); len(out)+exceptions(out) < len(prefixes) {
			return out
		}
	}
	out := make([]Block, len(prefixes))
	for i, p := range prefixes {
		out[i].Prefix = p
	}
	return out
}

func exceptions(blocks []Block) (n int) {
	for _, b := range blocks {
		n += len(b.Except)
	}
	return n
}

// blocks says which addresses of a block of 2^size from a number on are in some ranges, and which
// are left out: by the block without the others, or by its halves, whichever takes fewer prefixes.
// What an exception has of the ranges is named again.
func blocks(ranges Ranges, from Number, size, width int) (named, left []Block) {
	whole := Block{Prefix: netip.PrefixFrom(from.sized(width), width-size)}
	all := Ranges{{from, from.or(lowest(size))}}
	inside := intersect(ranges, all)
	switch {
	case len(inside) == 0:
		return nil, []Block{whole}
	case all.Within(inside):
		return []Block{whole}, nil
	}
	named, left = blocks(inside, from, size-1, width)
	high, highLeft := blocks(inside, from.or(lowest(size-1)).Next(), size-1, width)
	but := whole
	for _, r := range inside {
		but.Except = appendPrefixes(but.Except, r, width)
	}
	left = shorter(append(left, highLeft...), []Block{but})
	again := []Block{whole}
	for _, b := range left {
		again[0].Except = append(again[0].Except, b.Prefix)
		for _, e := range b.Except {
			again = append(again, Block{Prefix: e})
		}
	}
	return shorter(append(named, high...), again), left
}

func shorter(a, b []Block) []Block {
	if len(b)+exceptions(b) < len(a)+exceptions(a) {
		return b
	}
	return a
}

// Text is the block in words: "10.1.0.0/16 except 10.1.2.40". Of more than most exceptions the
// first are named and the rest is counted.
func (b Block) Text(most int) string {
	if len(b.Except) == 0 {
		return short(b.Prefix)
	}
	return short(b.Prefix) + " except " + exceptionsText(b.Except, most)
}

func exceptionsText(except []netip.Prefix, most int) string {
	texts := make([]string, len(except))
	for i, p := range except {
		texts[i] = short(p)
	}
	return someOf(texts, most, ", ")
}

// short is a prefix, or the address if it is only one.
func short(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// Words says in words what the set is: "anywhere except 10.1.0.5", or a list of blocks. Of more
// than most blocks, or exceptions of a block, the first are named and the rest is counted.
func (s Set) Words(most int) string {
	return Say(s.Blocks(), most, "anywhere", nil)
}

// Say says blocks in words. All addresses are called anywhere, and a block that is marked is called
// the rest of itself and comes after the others.
func Say(blocks []Block, most int, anywhere string, marked func(Block) bool) string {
	if len(blocks) == 2 && blocks[0].Bits() == 0 && blocks[1].Bits() == 0 {
		if except := slices.Concat(blocks[0].Except, blocks[1].Except); len(except) > 0 {
			anywhere += " except " + exceptionsText(except, most)
		}
		return anywhere
	}
	var whole, rest []string
	for _, b := range blocks {
		if marked != nil && marked(b) {
			rest = append(rest, "the rest of "+b.Text(most))
		} else {
			whole = append(whole, b.Text(most))
		}
	}
	between := ", "
	if exceptions(blocks) > 0 {
		between = "; " // an exception ends where the next block begins
	}
	return someOf(append(whole, rest...), most, between)
}

// someOf lists items; of more than one beyond the most, the rest is counted.
func someOf(items []string, most int, between string) string {
	if len(items) <= most+1 {
		return strings.Join(items, between)
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:most], between), len(items)-most)
}
