package inventory

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

// TestMarkIsNoNews: the mark of an instance changes with every heartbeat. It makes no snapshot
// another one, and the status of the Vpc leaves it out.
func TestMarkIsNoNews(t *testing.T) {
	t.Parallel()
	snap := func(tags map[string]string) *cloud.Snapshot {
		return &cloud.Snapshot{Scope: cloud.Scope{Account: "clouds/acc", Region: oregon}, Networks: []cloud.Network{{ID: vpc1, Tags: tags}}}
	}
	before := snap(map[string]string{"a": "b", cloud.TagInstance: "abc 7 15s"})
	for name, c := range map[string]struct {
		tags map[string]string
		same bool
	}{
		"moved":         {map[string]string{"a": "b", cloud.TagInstance: "abc 8 15s"}, true},
		"gone":          {map[string]string{"a": "b"}, true},
		"another tag":   {map[string]string{"a": "c", cloud.TagInstance: "abc 7 15s"}, false},
		"no more tags":  {map[string]string{cloud.TagInstance: "abc 7 15s"}, false},
		"another claim": {map[string]string{"a": "b", cloud.TagClaim: "x", cloud.TagInstance: "abc 7 15s"}, false},
	} {
		after := snap(c.tags)
		if sameContent(before, after) != c.same || changedVMs(before, after, map[string]bool{}) != c.same {
			t.Errorf("%s: same content %t, same frame %t, want %t", name, sameContent(before, after), changedVMs(before, after, map[string]bool{}), c.same)
		}
	}
	d := selection.Compute(selection.View{Account: types.NamespacedName{Namespace: "clouds", Name: "acc"}, Snapshots: []*cloud.Snapshot{before}})
	vpc := d.Vpcs[types.NamespacedName{Namespace: "clouds", Name: vpc1}]
	if vpc == nil || len(vpc.Status.Tags) != 1 || vpc.Status.Tags["a"] != "b" || len(before.Networks[0].Tags) != 2 {
		t.Errorf("%+v of %+v", vpc, before.Networks[0])
	}
}
