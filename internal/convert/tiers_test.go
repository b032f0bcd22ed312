package convert

import (
	"testing"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// TestBaseline: the engine, which knows no API, has the same number for the baseline tier.
func TestBaseline(t *testing.T) {
	if evaluate.BaselineTierPriority != v1beta1.TierPriorityBaseline {
		t.Errorf("%d and %d", evaluate.BaselineTierPriority, v1beta1.TierPriorityBaseline)
	}
}
