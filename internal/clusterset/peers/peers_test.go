package peers

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
)

// TestParseClusters: both ways to write a selector, and nothing that is none.
func TestParseClusters(t *testing.T) {
	for _, text := range []string{"{}", "env=prod", "env in (prod,test),!old", `{"matchLabels":{"env":"prod"}}`, "clusterset.k8s.io/cluster-name=east"} {
		if _, err := ParseClusters(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", " ", "env=prod=x", `{"matchlabels":{"env":"prod"}}`, `{"matchLabels":{"env":1}}`, `{"matchExpressions":[{"key":"a","operator":"Is"}]}`, "{", strings.Repeat("a", 5000), "*"} {
		if s, err := ParseClusters(text); err == nil {
			t.Errorf("%q is taken as %s", text, s)
		}
	}
}

// TestCheck: what cannot be of other clusters is refused where it stands.
func TestCheck(t *testing.T) {
	one := func(p policy.Peer) *policy.Policy {
		p.Scope = ScopeClusterSet
		return &policy.Policy{Egress: []policy.Rule{{}, {Peers: []policy.Peer{{}, p}}}}
	}
	web := &policy.Selector{MatchLabels: map[string]string{"app": "web"}}
	for _, p := range []policy.Peer{{PodSelector: web}, {ExternalEntitySelector: web, NamespaceSelector: web}, {NodeSelector: web}, {ServiceAccount: &policy.NamespacedName{Namespace: "a", Name: "b"}}} {
		if errs := Check("{}", one(p)); len(errs) > 0 || len(Groups(one(p))) != 1 {
			t.Errorf("%+v: %v", p, errs)
		}
	}
	hash := &policy.Selector{MatchExpressions: []policy.Requirement{{Key: "pod-template-hash", Operator: "Exists"}}}
	given := &policy.Selector{MatchLabels: map[string]string{"set.nephele.io/env": "prod"}}
	for _, p := range []policy.Peer{{PodSelector: hash}, {PodSelector: given}, {Group: "g"}, {FQDN: "x.io"}, {IPBlock: &policy.IPBlock{CIDR: "10.0.0.0/8"}}, {PodSelector: web, Namespaces: &policy.PeerNamespaces{Match: "Self"}}} {
		errs := Check("{}", one(p))
		if len(errs) != 1 || errs[0].Field != "spec.egress[1].to[1].scope" || len(Groups(one(p))) != 0 {
			t.Errorf("%+v: %v", p, errs)
		}
		if local := Localize(*one(p)); len(local.Egress[1].Peers) != 2 {
			t.Errorf("%+v: has a remote group", p)
		}
	}
	if errs := Check("a b", one(policy.Peer{PodSelector: web})); len(errs) != 1 || errs[0].Field != "metadata.annotations[nephele.io/clusters]" {
		t.Errorf("%v", errs)
	}
}

// TestIDs: one meaning has one id, two have two, and a policy is not changed by what is made of it.
func TestIDs(t *testing.T) {
	id := func(namespace string, p policy.Peer) string {
		p.Scope = ScopeClusterSet
		return Groups(&policy.Policy{Namespace: namespace, Ingress: []policy.Rule{{Peers: []policy.Peer{p}}}})[0].ID
	}
	in := func(values ...string) policy.Requirement {
		return policy.Requirement{Key: "app", Operator: "In", Values: values}
	}
	has := policy.Requirement{Key: "tier", Operator: "Exists"}
	a := policy.Peer{PodSelector: &policy.Selector{MatchExpressions: []policy.Requirement{in("b", "a"), has}}}
	b := policy.Peer{PodSelector: &policy.Selector{MatchExpressions: []policy.Requirement{has, in("a", "b")}}}
	if id("", a) != id("", b) || a.PodSelector.MatchExpressions[0].Values[0] != "b" {
		t.Error("the order of expressions tells peers apart, or was changed")
	}
	if id("shop", a) == id("", a) || id("shop", a) == id("dev", a) {
		t.Error("Namespaces do not tell peers apart")
	}
	if id("", policy.Peer{PodSelector: a.PodSelector}) == id("", policy.Peer{ExternalEntitySelector: a.PodSelector}) {
		t.Error("kinds do not tell peers apart")
	}
}

// TestServicesOfMachines: a Service in an own policy is the one of this cluster as well where Pods
// send to it by its cluster IP, and its exported endpoints alone where nothing but machines do.
func TestServicesOfMachines(t *testing.T) {
	all := &policy.Selector{}
	pods, machines, nodes := policy.AppliedTo{PodSelector: all}, policy.AppliedTo{ExternalEntitySelector: all}, policy.AppliedTo{NodeSelector: all}
	for name, c := range map[string]struct {
		policy, rule []policy.AppliedTo
		set, here    bool
	}{
		"Pods":                    {policy: []policy.AppliedTo{pods}, here: true},
		"machines":                {policy: []policy.AppliedTo{machines, machines}},
		"both":                    {policy: []policy.AppliedTo{machines, pods}, here: true},
		"Nodes":                   {policy: []policy.AppliedTo{nodes}, here: true},
		"a group":                 {policy: []policy.AppliedTo{{Group: "g"}}, here: true},
		"a rule for machines":     {rule: []policy.AppliedTo{machines}},
		"nothing":                 {here: true},
		"Pods, of the hub":        {policy: []policy.AppliedTo{pods}, set: true},
		"either in one selection": {policy: []policy.AppliedTo{{PodSelector: all, ExternalEntitySelector: all}}, here: true},
	} {
		p := policy.Policy{Kind: policy.AntreaClusterNetworkPolicy, Set: c.set, AppliedTo: c.policy, Egress: []policy.Rule{{
			Action: policy.Allow, AppliedTo: c.rule, ToServices: []policy.ServicePeer{{Namespace: "shop", Name: "db", Scope: ScopeClusterSet}},
		}}}
		here, remote := false, false
		for _, s := range Localize(p).Egress[0].ToServices {
			here, remote = here || s.RemoteGroup == "", remote || s.RemoteGroup != ""
		}
		if here != c.here || !remote {
			t.Errorf("%s: here %t, want %t; in other clusters %t", name, here, c.here, remote)
		}
	}
}
