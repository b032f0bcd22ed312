package compute

import (
	"fmt"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/policy"
)

// TestLargeSelectors: selectors of 100,000 values, which fit into an object, and as many of a
// NotIn that no index helps with, cost by their length and by the number of workloads, not by the
// product.
func TestLargeSelectors(t *testing.T) {
	const values, pods = 100_000, 2_000
	e := New(Options{})
	e.PutNamespace(policy.Namespace{Name: "n"})
	for i := range pods {
		e.PutEntity(policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "n", Name: fmt.Sprint("p", i)}, Labels: map[string]string{"a": fmt.Sprint("v", i*97)}, Host: "h"})
	}
	e.Commit()
	list := make([]string, values)
	for i := range list {
		list[i] = fmt.Sprint("v", i)
	}
	for _, operator := range []string{"In", "NotIn"} {
		begun := time.Now()
		s := &policy.Selector{MatchExpressions: []policy.Requirement{{Key: "a", Operator: operator, Values: list}}}
		e.PutPolicy(policy.Policy{Kind: policy.KubernetesNetworkPolicy, Namespace: "n", Name: operator, UID: operator, AppliedTo: []policy.AppliedTo{{PodSelector: s}}, Ingress: []policy.Rule{{}}})
		delta := e.Commit()
		members := 0
		for _, g := range delta.AppliedToGroups {
			members += len(g.Added)
		}
		want := values/97 + 1
		if operator == "NotIn" {
			want = pods - want
		}
		if members != want {
			t.Errorf("%s selects %d, want %d", operator, members, want)
		}
		// A few hundredths of a second; each product alone would take many seconds.
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%s took %s", operator, took)
		}
		t.Logf("%s: %s", operator, time.Since(begun))
	}
}
