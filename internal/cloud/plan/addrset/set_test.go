package addrset

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"go4.org/netipx"
)

// edges are addresses where the arithmetic could go wrong: both ends of each family, a carry from
// one half of an IPv6 address into the other, and some in the middle.
func edges() []netip.Addr {
	var out []netip.Addr
	around := func(s string, n int) {
		a := netip.MustParseAddr(s)
		for range n {
			if a.IsValid() {
				out = append(out, a)
				a = a.Next()
			}
		}
	}
	around("0.0.0.0", 16)
	around("255.255.255.240", 16)
	around("10.1.0.250", 12)
	around("::", 16)
	around("2001:db8::ffff:ffff:ffff:fff0", 32)
	around("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0", 16)
	return out
}

// pair is a set of ours and the same set as netipx keeps it.
type pair struct {
	ours   Set
	theirs *netipx.IPSet
}

func oracle(t *testing.T, build func(b *netipx.IPSetBuilder)) *netipx.IPSet {
	t.Helper()
	var b netipx.IPSetBuilder
	build(&b)
	set, err := b.IPSet()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// random returns a set that is made by adding and removing prefixes, single addresses and ranges.
func random(t *testing.T, r *rand.Rand, at []netip.Addr) pair {
	t.Helper()
	var s Set
	theirs := oracle(t, func(b *netipx.IPSetBuilder) {
		for range r.IntN(6) {
			from := at[r.IntN(len(at))]
			var part Set
			var ranges netipx.IPRange
			switch r.IntN(4) {
			case 0:
				part, ranges = Of(from), netipx.IPRangeFrom(from, from)
			case 1:
				to := at[r.IntN(len(at))]
				if to.Is4() != from.Is4() || to.Less(from) {
					to = from
				}
				ranges = netipx.IPRangeFrom(from, to)
				if one := []Range{{numberOf(from), numberOf(to)}}; from.Is4() {
					part = OfRanges(one, nil)
				} else {
					part = OfRanges(nil, one)
				}
			default:
				bits := from.BitLen() - r.IntN(8)
				if r.IntN(8) == 0 {
					bits = r.IntN(from.BitLen() + 1)
				}
				p := netip.PrefixFrom(from, bits)
				part, ranges = OfPrefixes(p), netipx.RangeOfPrefix(p)
			}
			if r.IntN(4) == 0 {
				s = s.Minus(part)
				b.RemoveRange(ranges)
			} else {
				s = s.Union(part)
				b.AddRange(ranges)
			}
		}
	})
	return pair{s, theirs}
}

func canonical(s Set) bool {
	for _, ranges := range []Ranges{s.IPv4(), s.IPv6()} {
		for i, r := range ranges {
			if r.To.Less(r.From) || i > 0 && (!ranges[i-1].To.Less(r.From) || ranges[i-1].To.Next() == r.From) {
				return false
			}
		}
	}
	return true
}

// TestAgainstNetipx compares every operation with an implementation that shares no code with ours.
func TestAgainstNetipx(t *testing.T) {
	const seed = 42
	r := rand.New(rand.NewPCG(seed, 0))
	at := edges()
	for i := range 20000 {
		a, b := random(t, r, at), random(t, r, at)
		check := func(what string, got Set, want *netipx.IPSet) {
			t.Helper()
			if !canonical(got) {
				t.Fatalf("seed %d case %d: %s is not canonical: %v", seed, i, what, got)
			}
			if !slices.Equal(got.Prefixes(), want.Prefixes()) {
				t.Fatalf("seed %d case %d: %s of %v and %v is %v, not %v", seed, i, what, a.ours.Prefixes(), b.ours.Prefixes(), got.Prefixes(), want.Prefixes())
			}
			if again := OfPrefixes(got.Prefixes()...); !again.Equal(got) || again.Hash() != got.Hash() {
				t.Fatalf("seed %d case %d: the prefixes of %v give %v", seed, i, got.Prefixes(), again.Prefixes())
			}
		}
		combined := func(f func(b *netipx.IPSetBuilder)) *netipx.IPSet {
			return oracle(t, func(x *netipx.IPSetBuilder) { x.AddSet(a.theirs); f(x) })
		}
		union := combined(func(x *netipx.IPSetBuilder) { x.AddSet(b.theirs) })
		less := combined(func(x *netipx.IPSetBuilder) { x.RemoveSet(b.theirs) })
		check("set", a.ours, a.theirs)
		check("union", a.ours.Union(b.ours), union)
		check("union of many", Union(a.ours, b.ours, b.ours, a.ours), union)
		check("intersection", a.ours.Intersect(b.ours), combined(func(x *netipx.IPSetBuilder) { x.Intersect(b.theirs) }))
		check("difference", a.ours.Minus(b.ours), less)
		if got, want := a.ours.Within(b.ours), len(less.Ranges()) == 0; got != want {
			t.Fatalf("seed %d case %d: %v within %v: %v", seed, i, a.ours.Prefixes(), b.ours.Prefixes(), got)
		}
		if got, want := a.ours.Overlaps(b.ours), a.theirs.Overlaps(b.theirs); got != want {
			t.Fatalf("seed %d case %d: %v overlaps %v: %v", seed, i, a.ours.Prefixes(), b.ours.Prefixes(), got)
		}
		if a.ours.Equal(b.ours) != a.theirs.Equal(b.theirs) || a.ours.Empty() != (len(a.theirs.Ranges()) == 0) {
			t.Fatalf("seed %d case %d: equality or emptiness of %v and %v", seed, i, a.ours.Prefixes(), b.ours.Prefixes())
		}
		for range 5 {
			if x := at[r.IntN(len(at))]; a.ours.Contains(x) != a.theirs.Contains(x) {
				t.Fatalf("seed %d case %d: %v contains %s: %v", seed, i, a.ours.Prefixes(), x, a.ours.Contains(x))
			}
		}
	}
}

// TestLongLists takes the ways that are meant for sets of very different lengths.
func TestLongLists(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 100 {
		var many, few []netip.Prefix
		for range 500 {
			many = append(many, netip.PrefixFrom(v4(r.Uint32()%4096), 30+r.IntN(3)).Masked())
		}
		for range r.IntN(4) {
			few = append(few, netip.PrefixFrom(v4(r.Uint32()%4096), 22+r.IntN(11)).Masked())
		}
		long, short := OfPrefixes(many...), OfPrefixes(few...)
		both, rest, others := long.Intersect(short), short.Minus(long), long.Minus(short)
		for n := range uint32(4096) {
			a := v4(n)
			x, y := long.Contains(a), short.Contains(a)
			if both.Contains(a) != (x && y) || rest.Contains(a) != (y && !x) || others.Contains(a) != (x && !y) {
				t.Fatalf("seed %d case %d: %s", seed, i, a)
			}
		}
	}
}

func v4(n uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}

func TestPrefixesAreMinimal(t *testing.T) {
	for _, c := range []struct {
		from string
		not  string
		want int
	}{
		{"0.0.0.0/0", "10.0.0.1/32", 32},
		{"::/0", "2001:db8::1/128", 128},
		{"10.0.0.0/8", "10.0.0.0/9", 1},
		{"0.0.0.0/0", "0.0.0.0/0", 0},
		{"::/0", "10.0.0.0/8", 1},
	} {
		got := OfPrefixes(netip.MustParsePrefix(c.from)).Minus(OfPrefixes(netip.MustParsePrefix(c.not))).Prefixes()
		if len(got) != c.want {
			t.Errorf("%s without %s: %d prefixes, want %d: %v", c.from, c.not, len(got), c.want, got)
		}
	}
	if got := All().Prefixes(); len(got) != 2 {
		t.Errorf("everything: %v", got)
	}
	if got := OfPrefixes(netip.MustParsePrefix("::ffff:10.0.0.0/104")).Prefixes(); len(got) != 1 || got[0].String() != "10.0.0.0/8" {
		t.Errorf("IPv4 in IPv6 form: %v", got)
	}
	if got := Of(netip.Addr{}, netip.MustParseAddr("::ffff:10.0.0.1")); !got.Equal(Of(netip.MustParseAddr("10.0.0.1"))) {
		t.Errorf("an address in IPv6 form, and an invalid one: %v", got.Prefixes())
	}
}
