package status

import (
	"fmt"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Unread is why nothing new is known of a region.
type Unread struct {
	// Err is nil if the region was not read yet without anything having failed.
	Err error
	// Never is true if the region was not read since the start: nothing is known of its VMs but
	// which policies apply.
	Never bool
}

// Text says it for people; it is empty if the region is only to be read yet.
func (u Unread) Text(region string) string {
	if u.Err == nil {
		return ""
	}
	return fmt.Sprintf("the region %s cannot be read: %s", region, cloud.FailureText(u.Err))
}
