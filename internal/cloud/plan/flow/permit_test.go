package flow

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
)

// probe is one packet from or to one address.
type probe struct {
	protocol int
	at       uint16
	addr     netip.Addr
}

func probes() (out []probe) {
	addrs := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.130"), netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::1")}
	for _, protocol := range []int{1, 6, 17, 47, 58, 200} {
		for _, at := range []uint16{0, 21, 22, 23, 80, 443, 444, 8 << 8, 0xffff} {
			for _, a := range addrs {
				if Family(protocol).Contains(a) {
					out = append(out, probe{protocol, at, a})
				}
			}
		}
	}
	return out
}

func (p Permit) passes(x probe) bool {
	return p.At(Service{x.protocol, x.at, x.at}).All.Contains(x.addr)
}

func randomPermit(r *rand.Rand) Permit {
	services := []Service{{6, 22, 22}, {6, 80, 443}, Whole(6), {17, 0, 443}, {1, 8 << 8, 8<<8 | 0xff}, Whole(58), Whole(47)}
	ranges := []string{"10.0.0.0/24", "10.0.0.128/25", "0.0.0.0/0", "2001:db8::/32", "192.0.2.0/24"}
	var named []Service
	for _, s := range services {
		if r.IntN(3) == 0 {
			named = append(named, s)
		}
	}
	var out Permit
	for _, s := range Partition(named) {
		g := Grant{Service: s}
		for _, c := range ranges {
			if r.IntN(3) == 0 {
				g.All = g.All.Union(addrset.OfPrefixes(netip.MustParsePrefix(c)))
			}
		}
		g.All = g.All.Intersect(Family(s.Protocol))
		if r.IntN(2) == 0 {
			g.Anonymous, g.Plain = g.All, g.All
		}
		if r.IntN(4) == 0 {
			g.Opaque = []cloud.Peer{{PrefixListID: fmt.Sprintf("pl-%d", r.IntN(2))}}
		}
		out.Grants = append(out.Grants, g)
	}
	return out
}

// TestPermitAlgebra compares the operations on permits with the verdicts on single packets.
func TestPermitAlgebra(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 0))
	all := probes()
	for i := range 3000 {
		a, b := randomPermit(r), randomPermit(r)
		both, either, rest := a.Intersect(b), a.Union(b), Permit{Grants: a.Minus(b)}
		for _, x := range all {
			p, q := a.passes(x), b.passes(x)
			if both.passes(x) != (p && q) {
				t.Fatalf("seed %d case %d: intersection on %v: %v and %v", seed, i, x, a, b)
			}
			if either.passes(x) != (p || q) {
				t.Fatalf("seed %d case %d: union on %v: %v and %v", seed, i, x, a, b)
			}
			inRest := false
			for _, g := range rest.Grants {
				covers := g.Service.Covers(Service{x.protocol, x.at, x.at})
				if g.Service.Protocol == cloud.AnyProtocol {
					covers = !named(a, b, x.protocol)
				}
				inRest = inRest || covers && g.All.Contains(x.addr)
			}
			if inRest != (p && !q) {
				t.Fatalf("seed %d case %d: difference on %v: %v and %v is %v", seed, i, x, a, b, rest.Grants)
			}
			one := addrset.Of(x.addr)
			s := Service{x.protocol, x.at, x.at}
			if a.Allows(s, one) != p || either.Allows(s, one) != (p || q) || a.MayTouch(s, one) != (p || len(a.At(s).Opaque) > 0) {
				t.Fatalf("seed %d case %d: %v allows %v: %v", seed, i, a, x, p)
			}
		}
		for _, p := range []Permit{both, either} {
			if g := p.Grants[len(p.Grants)-1]; g.Service != Any() {
				t.Fatalf("seed %d case %d: the last grant is %v", seed, i, g.Service)
			}
		}
	}
}

func named(a, b Permit, protocol int) bool {
	for _, p := range []Permit{a, b} {
		for _, g := range p.Grants {
			if g.Service.Protocol == protocol {
				return true
			}
		}
	}
	return false
}

// TestMeet compares what meets with the verdicts on single packets: in what two permits allow and
// two others do not, whose grants name other protocols than theirs.
func TestMeet(t *testing.T) {
	const seed = 12
	r := rand.New(rand.NewPCG(seed, 0))
	mine, theirs := twoAddresses("10.0.0.1", "2001:db8::1"), twoAddresses("10.0.0.130", "2001:db8::2")
	met, apart := 0, 0
	for i := range 3000 {
		a, b, c, d := randomPermit(r), randomPermit(r), randomPermit(r), randomPermit(r)
		want := slices.ContainsFunc(probes(), func(x probe) bool {
			y := x
			k := slices.Index(mine, x.addr)
			if k < 0 {
				return false
			}
			y.addr = theirs[k]
			return a.passes(y) && !b.passes(y) && c.passes(x) && !d.passes(x)
		})
		if got := Meet(a.Without(b), addrset.Of(theirs...), c.Without(d), addrset.Of(mine...)); got != want {
			t.Fatalf("seed %d case %d: %v instead of %v for %v without %v and %v without %v", seed, i, got, want, a, b, c, d)
		}
		if want {
			met++
		} else {
			apart++
		}
	}
	if met == 0 || apart == 0 {
		t.Errorf("%d meet, %d do not", met, apart)
	}
}

func twoAddresses(v4, v6 string) []netip.Addr {
	return []netip.Addr{netip.MustParseAddr(v4), netip.MustParseAddr(v6)}
}
