package report

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// TestBorderIsWhatItsEntriesSay asks random filters packet by packet: lets must let through exactly
// what some way to read the unsure entries lets through, and denying must name the entries that
// deny the rest.
func TestBorderIsWhatItsEntriesSay(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("10.1.1.4"), netip.MustParseAddr("10.1.1.5")}
	far := []netip.Addr{netip.MustParseAddr("10.2.0.1"), netip.MustParseAddr("10.3.0.1"), netip.MustParseAddr("192.0.2.1")}
	blocks := [][]netip.Prefix{nil, {}, {netip.MustParsePrefix("10.2.0.0/16")}, {netip.MustParsePrefix("10.0.0.0/8")}, {netip.MustParsePrefix("192.0.2.1/32")}}
	owns := [][]netip.Prefix{nil, nil, nil, {netip.MustParsePrefix("10.1.1.0/24")}, {netip.MustParsePrefix("10.9.0.0/16")}, {netip.MustParsePrefix("10.1.1.5/32")}}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(3, seed))
		acl := &cloud.NetworkACL{ID: "a", Stateful: true}
		for i := range 1 + r.IntN(6) {
			e := cloud.ACLEntry{Number: r.IntN(4), Name: string(rune('a' + i)), Egress: r.IntN(5) == 0, Allow: r.IntN(2) == 0, Protocol: cloud.AnyProtocol, From: -1, To: -1,
				Peers: blocks[r.IntN(len(blocks))], Own: owns[r.IntN(len(owns))], Unsure: r.IntN(5) == 0}
			if r.IntN(2) == 0 {
				from := []int{0, 22, 80}[r.IntN(3)]
				e.Protocol, e.From, e.To = cloud.TCP, from, from+r.IntN(100)
			}
			acl.Entries = append(acl.Entries, e)
		}
		b := newBorders(&cloud.Snapshot{ACLs: []cloud.NetworkACL{*acl}})
		passes := b.lets(acl, cloud.Ingress, own)
		for _, a := range far {
			for _, s := range []flow.Service{{Protocol: cloud.TCP, From: 22, To: 22}, {Protocol: cloud.TCP, From: 9000, To: 9000}, flow.Whole(50)} {
				may, denier := mayPass(acl, own, a, s)
				if got := passes.MayTouch(s, addrset.Of(a)); got != may {
					t.Fatalf("seed %d: %v from %s: lets through %v, want %v\n%+v", seed, s, a, got, may, acl.Entries)
				}
				denied := []flow.Grant{{Service: s, All: addrset.Of(a)}}
				if names := denying(acl, cloud.Ingress, own, denied); !may && denier != "" && !slices.Equal(names, []string{denier}) {
					t.Fatalf("seed %d: %v from %s: denied by %v, want %s\n%+v", seed, s, a, names, denier, acl.Entries)
				}
				if denied[0].All.Empty() {
					t.Fatal("the flows were changed")
				}
			}
		}
	}
}

// mayPass walks the entries for one packet. What is not sure may be so or otherwise.
func mayPass(acl *cloud.NetworkACL, own []netip.Addr, far netip.Addr, s flow.Service) (may bool, denier string) {
	entries := slices.Clone(acl.Entries)
	slices.SortStableFunc(entries, func(a, b cloud.ACLEntry) int { return a.Number - b.Number })
	within := func(a netip.Addr, all []netip.Prefix) bool {
		return all == nil || slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	for _, e := range entries {
		mine := 0
		for _, a := range own {
			if within(a, e.Own) {
				mine++
			}
		}
		if e.Egress || mine == 0 || !within(far, e.Peers) || e.Protocol != cloud.AnyProtocol && (e.Protocol != s.Protocol || int(s.From) < e.From || e.To < int(s.From)) {
			continue
		}
		switch {
		case e.Allow:
			return true, ""
		case !e.Unsure && mine == len(own):
			return false, e.Name
		}
	}
	return false, ""
}
