package aws

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// DefaultGroup is the reserved name of the group that each VPC has from its creation.
const DefaultGroup = "default"

// Everywhere are the blocks of the egress rules that a new group has.
var Everywhere = [2]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// protocolNames are the protocols that EC2 prints by name. It is never written to.
var protocolNames = map[string]int{"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58}

// AllProtocols is the protocol of a rule that matches every protocol.
const AllProtocols = "-1"

// canonicalProtocol returns the EC2 spelling of a protocol given by name or number.
func canonicalProtocol(p string) (string, bool) {
	p = strings.ToLower(p)
	if _, ok := protocolNames[p]; ok {
		return p, true
	}
	if p == AllProtocols || p == "all" {
		return AllProtocols, true
	}
	n, err := strconv.Atoi(p)
	if err != nil || n < 0 || n > 255 {
		return "", false
	}
	for name, number := range protocolNames {
		if number == n {
			return name, true
		}
	}
	return strconv.Itoa(n), true
}

// ProtocolNumber returns the IANA number of a canonical protocol, -1 for all.
func ProtocolNumber(p string) int {
	if n, ok := protocolNames[p]; ok {
		return n
	}
	n, err := strconv.Atoi(p)
	if err != nil {
		return -1
	}
	return n
}

// ports checks and completes the port fields of a canonical protocol: ports for TCP and UDP, type
// and code for ICMP, and -1, -1 for everything else, where EC2 ignores what was given.
func ports(protocol string, from, to *int32) (int32, int32, error) {
	switch protocol {
	case "tcp", "udp":
		if from == nil || to == nil {
			return 0, 0, InvalidValue("Invalid value for portRange. Must specify both from and to ports with TCP/UDP.")
		}
		if *from < 0 || *to > 65535 || *from > *to {
			return 0, 0, InvalidValue("Invalid TCP/UDP port range (%d:%d)", *from, *to)
		}
		return *from, *to, nil
	case "icmp", "icmpv6":
		if from == nil && to == nil && protocol == "icmpv6" {
			return -1, -1, nil
		}
		if from == nil || to == nil {
			return 0, 0, InvalidValue("Invalid value for portRange. Must specify both from and to ports with ICMP.")
		}
		if *from < -1 || *from > 255 || *to < -1 || *to > 255 || *from == -1 && *to != -1 {
			return 0, 0, InvalidValue("ICMP type (%d) or code (%d) out of range", *from, *to)
		}
		return *from, *to, nil
	}
	return -1, -1, nil
}

// CanonicalCIDR parses a block of the wanted family and masks its host bits.
func CanonicalCIDR(s string, v6 bool) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4() == v6 {
		return netip.Prefix{}, InvalidValue("CIDR block %s is malformed", s)
	}
	return p.Masked(), nil
}

// descriptionSet are the characters other than letters and digits that names and descriptions may
// have.
const descriptionSet = " ._-:/()#,@[]+=&;{}!$*"

// ValidDescription reports whether a name or description has only characters that EC2 takes, and
// not too many of them.
func ValidDescription(s string) bool {
	if len(s) > 255 {
		return false
	}
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.ContainsRune(descriptionSet, c):
		default:
			return false
		}
	}
	return true
}

// CheckRuleDescription refuses a description that a rule cannot have.
func CheckRuleDescription(s string) error {
	if ValidDescription(s) {
		return nil
	}
	return InvalidValue("Invalid rule description. Valid descriptions are strings less than 256 characters from the following set:  a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*")
}

// RuleKey is what makes two rules of a group the same rule. The description and tags are not part
// of it.
type RuleKey struct {
	egress   bool
	protocol string
	from, to int32
	peer     string
}

// Key is what makes the rule the same as another one of its group.
func (r *SecurityGroupRule) Key() RuleKey {
	return RuleKey{r.Egress, r.Protocol, r.FromPort, r.ToPort, r.peer()}
}

// peer is the printable peer: a block, a group id or a prefix list id.
func (r *SecurityGroupRule) peer() string {
	switch {
	case r.Group != nil:
		return r.Group.GroupID
	case r.PrefixListID != "":
		return r.PrefixListID
	}
	return r.CIDR.String()
}

// String is the rule as the estate files spell it, such as "tcp 80-81 from 0.0.0.0/0" or "all to
// sg-0a1b2c3d".
func (r *SecurityGroupRule) String() string {
	var b strings.Builder
	switch r.Protocol {
	case AllProtocols:
		b.WriteString("all")
	case "tcp", "udp":
		fmt.Fprintf(&b, "%s %s", r.Protocol, span(r.FromPort, r.ToPort, "-"))
	case "icmp", "icmpv6":
		b.WriteString(r.Protocol)
		if r.FromPort >= 0 {
			fmt.Fprintf(&b, " %d", r.FromPort)
			if r.ToPort >= 0 {
				fmt.Fprintf(&b, "/%d", r.ToPort)
			}
		}
	default:
		b.WriteString(r.Protocol)
	}
	if r.Egress {
		b.WriteString(" to ")
	} else {
		b.WriteString(" from ")
	}
	b.WriteString(r.peer())
	return b.String()
}

func span(from, to int32, dash string) string {
	if from == to {
		return strconv.Itoa(int(from))
	}
	return fmt.Sprintf("%d%s%d", from, dash, to)
}

// DuplicateMessage words InvalidPermission.Duplicate.
func (r *SecurityGroupRule) DuplicateMessage() string {
	what := strings.ToUpper(r.Protocol)
	switch r.Protocol {
	case "tcp", "udp":
		what += fmt.Sprintf(", from port: %d, to port: %d", r.FromPort, r.ToPort)
	case "icmp", "icmpv6":
		what += fmt.Sprintf(", type: %s, code: %s", orAll(r.FromPort), orAll(r.ToPort))
	case AllProtocols:
		what = "ALL"
	}
	return fmt.Sprintf(`the specified rule "peer: %s, %s, ALLOW" already exists`, r.peer(), what)
}

func orAll(n int32) string {
	if n < 0 {
		return "ALL"
	}
	return strconv.Itoa(int(n))
}
