package world

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/native"
	"github.com/nephele-io/nephele/internal/sim/store"
)

// AvailabilityZones lists the zones of the region, by name.
func (r *Region) AvailabilityZones() []aws.Zone { return slices.Clone(r.s.Zones()) }

// VPCs is DescribeVpcs.
func (r *Region) VPCs(ids ...string) ([]aws.VPC, error) { return r.Networks().VPCs(ids...) }

// Subnets is DescribeSubnets.
func (r *Region) Subnets(ids ...string) ([]aws.Subnet, error) { return r.Networks().Subnets(ids...) }

// Instances is DescribeInstances, reservations flattened: Instance.ReservationID groups them.
func (r *Region) Instances(ids ...string) ([]aws.Instance, error) {
	return r.InstanceCalls().Instances(ids...)
}

// NetworkInterfaces is DescribeNetworkInterfaces.
func (r *Region) NetworkInterfaces(ids ...string) ([]aws.NetworkInterface, error) {
	return r.Interfaces().NetworkInterfaces(ids...)
}

// SecurityGroups is DescribeSecurityGroups.
func (r *Region) SecurityGroups(ids ...string) ([]aws.SecurityGroup, error) {
	return r.Groups().SecurityGroups(ids...)
}

// SecurityGroupRules is DescribeSecurityGroupRules.
func (r *Region) SecurityGroupRules(ids ...string) ([]aws.SecurityGroupRule, error) {
	return r.Groups().SecurityGroupRules(ids...)
}

// TagsOf returns the tags of one resource; nil if it is not there or not visible yet.
func (r *Region) TagsOf(id string) aws.Tags {
	var out aws.Tags
	r.s.Read(func(now time.Time) {
		if tags, err := r.tagsOf(id, now); err == nil {
			out = tags.Clone()
		}
	})
	return out
}

// NetworkOf returns the VPC that a group or an interface of the account is in, and the account that
// owns the VPC; "" if it is not there or not visible yet.
func (r *Region) NetworkOf(id string) (vpcID, owner string) {
	r.s.Read(func(now time.Time) {
		if g := r.s.Data.Groups[id]; g != nil && store.Seen(g.Visible, now) {
			vpcID = g.VPCID
		}
		if n := r.s.Data.NICs[id]; n != nil && store.Seen(n.Visible, now) {
			vpcID = n.VPCID
		}
		if v := r.s.VisibleVPCs()[vpcID]; v != nil {
			owner = v.Account
		}
	})
	return vpcID, owner
}

// Tags is DescribeTags, by resource id and key.
func (r *Region) Tags() []aws.ResourceTag {
	var out []aws.ResourceTag
	r.s.Read(func(now time.Time) {
		add := func(id string, tags aws.Tags, visible time.Time) {
			if !store.Seen(visible, now) {
				return
			}
			for k, v := range tags {
				out = append(out, aws.ResourceTag{ResourceID: id, ResourceType: aws.ResourceType(id), Key: k, Value: v})
			}
		}
		for id, v := range r.s.Data.VPCs {
			add(id, v.Tags, v.Visible)
		}
		for id, s := range r.s.Data.Subnets {
			add(id, s.Tags, s.Visible)
		}
		for id, g := range r.s.Data.Groups {
			add(id, g.Tags, g.Visible)
			for i := range g.Rules {
				add(g.Rules[i].ID, g.Rules[i].Tags, g.Visible)
			}
		}
		for id, n := range r.s.Data.NICs {
			add(id, n.Tags, n.Visible)
		}
		for id, i := range r.s.Data.Instances {
			add(id, i.Tags, i.Visible)
		}
		eachFabricTags(r.s.Data, add)
		for _, e := range r.s.Data.Services {
			if e.Kind == native.Endpoint {
				add(e.Name, e.Tags, time.Time{})
			}
		}
		for id, t := range r.s.SharedTags() {
			add(id, *t, time.Time{})
		}
		for id, p := range r.s.Data.PrefixLists {
			add(id, p.Tags, p.Visible)
		}
		for _, id := range slices.Sorted(maps.Keys(r.s.Peerings())) {
			if p := r.s.Peerings()[id]; r.s.IsSide(p.Requester) || r.s.IsSide(p.Accepter) {
				add(id, p.Tags, time.Time{})
			}
		}
	})
	slices.SortFunc(out, func(a, b aws.ResourceTag) int {
		return cmp.Or(cmp.Compare(a.ResourceID, b.ResourceID), cmp.Compare(a.Key, b.Key))
	})
	return out
}
