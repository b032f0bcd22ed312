// Package defaults has what the cloud gives objects of which a description says no more than that
// they are there: ids, hardware addresses, default groups and their rules.
//
// Everything follows from the arguments, so that the same description gives the same account.
package defaults

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// The name and description of the default group of a VPC.
const (
	GroupName        = "default"
	GroupDescription = "default VPC security group"
)

// IsAccount reports whether a text is the id of an account: twelve digits.
func IsAccount(id string) bool {
	return len(id) == 12 && strings.Trim(id, "0123456789") == ""
}

// LaunchTime is when every machine and service of an estate was made: a description has no clock.
func LaunchTime() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// ID is a wire id that depends on its arguments alone.
func ID(prefix string, parts ...string) string {
	d := Digest(parts...)
	return prefix + "-" + hex.EncodeToString(d[:9])[:17]
}

// Digest is the hash that ids are made of.
func Digest(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

// MAC is an address that depends on the id of an interface alone.
func MAC(id string) string {
	d := Digest("mac", id)
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", d[0], d[1], d[2], d[3], d[4])
}

// GroupOf makes the default group of a VPC as the cloud does.
func GroupOf(v *aws.VPC) aws.SecurityGroup {
	g := aws.SecurityGroup{ID: ID("sg", v.ID, GroupName), Account: v.Account, VPCID: v.ID, Name: GroupName, Description: GroupDescription}
	g.Rules = append(g.Rules, aws.SecurityGroupRule{
		GroupID: g.ID, Account: g.Account, Protocol: aws.AllProtocols, FromPort: -1, ToPort: -1,
		Group: &aws.GroupPeer{GroupID: g.ID, UserID: g.Account},
	})
	g.Rules = append(g.Rules, EgressOf(v, g.ID)...)
	NumberRules(&g)
	return g
}

// EgressOf are the egress rules of a new group.
func EgressOf(v *aws.VPC, groupID string) []aws.SecurityGroupRule {
	rule := aws.SecurityGroupRule{GroupID: groupID, Account: v.Account, Egress: true, Protocol: aws.AllProtocols, FromPort: -1, ToPort: -1}
	rule.CIDR = netip.MustParsePrefix("0.0.0.0/0")
	out := []aws.SecurityGroupRule{rule}
	if slices.ContainsFunc(v.CIDRs, func(c aws.CIDRBlock) bool { return c.Prefix.Addr().Is6() }) {
		rule.CIDR = netip.MustParsePrefix("::/0")
		out = append(out, rule)
	}
	return out
}

// NumberRules gives the rules of a group ids that depend on the group and on what the rules say.
func NumberRules(g *aws.SecurityGroup) {
	for i := range g.Rules {
		g.Rules[i].ID = ID("sgr", g.ID, g.Rules[i].String())
	}
}
