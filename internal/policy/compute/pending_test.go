package compute

import (
	"fmt"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
)

// TestPendingIsBounded: what waits for the next Commit does not grow with how often entities
// change, only with how many do, and what they were is not forgotten.
func TestPendingIsBounded(t *testing.T) {
	const entities, rounds = 100, 200
	e := New(Options{})
	all := &policy.Selector{MatchLabels: map[string]string{"role": "in"}}
	e.PutPolicy(policy.Policy{
		Kind: policy.KubernetesNetworkPolicy, Namespace: "n", Name: "p", UID: "p",
		AppliedTo: []policy.AppliedTo{{PodSelector: all}}, Ingress: []policy.Rule{{Peers: []policy.Peer{{PodSelector: all}}}},
	})
	put := func(i int, role string) {
		e.PutEntity(policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "n", Name: fmt.Sprint(i)}, Labels: map[string]string{"role": role}, Host: "h"})
	}
	for i := range entities {
		put(i, "in")
	}
	e.Commit()
	for range rounds {
		for i := range entities {
			put(i, "out")
			put(i, "in")
		}
	}
	for _, g := range e.groups.dirty {
		if n := cap(g.pending); n > 8*entities {
			t.Errorf("room for %d notes about %d entities", n, entities)
		}
	}
	if d := e.Commit(); !d.Empty() {
		t.Errorf("nothing has changed in the end, but %+v is told", d)
	}
	for range rounds {
		for i := range entities {
			put(i, "in")
			put(i, "out")
		}
	}
	if d := e.Commit(); len(d.AppliedToGroups) != 1 || len(d.AppliedToGroups[0].Removed) != entities {
		t.Errorf("all have left, but %+v is told", d)
	}
}
