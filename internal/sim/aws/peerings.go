package aws

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// activePeering returns the active peering connection between two VPCs, the one with the lowest id
// if there are several.
func (way packets) activePeering(a, b string) *PeeringConnection {
	for _, id := range slices.Sorted(maps.Keys(way.w.peerings)) {
		p := way.w.peerings[id]
		if p.Status != PeeringActive {
			continue
		}
		if p.Requester.VPCID == a && p.Accepter.VPCID == b || p.Requester.VPCID == b && p.Accepter.VPCID == a {
			return p
		}
	}
	return nil
}

// AddPeering adds a peering connection between two existing VPCs. ID, status and blocks are filled
// in when empty: a new connection is active.
func (w *World) AddPeering(p PeeringConnection) (PeeringConnection, error) {
	err := w.mutate(sideScope(p.Requester), "AddPeering", func(time.Time) ([]string, error) {
		for _, side := range []*PeeringVPC{&p.Requester, &p.Accepter} {
			v := w.vpcOf(*side)
			if v == nil {
				return nil, invalidValue("there is no VPC %s of account %s in %s", side.VPCID, side.Account, side.Region)
			}
			if side.CIDRs == nil {
				for _, c := range v.CIDRs {
					side.CIDRs = append(side.CIDRs, c.Prefix)
				}
			}
		}
		p.ID, p.Status = cmp.Or(p.ID, w.newID("pcx")), cmp.Or(p.Status, PeeringActive)
		c := clonePeering(&p)
		w.peerings[p.ID] = &c
		return []string{p.ID}, nil
	})
	return p, err
}

func (w *World) vpcOf(side PeeringVPC) *VPC {
	if d, ok := w.regions[sideScope(side)]; ok {
		return d.vpcs[side.VPCID]
	}
	return nil
}

// SetPeeringStatus changes the status of a peering connection, as its other side or its deletion
// would.
func (w *World) SetPeeringStatus(id, status string) error {
	return w.mutate(scope{}, "SetPeeringStatus", func(time.Time) ([]string, error) {
		p, ok := w.peerings[id]
		if !ok {
			return nil, NotFound(id)
		}
		p.Status = status
		return []string{id}, nil
	})
}

// GroupReference says that rules in a VPC at the other side of an active peering refer to a group.
type GroupReference struct {
	GroupID, VPCID, PeeringID string
}

// SecurityGroupReferences is DescribeSecurityGroupReferences.
func (r Groups) SecurityGroupReferences(ids ...string) ([]GroupReference, error) {
	groups, err := (&Region{r.site}).SecurityGroups(ids...)
	if err != nil {
		return nil, err
	}
	var out []GroupReference
	r.w.read(func(time.Time) {
		for _, g := range groups {
			for _, id := range slices.Sorted(maps.Keys(r.w.peerings)) {
				p := r.w.peerings[id]
				if p.Status != PeeringActive || p.Requester.Region != p.Accepter.Region {
					continue
				}
				far := p.Accepter.VPCID
				switch g.VPCID {
				case p.Requester.VPCID:
				case far:
					far = p.Requester.VPCID
				default:
					continue
				}
				if r.w.packets().refersFrom(far, g.ID) {
					out = append(out, GroupReference{g.ID, far, p.ID})
				}
			}
		}
	})
	return out, nil
}

// refersFrom reports whether any group in the VPC, of any account, has a rule that references a
// group.
func (way packets) refersFrom(vpc, group string) bool {
	for _, d := range way.w.regions {
		for _, g := range d.groups {
			if g.VPCID == vpc && slices.ContainsFunc(g.Rules, func(x SecurityGroupRule) bool { return x.Group != nil && x.Group.GroupID == group }) {
				return true
			}
		}
	}
	return false
}
