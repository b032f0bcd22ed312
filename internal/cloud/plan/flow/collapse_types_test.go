package flow

import (
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
)

// Taking one type of ICMP from some addresses leaves them every other type in use, and the whole
// protocol to the others.
func TestThriftyNarrowsOnlyUnkeptTypes(t *testing.T) {
	everyone, some := addrset.AllIPv4(), addrset.OfPrefixes(netip.MustParsePrefix("10.1.0.0/16"))
	for _, dropped := range []Service{{cloud.ICMP, 8 << 8, 8<<8 | 0xff}, {cloud.ICMP, 3<<8 | 4, 3<<8 | 4}} {
		var h Permit
		for _, s := range Partition([]Service{dropped}) {
			c := Grant{Service: s, All: everyone, Anonymous: everyone}
			if s == dropped {
				c.All, c.Anonymous = everyone.Minus(some), everyone.Minus(some)
			}
			h.Grants = append(h.Grants, c)
		}
		got := h.CollapseTypes()
		if extra := got.Minus(h); len(extra) > 0 || !got.Reduced {
			t.Fatalf("reduced %v; it allows more than before: %+v", got.Reduced, extra)
		}
		if len(got.Grants) > 80 {
			t.Errorf("%d grants", len(got.Grants))
		}
		for kind := range 256 {
			at := uint16(kind << 8)
			s := Service{cloud.ICMP, at, at}
			if want := keptTypes[cloud.ICMP][kind] > 0 && !dropped.Covers(s); some.Overlaps(got.At(s).All) != want {
				t.Errorf("type %d from %v: allowed is not %v", kind, some, want)
			}
			if dropped.Covers(s) != !everyone.Within(got.At(s).All.Union(some)) && !everyone.Minus(some).Within(got.At(s).All) {
				t.Errorf("type %d is not allowed to the others", kind)
			}
		}
	}
}
