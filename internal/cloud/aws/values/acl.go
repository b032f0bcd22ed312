package values

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/cloud"
)

// lastEntry is the number of the entries at the end of every ACL, which deny.
const lastEntry = 32767

// ACL reads a network ACL, without the entries at its end.
func ACL(a types.NetworkAcl) (cloud.NetworkACL, error) {
	out := cloud.NetworkACL{ID: awssdk.ToString(a.NetworkAclId)}
	for _, x := range a.Associations {
		out.SubnetIDs = append(out.SubnetIDs, awssdk.ToString(x.SubnetId))
	}
	for _, e := range a.Entries {
		entry := cloud.ACLEntry{Number: int(awssdk.ToInt32(e.RuleNumber)), Egress: awssdk.ToBool(e.Egress), Allow: e.RuleAction == types.RuleActionAllow}
		if entry.Number >= lastEntry {
			continue
		}
		peer, err := netip.ParsePrefix(cmp.Or(awssdk.ToString(e.CidrBlock), awssdk.ToString(e.Ipv6CidrBlock)))
		if err != nil {
			return out, fmt.Errorf("network ACL %s: entry %d: %w", out.ID, entry.Number, err)
		}
		entry.Peers = []netip.Prefix{peer}
		if entry.Protocol, err = strconv.Atoi(awssdk.ToString(e.Protocol)); err != nil {
			return out, fmt.Errorf("network ACL %s: entry %d: protocol: %w", out.ID, entry.Number, err)
		}
		if entry.Protocol == -1 {
			entry.Protocol = cloud.AnyProtocol
		}
		switch {
		case e.PortRange != nil:
			entry.From, entry.To = int(awssdk.ToInt32(e.PortRange.From)), int(awssdk.ToInt32(e.PortRange.To))
		case e.IcmpTypeCode != nil:
			entry.From, entry.To = int(awssdk.ToInt32(e.IcmpTypeCode.Type)), int(awssdk.ToInt32(e.IcmpTypeCode.Code))
		}
		out.Entries = append(out.Entries, entry)
	}
	return out, nil
}
