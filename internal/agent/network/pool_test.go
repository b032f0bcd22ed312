package network

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func nobody(netip.Addr) string { return "" }

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

func lease(n int) Lease {
	return Lease{Key: Key{fmt.Sprintf("c%d", n), "eth0"}, Namespace: "n", Name: fmt.Sprintf("p%d", n)}
}

// TestPoolOnRandomInput compares a pool with a naive one: a map of the holders of addresses, and of
// the times when addresses were freed.
func TestPoolOnRandomInput(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		ranges := [][]netip.Prefix{prefixes("10.0.0.0/28"), prefixes("10.0.0.16/29", "fd00::/125"), prefixes("10.0.1.0/29", "10.0.2.0/29"), prefixes("fd00::/64")}[random.IntN(4)]
		p, has, freed := NewPool(), map[Key][]netip.Addr{}, map[netip.Addr]time.Time{}
		p.SetRanges(ranges)
		now := time.Unix(1e9, 0)
		for range 400 {
			now = now.Add(time.Duration(random.IntN(20)) * time.Second)
			l := lease(random.IntN(20))
			switch random.IntN(5) {
			case 0, 1, 2:
				there := has[l.Key]
				var taken netip.Addr
				if random.IntN(3) == 0 {
					taken = ranges[0].Addr().Next().Next()
				}
				held := func(a netip.Addr) string {
					if a == taken {
						return "somebody else"
					}
					return ""
				}
				got, err := p.Assign(l, held, now)
				if there != nil {
					if err != nil || !slices.Equal(got.Addresses, there) {
						t.Fatalf("seed %d: %v %v, want %v again", seed, got, err, there)
					}
					continue
				}
				if err != nil {
					continue // below it is looked whether that was right
				}
				has[l.Key] = got.Addresses
				for _, a := range got.Addresses {
					in := slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) && r.Addr() != a && r.Addr().Next() != a })
					for k, other := range has {
						if k != l.Key && slices.Contains(other, a) {
							t.Fatalf("seed %d: %s is given to %v and %v", seed, a, k, l.Key)
						}
					}
					if at, rests := freed[a]; rests && now.Sub(at) < Rest && someFree(ranges, has, freed, a.Is6(), taken, now) {
						t.Fatalf("seed %d: %s was given after %s, and others are free", seed, a, now.Sub(at))
					}
					if !in || a == taken {
						t.Fatalf("seed %d: %s was given", seed, a)
					}
				}
			case 3:
				if p.Free(l.Key, now) != (has[l.Key] != nil) {
					t.Fatalf("seed %d: freed what was not there, or not", seed)
				}
				for _, a := range has[l.Key] {
					freed[a] = now
				}
				delete(has, l.Key)
			case 4: // a new process
				kept := p.Kept()
				p = NewPool()
				if random.IntN(2) == 0 {
					p.SetRanges(ranges)
					p.Restore(kept)
				} else {
					p.Restore(kept)
					p.SetRanges(ranges)
				}
			}
			used := 0
			for _, u := range p.Usage() {
				used += u.Used
			}
			want := 0
			for _, list := range has {
				want += len(list)
			}
			if used != want || len(p.Leases()) != len(has) {
				t.Fatalf("seed %d: %d addresses are used, want %d", seed, used, want)
			}
		}
	}
}

// someFree reports whether an address of a family is free that does not rest. Large ranges always
// have some.
func someFree(ranges []netip.Prefix, has map[Key][]netip.Addr, freed map[netip.Addr]time.Time, six bool, taken netip.Addr, now time.Time) bool {
	for _, r := range ranges {
		if r.Addr().Is6() != six {
			continue
		}
		for a, n := r.Addr().Next().Next(), 0; r.Contains(a) && n < 1000; a, n = a.Next(), n+1 {
			if r.Addr().Is4() && !r.Contains(a.Next()) || a == taken {
				continue
			}
			used := false
			for _, list := range has {
				used = used || slices.Contains(list, a) && freed[a].IsZero()
			}
			if at, rests := freed[a]; !used && (!rests || now.Sub(at) >= Rest) && !holds(has, a) {
				return true
			}
		}
	}
	return false
}

func holds(has map[Key][]netip.Addr, a netip.Addr) bool {
	n := 0
	for _, list := range has {
		if slices.Contains(list, a) {
			n++
		}
	}
	return n > 0
}

// TestPoolExhausted: an error about an exhausted pool names the holders, and a resting address is
// given rather than none.
func TestPoolExhausted(t *testing.T) {
	p, now := NewPool(), time.Unix(1e9, 0)
	p.SetRanges(prefixes("10.0.0.0/29"))
	held := func(a netip.Addr) string {
		if a == netip.MustParseAddr("10.0.0.4") {
			return "old/pod"
		}
		return ""
	}
	for n := range 4 {
		if _, err := p.Assign(lease(n), held, now); err != nil {
			t.Fatal(err)
		}
	}
	_, err := p.Assign(lease(9), held, now)
	if err == nil || !strings.Contains(err.Error(), "10.0.0.0/29") || !strings.Contains(err.Error(), "n/p0, n/p1, n/p2, n/p3, old/pod") {
		t.Errorf("%v", err)
	}
	p.Free(lease(2).Key, now)
	p.Free(lease(1).Key, now.Add(time.Second))
	got, err := p.Assign(lease(9), held, now.Add(2*time.Second))
	if err != nil || got.Addresses[0] != netip.MustParseAddr("10.0.0.5") { // that of 2, which has rested longer
		t.Errorf("%v %v", got, err)
	}
	for text, want := range map[string]string{"10.0.0.0/32": "too small", "10.0.0.0/31": "too small", "": "spec.podCIDRs"} {
		p := NewPool()
		if text != "" {
			p.SetRanges(prefixes(text))
		}
		if _, err := p.Assign(lease(1), nobody, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	p = NewPool()
	p.SetRanges(prefixes("fd00::/64"))
	if got, err := p.Assign(lease(1), nobody, now); err != nil || got.Addresses[0] != netip.MustParseAddr("fd00::2") {
		t.Errorf("%v %v", got, err)
	}
	if p.Restore(Kept{Leases: []Lease{{}, {Key: Key{"a", "b"}}, {Key: Key{"a", "b"}, Addresses: []netip.Addr{{}}}}}); len(p.Leases()) != 1 {
		t.Errorf("what cannot be was taken in: %v", p.Leases())
	}
}
