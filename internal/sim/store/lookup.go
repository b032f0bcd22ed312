package store

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// FillPeering sets the present status of the peering connection that a rule's group reference goes
// through.
func (r *Site) FillPeering(rule *aws.SecurityGroupRule) {
	if rule.Group == nil || rule.Group.PeeringID == "" {
		return
	}
	rule.Group.PeeringStatus = "deleted"
	if p, ok := r.store.peerings[rule.Group.PeeringID]; ok {
		rule.Group.PeeringStatus = p.Status
	}
}

func sideScope(s aws.PeeringVPC) scope { return scope{s.Account, s.Region} }

// LookUp finds a visible thing of the region by id.
func LookUp[T any](prefix, id string, all map[string]*T, visible func(*T) time.Time, now time.Time) (*T, error) {
	if err := aws.CheckID(prefix, id); err != nil {
		return nil, err
	}
	t, ok := all[id]
	if !ok || !Seen(visible(t), now) {
		return nil, aws.NotFound(id)
	}
	return t, nil
}

// OwnVPC finds a VPC that the account itself has.
func (r *Site) OwnVPC(id string, now time.Time) (*aws.VPC, error) {
	if id == "" {
		return nil, aws.Refuse("MissingParameter", "The request must contain the parameter vpcId")
	}
	return LookUp("vpc", id, r.Data.VPCs, func(v *aws.VPC) time.Time { return v.Visible }, now)
}

// OwnSubnet finds a subnet that the account itself has.
func (r *Site) OwnSubnet(id string, now time.Time) (*aws.Subnet, error) {
	return LookUp("subnet", id, r.Data.Subnets, func(s *aws.Subnet) time.Time { return s.Visible }, now)
}

// Instance finds a visible instance.
func (r *Site) Instance(id string, now time.Time) (*aws.Instance, error) {
	if err := aws.CheckID("i", id); err != nil {
		return nil, err
	}
	i, ok := r.Data.Instances[id]
	if !ok || !Seen(i.Visible, now) {
		return nil, aws.NotFound(id)
	}
	return i, nil
}

// OwnerOfGroup finds the account of a group in the region. ModifySecurityGroupRules is the one call
// that names a foreign group by its id alone.
func (r *Site) OwnerOfGroup(id string) string {
	for at, d := range r.store.regions {
		if at.region == r.Region && d.Groups[id] != nil {
			return at.account
		}
	}
	return ""
}

// ActivePeering returns the active peering connection between two VPCs, the one with the lowest id
// if there are several.
func (r *Site) ActivePeering(a, b string) *aws.PeeringConnection {
	for _, id := range slices.Sorted(maps.Keys(r.store.peerings)) {
		p := r.store.peerings[id]
		if p.Status != aws.PeeringActive {
			continue
		}
		if p.Requester.VPCID == a && p.Accepter.VPCID == b || p.Requester.VPCID == b && p.Accepter.VPCID == a {
			return p
		}
	}
	return nil
}

// DefaultVPC is the default VPC of the account; nil if there is none.
func (r *Site) DefaultVPC() *aws.VPC {
	for _, v := range r.Data.VPCs {
		if v.IsDefault {
			return v
		}
	}
	return nil
}

// Used returns the private addresses taken in a VPC, by any account.
func (r *Site) Used(vpcID string) map[netip.Addr]bool {
	out := used(r.Data, vpcID)
	r.Neighbours(func(d *aws.Resources) { maps.Copy(out, used(d, vpcID)) })
	return out
}

// CheckNewTags checks the tags of a resource that is being created.
func (r *Site) CheckNewTags(t aws.Tags) error {
	for k, v := range t {
		if err := aws.CheckTag(k, v); err != nil {
			return err
		}
	}
	return r.CheckTagCount(t)
}

// CheckTagCount refuses more tags on a resource than the quota grants.
func (r *Site) CheckTagCount(t aws.Tags) error {
	n := 0
	for k := range t {
		if !strings.HasPrefix(k, "aws:") {
			n++
		}
	}
	if n > r.Quotas().TagsPerResource {
		return aws.Refuse("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
	}
	return nil
}

// VPC finds a visible VPC; an empty id means the default VPC.
func (r *Site) VPC(id string, now time.Time) (*aws.VPC, error) {
	if id == "" {
		if v := r.DefaultVPC(); v != nil {
			return v, nil
		}
		return nil, aws.Refuse("VPCIdNotSpecified", "No default VPC for this user")
	}
	if err := aws.CheckID("vpc", id); err != nil {
		return nil, err
	}
	v, ok := r.VisibleVPCs()[id]
	if !ok || !Seen(v.Visible, now) {
		return nil, aws.NotFound(id)
	}
	return v, nil
}

// reservedAddresses are the first four and the last address of a subnet, which the cloud keeps.
const reservedAddresses = 5

// FreeAddresses counts the IPv4 addresses that a new interface could get.
func (r *Site) FreeAddresses(s *aws.Subnet) int {
	if !s.CIDR.IsValid() {
		return 0
	}
	free := 1<<(32-s.CIDR.Bits()) - reservedAddresses
	take := func(d *aws.Resources) {
		for _, n := range d.NICs {
			if n.SubnetID == s.ID {
				free -= len(n.PrivateIPs)
				for _, p := range n.Prefixes {
					if p.Addr().Is4() {
						free -= 1 << (32 - p.Bits())
					}
				}
			}
		}
	}
	take(r.Data)
	r.Neighbours(take)
	return max(free, 0)
}

// used returns the private addresses taken in a VPC.
func used(d *aws.Resources, vpcID string) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, n := range d.NICs {
		if n.VPCID != vpcID {
			continue
		}
		for _, p := range n.PrivateIPs {
			out[p.Addr] = true
		}
		for _, a := range n.IPv6 {
			out[a] = true
		}
		for _, p := range n.Prefixes {
			// No one is given an IPv6 address by its place in the block.
			for a := p.Addr(); a.Is4() && p.Contains(a); a = a.Next() {
				out[a] = true
			}
		}
	}
	return out
}

// FreeIPv4 returns the lowest free address of the subnet that an interface may have.
func FreeIPv4(s *aws.Subnet, used map[netip.Addr]bool) (netip.Addr, bool) {
	a := s.CIDR.Addr()
	for range 4 {
		a = a.Next()
	}
	for ; s.CIDR.Contains(a.Next()); a = a.Next() {
		if !used[a] {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// Seen reports whether a resource that becomes visible at a time can be seen by now.
func Seen(visible, now time.Time) bool { return !visible.After(now) }

// ByID returns the visible objects of a map in the order of their ids, or only those with the given
// ids; an id that is malformed or unknown is an error, as in every Describe call.
func ByID[T any](prefix string, all map[string]*T, ids []string, visible func(*T) bool, clone func(*T) T) ([]T, error) {
	keys := slices.Clone(ids)
	if len(ids) == 0 {
		keys = slices.Collect(maps.Keys(all))
	}
	slices.SortFunc(keys, cmp.Compare[string])
	keys = slices.Compact(keys)
	out := make([]T, 0, len(keys))
	for _, id := range keys {
		if err := aws.CheckID(prefix, id); err != nil {
			return nil, err
		}
		o, ok := all[id]
		if !ok || !visible(o) {
			if len(ids) > 0 {
				return nil, aws.NotFound(id)
			}
			continue
		}
		out = append(out, clone(o))
	}
	return out, nil
}
