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
		out := append(blocks(s.v4, 32), blocks(s.v6, 128)...)
		if said := len(out); said+exceptions(out) < len(prefixes) {
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

// A block may be said in three ways, by what is said of the blocks around it: what is in the set is
// named where nothing is named yet; what is not in it is left out of what is named; what is in it
// is named again where it was left out.
const (
	unnamed = iota
	leftOutOf
	namedAgain
	ways
)

// node is an aligned block of addresses that the set holds in part, or as a whole, or not at all.
type node struct {
	from        Number
	size        int // of the block in bits
	full, empty bool
	low, high   *node
	// cost is how many prefixes it takes to say the block in each way; whole tells that in this way
	// the block itself is named, or left out, and what differs inside it is said in the next way.
	cost  [ways]int
	whole [ways]bool
}

func blocks(ranges Ranges, width int) []Block {
	n := newNode(ranges, Number{}, width)
	var out []Block
	n.say(unnamed, width, &out, nil)
	slices.SortStableFunc(out, func(a, b Block) int { return a.Addr().Compare(b.Addr()) })
	return out
}

// newNode looks at the block of 2^size addresses from a number on. Each call looks at half the
// block of its caller.
func newNode(ranges Ranges, from Number, size int) *node {
	n := &node{from: from, size: size}
	to := from.or(lowest(size))
	ranges = ranges[ranges.reaching(from):]
	switch {
	case len(ranges) == 0 || to.Less(ranges[0].From):
		n.empty = true
		n.cost = [ways]int{leftOutOf: 1}
		n.whole[leftOutOf] = true
		return n
	case !from.Less(ranges[0].From) && !ranges[0].To.Less(to):
		n.full = true
		n.cost = [ways]int{unnamed: 1, namedAgain: 1}
		n.whole[unnamed], n.whole[namedAgain] = true, true
		return n
	}
	n.low = newNode(ranges, from, size-1)
	n.high = newNode(ranges, from.or(lowest(size-1)).Next(), size-1)
	for way := ways - 1; way >= 0; way-- {
		n.cost[way] = n.low.cost[way] + n.high.cost[way]
		if way+1 < ways && 1+n.cost[way+1] < n.cost[way] {
			n.cost[way], n.whole[way] = 1+n.cost[way+1], true
		}
	}
	return n
}

// say appends what names the block in a way. Each call is about half the block of its caller, or
// about the same block in the next way.
func (n *node) say(way, width int, out *[]Block, around *int) {
	if n.cost[way] == 0 {
		return
	}
	if !n.whole[way] {
		n.low.say(way, width, out, around)
		n.high.say(way, width, out, around)
		return
	}
	p := netip.PrefixFrom(n.from.sized(width), width-n.size)
	if way == leftOutOf {
		(*out)[*around].Except = append((*out)[*around].Except, p)
	} else {
		*out = append(*out, Block{Prefix: p})
	}
	if !n.full && !n.empty {
		if way == unnamed {
			last := len(*out) - 1
			around = &last
		}
		n.say(way+1, width, out, around)
	}
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
