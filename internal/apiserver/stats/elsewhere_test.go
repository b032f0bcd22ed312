package stats

import (
	"math"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/api/stats/v1alpha1"
)

// TestElsewhere: what other clusters have counted is added to what was counted here, each in place
// of what it said before; a process that begins anew loses nothing, and one that lies changes
// nothing but its own part.
func TestElsewhere(t *testing.T) {
	b, _ := newBook()
	b.Begin(Policy{v1beta2.AntreaClusterNetworkPolicy, "", "p", "1"})
	b.Add("n", &v1beta2.NodeStatsSummary{AntreaClusterNetworkPolicies: []v1beta2.NetworkPolicyStats{counted("1", 1, "r")}}, rules{"r"})
	say := func(cluster, epoch string, n int64) {
		traffic := v1alpha1.TrafficStats{Packets: n, Bytes: n, Sessions: n}
		b.PutElsewhere(cluster, epoch, "1", traffic, map[string]v1alpha1.TrafficStats{"r": traffic})
	}
	want := func(what string, packets int64) {
		t.Helper()
		c, is := b.Get(v1beta2.AntreaClusterNetworkPolicy, "", "p")
		if !is || c.Total.Packets != packets || len(c.Rules) != 1 || c.Rules[0].TrafficStats.Packets != packets {
			t.Errorf("%s: %+v, want %d packets", what, c, packets)
		}
	}
	want("here alone", 1)
	say("east", "a", 10)
	say("west", "a", 5)
	want("in both", 16)
	say("east", "a", 12)
	want("in place of what it said", 18)
	say("east", "b", 20)
	want("another process", 38)
	say("east", "b", 1)
	want("it counts anew", 39)
	b.PutElsewhere("east", "b", "unknown", v1alpha1.TrafficStats{Packets: 1}, nil)
	want("of another policy", 39)
	for range 3 { // now and former
		say("east", "c", math.MaxInt64)
		say("east", "d", 0)
	}
	say("north", "a", -5)
	want("lies", 6+mostElsewhere)
	b.DropElsewhere("east")
	want("without the liar", 6)
	b.End("1")
	if _, is := b.Get(v1beta2.AntreaClusterNetworkPolicy, "", "p"); is {
		t.Error("it is still there")
	}
}
