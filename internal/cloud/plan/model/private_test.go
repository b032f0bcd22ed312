package model

import (
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

// TestDelegatedBlocksAreAddresses: a reference to a group covers the blocks that are delegated to
// an interface that holds it.
func TestDelegatedBlocksAreAddresses(t *testing.T) {
	v := NewView(&cloud.Snapshot{Interfaces: []cloud.Interface{{
		ID: "eni-1", NetworkID: "vpc-1", GroupIDs: []string{"sg-1"}, PrivateIPs: []netip.Addr{netip.MustParseAddr("10.0.0.9")},
		Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.128/28"), netip.MustParsePrefix("2001:db8::/80")},
	}}})
	set, known := v.Addresses(cloud.Peer{GroupID: "sg-1"}, "vpc-1")
	for text, want := range map[string]bool{"10.0.0.9": true, "10.0.0.128": true, "10.0.0.143": true, "10.0.0.144": false, "2001:db8::77": true} {
		if a := netip.MustParseAddr(text); !known || set.Contains(a) != want {
			t.Errorf("%s is covered: %v", a, set.Contains(a))
		}
		if n := v.snap.Interfaces[0]; n.HasPrivate(netip.MustParseAddr(text)) != want {
			t.Errorf("%s is an address of the interface: %v", text, !want)
		}
	}
}
