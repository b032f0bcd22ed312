package egress

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// Facts are what addresses are compared with besides pools.
type Facts struct {
	// Nodes are the addresses of Nodes, by address.
	Nodes map[netip.Addr]string
	// Four and Six tell that Pods of some Node have addresses of that family.
	Four, Six bool
}

// Allocation is what an Egress gets.
type Allocation struct {
	// Addresses are all of them, in the order of its spec; empty if there is a Problem.
	Addresses []netip.Addr
	// Problem says in one sentence why it gets none.
	Problem string
}

// span is a range of addresses that a pool has, both ends included. The addresses that may be
// allocated begin at first and end at last.
type span struct{ from, to, first, last netip.Addr }

func (s span) has(a netip.Addr) bool {
	return a.BitLen() == s.from.BitLen() && s.from.Compare(a) <= 0 && a.Compare(s.to) <= 0
}

func (s span) overlaps(o span) bool { return s.has(o.from) || o.has(s.from) }

// count is how many addresses are given out.
func (s span) count() *big.Int {
	if s.last.Less(s.first) {
		return big.NewInt(0)
	}
	a, b := big.NewInt(0).SetBytes(s.first.AsSlice()), big.NewInt(0).SetBytes(s.last.AsSlice())
	return b.Sub(b, a).Add(b, big.NewInt(1))
}

func (s span) String() string { return s.from.String() + " to " + s.to.String() }

