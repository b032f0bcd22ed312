package compute_test

import (
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// TestKubernetesPoliciesAreNotReinterpreted: what no API server accepts is refused, and not
// computed as something that is valid.
func TestKubernetesPoliciesAreNotReinterpreted(t *testing.T) {
	block := &policy.IPBlock{CIDR: "10.0.0.0/8"}
	for want, spoil := range map[string]func(*policy.Policy){
		`spec.policyTypes: invalid value "egress": want Ingress or Egress`: func(p *policy.Policy) { p.OtherTypes = []string{"egress"} },
		"spec.ingress[0].from[0]: got nothing, want podSelector, namespaceSelector or ipBlock": func(p *policy.Policy) {
			p.Ingress = []policy.Rule{{Peers: []policy.Peer{{}}}}
		},
		"spec.egress[0].to[0]: got ipBlock and a selector, want either ipBlock or selectors": func(p *policy.Policy) {
			p.Egress = []policy.Rule{{Peers: []policy.Peer{{IPBlock: block, PodSelector: &policy.Selector{}}}}}
		},
	} {
		e := compute.New(compute.Options{})
		e.PutNamespace(policy.Namespace{Name: "a"})
		p := policy.Policy{Kind: policy.KubernetesNetworkPolicy, Namespace: "a", Name: "p", UID: "u", AppliedTo: []policy.AppliedTo{{PodSelector: &policy.Selector{}}}}
		spoil(&p)
		e.PutPolicy(p)
		d := e.Commit()
		if len(e.Listing().Policies) != 0 || len(d.Problems) != 1 || policy.JoinErrors(d.Problems[0].Errors) != want {
			t.Errorf("%d policies, problems %v; want %s", len(e.Listing().Policies), d.Problems, want)
		}
	}
}
