package flow

import "github.com/nephele-io/nephele/internal/cloud"

// Directions are ingress and egress, in the order in which pairs of permits have them.
func Directions() [2]cloud.Direction { return [2]cloud.Direction{cloud.Ingress, cloud.Egress} }

// Index is the place of a direction in such pairs.
func Index(d cloud.Direction) int {
	if d == cloud.Ingress {
		return 0
	}
	return 1
}
