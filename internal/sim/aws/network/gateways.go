package network

import (
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/store"
)

func (r Routes) gateway(id string, now time.Time) (*aws.InternetGateway, error) {
	return store.LookUp("igw", id, r.s.Data.Gateways, func(g *aws.InternetGateway) time.Time { return g.Visible }, now)
}

// InternetGateways is DescribeInternetGateways.
func (r Routes) InternetGateways(ids ...string) (out []aws.InternetGateway, err error) {
	r.s.Read(func(now time.Time) {
		out, err = store.ByID("igw", r.s.Data.Gateways, ids, func(g *aws.InternetGateway) bool { return store.Seen(g.Visible, now) }, (*aws.InternetGateway).Clone)
	})
	return out, err
}

// CreateInternetGateway makes a gateway that is attached to nothing.
func (r Routes) CreateInternetGateway(tags aws.Tags) (aws.InternetGateway, error) {
	var out aws.InternetGateway
	err := r.s.Mutate("CreateInternetGateway", func(now time.Time) ([]string, error) {
		if err := r.s.CheckNewTags(tags); err != nil {
			return nil, err
		}
		g := &aws.InternetGateway{ID: r.s.NewID("igw"), Account: r.s.Account, Tags: tags.Clone(), Visible: r.s.Visible(now)}
		r.s.Data.Gateways[g.ID] = g
		out = g.Clone()
		return []string{g.ID}, nil
	})
	return out, err
}

// AttachInternetGateway joins a gateway and a VPC, each of which has one other at most.
func (r Routes) AttachInternetGateway(id, vpcID string) error {
	return r.s.Mutate("AttachInternetGateway", func(now time.Time) ([]string, error) {
		g, err := r.gateway(id, now)
		if err != nil {
			return nil, err
		}
		v, err := r.s.OwnVPC(vpcID, now)
		if err != nil {
			return nil, err
		}
		if g.VPCID != "" {
			return nil, aws.Refuse("Resource.AlreadyAssociated", "resource %s is already attached to network %s", g.ID, g.VPCID)
		}
		for _, other := range r.s.Data.Gateways {
			if other.VPCID == v.ID {
				return nil, aws.Refuse("InvalidParameterValue", "Network %s already has an internet gateway attached", v.ID)
			}
		}
		g.VPCID = v.ID
		return []string{g.ID, v.ID}, nil
	})
}

// DetachInternetGateway takes a gateway from its VPC. Routes through it become black holes; it is
// refused while an interface of the VPC has a public address.
func (r Routes) DetachInternetGateway(id, vpcID string) error {
	return r.s.Mutate("DetachInternetGateway", func(now time.Time) ([]string, error) {
		g, err := r.gateway(id, now)
		if err != nil {
			return nil, err
		}
		if _, err := r.s.OwnVPC(vpcID, now); err != nil {
			return nil, err
		}
		if g.VPCID != vpcID {
			return nil, aws.Refuse("Gateway.NotAttached", "resource %s is not attached to network %s", g.ID, vpcID)
		}
		for _, n := range r.s.Data.NICs {
			if n.VPCID == vpcID && slices.ContainsFunc(n.PrivateIPs, func(p aws.PrivateIP) bool { return p.Public.IsValid() }) {
				return nil, aws.Refuse(
					"DependencyViolation",
					"Network %s has some mapped public address(es). Please unmap those public address(es) before detaching the gateway.",
					vpcID,
				)
			}
		}
		g.VPCID = ""
		return []string{g.ID, vpcID}, nil
	})
}

// DeleteInternetGateway deletes a gateway that is attached to nothing.
func (r Routes) DeleteInternetGateway(id string) error {
	return r.s.Mutate("DeleteInternetGateway", func(now time.Time) ([]string, error) {
		g, err := r.gateway(id, now)
		if err != nil {
			return nil, err
		}
		if g.VPCID != "" {
			return nil, aws.Refuse("DependencyViolation", "The internetGateway '%s' has dependencies and cannot be deleted.", g.ID)
		}
		delete(r.s.Data.Gateways, g.ID)
		return []string{g.ID}, nil
	})
}
