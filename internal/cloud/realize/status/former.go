package status

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// formerDeletedCondition says which former groups of a VM that we hold do not exist any more, what
// counts in their place, and what its owner can do; nil if all are there. The snapshot may be nil.
func formerDeletedCondition(vm plan.VMStatus, seen *cloud.Snapshot) *metav1.Condition {
	if seen == nil {
		return nil
	}
	var gone, replaced []string
	for _, n := range vm.Interfaces {
		if !n.Held {
			continue
		}
		for _, id := range n.Former {
			switch g := seen.Group(id); {
			case g == nil && cloud.GroupObject(id) != "":
				gone = append(gone, cloud.GroupObject(id))
			case g != nil && g.Deleted:
				replaced = append(replaced, cloud.GroupObject(id))
			}
		}
	}
	if len(gone)+len(replaced) == 0 {
		return nil
	}
	var text []string
	if list := distinct(replaced); len(list) > 0 {
		text = append(text, fmt.Sprintf("its own network security group %s was deleted while policies guard it: where no policy decides, the default rules of Azure count in its place, "+
			"and it is given back without a group. Create a group with this id, and its rules count and it is given back", strings.Join(list, ", ")))
	}
	if list := distinct(gone); len(list) > 0 {
		text = append(text, fmt.Sprintf("of its own security groups %s were deleted while policies guard it: what they allowed counts no more, and it is given back with the others, "+
			"or with the default group of its network if there are none", strings.Join(list, ", ")))
	}
	return &metav1.Condition{
		Type: cloudv1.ConditionFormerGroupsDeleted, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonDeletedByOwner, Message: strings.Join(text, "; "),
	}
}

func distinct(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
