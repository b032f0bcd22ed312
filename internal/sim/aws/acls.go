package aws

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// NetworkACL filters what crosses the border of a subnet: by entries in the order of their numbers,
// without memory of connections.
type NetworkACL struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	VPCID   string `json:"vpcId"`
	Default bool   `json:"default,omitempty"`
	// Associations are the subnets that use it. The default one is also used by those that are
	// named nowhere.
	Associations []SubnetAssociation `json:"associations,omitempty"`
	Entries      []ACLEntry          `json:"entries,omitempty"`
	// Implied is the default ACL of a VPC that no one has reported or has written to: it allows
	// everything.
	Implied bool      `json:"implied,omitempty"`
	Tags    Tags      `json:"tags,omitempty"`
	Visible time.Time `json:"visible,omitzero"`
}

// ACLEntry is one entry: the first one that matches decides.
type ACLEntry struct {
	Number   int          `json:"number"` // 1 to 32766
	Egress   bool         `json:"egress,omitempty"`
	Protocol int          `json:"protocol"` // IANA number; -1 = all
	Allow    bool         `json:"allow,omitempty"`
	CIDR     netip.Prefix `json:"cidr"`
	// FromPort and ToPort are ports, or type and code of ICMP (-1 = all).
	FromPort int `json:"fromPort,omitempty"`
	ToPort   int `json:"toPort,omitempty"`
}

// LastACLEntry is the number of the entry at the end of every ACL, which denies; that of IPv6 is
// one more.
const LastACLEntry = 32767

const (
	maxACLEntries = 20
	protoICMP     = 1
	protoTCP      = 6
	protoUDP      = 17
	protoICMPv6   = 58
	allProtocols  = -1
)

type entryKey struct {
	number int
	egress bool
}

func (e *ACLEntry) key() entryKey { return entryKey{e.Number, e.Egress} }

// openEntries allow everything, as those of a new default ACL do.
func openEntries(v6 bool) []ACLEntry {
	var out []ACLEntry
	for i, p := range everywhere {
		if i == 0 || v6 {
			for _, egress := range []bool{true, false} {
				out = append(out, ACLEntry{Number: 100 + i, Egress: egress, Protocol: allProtocols, Allow: true, CIDR: p})
			}
		}
	}
	return out
}

func (e *ACLEntry) check() error {
	switch {
	case e.Number < 1 || e.Number >= LastACLEntry:
		return invalidValue("Value (%d) for parameter ruleNumber is invalid. Rule number must be between 1 and 32766.", e.Number)
	case e.Protocol < allProtocols || e.Protocol > 255:
		return invalidValue("Invalid value '%d' for IP protocol. Unknown protocol.", e.Protocol)
	case !e.CIDR.IsValid() || e.CIDR != e.CIDR.Masked():
		return invalidValue("Value (%s) for parameter cidrBlock is invalid. This is not a valid CIDR block.", e.CIDR)
	case (e.Protocol == protoTCP || e.Protocol == protoUDP) && (e.FromPort < 0 || e.ToPort > 65535 || e.FromPort > e.ToPort):
		return invalidValue("Invalid TCP/UDP port range (%d:%d)", e.FromPort, e.ToPort)
	case (e.Protocol == protoICMP || e.Protocol == protoICMPv6) && (e.FromPort < -1 || e.FromPort > 255 || e.ToPort < -1 || e.ToPort > 255):
		return invalidValue("ICMP type (%d) or code (%d) out of range", e.FromPort, e.ToPort)
	}
	return nil
}

// matches reports whether an entry is about a packet from or to an address.
func (e *ACLEntry) matches(peer netip.Addr, p packet) bool {
	if !e.CIDR.Contains(peer) {
		return false
	}
	switch {
	case e.Protocol == allProtocols:
		return true
	case e.Protocol != p.protocol:
		return false
	case p.protocol == protoTCP || p.protocol == protoUDP:
		return e.FromPort <= p.port && p.port <= e.ToPort
	case p.protocol == protoICMP || p.protocol == protoICMPv6:
		return (e.FromPort == -1 || e.FromPort == p.icmpType) && (e.ToPort == -1 || e.ToPort == p.icmpCode)
	}
	return true
}

