package convert

import (
	"testing"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/policy"
)

// TestBaseline: the engine, which knows no API, has the same number for the baseline tier.
func TestBaseline(t *testing.T) {
	if policy.BaselineTierPriority != v1beta1.TierPriorityBaseline {
		t.Errorf("%d and %d", policy.BaselineTierPriority, v1beta1.TierPriorityBaseline)
	}
}
