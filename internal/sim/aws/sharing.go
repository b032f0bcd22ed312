package aws

import (
	"maps"
	"net/netip"
	"slices"
)

// This file is about subnets that their owner shares with other accounts (AWS RAM). A participant
// sees the VPC and the shared subnets, can launch and make groups in them, and changes nothing of
// the owner's. The owner sees the participants' interfaces and groups, and changes none of them.
// Tags are everybody's own: what one account puts on a shared thing no other account sees.

// neighbours calls f with what other accounts have in the region.
func (r *site) neighbours(f func(*regionData)) {
	if !r.w.shared {
		return
	}
	for at, d := range r.w.regions {
		if at.region == r.at.region && at.account != r.at.account {
			f(d)
		}
	}
}

// sharedHere calls f with the subnets that others share with this account, and their VPCs.
func (r *site) sharedHere(f func(*VPC, *Subnet)) {
	r.neighbours(func(d *regionData) {
		for _, s := range d.subnets {
			if v := d.vpcs[s.VPCID]; v != nil && slices.Contains(s.SharedWith, r.at.account) {
				f(v, s)
			}
		}
	})
}

// visibleVPCs are the VPCs that the account sees, each as it sees it.
func (r *site) visibleVPCs() map[string]*VPC {
	if !r.w.shared {
		return r.data.vpcs
	}
	all := maps.Clone(r.data.vpcs)
	r.sharedHere(func(v *VPC, _ *Subnet) {
		c := *v
		c.Tags, c.IsDefault = r.data.ownTags(v.ID), false
		all[v.ID] = &c
	})
	return all
}

// visibleSubnets are the subnets that the account sees.
func (r *site) visibleSubnets() map[string]*Subnet {
	if !r.w.shared {
		return r.data.subnets
	}
	all := maps.Clone(r.data.subnets)
	r.sharedHere(func(_ *VPC, s *Subnet) {
		c := *s
		c.Tags, c.DefaultForAZ, c.SharedWith = r.data.ownTags(s.ID), false, nil
		all[s.ID] = &c
	})
	return all
}

// visibleNICs are the account's interfaces and the interfaces of participants in its VPCs, without
// their tags.
func (r *site) visibleNICs() map[string]*NetworkInterface {
	if !r.w.shared {
		return r.data.nics
	}
	all := maps.Clone(r.data.nics)
	r.neighbours(func(d *regionData) {
		for id, n := range d.nics {
			if r.data.vpcs[n.VPCID] != nil {
				c := *n
				c.Tags = nil
				all[id] = &c
			}
		}
	})
	return all
}

// visibleGroups are the account's groups and the groups of participants in its VPCs, without their
// tags.
func (r *site) visibleGroups() map[string]*SecurityGroup {
	if !r.w.shared {
		return r.data.groups
	}
	all := maps.Clone(r.data.groups)
	r.neighbours(func(d *regionData) {
		for id, g := range d.groups {
			if r.data.vpcs[g.VPCID] != nil {
				c := cloneGroup(g)
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
func (d *regionData) ownTags(id string) Tags {
	if t := d.sharedTags[id]; t != nil {
		return *t
	}
	return nil
}

// tagsOnShared is where the account's tags on a shared VPC or subnet are; nil if it is neither.
func (r *site) tagsOnShared(id string) *Tags {
	found := false
	r.sharedHere(func(v *VPC, s *Subnet) { found = found || v.ID == id || s.ID == id })
	if !found {
		return nil
	}
	if r.data.sharedTags[id] == nil {
		r.data.sharedTags[id] = &Tags{}
	}
	return r.data.sharedTags[id]
}

// used returns the private addresses taken in a VPC, by any account.
func (r *site) used(vpcID string) map[netip.Addr]bool {
	out := r.data.used(vpcID)
	r.neighbours(func(d *regionData) { maps.Copy(out, d.used(vpcID)) })
	return out
}

// referredElsewhere reports whether a group of another account in the same VPC refers to a group.
func (r *site) referredElsewhere(g *SecurityGroup) (found bool) {
	r.neighbours(func(d *regionData) {
		for _, other := range d.groups {
			found = found || other.VPCID == g.VPCID && slices.ContainsFunc(other.Rules, func(x SecurityGroupRule) bool {
				return x.Group != nil && x.Group.GroupID == g.ID
			})
		}
	})
	return found
}

// cloneSharedTags are the tags on what others share, without empty ones.
func (d *regionData) cloneSharedTags() map[string]Tags {
	var out map[string]Tags
	for id, t := range d.sharedTags {
		if len(*t) > 0 {
			if out == nil {
				out = map[string]Tags{}
			}
			out[id] = cloneTags(*t)
		}
	}
	return out
}

// sharing returns the VPCs and subnets of other accounts that one account's region may refer to.
func (s *State) sharing(at *RegionState) (vpcs map[string]*VPC, subnets map[string]*Subnet) {
	vpcs, subnets = map[string]*VPC{}, map[string]*Subnet{}
	for i := range s.Regions {
		r := &s.Regions[i]
		if r.Name != at.Name || r.Account == at.Account {
			continue
		}
		for k := range r.Subnets {
			if !slices.Contains(r.Subnets[k].SharedWith, at.Account) {
				continue
			}
			subnets[r.Subnets[k].ID] = &r.Subnets[k]
			for n := range r.VPCs {
				if r.VPCs[n].ID == r.Subnets[k].VPCID {
					vpcs[r.VPCs[n].ID] = &r.VPCs[n]
				}
			}
		}
	}
	return vpcs, subnets
}
