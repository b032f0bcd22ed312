package network

import (
	"cmp"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/store"
)

// PeeringConnections is DescribeVpcPeeringConnections: those with a side in this account and
// region.
func (r Peerings) PeeringConnections(ids ...string) (out []aws.PeeringConnection, err error) {
	r.s.Read(func(time.Time) {
		out, err = store.ByID("pcx", r.s.Peerings(), ids, func(p *aws.PeeringConnection) bool {
			return r.s.IsSide(p.Requester) || r.s.IsSide(p.Accepter)
		}, (*aws.PeeringConnection).Clone)
	})
	return out, err
}

// Peerings are the calls about connections between networks.
type Peerings struct{ s *store.Site }

// PeeringsAt returns the calls on a site.
func PeeringsAt(s *store.Site) Peerings { return Peerings{s} }

// CreatePeering asks the owner of another VPC for a connection. Empty account and region of the
// other side are the caller's. A connection that cannot be is made all the same, with the status
// failed, as the cloud does.
func (r Peerings) CreatePeering(vpcID string, other aws.PeeringVPC, tags aws.Tags) (aws.PeeringConnection, error) {
	var out aws.PeeringConnection
	err := r.s.Mutate("CreateVpcPeeringConnection", func(now time.Time) ([]string, error) {
		v, err := r.s.OwnVPC(vpcID, now)
		if err != nil {
			return nil, err
		}
		if other.VPCID == "" {
			return nil, aws.Refuse("MissingParameter", "The request must contain the parameter peerVpcId")
		}
		if err := aws.CheckID("vpc", other.VPCID); err != nil {
			return nil, err
		}
		if err := r.s.CheckNewTags(tags); err != nil {
			return nil, err
		}
		other.Account, other.Region = cmp.Or(other.Account, r.s.Account), cmp.Or(other.Region, r.s.Region)
		for _, p := range r.s.Peerings() {
			same := p.Requester.VPCID == v.ID && p.Accepter.VPCID == other.VPCID || p.Requester.VPCID == other.VPCID && p.Accepter.VPCID == v.ID
			if same && (p.Status == aws.PeeringActive || p.Status == aws.PeeringPending) {
				return nil, aws.Refuse("VpcPeeringConnectionAlreadyExists", "VpcPeeringConnection between %s and %s already exists: %s", v.ID, other.VPCID, p.ID)
			}
		}
		p := &aws.PeeringConnection{
			ID: r.s.NewID("pcx"), Status: aws.PeeringPending, Message: "Pending Acceptance by " + other.Account, Tags: tags.Clone(),
			Requester: aws.PeeringVPC{VPCID: v.ID, Account: r.s.Account, Region: r.s.Region, CIDRs: v.Blocks()}, Accepter: other,
		}
		far := r.s.VPCOf(other)
		if far == nil || far.ID == v.ID || far.Overlaps(v) {
			p.Status, p.Message = aws.PeeringFailed, "Failed due to incorrect VPC-ID, Account ID, or overlapping CIDR range"
		}
		r.s.Peerings()[p.ID] = p
		out = p.Clone()
		return []string{p.ID}, nil
	})
	return out, err
}

// AcceptPeering makes a connection that was asked for active. Only the asked side can, in its
// region.
func (r Peerings) AcceptPeering(id string) (aws.PeeringConnection, error) {
	return r.answerPeering("AcceptVpcPeeringConnection", id, func(p *aws.PeeringConnection) {
		p.Status, p.Message = aws.PeeringActive, "Active"
		if far := r.s.VPCOf(p.Accepter); far != nil {
			p.Accepter.CIDRs = far.Blocks()
		}
	})
}

// RejectPeering declines a connection that was asked for.
func (r Peerings) RejectPeering(id string) error {
	_, err := r.answerPeering("RejectVpcPeeringConnection", id, func(p *aws.PeeringConnection) {
		p.Status, p.Message = aws.PeeringRejected, "Rejected by "+r.s.Account
	})
	return err
}

func (r Peerings) answerPeering(action, id string, answer func(*aws.PeeringConnection)) (aws.PeeringConnection, error) {
	var out aws.PeeringConnection
	err := r.s.Mutate(action, func(time.Time) ([]string, error) {
		p, err := r.peering(id)
		if err != nil {
			return nil, err
		}
		if !r.s.IsSide(p.Accepter) {
			return nil, aws.Refuse("OperationNotPermitted", "User %s cannot accept or reject peering %s", r.s.Account, id)
		}
		if p.Status != aws.PeeringPending {
			return nil, aws.Refuse("InvalidStateTransition", "VpcPeeringConnection %s is not in the %s state; it is %s", id, aws.PeeringPending, p.Status)
		}
		answer(p)
		out = p.Clone()
		return []string{id}, nil
	})
	return out, err
}

// DeletePeering ends a connection; either side can. Rules that refer across it become stale.
func (r Peerings) DeletePeering(id string) error {
	return r.s.Mutate("DeleteVpcPeeringConnection", func(time.Time) ([]string, error) {
		p, err := r.peering(id)
		if err != nil {
			return nil, err
		}
		if p.Status != aws.PeeringActive && p.Status != aws.PeeringPending {
			return nil, aws.Refuse("InvalidStateTransition", "VpcPeeringConnection %s cannot be deleted; it is %s", id, p.Status)
		}
		p.Status, p.Message = aws.PeeringDeleted, "Deleted by "+r.s.Account
		return []string{id}, nil
	})
}

// peering finds a connection with a side in this account and region.
func (r Peerings) peering(id string) (*aws.PeeringConnection, error) {
	if err := aws.CheckID("pcx", id); err != nil {
		return nil, err
	}
	p := r.s.Peerings()[id]
	if p == nil || !r.s.IsSide(p.Requester) && !r.s.IsSide(p.Accepter) {
		return nil, aws.NotFound(id)
	}
	return p, nil
}