// spanOf reads a range.
func spanOf(r *v1beta1.IPRange) (span, error) {
	if r.CIDR != "" {
		p, err := netip.ParsePrefix(r.CIDR)
		if err != nil {
			return span{}, fmt.Errorf("cidr %q: want ADDRESS/BITS", r.CIDR)
		}
		p = p.Masked()
		s := span{from: p.Addr(), to: lastOf(p)}
		s.first, s.last = s.from, s.to
		if p.Addr().BitLen()-p.Bits() > 1 { // the address of the subnet, and the one for all
			s.first = s.from.Next()
			if p.Addr().Is4() {
				s.last = s.to.Prev()
			}
		}
		return s, nil
	}
	from, err1 := netip.ParseAddr(r.Start)
	to, err2 := netip.ParseAddr(r.End)
	from, to = from.Unmap(), to.Unmap()
	if err1 != nil || err2 != nil || from.Zone()+to.Zone() != "" {
		return span{}, fmt.Errorf("start %q, end %q: want two addresses", r.Start, r.End)
	}
	if from.BitLen() != to.BitLen() || to.Less(from) {
		return span{}, fmt.Errorf("start %s, end %s: want two addresses of one family, the lower one first", from, to)
	}
	return span{from, to, from, to}, nil
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// pool is one that was read.
type pool struct {
	name    string
	spans   []span
	problem string
}

func (p *pool) has(a netip.Addr) bool {
	return slices.ContainsFunc(p.spans, func(s span) bool { return s.has(a) })
}

// readPools reads pools, the oldest first. One that overlaps an older one is used for nothing.
func readPools(objects []v1beta1.ExternalIPPool) map[string]*pool {
	sorted := slices.Clone(objects)
	slices.SortFunc(sorted, func(a, b v1beta1.ExternalIPPool) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	out := map[string]*pool{}
	var used []*pool
	for i := range sorted {
		o := &sorted[i]
		p := &pool{name: o.Name}
		out[o.Name] = p
		if o.Spec.SubnetInfo != nil && o.Spec.SubnetInfo.VLAN > 0 {
			p.problem = fmt.Sprintf("ExternalIPPool %s: subnetInfo.vlan is %d, and Nodes send without VLAN here", p.name, o.Spec.SubnetInfo.VLAN)
		}
		for k := range o.Spec.IPRanges {
			s, err := spanOf(&o.Spec.IPRanges[k])
			if err != nil {
				p.problem = cmp.Or(p.problem, fmt.Sprintf("ExternalIPPool %s: ipRanges[%d]: %v", p.name, k, err))
				continue
			}
			for _, other := range append(slices.Clone(used), p) {
				for _, t := range other.spans {
					if !s.overlaps(t) || p.problem != "" {
						continue
					}
					if other == p {
						p.problem = fmt.Sprintf("ExternalIPPool %s: ipRanges[%d], %s, overlaps %s in the same pool", p.name, k, s, t)
					} else {
						p.problem = fmt.Sprintf("ExternalIPPool %s: ipRanges[%d], %s, overlaps %s of ExternalIPPool %s, which is older", p.name, k, s, t, other.name)
					}
				}
			}
			p.spans = append(p.spans, s)
		}
		if p.problem == "" {
			used = append(used, p)
		}
	}
	return out
}

// Allocate says which addresses Egresses have, by their names, and how many of each pool are
// in use.
func Allocate(egresses []v1beta1.Egress, pools []v1beta1.ExternalIPPool, facts Facts) (map[string]Allocation, map[string]v1beta1.ExternalIPPoolUsage) {
	sorted := slices.Clone(egresses)
	slices.SortFunc(sorted, func(a, b v1beta1.Egress) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	of, used := readPools(pools), map[netip.Addr]bool{}
	out := map[string]Allocation{}
	for i := range sorted { // what has an address keeps it
		for _, x := range sorted[i].Spec.Addresses() {
			if x.Address.IsValid() && (x.Pool == "" || of[x.Pool] != nil && of[x.Pool].problem == "" && of[x.Pool].has(x.Address)) {
				used[x.Address] = true
			}
		}
	}
	for i := range sorted {
		a := allocate(&sorted[i].Spec, of, used, facts)
		for _, x := range a.Addresses {
			used[x] = true
		}
		out[sorted[i].Name] = a
	}
	usage := map[string]v1beta1.ExternalIPPoolUsage{}
	for name, p := range of {
		total, u := big.NewInt(0), v1beta1.ExternalIPPoolUsage{}
		for _, s := range p.spans {
			if p.problem == "" {
				total.Add(total, s.count())
			}
		}
		if u.Total = int64(math.MaxInt64); total.IsInt64() {
			u.Total = total.Int64()
		}
		for a := range used {
			if p.problem == "" && p.has(a) {
				u.Used++
			}
		}
		usage[name] = u
	}
	return out, usage
}

// allocate says which addresses one Egress has. What is in use is not given again.
func allocate(spec *v1beta1.EgressSpec, pools map[string]*pool, used map[netip.Addr]bool, facts Facts) (out Allocation) {
	refuse := func(format string, args ...any) Allocation { return Allocation{Problem: fmt.Sprintf(format, args...)} }
	families := map[bool]netip.Addr{}
	all := spec.Addresses()
	if len(all) == 0 {
		all = []v1beta1.EgressAddress{{}}
	}
	for _, x := range all {
		a, p := x.Address, pools[x.Pool]
		switch {
		case !a.IsValid() && x.Pool == "":
			return refuse("the Egress has no address and no pool to take one from: give egressIP or externalIPPool")
		case x.Pool != "" && p == nil:
			return refuse("there is no ExternalIPPool %s", x.Pool)
		case x.Pool != "" && p.problem != "":
			return refuse("%s", p.problem)
		case a.IsValid() && p != nil && !p.has(a):
			return refuse("the address %s is in none of the ipRanges of ExternalIPPool %s", a, x.Pool)
		case a.IsValid() && p != nil && facts.Nodes[a] != "":
			return refuse("the address %s is that of Node %s", a, facts.Nodes[a])
		case a.IsValid() && (a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast()):
			return refuse("the address %s is none that others can answer to", a)
		}
		if !a.IsValid() {
			if a = p.free(used, facts); !a.IsValid() {
				return refuse("ExternalIPPool %s is exhausted: Egresses or Nodes have all of its addresses", x.Pool)
			}
		}
		if other, there := families[a.Is6()]; there {
			return refuse("the addresses %s and %s are of one family: an Egress has one of each at most", other, a)
		}
		if a.Is6() && !facts.Six || a.Is4() && !facts.Four {
			return refuse("no Pod of the cluster has an %s address that could leave with %s: no Node has a podCIDR of that family", map[bool]string{false: "IPv4", true: "IPv6"}[a.Is6()], a)
		}
		families[a.Is6()] = a
		out.Addresses = append(out.Addresses, a)
	}
	return out
}

// free is the first address that is not in use; not valid if there is none.
func (p *pool) free(used map[netip.Addr]bool, facts Facts) netip.Addr {
	for _, s := range p.spans {
		for a := s.first; a.IsValid() && a.Compare(s.last) <= 0; a = a.Next() {
			if !used[a] && facts.Nodes[a] == "" {
				return a
			}
		}
	}
	return netip.Addr{}
}
