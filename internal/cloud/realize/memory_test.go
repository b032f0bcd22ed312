package realize

import (
	"slices"
	"testing"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/go-logr/logr"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance/register/registertest"
)

// TestMemoryEndsWithTheRightToWrite: what is remembered of an interface counts against its record
// for as long as nobody else may write records. After that a record may be another's.
func TestMemoryEndsWithTheRightToWrite(t *testing.T) {
	snap := &cloud.Snapshot{
		Scope:      cloud.Scope{Account: labAccount, Region: home},
		Groups:     []cloud.Group{{ID: "sg-ours", Name: cloud.NamePrefix + "web", Tags: map[string]string{cloud.TagKind: "class", cloud.TagCluster: labCluster, cloud.TagAccount: labAccount}}},
		Interfaces: []cloud.Interface{{ID: "eni-1", GroupIDs: []string{"sg-ours"}, Tags: map[string]string{cloud.TagFormer: "sg-2"}}},
	}
	for _, alone := range []bool{true, false} {
		w := &worker{
			r:   &Realizer{Options: Options{ClusterID: labCluster, Clock: clocktesting.NewFakeClock(snap.ObservedAt)}},
			key: labAccount, memory: map[string]memory{home: {"eni-1": {groups: []string{"sg-1"}}}},
		}
		if !alone {
			places, err := instance.Open(instance.Process{Epoch: "a", Heartbeat: labHeartbeat, Register: &registertest.Notebook{}}, labPause, w.r.Clock, logr.Discard())
			if err != nil {
				t.Fatal(err)
			}
			w.presence = instance.NewPresence(places, instance.Subject{Clock: w.r.Clock}) // it has not looked who else is there
		}
		out := w.remembering([]plan.Region{{Snapshot: snap}}, nil)
		if got := out[0].Former["eni-1"]; slices.Equal(got, []string{"sg-1"}) != alone {
			t.Errorf("alone %t: %v", alone, got)
		}
		if _, kept := w.memory[home]["eni-1"]; kept != alone {
			t.Errorf("alone %t: remembered %t", alone, kept)
		}
	}
}