// decides returns the entry that decides a packet; LastACLEntry of no entry if none matches.
func (a *NetworkACL) decides(egress bool, peer netip.Addr, p packet) ACLEntry {
	best := ACLEntry{Number: LastACLEntry, Egress: egress, Protocol: allProtocols}
	for _, e := range a.Entries {
		if e.Egress == egress && e.Number < best.Number && e.matches(peer, p) {
			best = e
		}
	}
	return best
}

func cloneACL(a *NetworkACL) NetworkACL {
	c := *a
	c.Associations = slices.Clone(a.Associations)
	c.Entries = slices.Clone(a.Entries)
	c.Tags = maps.Clone(a.Tags)
	return c
}

func (d *regionData) defaultACL(vpc string) *NetworkACL {
	for _, a := range d.acls {
		if a.VPCID == vpc && a.Default {
			return a
		}
	}
	return nil
}

// aclOf returns the ACL that a subnet uses.
func (d *regionData) aclOf(s *Subnet) *NetworkACL {
	for _, a := range d.acls {
		if slices.ContainsFunc(a.Associations, func(x SubnetAssociation) bool { return x.SubnetID == s.ID }) {
			return a
		}
	}
	return d.defaultACL(s.VPCID)
}

func (r ACLs) acl(id string, now time.Time) (*NetworkACL, error) {
	return lookUp("acl", id, r.data.acls, func(a *NetworkACL) time.Time { return a.Visible }, now)
}

// NetworkACLs is DescribeNetworkAcls: with every subnet that uses it, and without the entries at
// the end.
func (r ACLs) NetworkACLs(ids ...string) (out []NetworkACL, err error) {
	r.w.read(func(now time.Time) {
		out, err = byID("acl", r.data.acls, ids, func(a *NetworkACL) bool { return seen(a.Visible, now) }, r.describedACL)
	})
	return out, err
}

func (r ACLs) describedACL(a *NetworkACL) NetworkACL {
	c := cloneACL(a)
	c.Associations = nil
	for _, s := range r.data.subnets {
		if r.data.aclOf(s) == a {
			c.Associations = append(c.Associations, SubnetAssociation{r.data.aclAssociation(s), s.ID})
		}
	}
	slices.SortFunc(c.Associations, func(x, y SubnetAssociation) int { return cmp.Compare(x.SubnetID, y.SubnetID) })
	slices.SortStableFunc(c.Entries, func(x, y ACLEntry) int { return cmp.Compare(x.Number, y.Number) })
	return c
}

// aclAssociation is the id of the association of a subnet; one that no one told depends on the
// subnet alone.
func (d *regionData) aclAssociation(s *Subnet) string {
	for _, a := range d.acls {
		for _, x := range a.Associations {
			if x.SubnetID == s.ID {
				return x.ID
			}
		}
	}
	return "aclassoc-" + shortHash("acl/"+s.ID)
}

// CreateNetworkACL makes an ACL without entries: it denies everything in subnets that use it.
func (r ACLs) CreateNetworkACL(vpcID string, tags Tags, token string) (NetworkACL, error) {
	var out NetworkACL
	err := r.mutate("CreateNetworkAcl", func(now time.Time) ([]string, error) {
		if x := repeated(&r.data.fabric, "CreateNetworkAcl", token, r.data.acls); x != nil {
			out = cloneACL(x)
			return nil, errNothingChanged
		}
		v, err := r.ownVPC(vpcID, now)
		if err != nil {
			return nil, err
		}
		if err := r.checkNewTags(tags); err != nil {
			return nil, err
		}
		a := &NetworkACL{ID: r.w.newID("acl"), Account: r.at.account, VPCID: v.ID, Tags: cloneTags(tags), Visible: now.Add(r.w.visibility)}
		r.data.acls[a.ID] = a
		r.data.remember("CreateNetworkAcl", token, a.ID)
		out = cloneACL(a)
		return []string{a.ID}, nil
	})
	return out, err
}

