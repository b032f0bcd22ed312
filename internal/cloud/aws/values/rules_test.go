package values

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/seed"
)

// TestPermissionsRoundTrip makes random rules into permissions and back.
func TestPermissionsRoundTrip(t *testing.T) {
	t.Parallel()
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		var rules []cloud.Rule
		for range random.IntN(20) {
			rules = append(rules, randomRule(random))
		}
		var back []cloud.Rule
		for _, d := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
			perms, err := Permissions(d, rules)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range perms {
				rs, err := Rules(d, p, "owner")
				if err != nil {
					t.Fatal(err)
				}
				back = append(back, rs...)
			}
		}
		want := slices.Clone(rules)
		slices.SortFunc(want, cloud.Rule.Compare)
		want = slices.CompactFunc(want, cloud.Rule.Same)
		slices.SortFunc(back, cloud.Rule.Compare)
		if !slices.EqualFunc(back, want, cloud.Rule.Same) {
			t.Fatalf("came back as\n%v\nwant\n%v", back, want)
		}
	}
}

func randomRule(random *rand.Rand) cloud.Rule {
	r := cloud.Rule{Direction: []cloud.Direction{cloud.Ingress, cloud.Egress}[random.IntN(2)]}
	protocol := []int{-1, 1, 6, 17, 58, 132, 0, 255, 47}[random.IntN(9)]
	from := random.IntN(3)
	r.Match = cloud.NewMatch(protocol, from, from+random.IntN(2))
	switch random.IntN(5) {
	case 0:
		r.Peer.CIDR = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(random.IntN(3))}), 16)
	case 1:
		r.Peer.CIDR = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, byte(random.IntN(3))}), 24)
	case 2:
		r.Peer.GroupID = fmt.Sprintf("sg-%d", random.IntN(3))
	case 3:
		r.Peer.GroupID, r.Peer.GroupOwner = fmt.Sprintf("sg-%d", 10+random.IntN(3)), "other"
	default:
		r.Peer.PrefixListID = fmt.Sprintf("pl-%d", random.IntN(3))
	}
	return r
}

func TestDescriptionsAreWhatTheCloudTakes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                       "",
		"policy ns/web, rule 3":  "policy ns/web, rule 3",
		"a & b <c> \"d\" \n e é": "a _ b _c_ _d_ _ e _",
		strings.Repeat("x", 255): strings.Repeat("x", 255),
		strings.Repeat("x", 256): strings.Repeat("x", 252) + "...",
		strings.Repeat("é", 200): strings.Repeat("_", 200),
	} {
		if got := AllowedText(in); got != want {
			t.Errorf("%q became %q; want %q", in, got, want)
		}
	}
}
