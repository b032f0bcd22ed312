package egress

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

func poolOf(name string, age int, ranges ...v1beta1.IPRange) v1beta1.ExternalIPPool {
	return v1beta1.ExternalIPPool{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(int64(1000-age), 0)}, Spec: v1beta1.ExternalIPPoolSpec{IPRanges: ranges}}
}

func egressOf(name string, age int, spec v1beta1.EgressSpec) v1beta1.Egress {
	return v1beta1.Egress{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(int64(1000-age), 0)}, Spec: spec}
}

func both() Facts {
	return Facts{Nodes: map[netip.Addr]string{netip.MustParseAddr("192.0.2.9"): "node1"}, Four: true, Six: true}
}

// TestAllocate: what an Egress gets, and what is said if it gets nothing.
func TestAllocate(t *testing.T) {
	pools := []v1beta1.ExternalIPPool{
		poolOf("four", 9, v1beta1.IPRange{CIDR: "192.0.2.0/29"}, v1beta1.IPRange{Start: "192.0.2.9", End: "192.0.2.10"}),
		poolOf("six", 9, v1beta1.IPRange{CIDR: "2001:db8::/120"}),
		poolOf("younger", 8, v1beta1.IPRange{CIDR: "198.51.100.0/24"}, v1beta1.IPRange{Start: "192.0.2.4", End: "192.0.2.20"}),
		poolOf("itself", 7, v1beta1.IPRange{CIDR: "203.0.113.0/24"}, v1beta1.IPRange{Start: "203.0.113.255", End: "203.0.114.0"}),
		poolOf("backwards", 6, v1beta1.IPRange{Start: "10.0.0.2", End: "10.0.0.1"}),
		poolOf("one", 5, v1beta1.IPRange{Start: "10.1.0.1", End: "10.1.0.1"}),
	}
	pools[4].Spec.IPRanges[0].End = "10.0.0.1"
	tagged := poolOf("vlan", 4, v1beta1.IPRange{CIDR: "10.2.0.0/24"})
	tagged.Spec.SubnetInfo = &v1beta1.SubnetInfo{VLAN: 7}
	pools = append(pools, tagged)
	for name, c := range map[string]struct {
		spec  v1beta1.EgressSpec
		facts func(*Facts)
		want  string // the addresses, or a part of the problem
	}{
		"the first of a pool":                   {spec: v1beta1.EgressSpec{ExternalIPPool: "four"}, want: "192.0.2.1"},
		"one that it names":                     {spec: v1beta1.EgressSpec{ExternalIPPool: "four", EgressIP: "192.0.2.5"}, want: "192.0.2.5"},
		"one without a pool":                    {spec: v1beta1.EgressSpec{EgressIP: "198.18.0.1"}, want: "198.18.0.1"},
		"one of each family":                    {spec: v1beta1.EgressSpec{ExternalIPPools: []string{"four", "six"}}, want: "192.0.2.1 2001:db8::1"},
		"the second of a pair":                  {spec: v1beta1.EgressSpec{ExternalIPPools: []string{"four", "six"}, EgressIPs: []string{"192.0.2.2"}}, want: "192.0.2.2 2001:db8::1"},
		"two of a family":                       {spec: v1beta1.EgressSpec{ExternalIPPools: []string{"four", "one"}}, want: "192.0.2.1 and 10.1.0.1 are of one family"},
		"no such pool":                          {spec: v1beta1.EgressSpec{ExternalIPPool: "none"}, want: "there is no ExternalIPPool none"},
		"outside of its pool":                   {spec: v1beta1.EgressSpec{ExternalIPPool: "four", EgressIP: "192.0.2.8"}, want: "192.0.2.8 is in none of the ipRanges of ExternalIPPool four"},
		"that of a Node":                        {spec: v1beta1.EgressSpec{ExternalIPPool: "four", EgressIP: "192.0.2.9"}, want: "192.0.2.9 is that of Node node1"},
		"a pool that overlaps an older one":     {spec: v1beta1.EgressSpec{ExternalIPPool: "younger"}, want: "ExternalIPPool younger: ipRanges[1], 192.0.2.4 to 192.0.2.20, overlaps 192.0.2.0 to 192.0.2.7 of ExternalIPPool four, which is older"},
		"a pool that overlaps itself":           {spec: v1beta1.EgressSpec{ExternalIPPool: "itself"}, want: "overlaps 203.0.113.0 to 203.0.113.255 in the same pool"},
		"a range that ends before it begins":    {spec: v1beta1.EgressSpec{ExternalIPPool: "backwards"}, want: "start 10.0.0.2, end 10.0.0.1: want two addresses of one family, the lower one first"},
		"a VLAN":                                {spec: v1beta1.EgressSpec{ExternalIPPool: "vlan"}, want: "subnetInfo.vlan is 7"},
		"no address and no pool":                {want: "no address and no pool"},
		"an address that answers nobody":        {spec: v1beta1.EgressSpec{EgressIP: "127.0.0.1"}, want: "127.0.0.1 is none that others can answer to"},
		"IPv6 where Pods have IPv4":             {spec: v1beta1.EgressSpec{ExternalIPPool: "six"}, facts: func(f *Facts) { f.Six = false }, want: "no Pod of the cluster has an IPv6 address that could leave with 2001:db8::1"},
		"IPv4 where Pods have IPv6":             {spec: v1beta1.EgressSpec{EgressIP: "198.18.0.1"}, facts: func(f *Facts) { f.Four = false }, want: "no Pod of the cluster has an IPv4 address"},
		"a pool of which a Node has everything": {spec: v1beta1.EgressSpec{ExternalIPPool: "one"}, facts: func(f *Facts) { f.Nodes[netip.MustParseAddr("10.1.0.1")] = "n" }, want: "ExternalIPPool one is exhausted"},
	} {
		facts := both()
		if c.facts != nil {
			c.facts(&facts)
		}
		got, _ := Allocate([]v1beta1.Egress{egressOf("e", 1, c.spec)}, pools, facts)
		a := got["e"]
		if text := strings.Trim(fmt.Sprint(a.Addresses), "[]"); text != c.want && (a.Problem == "" || !strings.Contains(a.Problem, c.want)) || a.Problem != "" && len(a.Addresses) > 0 {
			t.Errorf("%s: %v %q, want %q", name, a.Addresses, a.Problem, c.want)
		}
	}
	// The older one gets the last address, and an Egress that has one keeps it though another one
	// is older.
	list := []v1beta1.Egress{egressOf("young", 1, v1beta1.EgressSpec{ExternalIPPool: "one"}), egressOf("old", 2, v1beta1.EgressSpec{ExternalIPPool: "one"})}
	got, usage := Allocate(list, pools, both())
	if len(got["old"].Addresses) != 1 || got["young"].Problem == "" || usage["one"] != (v1beta1.ExternalIPPoolUsage{Total: 1, Used: 1}) || usage["younger"] != (v1beta1.ExternalIPPoolUsage{}) {
		t.Errorf("%+v %+v", got, usage)
	}
	list[0].Spec.EgressIP = "10.1.0.1"
	if got, _ := Allocate(list, pools, both()); len(got["young"].Addresses) != 1 || got["old"].Problem == "" {
		t.Errorf("%+v", got)
	}
	if got, want := usage["four"].Total+usage["six"].Total, int64(6+2+255); got != want {
		t.Errorf("%d addresses, want %d", got, want)
	}
}

