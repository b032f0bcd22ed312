package aws

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/native"
)

// AvailabilityZones lists the zones of the region, by name.
func (r *Region) AvailabilityZones() []Zone { return slices.Clone(r.data.zones) }

// VPCs is DescribeVpcs.
func (r *Region) VPCs(ids ...string) (out []VPC, err error) {
	r.w.read(func(now time.Time) {
		out, err = byID("vpc", r.visibleVPCs(), ids, func(v *VPC) bool { return seen(v.Visible, now) }, cloneVPC)
	})
	return out, err
}

// Subnets is DescribeSubnets.
func (r *Region) Subnets(ids ...string) (out []Subnet, err error) {
	r.w.read(func(now time.Time) {
		out, err = byID("subnet", r.visibleSubnets(), ids, func(s *Subnet) bool { return seen(s.Visible, now) },
			func(s *Subnet) Subnet {
				c := cloneSubnet(s)
				c.AvailableIPs = Networks{r.site}.freeAddresses(s)
				return c
			})
	})
	return out, err
}

// Instances is DescribeInstances, reservations flattened: Instance.ReservationID groups them.
func (r *Region) Instances(ids ...string) (out []Instance, err error) {
	r.w.read(func(now time.Time) {
		attached := map[string][]*NetworkInterface{}
		for _, n := range r.data.nics {
			if n.Attachment != nil {
				attached[n.Attachment.InstanceID] = append(attached[n.Attachment.InstanceID], n)
			}
		}
		out, err = byID("i", r.data.instances, ids, func(i *Instance) bool { return seen(i.Visible, now) },
			func(i *Instance) Instance { return joined(i, attached[i.ID]) })
	})
	return out, err
}

// joined returns a copy of the instance with copies of its interfaces in the order of their device
// indexes.
func joined(i *Instance, nics []*NetworkInterface) Instance {
	c := cloneInstance(i)
	for _, n := range nics {
		c.NetworkInterfaces = append(c.NetworkInterfaces, cloneNIC(n))
	}
	slices.SortFunc(c.NetworkInterfaces, func(a, b NetworkInterface) int {
		return cmp.Or(cmp.Compare(a.Attachment.DeviceIndex, b.Attachment.DeviceIndex), cmp.Compare(a.ID, b.ID))
	})
	return c
}

// NetworkInterfaces is DescribeNetworkInterfaces.
func (r *Region) NetworkInterfaces(ids ...string) (out []NetworkInterface, err error) {
	r.w.read(func(now time.Time) {
		out, err = byID("eni", r.visibleNICs(), ids, func(n *NetworkInterface) bool { return seen(n.Visible, now) }, cloneNIC)
	})
	return out, err
}

// SecurityGroups is DescribeSecurityGroups.
func (r *Region) SecurityGroups(ids ...string) (out []SecurityGroup, err error) {
	r.w.read(func(now time.Time) {
		out, err = byID("sg", r.visibleGroups(), ids, func(g *SecurityGroup) bool { return seen(g.Visible, now) },
			func(g *SecurityGroup) SecurityGroup {
				c := cloneGroup(g)
				for i := range c.Rules {
					r.w.fillPeering(&c.Rules[i])
				}
				return c
			})
	})
	return out, err
}

// SecurityGroupRules is DescribeSecurityGroupRules.
func (r *Region) SecurityGroupRules(ids ...string) (out []SecurityGroupRule, err error) {
	r.w.read(func(now time.Time) {
		all := map[string]*SecurityGroupRule{}
		for _, g := range r.data.groups {
			for i := range g.Rules {
				if seen(g.Visible, now) {
					all[g.Rules[i].ID] = &g.Rules[i]
				}
			}
		}
		out, err = byID("sgr", all, ids, func(*SecurityGroupRule) bool { return true }, func(x *SecurityGroupRule) SecurityGroupRule {
			c := cloneRule(x)
			r.w.fillPeering(&c)
			return c
		})
	})
	return out, err
}

// fillPeering sets the present status of the peering connection that a rule's group reference goes
// through.
func (w *World) fillPeering(rule *SecurityGroupRule) {
	if rule.Group == nil || rule.Group.PeeringID == "" {
		return
	}
	rule.Group.PeeringStatus = "deleted"
	if p, ok := w.peerings[rule.Group.PeeringID]; ok {
		rule.Group.PeeringStatus = p.Status
	}
}

