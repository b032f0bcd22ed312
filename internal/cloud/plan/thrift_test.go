package plan

import (
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

// TestThriftyNarrowsOnlyUntoldProtocols: taking one port from some addresses leaves them every told protocol, and leaves "all protocols"
// to the addresses that nothing was taken from.
func TestThriftyNarrowsOnlyUntoldProtocols(t *testing.T) {
	everywhere, some := Everything(), SetOfPrefixes(netip.MustParsePrefix("10.1.0.0/16"))
	var h half
	for _, s := range partition([]Service{{cloud.TCP, 3306, 3306}}) {
		c := halfCell{service: s, all: everywhere, anonymous: everywhere}
		if s.Protocol == cloud.TCP && s.From == 3306 {
			c.all, c.anonymous = everywhere.Minus(some), everywhere.Minus(some)
		}
		h.cells = append(h.cells, c)
	}
	got := h.thrifty()
	if !got.reduced {
		t.Fatal("the half says nothing of being reduced")
	}
	if extra := got.minus(h); len(extra) > 0 {
		t.Fatalf("it allows more than before: %+v", extra)
	}
	for _, protocol := range told {
		for _, port := range []uint16{0, 22, 3306, 65535} {
			s := Service{protocol, port, port}
			want := protocol != cloud.TCP || port != 3306
			if protocol == cloud.ICMPv6 {
				want = false // the addresses are IPv4
			}
			if ok := !some.Intersect(got.at(s).all).Empty(); ok != want {
				t.Errorf("protocol %d, port %d from %v: allowed=%v, want %v", protocol, port, some, ok, want)
			}
		}
	}
	untold := Service{200, 0, 0xffff}
	if some.Overlaps(got.at(untold).all) {
		t.Error("protocol 200 stays allowed where a port was taken; that needs a rule per protocol")
	}
	if !everywhere.Minus(some).Equal(got.at(untold).all) {
		t.Errorf("protocol 200 is allowed to %v, want all addresses but those that lost something", got.at(untold).all)
	}
}

// TestThriftyLeavesPlainHalvesAlone: where nobody takes a part of all protocols, nothing is lost.
func TestThriftyLeavesPlainHalvesAlone(t *testing.T) {
	some := SetOfPrefixes(netip.MustParsePrefix("10.1.0.0/16"))
	var h half
	for _, s := range partition([]Service{{cloud.TCP, 22, 22}}) {
		c := halfCell{service: s, all: some, anonymous: some}
		if s.Protocol == cloud.TCP && s.From == 22 {
			c.all, c.anonymous = Everything(), Everything()
		}
		h.cells = append(h.cells, c)
	}
	got := h.thrifty()
	if got.reduced || len(got.cells) != len(h.cells) {
		t.Errorf("reduced=%v with %d cells, want the half as it was with %d", got.reduced, len(got.cells), len(h.cells))
	}
}
