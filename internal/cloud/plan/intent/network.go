package intent

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// Network is a VPC that is seen in the region.
type Network struct {
	*cloud.Network
	// scope are the networks whose interfaces can be referenced by group: itself and those with an
	// active peering in the region.
	Scope []*Network
	// local are the addresses of the networks of the scope.
	local addrset.Set
	// around are the addresses of all networks whose interfaces a group reference can match:
	// networks of the scope, and networks of other accounts with an active peering in the region.
	around addrset.Set
	// foreign says why we must not work here; nil if we may.
	Foreign *reason.Reason
	// groupNames are the names in use, folded.
	GroupNames map[string]bool
}

// Reaches reports whether interfaces of another network can be referenced by group here.
func (n *Network) Reaches(o *Network) bool { return slices.Contains(n.Scope, o) }

func (s *Region) indexNetworks() {
	for i := range s.Snap.Networks {
		n := &Network{Network: &s.Snap.Networks[i], GroupNames: map[string]bool{}}
		if by := n.Tags[cloud.TagClaim]; by != "" && by != s.Account.In.ClusterID {
			n.Foreign = reason.Why(reason.NetworkClaimed, n.ID, cloud.Words(by))
		}
		n.Scope = []*Network{n}
		s.Networks[n.ID] = n
	}
	for _, p := range s.Snap.Peerings {
		a, b := s.Networks[p.A.NetworkID], s.Networks[p.B.NetworkID]
		if p.ByAddress || p.A.Region != p.B.Region && p.A.Region != "" && p.B.Region != "" {
			continue
		}
		switch {
		case a == nil && b == nil || a == b:
		case b == nil:
			a.sees(p.B)
		case a == nil:
			b.sees(p.A)
		case !a.Reaches(b):
			a.Scope, b.Scope = append(a.Scope, b), append(b.Scope, a)
		}
	}
	for _, n := range s.Networks {
		slices.SortFunc(n.Scope, func(a, b *Network) int { return strings.Compare(a.ID, b.ID) })
		for _, o := range n.Scope {
			n.local = n.local.Union(addrset.OfPrefixes(o.CIDRs...))
		}
		n.around = n.around.Union(n.local)
	}
}

// sees makes a network know the addresses of one that it is peered with; there may be any if the
// cloud does not tell.
func (n *Network) sees(far cloud.PeeringEnd) {
	if len(far.CIDRs) == 0 {
		n.around = addrset.All()
	}
	n.around = n.around.Union(addrset.OfPrefixes(far.CIDRs...))
}

// contains reports whether an address lies in the network itself.
func (n *Network) contains(a netip.Addr) bool {
	return slices.ContainsFunc(n.CIDRs, func(p netip.Prefix) bool { return p.Contains(a) })
}