// PeeringConnections is DescribeVpcPeeringConnections: those with a side in this account and
// region.
func (r Peerings) PeeringConnections(ids ...string) (out []PeeringConnection, err error) {
	r.w.read(func(time.Time) {
		out, err = byID("pcx", r.w.peerings, ids, func(p *PeeringConnection) bool {
			return sideScope(p.Requester) == r.at || sideScope(p.Accepter) == r.at
		}, clonePeering)
	})
	return out, err
}

// PrefixLists is DescribeManagedPrefixLists: the account's own lists and the lists of the cloud.
func (r PrefixListCalls) PrefixLists(ids ...string) (out []PrefixList, err error) {
	r.w.read(func(now time.Time) {
		out, err = byID("pl", r.data.prefixLists, ids, func(p *PrefixList) bool { return seen(p.Visible, now) }, clonePrefixList)
	})
	return out, err
}

// PrefixListEntries is GetManagedPrefixListEntries. Version 0 means the current one.
func (r PrefixListCalls) PrefixListEntries(id string, version int) (out []PrefixListEntry, err error) {
	lists, err := r.PrefixLists(id)
	if err != nil {
		return nil, err
	}
	p := lists[0]
	switch {
	case version == 0:
		return p.Entries(), nil
	case version < 0 || version > p.Version():
		return nil, refuse("PrefixListVersionNotFound", "The prefix list ID '%s' has no version %d", id, version)
	}
	return p.Versions[version-1], nil
}

// TagsOf returns the tags of one resource; nil if it is not there or not visible yet.
func (r *Region) TagsOf(id string) Tags {
	var out Tags
	r.w.read(func(now time.Time) {
		if tags, err := r.tagsOf(id, now); err == nil {
			out = cloneTags(*tags)
		}
	})
	return out
}

// NetworkOf returns the VPC that a group or an interface of the account is in, and the account that
// owns the VPC; "" if it is not there or not visible yet.
func (r *Region) NetworkOf(id string) (vpcID, owner string) {
	r.w.read(func(now time.Time) {
		if g := r.data.groups[id]; g != nil && seen(g.Visible, now) {
			vpcID = g.VPCID
		}
		if n := r.data.nics[id]; n != nil && seen(n.Visible, now) {
			vpcID = n.VPCID
		}
		if v := r.visibleVPCs()[vpcID]; v != nil {
			owner = v.Account
		}
	})
	return vpcID, owner
}

// Tags is DescribeTags, by resource id and key.
func (r *Region) Tags() []ResourceTag {
	var out []ResourceTag
	r.w.read(func(now time.Time) {
		add := func(id string, tags Tags, visible time.Time) {
			if !seen(visible, now) {
				return
			}
			for k, v := range tags {
				out = append(out, ResourceTag{id, ResourceType(id), k, v})
			}
		}
		for id, v := range r.data.vpcs {
			add(id, v.Tags, v.Visible)
		}
		for id, s := range r.data.subnets {
			add(id, s.Tags, s.Visible)
		}
		for id, g := range r.data.groups {
			add(id, g.Tags, g.Visible)
			for i := range g.Rules {
				add(g.Rules[i].ID, g.Rules[i].Tags, g.Visible)
			}
		}
		for id, n := range r.data.nics {
			add(id, n.Tags, n.Visible)
		}
		for id, i := range r.data.instances {
			add(id, i.Tags, i.Visible)
		}
		r.data.eachTags(add)
		for _, e := range r.data.services {
			if e.Kind == native.Endpoint {
				add(e.Name, e.Tags, time.Time{})
			}
		}
		for id, t := range r.data.sharedTags {
			add(id, *t, time.Time{})
		}
		for id, p := range r.data.prefixLists {
			add(id, p.Tags, p.Visible)
		}
		for _, id := range slices.Sorted(maps.Keys(r.w.peerings)) {
			if p := r.w.peerings[id]; sideScope(p.Requester) == r.at || sideScope(p.Accepter) == r.at {
				add(id, p.Tags, time.Time{})
			}
		}
	})
	slices.SortFunc(out, func(a, b ResourceTag) int {
		return cmp.Or(cmp.Compare(a.ResourceID, b.ResourceID), cmp.Compare(a.Key, b.Key))
	})
	return out
}

func sideScope(s PeeringVPC) scope { return scope{s.Account, s.Region} }
