package plan

import (
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Taking one type of ICMP from some addresses leaves them every other type in use, and the whole protocol to the others.
func TestThriftyNarrowsOnlyUntoldTypes(t *testing.T) {
	everyone, some := Set{v4: everyV4}, SetOfPrefixes(netip.MustParsePrefix("10.1.0.0/16"))
	for _, dropped := range []Service{{cloud.ICMP, 8 << 8, 8<<8 | 0xff}, {cloud.ICMP, 3<<8 | 4, 3<<8 | 4}} {
		var h half
		for _, s := range partition([]Service{dropped}) {
			c := halfCell{service: s, all: everyone, anonymous: everyone}
			if s == dropped {
				c.all, c.anonymous = everyone.Minus(some), everyone.Minus(some)
			}
			h.cells = append(h.cells, c)
		}
		got := h.thriftyTypes()
		if extra := got.minus(h); len(extra) > 0 || !got.reduced {
			t.Fatalf("reduced %v; it allows more than before: %+v", got.reduced, extra)
		}
		if len(got.cells) > 80 {
			t.Errorf("%d cells", len(got.cells))
		}
		for kind := range 256 {
			at := uint16(kind << 8)
			s := Service{cloud.ICMP, at, at}
			if want := toldTypes[cloud.ICMP][kind] > 0 && !dropped.covers(s); some.Overlaps(got.at(s).all) != want {
				t.Errorf("type %d from %v: allowed is not %v", kind, some, want)
			}
			if dropped.covers(s) != !everyone.Within(got.at(s).all.Union(some)) && !everyone.Minus(some).Within(got.at(s).all) {
				t.Errorf("type %d is not allowed to the others", kind)
			}
		}
	}
}
