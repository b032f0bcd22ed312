package world

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// activePeering returns the active peering connection between two VPCs, the one with the lowest id if there are several.
func (w *World) activePeering(a, b string) *PeeringConnection {
	for _, id := range slices.Sorted(maps.Keys(w.peerings)) {
		p := w.peerings[id]
		if p.Status != PeeringActive {
			continue
		}
		if p.Requester.VPCID == a && p.Accepter.VPCID == b || p.Requester.VPCID == b && p.Accepter.VPCID == a {
			return p
		}
	}
	return nil
}

// AddPeering adds a peering connection between two existing VPCs. ID, status and blocks are filled in when empty: a new
// connection is active.
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

// SetPeeringStatus changes the status of a peering connection, as its other side or its deletion would.
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
