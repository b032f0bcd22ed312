package store

import (
	"cmp"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// AddPeering adds a peering connection between two existing VPCs. ID, status and blocks are filled
// in when empty: a new connection is active.
func (w *Store) AddPeering(p aws.PeeringConnection) (aws.PeeringConnection, error) {
	err := w.mutate(sideScope(p.Requester), "AddPeering", func(time.Time) ([]string, error) {
		for _, side := range []*aws.PeeringVPC{&p.Requester, &p.Accepter} {
			v := w.vpcOf(*side)
			if v == nil {
				return nil, aws.InvalidValue("there is no VPC %s of account %s in %s", side.VPCID, side.Account, side.Region)
			}
			if side.CIDRs == nil {
				for _, c := range v.CIDRs {
					side.CIDRs = append(side.CIDRs, c.Prefix)
				}
			}
		}
		p.ID, p.Status = cmp.Or(p.ID, w.newID("pcx")), cmp.Or(p.Status, aws.PeeringActive)
		c := p.Clone()
		w.peerings[p.ID] = &c
		return []string{p.ID}, nil
	})
	return p, err
}

func (w *Store) vpcOf(side aws.PeeringVPC) *aws.VPC {
	if d, ok := w.regions[sideScope(side)]; ok {
		return d.VPCs[side.VPCID]
	}
	return nil
}

// SetPeeringStatus changes the status of a peering connection, as its other side or its deletion
// would.
func (w *Store) SetPeeringStatus(id, status string) error {
	return w.mutate(scope{}, "SetPeeringStatus", func(time.Time) ([]string, error) {
		p, ok := w.peerings[id]
		if !ok {
			return nil, aws.NotFound(id)
		}
		p.Status = status
		return []string{id}, nil
	})
}

// VPCOf is the VPC of one side of a connection; nil if there is none.
func (r *Site) VPCOf(side aws.PeeringVPC) *aws.VPC { return r.store.vpcOf(side) }
