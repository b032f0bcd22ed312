package pace

import "strings"

// Rate is a token bucket: how many calls it holds when full, and how many per second flow back into
// it.
type Rate struct {
	Burst, PerSecond float64
}

// Documented returns the bucket that EC2 documents for an action, per account and region. Every
// action has a bucket of its own, of the size of its category. Reads are taken to be filtered or
// paged, as all of ours are. Actions of other services, which document none, get that of a filtered
// read.
func Documented(action string) Rate {
	switch action {
	case "ModifyNetworkInterfaceAttribute", "CreateNetworkInterface", "DeleteNetworkInterface":
		return Rate{100, 5}
	case "CreateTags", "DeleteTags":
		return Rate{100, 10}
	case "DescribeSecurityGroupReferences", "DescribeStaleSecurityGroups":
		return Rate{20, 5}
	}
	for _, mutating := range []string{"Create", "Delete", "Modify", "Authorize", "Revoke", "Update", "Associate", "Disassociate"} {
		if strings.HasPrefix(action, mutating) {
			return Rate{50, 5}
		}
	}
	return Rate{100, 20}
}
