package past

import (
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

const (
	labAccount = "vms/shop"
	labCluster = "11111111-2222-3333-4444-555555555555"
	home       = "eu-west-1"
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
		p := New(labCluster, labAccount)
		p.memory[home] = memory{"eni-1": {groups: []string{"sg-1"}}}
		out := p.Remembering([]plan.Region{{Snapshot: snap}}, nil, func(string) bool { return alone })
		if got := out[0].Former["eni-1"]; slices.Equal(got, []string{"sg-1"}) != alone {
			t.Errorf("alone %t: %v", alone, got)
		}
		if _, kept := p.memory[home]["eni-1"]; kept != alone {
			t.Errorf("alone %t: remembered %t", alone, kept)
		}
	}
}
