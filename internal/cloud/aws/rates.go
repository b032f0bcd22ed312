package aws

import (
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/pace"
)

// Documented returns the bucket that EC2 documents for an action, per account and region. Every
// action has a bucket of its own, of the size of its category. Reads are taken to be filtered or
// paged, as all of ours are. Elastic Load Balancing documents 40 reads at once; which of them share
// a bucket, and how fast it is filled again, comes out by calling. Actions of other services, which
// document none, get that of a filtered read.
func Documented(action string) pace.Rate {
	switch action {
	case "ModifyNetworkInterfaceAttribute", "CreateNetworkInterface", "DeleteNetworkInterface":
		return pace.Rate{Burst: 100, PerSecond: 5}
	case "CreateTags", "DeleteTags":
		return pace.Rate{Burst: 100, PerSecond: 10}
	case "DescribeSecurityGroupReferences", "DescribeStaleSecurityGroups":
		return pace.Rate{Burst: 20, PerSecond: 5}
	case "DescribeLoadBalancers", "DescribeListeners", "DescribeTargetGroups", "DescribeTargetGroupAttributes", "DescribeTargetHealth":
		return pace.Rate{Burst: 40, PerSecond: 10}
	}
	for _, mutating := range []string{"Create", "Delete", "Modify", "Authorize", "Revoke", "Update", "Associate", "Disassociate"} {
		if strings.HasPrefix(action, mutating) {
			return pace.Rate{Burst: 50, PerSecond: 5}
		}
	}
	return pace.Rate{Burst: 100, PerSecond: 20}
}
