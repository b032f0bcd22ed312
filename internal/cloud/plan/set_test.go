package plan

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// universe is a small part of the address space in which sets are compared bit by bit: the last 64 addresses of IPv4, so that the
// edge of the family is in it, and 64 addresses in the middle of IPv6 around a carry from one half into the other.
func universe() []netip.Addr {
	var out []netip.Addr
	for i := range 64 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], 0xffffffc0+uint32(i))
		out = append(out, netip.AddrFrom4(b))
	}
	a := netip.MustParseAddr("2001:db8::ffff:ffff:ffff:ffe0")
	for range 64 {
		out = append(out, a)
		a = a.Next()
	}
	return out
}

type bitmap [128]bool

func randomSet(r *rand.Rand, all []netip.Addr) (Set, bitmap) {
	var s Set
	var m bitmap
	for range r.IntN(5) {
		from := r.IntN(len(all))
		width := all[from].BitLen()
		p := netip.PrefixFrom(all[from], width-r.IntN(6)).Masked()
		less := r.IntN(4) == 0
		if less {
			s = s.Minus(SetOfPrefixes(p))
		} else {
			s = s.Union(SetOfPrefixes(p))
		}
		for i, a := range all {
			if p.Contains(a) {
				m[i] = !less
			}
		}
	}
	return s, m
}

func contained(s Set, all []netip.Addr) (m bitmap) {
	for i, a := range all {
		m[i] = s.Contains(a)
	}
	return m
}

func combine(a, b bitmap, f func(x, y bool) bool) (m bitmap) {
	for i := range m {
		m[i] = f(a[i], b[i])
	}
	return m
}

func TestSetAlgebra(t *testing.T) {
	const seed = 42
	r := rand.New(rand.NewPCG(seed, 0))
	all := universe()
	for i := range 20000 {
		s, x := randomSet(r, all)
		o, y := randomSet(r, all)
		check := func(what string, got Set, want bitmap) {
			t.Helper()
			if contained(got, all) != want {
				t.Fatalf("seed %d case %d: %s of %v and %v is %v", seed, i, what, s.Prefixes(), o.Prefixes(), got.Prefixes())
			}
			for _, spans := range [][]span{got.v4, got.v6} {
				for k := 1; k < len(spans); k++ {
					if p, q := spans[k-1], spans[k]; !p.to.less(q.from) || p.to.next() == q.from {
						t.Fatalf("seed %d case %d: %s is not canonical: %v", seed, i, what, spans)
					}
				}
			}
			if again := SetOfPrefixes(got.Prefixes()...); !again.Equal(got) {
				t.Fatalf("seed %d case %d: prefixes of %v give %v", seed, i, got.Prefixes(), again.Prefixes())
			}
		}
		check("set", s, x)
		check("union", s.Union(o), combine(x, y, func(x, y bool) bool { return x || y }))
		check("intersection", s.Intersect(o), combine(x, y, func(x, y bool) bool { return x && y }))
		check("difference", s.Minus(o), combine(x, y, func(x, y bool) bool { return x && !y }))
		check("union of all", unionAll([]Set{s, o, o, s}), combine(x, y, func(x, y bool) bool { return x || y }))
		if s.Equal(o) && s.hash() != o.hash() {
			t.Fatalf("seed %d case %d: equal sets with different hashes: %v", seed, i, s.Prefixes())
		}
		if s.Within(o) != s.Minus(o).Empty() {
			t.Fatalf("seed %d case %d: %v within %v: %v", seed, i, s.Prefixes(), o.Prefixes(), s.Within(o))
		}
		if s.Overlaps(o) == s.Intersect(o).Empty() {
			t.Fatalf("seed %d case %d: %v overlaps %v: %v", seed, i, s.Prefixes(), o.Prefixes(), s.Overlaps(o))
		}
	}
}

func TestSetPrefixesAreMinimal(t *testing.T) {
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
		got := SetOfPrefixes(netip.MustParsePrefix(c.from)).Minus(SetOfPrefixes(netip.MustParsePrefix(c.not))).Prefixes()
		if len(got) != c.want {
			t.Errorf("%s without %s: %d prefixes, want %d: %v", c.from, c.not, len(got), c.want, got)
		}
	}
	if got := Everything().Prefixes(); len(got) != 2 {
		t.Errorf("everything: %v", got)
	}
	if got := SetOfPrefixes(netip.MustParsePrefix("::ffff:10.0.0.0/104")).Prefixes(); len(got) != 1 || got[0].String() != "10.0.0.0/8" {
		t.Errorf("IPv4 in IPv6 form: %v", got)
	}
}

func TestPartition(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 2000 {
		var services []Service
		for range r.IntN(6) {
			s := Service{Protocol: []int{1, 6, 17, 58}[r.IntN(4)]}
			s.From = uint16(r.IntN(0x10000))
			s.To = s.From + uint16(r.IntN(0x10000-int(s.From)))
			if r.IntN(5) == 0 {
				s = whole([]int{6, 47, 132}[r.IntN(3)])
			}
			services = append(services, s)
		}
		cells := partition(services)
		if cells[len(cells)-1] != anyService {
			t.Fatalf("seed %d case %d: last cell %v", seed, i, cells[len(cells)-1])
		}
		next := map[int]int{}
		for _, c := range cells[:len(cells)-1] {
			if int(c.From) != next[c.Protocol] {
				t.Fatalf("seed %d case %d: cells overlap or leave a gap before %v: %v", seed, i, c, cells)
			}
			next[c.Protocol] = int(c.To) + 1
			for _, s := range services {
				inside := s.covers(c)
				if apart := s.Protocol != c.Protocol || s.To < c.From || c.To < s.From; inside == apart {
					t.Fatalf("seed %d case %d: %v cuts the cell %v", seed, i, s, c)
				}
			}
		}
		for protocol, end := range next {
			if end != 0x10000 {
				t.Fatalf("seed %d case %d: protocol %d ends at %d", seed, i, protocol, end)
			}
		}
	}
}
