package compute_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// TestGroupsAreWithin: a listing tells the Namespaces that a group cannot have members beyond,
// whoever there is.
func TestGroupsAreWithin(t *testing.T) {
	pods := &policy.Selector{MatchLabels: map[string]string{"app": "web"}}
	named := func(values ...string) *policy.Selector {
		return &policy.Selector{MatchExpressions: []policy.Requirement{{Key: "kubernetes.io/metadata.name", Operator: "In", Values: values}}}
	}
	for name, x := range map[string]struct {
		peer policy.Peer
		want []string
	}{
		"own Namespace":     {policy.Peer{PodSelector: pods}, []string{"shop"}},
		"every Namespace":   {policy.Peer{PodSelector: pods, NamespaceSelector: &policy.Selector{}}, nil},
		"by labels":         {policy.Peer{NamespaceSelector: &policy.Selector{MatchLabels: map[string]string{"team": "a"}}}, nil},
		"by names":          {policy.Peer{PodSelector: pods, NamespaceSelector: named("b", "a")}, []string{"a", "b"}},
		"Nodes":             {policy.Peer{NodeSelector: &policy.Selector{}}, []string{""}},
		"a group":           {policy.Peer{Group: "own"}, []string{"shop"}},
		"a group of groups": {policy.Peer{Group: "wide"}, nil},
		"behind a Service":  {policy.Peer{Group: "service"}, []string{"elsewhere"}},
	} {
		e := compute.New(compute.Options{})
		e.PutNamespace(policy.Namespace{Name: "shop"})
		e.PutGroup(policy.Group{Namespace: "shop", Name: "own", UID: "1", PodSelector: pods})
		e.PutGroup(policy.Group{Namespace: "shop", Name: "any", UID: "2", PodSelector: pods, NamespaceSelector: &policy.Selector{}})
		e.PutGroup(policy.Group{Namespace: "shop", Name: "wide", UID: "3", ChildGroups: []string{"own", "any"}})
		e.PutGroup(policy.Group{Namespace: "shop", Name: "service", UID: "4", ServiceReference: &policy.NamespacedName{Namespace: "elsewhere", Name: "s"}})
		e.PutPolicy(policy.Policy{Kind: policy.AntreaNetworkPolicy, Namespace: "shop", Name: "p", UID: "p", Priority: 5, AppliedTo: []policy.AppliedTo{{PodSelector: pods}},
			Ingress: []policy.Rule{{Name: "r", Action: policy.Allow, Peers: []policy.Peer{x.peer}}}})
		d := e.Commit()
		groups := e.Listing().AddressGroups
		if len(groups) != 1 {
			t.Errorf("%s: %d groups, %+v", name, len(groups), d.Problems)
			continue
		}
		if got := groups[0].Within; !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: within %s, want %s", name, fmt.Sprintf("%q", got), fmt.Sprintf("%q", x.want))
		}
	}
}
