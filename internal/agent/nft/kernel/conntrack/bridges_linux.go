package conntrack

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	diag "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// bridges say which addresses the host reaches over one of its bridges, where its containers and
// machines are, by its main table of routes. Nil are none.
type bridges struct {
	// over says of the networks that have routes whether these lead over a bridge.
	over map[netip.Prefix]bool
	// bits are the lengths of the prefixes, the longest first.
	bits []int
}

func readBridges(h *diag.Handle) (*bridges, error) {
	links, err := h.LinkList()
	var routes []diag.Route
	if err == nil {
		routes, err = h.RouteList(nil, unix.AF_UNSPEC)
	}
	if err != nil {
		return nil, fmt.Errorf("read the bridges of the host: %w", err)
	}
	is := map[int]bool{}
	for _, l := range links {
		is[l.Attrs().Index] = l.Type() == "bridge"
	}
	out := &bridges{over: map[netip.Prefix]bool{}}
	slices.SortStableFunc(routes, func(a, b diag.Route) int { return cmp.Compare(a.Priority, b.Priority) }) // the least counts
	for i := range routes {
		r := &routes[i]
		link := r.LinkIndex
		if len(r.MultiPath) > 0 {
			link = r.MultiPath[0].LinkIndex
		}
		to := netip.PrefixFrom(netip.IPv6Unspecified(), 0) // of a default route
		if r.Family == unix.AF_INET {
			to = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		}
		if r.Dst != nil {
			a, ok := netip.AddrFromSlice(r.Dst.IP)
			bits, _ := r.Dst.Mask.Size()
			if to = netip.PrefixFrom(a.Unmap(), bits); !ok || !to.IsValid() {
				continue
			}
		}
		if _, known := out.over[to.Masked()]; !known {
			out.over[to.Masked()] = is[link]
			out.bits = append(out.bits, to.Bits())
		}
	}
	slices.Sort(out.bits)
	out.bits = slices.Compact(out.bits)
	slices.Reverse(out.bits)
	return out, nil
}

// lead reports whether the way to an address is over a bridge.
func (b *bridges) lead(a netip.Addr) bool {
	if b == nil {
		return false
	}
	for _, bits := range b.bits {
		if p, err := a.Prefix(bits); err == nil {
			if over, known := b.over[p]; known {
				return over
			}
		}
	}
	return false
}
