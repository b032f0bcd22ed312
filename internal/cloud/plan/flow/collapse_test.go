package flow

import (
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
)

// TestCollapseNarrowsOnlyUnkeptProtocols: taking one port from some addresses leaves them every
// kept protocol, and leaves "all protocols" to the addresses that nothing was taken from.
func TestCollapseNarrowsOnlyUnkeptProtocols(t *testing.T) {
	everywhere, some := addrset.All(), addrset.OfPrefixes(netip.MustParsePrefix("10.1.0.0/16"))
	var h Permit
	for _, s := range Partition([]Service{{cloud.TCP, 3306, 3306}}) {
		c := Grant{Service: s, All: everywhere, Anonymous: everywhere}
		if s.Protocol == cloud.TCP && s.From == 3306 {
			c.All, c.Anonymous = everywhere.Minus(some), everywhere.Minus(some)
		}
		h.Grants = append(h.Grants, c)
	}
	got := h.CollapseProtocols()
	if !got.Reduced {
		t.Fatal("the permit says nothing of being reduced")
	}
	if extra := got.Minus(h); len(extra) > 0 {
		t.Fatalf("it allows more than before: %+v", extra)
	}
	for _, protocol := range keptProtocols {
		for _, port := range []uint16{0, 22, 3306, 65535} {
			s := Service{protocol, port, port}
			want := protocol != cloud.TCP || port != 3306
			if protocol == cloud.ICMPv6 {
				want = false // the addresses are IPv4
			}
			if ok := !some.Intersect(got.At(s).All).Empty(); ok != want {
				t.Errorf("protocol %d, port %d from %v: allowed=%v, want %v", protocol, port, some, ok, want)
			}
		}
	}
	unkept := Service{200, 0, axisEnd}
	if some.Overlaps(got.At(unkept).All) {
		t.Error("protocol 200 stays allowed where a port was taken; that needs a rule per protocol")
	}
	if !everywhere.Minus(some).Equal(got.At(unkept).All) {
		t.Errorf("protocol 200 is allowed to %v, want all addresses but those that lost something", got.At(unkept).All)
	}
}

// TestCollapseLeavesPlainPermitsAlone: where nobody takes a part of all protocols, nothing is lost.
func TestCollapseLeavesPlainPermitsAlone(t *testing.T) {
	some := addrset.OfPrefixes(netip.MustParsePrefix("10.1.0.0/16"))
	var h Permit
	for _, s := range Partition([]Service{{cloud.TCP, 22, 22}}) {
		c := Grant{Service: s, All: some, Anonymous: some}
		if s.Protocol == cloud.TCP && s.From == 22 {
			c.All, c.Anonymous = addrset.All(), addrset.All()
		}
		h.Grants = append(h.Grants, c)
	}
	got := h.CollapseProtocols()
	if got.Reduced || len(got.Grants) != len(h.Grants) {
		t.Errorf("reduced=%v with %d grants, want the permit as it was with %d", got.Reduced, len(got.Grants), len(h.Grants))
	}
}
