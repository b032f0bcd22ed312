package network

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/store"
)

func (r ACLs) acl(id string, now time.Time) (*aws.NetworkACL, error) {
	return store.LookUp("acl", id, r.s.Data.ACLs, func(a *aws.NetworkACL) time.Time { return a.Visible }, now)
}

// NetworkACLs is DescribeNetworkAcls: with every subnet that uses it, and without the entries at
// the end.
func (r ACLs) NetworkACLs(ids ...string) (out []aws.NetworkACL, err error) {
	r.s.Read(func(now time.Time) {
		out, err = store.ByID("acl", r.s.Data.ACLs, ids, func(a *aws.NetworkACL) bool { return store.Seen(a.Visible, now) }, r.describedACL)
	})
	return out, err
}

func (r ACLs) describedACL(a *aws.NetworkACL) aws.NetworkACL {
	c := a.Clone()
	c.Associations = nil
	for _, s := range r.s.Data.Subnets {
		if r.s.Data.ACLOf(s) == a {
			c.Associations = append(c.Associations, aws.SubnetAssociation{ID: r.association(s), SubnetID: s.ID})
		}
	}
	slices.SortFunc(c.Associations, func(x, y aws.SubnetAssociation) int { return cmp.Compare(x.SubnetID, y.SubnetID) })
	slices.SortStableFunc(c.Entries, func(x, y aws.ACLEntry) int { return cmp.Compare(x.Number, y.Number) })
	return c
}

// association is the id of the association of a subnet; one that nothing reported depends on the
// subnet alone.
func (r ACLs) association(s *aws.Subnet) string {
	for _, a := range r.s.Data.ACLs {
		for _, x := range a.Associations {
			if x.SubnetID == s.ID {
				return x.ID
			}
		}
	}
	return "aclassoc-" + aws.ShortHash("acl/"+s.ID)
}

// CreateNetworkACL makes an ACL without entries: it denies everything in subnets that use it.
func (r ACLs) CreateNetworkACL(vpcID string, tags aws.Tags, token string) (aws.NetworkACL, error) {
	var out aws.NetworkACL
	err := r.s.Mutate("CreateNetworkAcl", func(now time.Time) ([]string, error) {
		if x := r.s.Data.ACLs[r.s.Made("CreateNetworkAcl", token)]; x != nil {
			out = x.Clone()
			return nil, store.ErrNothingChanged
		}
		v, err := r.s.OwnVPC(vpcID, now)
		if err != nil {
			return nil, err
		}
		if err := r.s.CheckNewTags(tags); err != nil {
			return nil, err
		}
		a := &aws.NetworkACL{ID: r.s.NewID("acl"), Account: r.s.Account, VPCID: v.ID, Tags: tags.Clone(), Visible: r.s.Visible(now)}
		r.s.Data.ACLs[a.ID] = a
		r.s.Remember("CreateNetworkAcl", token, a.ID)
		out = a.Clone()
		return []string{a.ID}, nil
	})
	return out, err
}

// DeleteNetworkACL deletes an ACL that no subnet uses and that is not the default one.
func (r ACLs) DeleteNetworkACL(id string) error {
	return r.s.Mutate("DeleteNetworkAcl", func(now time.Time) ([]string, error) {
		a, err := r.acl(id, now)
		if err != nil {
			return nil, err
		}
		if a.Default {
			return nil, aws.InvalidValue("cannot delete default network ACL %s", a.ID)
		}
		if len(a.Associations) > 0 {
			return nil, aws.Refuse("DependencyViolation", "The networkAcl '%s' has dependencies and cannot be deleted.", a.ID)
		}
		delete(r.s.Data.ACLs, a.ID)
		return []string{a.ID}, nil
	})
}

// PutNetworkACLEntry adds an entry, or with replace writes one anew.
func (r ACLs) PutNetworkACLEntry(id string, e aws.ACLEntry, replace bool) error {
	action := "CreateNetworkAclEntry"
	if replace {
		action = "ReplaceNetworkAclEntry"
	}
	return r.s.Mutate(action, func(now time.Time) ([]string, error) {
		a, err := r.acl(id, now)
		if err != nil {
			return nil, err
		}
		if err := e.Check(); err != nil {
			return nil, err
		}
		at := slices.IndexFunc(a.Entries, func(x aws.ACLEntry) bool { return x.Key() == e.Key() })
		switch {
		case at >= 0 && !replace:
			return nil, aws.Refuse("NetworkAclEntryAlreadyExists", "The network acl entry identified by %d already exists.", e.Number)
		case at < 0 && replace:
			return nil, missingEntry(a, e.Key())
		case at < 0 && a.Count(e.Egress, e.CIDR.Addr().Is4()) >= aws.MaxACLEntries:
			return nil, aws.Refuse("NetworkAclEntryLimitExceeded", "The maximum number of network acl entries has been reached.")
		}
		after := slices.Clone(a.Entries)
		if at >= 0 {
			after[at] = e
		} else {
			after = append(after, e)
		}
		a.Entries, a.Implied = after, false
		return []string{a.ID}, nil
	})
}

func missingEntry(a *aws.NetworkACL, k aws.EntryKey) error {
	side := "ingress"
	if k.Egress {
		side = "egress"
	}
	return aws.Refuse("InvalidNetworkAclEntry.NotFound", "The %s network acl entry with rule number %s does not exist in network ACL %s", side, strconv.Itoa(k.Number), a.ID)
}

// DeleteNetworkACLEntry deletes an entry.
func (r ACLs) DeleteNetworkACLEntry(id string, number int, egress bool) error {
	return r.s.Mutate("DeleteNetworkAclEntry", func(now time.Time) ([]string, error) {
		a, err := r.acl(id, now)
		if err != nil {
			return nil, err
		}
		key := aws.EntryKey{Number: number, Egress: egress}
		after := slices.DeleteFunc(slices.Clone(a.Entries), func(e aws.ACLEntry) bool { return e.Key() == key })
		if len(after) == len(a.Entries) {
			return nil, missingEntry(a, key)
		}
		a.Entries, a.Implied = after, false
		return []string{a.ID}, nil
	})
}

// ReplaceNetworkACLAssociation lets the subnet of an association use another ACL.
func (r ACLs) ReplaceNetworkACLAssociation(association, id string) (replaced string, err error) {
	err = r.s.Mutate("ReplaceNetworkAclAssociation", func(now time.Time) ([]string, error) {
		to, err := r.acl(id, now)
		if err != nil {
			return nil, err
		}
		var of *aws.Subnet
		for _, s := range r.s.Data.Subnets {
			if r.association(s) == association {
				of = s
			}
		}
		if of == nil {
			return nil, aws.Refuse("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", association)
		}
		if of.VPCID != to.VPCID {
			return nil, aws.InvalidValue("network ACL %s and subnet %s belong to different networks", to.ID, of.ID)
		}
		for _, a := range r.s.Data.ACLs {
			a.Associations = aws.WithoutSubnet(a.Associations, of.ID)
		}
		replaced = r.s.NewID("aclassoc")
		to.Associations = append(to.Associations, aws.SubnetAssociation{ID: replaced, SubnetID: of.ID})
		return []string{to.ID, of.ID}, nil
	})
	return replaced, err
}

// ACLs are the calls about network ACLs.
type ACLs struct{ s *store.Site }

// ACLsAt returns the calls on a site.
func ACLsAt(s *store.Site) ACLs { return ACLs{s} }
