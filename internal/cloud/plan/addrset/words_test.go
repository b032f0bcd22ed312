package addrset

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

// meant are the addresses that blocks name.
func meant(blocks []Block) Set {
	var out Set
	for _, b := range blocks {
		out = out.Union(OfPrefixes(b.Prefix).Minus(OfPrefixes(b.Except...)))
	}
	return out
}

// checkBlocks fails unless the blocks of a set are that set, in no more prefixes than it has.
func checkBlocks(t *testing.T, s Set) {
	t.Helper()
	got := s.Blocks()
	if !meant(got).Equal(s) {
		t.Fatalf("%v are said as %v", s.Prefixes(), got)
	}
	if n := len(got) + exceptions(got); n > len(s.Prefixes()) {
		t.Fatalf("%v are said as %v, which is longer", s.Prefixes(), got)
	}
	for _, b := range got {
		for _, x := range b.Except {
			if x.Bits() <= b.Bits() || !b.Contains(x.Addr()) {
				t.Fatalf("%v is no exception of %v", x, b.Prefix)
			}
		}
	}
	if text := s.Words(3); !s.Empty() && text == "" {
		t.Fatalf("no words for %v", s.Prefixes())
	}
}

// TestBlocksAreTheSet: blocks with exceptions of every shape are told exactly: nested, adjoining,
// at the bounds of the block and of the address space.
func TestBlocksAreTheSet(t *testing.T) {
	const seed = 42
	r := rand.New(rand.NewPCG(seed, 0))
	within := func(p netip.Prefix) netip.Prefix {
		width := p.Addr().BitLen()
		bits := p.Bits() + r.IntN(min(width-p.Bits(), 6)+1)
		span := RangeOf(p)
		at := []Number{span.From, span.To, {span.From.hi, span.From.lo | r.Uint64()&(span.To.lo^span.From.lo)}}[r.IntN(3)]
		return netip.PrefixFrom(at.sized(width), bits).Masked()
	}
	for i := range 3000 {
		var s Set
		for range 1 + r.IntN(3) {
			block := netip.MustParsePrefix([]string{"0.0.0.0/0", "198.51.100.0/24", "255.255.255.0/24", "0.0.0.0/30", "::/0", "2001:db8::/64", "ffff::/16", "10.0.0.0/8"}[r.IntN(8)])
			set := OfPrefixes(block)
			hole := block
			for range r.IntN(7) {
				if hole = within(hole); r.IntN(3) == 0 {
					set = set.Union(OfPrefixes(hole)) // an exception of an exception
				} else {
					set = set.Minus(OfPrefixes(hole))
				}
				if r.IntN(2) == 0 {
					hole = block
				}
			}
			s = s.Union(set)
		}
		checkBlocks(t, s)
		if t.Failed() {
			t.Fatalf("seed %d, set %d", seed, i)
		}
	}
}

// FuzzBlocks makes sets from bytes: each five are a block that is added or taken away.
func FuzzBlocks(f *testing.F) {
	f.Add([]byte{198, 51, 100, 0, 24, 198, 51, 100, 64, 26 + 128, 198, 51, 100, 128, 26 + 128}) // two quarters, from which words once were made for ever
	f.Add([]byte{0, 0, 0, 0, 0, 10, 1, 0, 5, 32 + 128, 255, 255, 255, 255, 32 + 128})
	f.Add([]byte{10, 0, 0, 0, 8, 10, 1, 0, 0, 16 + 128, 10, 1, 2, 3, 32})
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Set
		for ; len(data) >= 5 && len(data) <= 500; data = data[5:] {
			p := OfPrefixes(netip.PrefixFrom(netip.AddrFrom4([4]byte(data)), int(data[4]&127)%33))
			if data[4] < 128 {
				s = s.Union(p)
			} else {
				s = s.Minus(p)
			}
		}
		checkBlocks(t, s)
	})
}

// TestWords: what people wrote as a block with exceptions is told as one.
func TestWords(t *testing.T) {
	of := func(text string) (s Set) {
		for _, word := range strings.Fields(text) {
			if rest, minus := strings.CutPrefix(word, "-"); minus {
				s = s.Minus(OfPrefixes(netip.MustParsePrefix(rest)))
			} else {
				s = s.Union(OfPrefixes(netip.MustParsePrefix(word)))
			}
		}
		return s
	}
	for text, want := range map[string]string{
		"":                                     "",
		"10.1.0.5/32":                          "10.1.0.5",
		"0.0.0.0/0":                            "0.0.0.0/0",
		"0.0.0.0/0 ::/0":                       "anywhere",
		"0.0.0.0/0 ::/0 -10.1.0.5/32":          "anywhere except 10.1.0.5",
		"0.0.0.0/0 -10.1.0.5/32":               "0.0.0.0/0 except 10.1.0.5",
		"0.0.0.0/0 -10.0.0.0/8 -192.0.2.0/24":  "0.0.0.0/0 except 10.0.0.0/8, 192.0.2.0/24",
		"10.0.0.0/8 -10.1.0.0/16 10.1.2.3/32":  "10.0.0.0/8 except 10.1.0.0/16; 10.1.2.3",
		"10.0.0.0/8 -10.1.0.5/32 192.0.2.0/24": "10.0.0.0/8 except 10.1.0.5; 192.0.2.0/24",
		"198.51.100.0/24 -198.51.100.64/26 -198.51.100.128/26": "198.51.100.0/26, 198.51.100.192/26",
		"::/0 -2001:db8::/32": "::/0 except 2001:db8::/32",
		"10.0.0.0/32 10.0.0.2/32 10.0.0.4/32 10.0.0.6/32 10.0.0.8/32":                 "10.0.0.0, 10.0.0.2, 10.0.0.4 and 2 more",
		"10.0.0.0/8 -10.1.0.1/32 -10.1.0.3/32 -10.1.0.5/32 -10.1.0.7/32":              "10.0.0.0/8 except 10.1.0.1, 10.1.0.3, 10.1.0.5, 10.1.0.7",
		"10.0.0.0/8 -10.1.0.1/32 -10.1.0.3/32 -10.2.0.5/32 -10.2.0.7/32 -10.3.0.0/24": "10.0.0.0/8 except 10.1.0.1, 10.1.0.3, 10.2.0.5 and 2 more",
	} {
		if got := of(text).Words(3); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
