package store

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// This file is about subnets that their owner shares with other accounts (AWS RAM). A participant
// sees the VPC and the shared subnets, can launch and make groups in them, and changes nothing of
// the owner's. The owner sees the participants' interfaces and groups, and changes none of them.
// Tags are everybody's own: what one account puts on a shared thing no other account sees.

// Neighbours calls f with what other accounts have in the region, if any subnet is shared.
func (r *Site) Neighbours(f func(*aws.Resources)) {
	if !r.store.shared {
		return
	}
	for at, d := range r.store.regions {
		if at.region == r.Region && at.account != r.Account {
			f(&d.Resources)
		}
	}
}

// sharedHere calls f with the subnets that others share with this account, and their VPCs.
func (r *Site) sharedHere(f func(*aws.VPC, *aws.Subnet)) {
	r.Neighbours(func(d *aws.Resources) {
		for _, s := range d.Subnets {
			if v := d.VPCs[s.VPCID]; v != nil && slices.Contains(s.SharedWith, r.Account) {
				f(v, s)
			}
		}
	})
}

// VisibleVPCs are the VPCs that the account sees, each as it sees it.
func (r *Site) VisibleVPCs() map[string]*aws.VPC {
	if !r.store.shared {
		return r.Data.VPCs
	}
	all := maps.Clone(r.Data.VPCs)
	r.sharedHere(func(v *aws.VPC, _ *aws.Subnet) {
		c := *v
		c.Tags, c.IsDefault = r.own.ownTags(v.ID), false
		all[v.ID] = &c
	})
	return all
}

// VisibleSubnets are the subnets that the account sees.
func (r *Site) VisibleSubnets() map[string]*aws.Subnet {
	if !r.store.shared {
		return r.Data.Subnets
	}
	all := maps.Clone(r.Data.Subnets)
	r.sharedHere(func(_ *aws.VPC, s *aws.Subnet) {
		c := *s
		c.Tags, c.DefaultForAZ, c.SharedWith = r.own.ownTags(s.ID), false, nil
		all[s.ID] = &c
	})
	return all
}

// VisibleNICs are the account's interfaces and the interfaces of participants in its VPCs, without
// their tags.
func (r *Site) VisibleNICs() map[string]*aws.NetworkInterface {
	if !r.store.shared {
		return r.Data.NICs
	}
	all := maps.Clone(r.Data.NICs)
	r.Neighbours(func(d *aws.Resources) {
		for id, n := range d.NICs {
			if r.Data.VPCs[n.VPCID] != nil {
				c := *n
				c.Tags = nil
				all[id] = &c
			}
		}
	})
	return all
}

// VisibleGroups are the account's groups and the groups of participants in its VPCs, without their
// tags.
func (r *Site) VisibleGroups() map[string]*aws.SecurityGroup {
	if !r.store.shared {
		return r.Data.Groups
	}
	all := maps.Clone(r.Data.Groups)
	r.Neighbours(func(d *aws.Resources) {
		for id, g := range d.Groups {
			if r.Data.VPCs[g.VPCID] != nil {
				c := g.Clone()
				c.Tags = nil
				for i := range c.Rules {
					c.Rules[i].Tags = nil
				}
				all[id] = &c
			}
		}
	})
	return all
}

// ownTags are the tags that the account has put on something of another account.
func (d *holdings) ownTags(id string) aws.Tags {
	if t := d.sharedTags[id]; t != nil {
		return *t
	}
	return nil
}

// TagsOnShared is where the account's tags on a shared VPC or subnet are; nil if it is neither.
func (r *Site) TagsOnShared(id string) *aws.Tags {
	found := false
	r.sharedHere(func(v *aws.VPC, s *aws.Subnet) { found = found || v.ID == id || s.ID == id })
	if !found {
		return nil
	}
	if r.own.sharedTags[id] == nil {
		r.own.sharedTags[id] = &aws.Tags{}
	}
	return r.own.sharedTags[id]
}

// SharedTags are the account's tags on what others share with it, by id.
func (r *Site) SharedTags() map[string]*aws.Tags { return r.own.sharedTags }

// cloneSharedTags are the tags on what others share, without empty ones.
func (d *holdings) cloneSharedTags() map[string]aws.Tags {
	var out map[string]aws.Tags
	for id, t := range d.sharedTags {
		if len(*t) > 0 {
			if out == nil {
				out = map[string]aws.Tags{}
			}
			out[id] = t.Clone()
		}
	}
	return out
}
