package source

import (
	"testing"

	"github.com/nephele-io/nephele/internal/preview"
)

// TestPlanOfSeveralClusters: whose groups are meant is asked where it cannot be told.
func TestPlanOfSeveralClusters(t *testing.T) {
	in := &preview.Inputs{Claimants: []string{"a", "b"}}
	if id := clusterOf(in, ""); id != preview.OfflineCluster || len(in.Warnings) != 1 || in.Warnings[0].Reason != preview.WarnManyClusters {
		t.Errorf("%q, %+v", id, in.Warnings)
	}
	if id := clusterOf(in, "b"); id != "b" {
		t.Errorf("told b, took %q", id)
	}
}
