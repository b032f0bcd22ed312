package lower_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/lower"
)

// TestEncodeLosesNothing: what is read back is what was written, whatever was put together.
func TestEncodeLosesNothing(t *testing.T) {
	t.Parallel()
	group := strings.ToLower("/subscriptions/s/resourcegroups/shop/providers/microsoft.network/networksecuritygroups/nephele-a-1234567")
	swap := func(from, to string) lower.GroupID {
		return func(id string) string { return strings.Replace(id, from, to, 1) }
	}
	left := []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("198.51.100.0/25"),
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(2, seed))
		var rules []cloud.Rule
		for range r.IntN(60) {
			rule := cloud.Rule{Direction: cloud.Ingress, Description: []string{"", "managed by Nephele"}[r.IntN(2)]}
			if r.IntN(2) == 0 {
				rule.Direction = cloud.Egress
			}
			from := r.IntN(100)
			rule.Match = []cloud.Match{cloud.NewMatch(6, from, from+r.IntN(20)), cloud.NewMatch(17, 53, 53), cloud.NewMatch(-1, 0, 0), cloud.NewMatch(50, 0, 0), cloud.NewMatch(1, -1, -1)}[r.IntN(5)]
			switch r.IntN(8) {
			case 0:
				rule.Peer = cloud.Peer{GroupID: group + string(rune('0'+r.IntN(3)))}
			case 1:
				rule.Peer = cloud.Peer{PrefixListID: []string{"Storage", "Sql"}[r.IntN(2)]}
				// What is left out of one is a part of what is left out of the other.
				n := r.IntN(len(left))
				if rule.Peer.Except = cloud.BlocksOf(left[:n]); rule.Match.Protocol == 1 {
					rule.Peer.Except = cloud.BlocksOf(slices.DeleteFunc(slices.Clone(left[:n]), func(p netip.Prefix) bool { return p.Addr().Is6() }))
				}
			case 2:
				if rule.Match.Protocol == 1 {
					rule.Match = cloud.NewMatch(58, -1, -1)
				}
				rule.Peer = cloud.Peer{CIDR: netip.PrefixFrom(netip.MustParseAddr("2001:db8::"), 32+r.IntN(90)).Masked()}
			default:
				rule.Peer = cloud.Peer{CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, 1, byte(r.IntN(8))}), 24+r.IntN(9)).Masked()}
			}
			rules = append(rules, rule)
		}
		slices.SortStableFunc(rules, cloud.Rule.Compare)
		rules = slices.CompactFunc(rules, cloud.Rule.Same)
		all, err := lower.Encode(rules, swap("networksecuritygroups", "applicationsecuritygroups"))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			if n := len(d.Properties.SourceGroups) + len(d.Properties.DestinationsGroups); n > 1 {
				t.Fatalf("seed %d: the rule %s names %d groups, and is ignored as a whole while one of them is empty", seed, d.Name, n)
			}
		}
		back, exact := lower.Decode(all, swap("applicationsecuritygroups", "networksecuritygroups"))
		if !exact || !slices.EqualFunc(back, rules, func(x, y cloud.Rule) bool { return x.Same(y) && x.Description == y.Description }) {
			t.Fatalf("seed %d: exact %v\n%v\nwant\n%v", seed, exact, back, rules)
		}
	}
}