// DeleteNetworkACL deletes an ACL that no subnet uses and that is not the default one.
func (r ACLs) DeleteNetworkACL(id string) error {
	return r.mutate("DeleteNetworkAcl", func(now time.Time) ([]string, error) {
		a, err := r.acl(id, now)
		if err != nil {
			return nil, err
		}
		if a.Default {
			return nil, invalidValue("cannot delete default network ACL %s", a.ID)
		}
		if len(a.Associations) > 0 {
			return nil, refuse("DependencyViolation", "The networkAcl '%s' has dependencies and cannot be deleted.", a.ID)
		}
		delete(r.data.acls, a.ID)
		return []string{a.ID}, nil
	})
}

// PutNetworkACLEntry adds an entry, or with replace writes one anew.
func (r ACLs) PutNetworkACLEntry(id string, e ACLEntry, replace bool) error {
	action := "CreateNetworkAclEntry"
	if replace {
		action = "ReplaceNetworkAclEntry"
	}
	return r.mutate(action, func(now time.Time) ([]string, error) {
		a, err := r.acl(id, now)
		if err != nil {
			return nil, err
		}
		if err := e.check(); err != nil {
			return nil, err
		}
		at := slices.IndexFunc(a.Entries, func(x ACLEntry) bool { return x.key() == e.key() })
		switch {
		case at >= 0 && !replace:
			return nil, refuse("NetworkAclEntryAlreadyExists", "The network acl entry identified by %d already exists.", e.Number)
		case at < 0 && replace:
			return nil, missingEntry(a, e.key())
		case at < 0 && a.count(e.Egress, e.CIDR.Addr().Is4()) >= maxACLEntries:
			return nil, refuse("NetworkAclEntryLimitExceeded", "The maximum number of network acl entries has been reached.")
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

// count is how many entries of a direction and family the quota counts.
func (a *NetworkACL) count(egress, v4 bool) int {
	n := 0
	for _, e := range a.Entries {
		if e.Egress == egress && e.CIDR.Addr().Is4() == v4 {
			n++
		}
	}
	return n
}

func missingEntry(a *NetworkACL, k entryKey) error {
	side := "ingress"
	if k.egress {
		side = "egress"
	}
	return refuse("InvalidNetworkAclEntry.NotFound", "The %s network acl entry with rule number %s does not exist in network ACL %s", side, strconv.Itoa(k.number), a.ID)
}

// DeleteNetworkACLEntry deletes an entry.
func (r ACLs) DeleteNetworkACLEntry(id string, number int, egress bool) error {
	return r.mutate("DeleteNetworkAclEntry", func(now time.Time) ([]string, error) {
		a, err := r.acl(id, now)
		if err != nil {
			return nil, err
		}
		key := entryKey{number, egress}
		after := slices.DeleteFunc(slices.Clone(a.Entries), func(e ACLEntry) bool { return e.key() == key })
		if len(after) == len(a.Entries) {
			return nil, missingEntry(a, key)
		}
		a.Entries, a.Implied = after, false
		return []string{a.ID}, nil
	})
}

// ReplaceNetworkACLAssociation lets the subnet of an association use another ACL.
func (r ACLs) ReplaceNetworkACLAssociation(association, id string) (replaced string, err error) {
	err = r.mutate("ReplaceNetworkAclAssociation", func(now time.Time) ([]string, error) {
		to, err := r.acl(id, now)
		if err != nil {
			return nil, err
		}
		var of *Subnet
		for _, s := range r.data.subnets {
			if r.data.aclAssociation(s) == association {
				of = s
			}
		}
		if of == nil {
			return nil, refuse("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", association)
		}
		if of.VPCID != to.VPCID {
			return nil, invalidValue("network ACL %s and subnet %s belong to different networks", to.ID, of.ID)
		}
		for _, a := range r.data.acls {
			a.Associations = withoutSubnet(a.Associations, of.ID)
		}
		replaced = r.w.newID("aclassoc")
		to.Associations = append(to.Associations, SubnetAssociation{replaced, of.ID})
		return []string{to.ID, of.ID}, nil
	})
	return replaced, err
}
