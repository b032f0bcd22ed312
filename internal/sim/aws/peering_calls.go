package aws

import (
	"cmp"
	"net/netip"
	"time"
)

// Status codes of a peering connection other than active.
const (
	peeringPending  = "pending-acceptance"
	peeringDeleted  = "deleted"
	peeringRejected = "rejected"
	peeringFailed   = "failed"
)

// CreatePeering asks the owner of another VPC for a connection. Empty account and region of the
// other side are the caller's. A connection that cannot be is made all the same, with the status
// failed, as the cloud does.
func (r Peerings) CreatePeering(vpcID string, other PeeringVPC, tags Tags) (PeeringConnection, error) {
	var out PeeringConnection
	err := r.mutate("CreateVpcPeeringConnection", func(now time.Time) ([]string, error) {
		v, err := r.ownVPC(vpcID, now)
		if err != nil {
			return nil, err
		}
		if other.VPCID == "" {
			return nil, refuse("MissingParameter", "The request must contain the parameter peerVpcId")
		}
		if err := CheckID("vpc", other.VPCID); err != nil {
			return nil, err
		}
		if err := r.checkNewTags(tags); err != nil {
			return nil, err
		}
		other.Account, other.Region = cmp.Or(other.Account, r.at.account), cmp.Or(other.Region, r.at.region)
		for _, p := range r.w.peerings {
			same := p.Requester.VPCID == v.ID && p.Accepter.VPCID == other.VPCID || p.Requester.VPCID == other.VPCID && p.Accepter.VPCID == v.ID
			if same && (p.Status == PeeringActive || p.Status == peeringPending) {
				return nil, refuse("VpcPeeringConnectionAlreadyExists", "VpcPeeringConnection between %s and %s already exists: %s", v.ID, other.VPCID, p.ID)
			}
		}
		p := &PeeringConnection{
			ID: r.w.newID("pcx"), Status: peeringPending, Message: "Pending Acceptance by " + other.Account, Tags: cloneTags(tags),
			Requester: PeeringVPC{VPCID: v.ID, Account: r.at.account, Region: r.at.region, CIDRs: v.prefixes()}, Accepter: other,
		}
		far := r.w.vpcOf(other)
		if far == nil || far.ID == v.ID || far.overlaps(v) {
			p.Status, p.Message = peeringFailed, "Failed due to incorrect VPC-ID, Account ID, or overlapping CIDR range"
		}
		r.w.peerings[p.ID] = p
		out = clonePeering(p)
		return []string{p.ID}, nil
	})
	return out, err
}

func (v *VPC) prefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, b := range v.CIDRs {
		out = append(out, b.Prefix)
	}
	return out
}

func (v *VPC) overlaps(o *VPC) bool {
	for _, a := range v.CIDRs {
		for _, b := range o.CIDRs {
			if a.Prefix.Overlaps(b.Prefix) {
				return true
			}
		}
	}
	return false
}

// AcceptPeering makes a connection that was asked for active. Only the asked side can, in its
// region.
func (r Peerings) AcceptPeering(id string) (PeeringConnection, error) {
	return r.answerPeering("AcceptVpcPeeringConnection", id, func(p *PeeringConnection) {
		p.Status, p.Message = PeeringActive, "Active"
		if far := r.w.vpcOf(p.Accepter); far != nil {
			p.Accepter.CIDRs = far.prefixes()
		}
	})
}

// RejectPeering declines a connection that was asked for.
func (r Peerings) RejectPeering(id string) error {
	_, err := r.answerPeering("RejectVpcPeeringConnection", id, func(p *PeeringConnection) {
		p.Status, p.Message = peeringRejected, "Rejected by "+r.at.account
	})
	return err
}

func (r Peerings) answerPeering(action, id string, answer func(*PeeringConnection)) (PeeringConnection, error) {
	var out PeeringConnection
	err := r.mutate(action, func(time.Time) ([]string, error) {
		p, err := r.peering(id)
		if err != nil {
			return nil, err
		}
		if sideScope(p.Accepter) != r.at {
			return nil, refuse("OperationNotPermitted", "User %s cannot accept or reject peering %s", r.at.account, id)
		}
		if p.Status != peeringPending {
			return nil, refuse("InvalidStateTransition", "VpcPeeringConnection %s is not in the %s state; it is %s", id, peeringPending, p.Status)
		}
		answer(p)
		out = clonePeering(p)
		return []string{id}, nil
	})
	return out, err
}

// DeletePeering ends a connection; either side can. Rules that refer across it become stale.
func (r Peerings) DeletePeering(id string) error {
	return r.mutate("DeleteVpcPeeringConnection", func(time.Time) ([]string, error) {
		p, err := r.peering(id)
		if err != nil {
			return nil, err
		}
		if p.Status != PeeringActive && p.Status != peeringPending {
			return nil, refuse("InvalidStateTransition", "VpcPeeringConnection %s cannot be deleted; it is %s", id, p.Status)
		}
		p.Status, p.Message = peeringDeleted, "Deleted by "+r.at.account
		return []string{id}, nil
	})
}

// peering finds a connection with a side in this account and region.
func (r Peerings) peering(id string) (*PeeringConnection, error) {
	if err := CheckID("pcx", id); err != nil {
		return nil, err
	}
	p := r.w.peerings[id]
	if p == nil || sideScope(p.Requester) != r.at && sideScope(p.Accepter) != r.at {
		return nil, NotFound(id)
	}
	return p, nil
}
