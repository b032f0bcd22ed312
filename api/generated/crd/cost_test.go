package crd_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// large is a policy of n rules in each direction, with so many peers and ports each.
func large(kind string, n, peers, ports int) *unstructured.Unstructured {
	rule := func(side string, i int) map[string]any {
		var from, to []any
		for p := range peers {
			from = append(from, []map[string]any{
				{"ipBlock": map[string]any{"cidr": fmt.Sprintf("10.%d.%d.0/24", i/250, i%250)}},
				{"podSelector": map[string]any{"matchLabels": map[string]any{"app": fmt.Sprint("a", i)}}},
			}[p%2])
		}
		for p := range ports {
			to = append(to, map[string]any{"protocol": "TCP", "port": int64(1000 + p), "endPort": int64(2000 + p)})
		}
		return map[string]any{"action": "Allow", "name": fmt.Sprint(side, i), side: from, "ports": to}
	}
	var in, out []any
	for i := range n {
		in, out = append(in, rule("from", i)), append(out, rule("to", i))
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "large"},
		"spec":     map[string]any{"priority": 5.0, "appliedTo": []any{map[string]any{"podSelector": map[string]any{}}}, "ingress": in, "egress": out},
	}}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "crd.antrea.io", Version: "v1beta1", Kind: kind})
	return o
}

// cost is what the CEL rules of a policy cost.
func (s *server) cost(t *testing.T, o *unstructured.Unstructured) int64 {
	t.Helper()
	k := s.kinds[o.GroupVersionKind()]
	errs, left := k.rules.Validate(context.Background(), nil, k.structural, o.Object, nil, celconfig.RuntimeCELCostBudget)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return celconfig.RuntimeCELCostBudget - left
}

// TestCostOfRules: the largest policy that is allowed costs a part of what kube-apiserver spends on
// one object, and twice as many rules cost twice as much.
func TestCostOfRules(t *testing.T) {
	s := newServer(t)
	for _, kind := range []string{"NetworkPolicy", "ClusterNetworkPolicy"} {
		half, whole := s.cost(t, large(kind, 256, 5, 2)), s.cost(t, large(kind, 512, 5, 2))
		t.Logf("%s: %d, %d", kind, half, whole)
		if whole > 21*half/10 {
			t.Errorf("%s: 256 rules in each direction cost %d, 512 %d", kind, half, whole)
		}
		if whole > celconfig.RuntimeCELCostBudget/4 {
			t.Errorf("%s: 512 rules in each direction cost %d of %d", kind, whole, celconfig.RuntimeCELCostBudget)
		}
	}
}
