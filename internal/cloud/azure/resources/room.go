package resources

import (
	"cmp"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/lower"
)

// Azure's quotas in a region of a subscription.
const (
	usualNSGs = 5000
	usualASGs = 3000
)

// Room is how many groups a region of the subscription can have.
type Room struct{ nsgs, asgs int }

// RoomOf is the room by the quotas of a subscription; nil means Azure's own.
func RoomOf(q *v1alpha1.AzureQuotas) Room {
	if q == nil {
		q = &v1alpha1.AzureQuotas{}
	}
	return Room{cmp.Or(int(q.NetworkSecurityGroups), usualNSGs), cmp.Or(int(q.ApplicationSecurityGroups), usualASGs)}
}

// Limits returns the limits of an account. A group of ours is one of either kind, so the lower
// quota counts.
func Limits(r Room) cloud.Limits {
	return cloud.Limits{
		RulesPerGroup: lower.RulesPerGroup, GroupsPerInterface: 1, GroupsPerRegion: min(r.nsgs, r.asgs), TagsPerResource: 50,
		WholeGroups: true, Excepts: true,
	}
}

// beside is how many groups count beside the pairs that a snapshot shows, so that what is left of
// the quota is what is left of both kinds.
func (r Room) beside(nsgs, asgs, shown int) int {
	left := min(r.nsgs-nsgs, r.asgs-asgs)
	return max(min(r.nsgs, r.asgs)-left-shown, 0)
}
