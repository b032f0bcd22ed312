package aws

import (
	"net/netip"
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

// MaxACLEntries is how many entries of a direction and family an ACL has at most.
const MaxACLEntries = 20

// Protocols of ACL entries and flows, by IANA number.
const (
	ProtoAll    = -1
	ProtoICMP   = 1
	ProtoTCP    = 6
	ProtoUDP    = 17
	ProtoICMPv6 = 58
)

// EntryKey names an entry within its ACL.
type EntryKey struct {
	Number int
	Egress bool
}

// Key names the entry within its ACL.
func (e *ACLEntry) Key() EntryKey { return EntryKey{e.Number, e.Egress} }

// OpenEntries allow everything, as in a new default ACL.
func OpenEntries(v6 bool) []ACLEntry {
	var out []ACLEntry
	for i, p := range Everywhere {
		if i == 0 || v6 {
			for _, egress := range []bool{true, false} {
				out = append(out, ACLEntry{Number: 100 + i, Egress: egress, Protocol: ProtoAll, Allow: true, CIDR: p})
			}
		}
	}
	return out
}

// Check refuses an entry that the cloud would refuse by itself.
func (e *ACLEntry) Check() error {
	switch {
	case e.Number < 1 || e.Number >= LastACLEntry:
		return InvalidValue("Value (%d) for parameter ruleNumber is invalid. Rule number must be between 1 and 32766.", e.Number)
	case e.Protocol < ProtoAll || e.Protocol > 255:
		return InvalidValue("Invalid value '%d' for IP protocol. Unknown protocol.", e.Protocol)
	case !e.CIDR.IsValid() || e.CIDR != e.CIDR.Masked():
		return InvalidValue("Value (%s) for parameter cidrBlock is invalid. This is not a valid CIDR block.", e.CIDR)
	case (e.Protocol == ProtoTCP || e.Protocol == ProtoUDP) && (e.FromPort < 0 || e.ToPort > 65535 || e.FromPort > e.ToPort):
		return InvalidValue("Invalid TCP/UDP port range (%d:%d)", e.FromPort, e.ToPort)
	case (e.Protocol == ProtoICMP || e.Protocol == ProtoICMPv6) && (e.FromPort < -1 || e.FromPort > 255 || e.ToPort < -1 || e.ToPort > 255):
		return InvalidValue("ICMP type (%d) or code (%d) out of range", e.FromPort, e.ToPort)
	}
	return nil
}

// Count is how many entries of a direction and family the quota counts.
func (a *NetworkACL) Count(egress, v4 bool) int {
	n := 0
	for _, e := range a.Entries {
		if e.Egress == egress && e.CIDR.Addr().Is4() == v4 {
			n++
		}
	}
	return n
}