// TestExceptsNeedAnOrder: what is left out of two tags for the same packets is refused where
// neither is a part of the other; a Deny of either would cut the other.
func TestExceptsNeedAnOrder(t *testing.T) {
	t.Parallel()
	rule := func(tag string, port int, except ...string) cloud.Rule {
		var blocks []netip.Prefix
		for _, text := range except {
			blocks = append(blocks, netip.MustParsePrefix(text))
		}
		return cloud.Rule{Direction: cloud.Egress, Match: cloud.NewMatch(6, port, port), Peer: cloud.Peer{PrefixListID: tag, Except: cloud.BlocksOf(blocks)}}
	}
	for name, x := range map[string]struct {
		rules []cloud.Rule
		fits  bool
	}{
		"neither is a part":     {[]cloud.Rule{rule("Sql", 80, "10.1.0.0/16"), rule("Storage", 80, "10.2.0.0/16")}, false},
		"one is a part":         {[]cloud.Rule{rule("Sql", 80, "10.1.0.0/16", "10.2.0.0/16"), rule("Storage", 80, "10.2.0.0/16")}, true},
		"other packets":         {[]cloud.Rule{rule("Sql", 80, "10.1.0.0/16"), rule("Storage", 81, "10.2.0.0/16")}, true},
		"nothing is left out":   {[]cloud.Rule{rule("Sql", 80, "10.1.0.0/16"), rule("Storage", 80)}, true},
		"the same is left out":  {[]cloud.Rule{rule("Sql", 80, "10.1.0.0/16"), rule("Storage", 80, "10.1.0.0/16")}, true},
		"one of two is smaller": {[]cloud.Rule{rule("Sql", 80, "10.1.0.0/17"), rule("Storage", 80, "10.1.0.0/16")}, true},
	} {
		all, err := lower.Encode(x.rules, func(id string) string { return id })
		if (err == nil) != x.fits {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if back, exact := lower.Decode(all, func(id string) string { return id }); err == nil && (!exact || len(back) != 2) {
			t.Errorf("%s: read back as %v, exact %t", name, back, exact)
		}
	}
}

// TestForeignDenials: a Deny that somebody else has put into a group of ours is found wherever it
// is.
func TestForeignDenials(t *testing.T) {
	t.Parallel()
	ours := []cloud.Rule{
		{Direction: cloud.Ingress, Match: cloud.NewMatch(6, 80, 80), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("10.0.0.0/8")}},
		{Direction: cloud.Ingress, Match: cloud.NewMatch(6, 443, 443), Peer: cloud.Peer{PrefixListID: "Storage", Except: "10.1.0.0/16"}},
		{Direction: cloud.Ingress, Match: cloud.NewMatch(6, 22, 22), Peer: cloud.Peer{PrefixListID: "Sql", Except: "10.1.0.0/16,10.2.0.0/16"}},
	}
	all, err := lower.Encode(ours, func(id string) string { return id })
	if err != nil {
		t.Fatal(err)
	}
	for at := range all[:len(all)-1] {
		for _, p := range []lower.Properties{
			{Protocol: "Tcp", DestinationPort: "443", Source: "10.3.0.0/16"}, {Protocol: "Tcp", DestinationPort: "22", Source: "10.1.0.0/16"},
			{Protocol: "*", DestinationPort: "*", Source: "10.0.0.0/9"}, {Protocol: "Tcp", DestinationPort: "*", Source: "Storage"},
		} {
			p.Access, p.Direction, p.SourcePort, p.Destination = "Deny", "Inbound", "*", "*"
			doc := lower.Document{Name: "stranger", Properties: p}
			list := slices.Insert(slices.Clone(all), at, doc)
			for i := range list { // the last ones have their places
				switch list[i].Name {
				case "nephele-in-probes":
					list[i].Properties.Priority = 4095
				case "nephele-in-deny", "nephele-out-deny":
					list[i].Properties.Priority = 4096
				default:
					list[i].Properties.Priority = 100 + i
				}
			}
			back, exact := lower.Decode(list, func(id string) string { return id })
			same := slices.EqualFunc(back, ours, func(x, y cloud.Rule) bool { return x.Same(y) })
			// In the middle of a pair it may be a part of what is denied there anyway.
			if exact && same && (p.Source != "10.1.0.0/16" || p.DestinationPort != "22") {
				t.Errorf("%s %s from %s before rule %d: not found", p.Access, p.DestinationPort, p.Source, at)
			}
		}
	}
}
