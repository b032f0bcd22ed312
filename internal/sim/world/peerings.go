package world

import (
	"maps"
	"slices"
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
	w.state.Lock()
	defer w.state.Unlock()
	for _, side := range []*PeeringVPC{&p.Requester, &p.Accepter} {
		v := w.vpcOf(*side)
		if v == nil {
			return p, invalidValue("there is no VPC %s of account %s in %s", side.VPCID, side.Account, side.Region)
		}
		if side.CIDRs == nil {
			for _, c := range v.CIDRs {
				side.CIDRs = append(side.CIDRs, c.Prefix)
			}
		}
	}
	if p.ID == "" {
		p.ID = w.newID("pcx")
	}
	if p.Status == "" {
		p.Status = PeeringActive
	}
	c := clonePeering(&p)
	w.peerings[p.ID] = &c
	w.index.Store(nil)
	return p, nil
}

func (w *World) vpcOf(side PeeringVPC) *VPC {
	if d, ok := w.regions[sideScope(side)]; ok {
		return d.vpcs[side.VPCID]
	}
	return nil
}

// SetPeeringStatus changes the status of a peering connection, as its other side or its deletion would.
func (w *World) SetPeeringStatus(id, status string) error {
	w.state.Lock()
	defer w.state.Unlock()
	p, ok := w.peerings[id]
	if !ok {
		return NotFound(id)
	}
	p.Status = status
	w.index.Store(nil)
	return nil
}