// TestAllocateRandom holds what is allocated against a count of single addresses.
func TestAllocateRandom(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 36))
		at := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}) }
		facts := Facts{Nodes: map[netip.Addr]string{at(random.IntN(60)): "node"}, Four: true}
		var pools []v1beta1.ExternalIPPool
		for i := range random.IntN(4) {
			var ranges []v1beta1.IPRange
			for range 1 + random.IntN(2) {
				from := random.IntN(60)
				ranges = append(ranges, v1beta1.IPRange{Start: at(from).String(), End: at(from + random.IntN(6)).String()})
			}
			pools = append(pools, poolOf(fmt.Sprint(i), random.IntN(3), ranges...))
		}
		var list []v1beta1.Egress
		for i := range random.IntN(12) {
			spec := v1beta1.EgressSpec{ExternalIPPool: fmt.Sprint(random.IntN(4))}
			if random.IntN(3) == 0 {
				spec.EgressIP = at(random.IntN(60)).String()
			}
			list = append(list, egressOf(fmt.Sprint("e", i), random.IntN(3), spec))
		}
		got, usage := Allocate(list, pools, facts)
		slices.SortFunc(pools, func(a, b v1beta1.ExternalIPPool) int {
			return cmpAge(a.CreationTimestamp.Time, b.CreationTimestamp.Time, a.Name, b.Name)
		})
		slices.SortFunc(list, func(a, b v1beta1.Egress) int {
			return cmpAge(a.CreationTimestamp.Time, b.CreationTimestamp.Time, a.Name, b.Name)
		})
		owner := map[netip.Addr]string{} // of each address the pool, if that is usable
		usable := map[string]bool{}
		for i := range pools {
			mine, fine := map[netip.Addr]bool{}, true
			for _, r := range pools[i].Spec.IPRanges {
				for a, end := netip.MustParseAddr(r.Start), netip.MustParseAddr(r.End); a.Compare(end) <= 0; a = a.Next() {
					fine = fine && !mine[a] && owner[a] == ""
					mine[a] = true
				}
			}
			if usable[pools[i].Name] = fine; fine {
				for a := range mine {
					owner[a] = pools[i].Name
				}
			}
		}
		used, want := map[netip.Addr]bool{}, map[string]netip.Addr{}
		for _, e := range list {
			if a, err := netip.ParseAddr(e.Spec.EgressIP); err == nil && usable[e.Spec.ExternalIPPool] && owner[a] == e.Spec.ExternalIPPool {
				used[a] = true
				if facts.Nodes[a] == "" {
					want[e.Name] = a
				}
			}
		}
		for _, e := range list {
			if e.Spec.EgressIP != "" || !usable[e.Spec.ExternalIPPool] {
				continue
			}
			// The order of ranges is that of the pool.
			for _, p := range pools {
				for _, r := range p.Spec.IPRanges {
					for a, end := netip.MustParseAddr(r.Start), netip.MustParseAddr(r.End); p.Name == e.Spec.ExternalIPPool && a.Compare(end) <= 0; a = a.Next() {
						if !want[e.Name].IsValid() && !used[a] && facts.Nodes[a] == "" {
							want[e.Name], used[a] = a, true
						}
					}
				}
			}
		}
		for _, e := range list {
			a := got[e.Name]
			if w := want[e.Name]; w.IsValid() != (len(a.Addresses) == 1) || w.IsValid() != (a.Problem == "") || w.IsValid() && a.Addresses[0] != w {
				t.Fatalf("seed %d: %s has %+v, want %s", seed, e.Name, a, w)
			}
		}
		for name := range usable {
			total, n := int64(0), int64(0)
			for a, of := range owner {
				if of == name {
					total++
					if used[a] {
						n++
					}
				}
			}
			if usage[name] != (v1beta1.ExternalIPPoolUsage{Total: total, Used: n}) {
				t.Fatalf("seed %d: pool %s: %+v, want %d of %d", seed, name, usage[name], n, total)
			}
		}
	}
}

func cmpAge(a, b time.Time, x, y string) int {
	if c := a.Compare(b); c != 0 {
		return c
	}
	return strings.Compare(x, y)
}
