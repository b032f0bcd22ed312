package convert

import (
	"encoding/json"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// addSpecs adds objects with these specs, in YAML, to the corpus.
func addSpecs(f *testing.F, specs ...string) {
	f.Helper()
	for _, spec := range specs {
		content, err := yaml.YAMLToJSON([]byte("{metadata: {name: p, namespace: n, uid: u}, spec: " + spec + "}"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
}

// computedFrom has the engine compute one policy, and returns what it says and what comes out.
func computedFrom(t *testing.T, p policy.Policy) (errs []policy.FieldError, out []*policy.ComputedPolicy) {
	t.Helper()
	e := compute.New(compute.Options{})
	e.PutNamespace(policy.Namespace{Name: "n"})
	e.PutPolicy(p)
	d := e.Commit()
	for _, problem := range d.Problems {
		errs = append(errs, problem.Errors...)
	}
	for _, c := range d.Policies {
		out = append(out, c.Policy)
		for _, r := range c.Policy.Rules {
			convertible(t, r)
		}
	}
	return errs, out
}

// FuzzAntrea holds that the engine takes every policy and group that admission takes, and that
// completing a policy changes nothing but what is left out.
func FuzzAntrea(f *testing.F) {
	addSpecs(f,
		"{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}], ports: [{port: 80, endPort: 90, protocol: UDP}]}]}",
		"{priority: 5, tier: Baseline, appliedTo: [{group: g}], egress: [{action: Allow, to: [{fqdn: '*.a.com'}, {group: h}, {}], ports: [{port: http}]}]}",
		"{priority: 5, ingress: [{action: Pass, appliedTo: [{externalEntitySelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}}], from: [{namespaces: {match: Self}}, {namespaces: {sameLabels: [a]}}]}]}",
		"{priority: 5, appliedTo: [{service: {name: s, namespace: n}}], ingress: [{action: Allow, from: [{ipBlock: {cidr: '::/0'}}], protocols: [{icmp: {icmpType: 8}}, {igmp: {groupAddress: 224.0.0.1}}]}]}",
		"{priority: 5, appliedTo: [{nodeSelector: {}}, {serviceAccount: {name: s, namespace: n}}], egress: [{action: Allow, toServices: [{name: s, scope: ClusterSet}], l7Protocols: [{http: {}}, {tls: {}}]}]}",
		"{podSelector: {}, namespaceSelector: {}}", "{ipBlocks: [{cidr: 10.0.0.0/8}]}", "{childGroups: [g, p]}", "{serviceReference: {name: s, namespace: n}}", "{}",
	)
	f.Fuzz(func(t *testing.T, content []byte) {
		var annp v1beta1.NetworkPolicy
		if json.Unmarshal(content, &annp) == nil {
			fuzzAntreaPolicy(t, NetworkPolicy(&annp))
		}
		var acnp v1beta1.ClusterNetworkPolicy
		if json.Unmarshal(content, &acnp) == nil {
			acnp.Namespace = ""
			fuzzAntreaPolicy(t, ClusterNetworkPolicy(&acnp))
		}
		var g v1beta1.Group
		if json.Unmarshal(content, &g) == nil {
			fuzzGroup(t, Group(&g))
		}
	})
}

func fuzzAntreaPolicy(t *testing.T, p policy.Policy) {
	t.Helper()
	if p.UID == "" {
		return
	}
	given := p
	admission.Default(&p)
	for i, r := range given.Ingress {
		if r.Name != "" && p.Ingress[i].Name != r.Name {
			t.Errorf("rule %s is renamed to %s", r.Name, p.Ingress[i].Name)
		}
	}
	refused := slices.Concat(admission.Schema(&p), admission.ValidatePolicy(&p, map[string]int32{p.Tier: 0}), admission.Pitfalls(&p, false))
	p.Warnings = admission.Warnings(&p)
	for _, e := range slices.Concat(refused, p.Warnings) {
		if e.Field == "" || e.Want == "" {
			t.Errorf("an error that does not say where, or what is wanted: %+v", e)
		}
	}
	errs, _ := computedFrom(t, p)
	for _, e := range errs {
		if len(refused) == 0 && e.Field != "spec.tier" {
			t.Errorf("admission finds nothing, the engine %s", e)
		}
	}
}

func fuzzGroup(t *testing.T, g policy.Group) {
	t.Helper()
	refused := slices.Concat(admission.GroupSchema(&g), admission.ValidateGroup(&g, nil))
	admission.GroupWarnings(&g)
	e := compute.New(compute.Options{})
	e.PutGroup(g)
	for _, problem := range e.Commit().Problems {
		if len(refused) == 0 && len(problem.Errors) > 0 {
			t.Errorf("admission finds nothing, the engine %s", policy.JoinErrors(problem.Errors))
		}
	}
}

// FuzzKubernetes holds that a Kubernetes NetworkPolicy which admission takes isolates in the
// directions that it says, and that the engine makes nothing of one with parts that it does not
// understand.
func FuzzKubernetes(f *testing.F) {
	addSpecs(f,
		"{podSelector: {}, policyTypes: [egress]}", "{podSelector: {}, policyTypes: [Ingress, Egress]}", "{podSelector: {}, policyTypes: [In]}",
		"{podSelector: {matchLabels: {a: b}}, ingress: [{from: [{}]}]}", "{ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}]}]}",
		"{egress: [{to: [{ipBlock: {cidr: 10.1.2.3/8, except: [10.0.0.0/8]}}], ports: [{port: '80'}, {port: 80, endPort: 70}, {protocol: '', port: http}]}]}",
		"{egress: [{to: [{namespaceSelector: {}, podSelector: {matchExpressions: [{key: a, operator: Exists}]}}], ports: [{}]}]}",
	)
	f.Fuzz(func(t *testing.T, content []byte) {
		var in networkingv1.NetworkPolicy
		if json.Unmarshal(content, &in) != nil || in.UID == "" {
			return
		}
		p := KubernetesNetworkPolicy(&in)
		refused := admission.ValidateKubernetes(&p, len(content)%2 == 0)
		errs, out := computedFrom(t, p)
		if len(errs) > 0 {
			if len(refused) == 0 {
				t.Errorf("admission finds nothing, the engine %s", policy.JoinErrors(errs))
			}
			return
		}
		types := in.Spec.PolicyTypes
		if len(types) == 0 {
			types = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
			if len(in.Spec.Egress) > 0 {
				types = append(types, networkingv1.PolicyTypeEgress)
			}
		}
		for direction, kind := range map[policy.Direction]networkingv1.PolicyType{policy.Ingress: networkingv1.PolicyTypeIngress, policy.Egress: networkingv1.PolicyTypeEgress} {
			isolates := len(out) == 1 && slices.ContainsFunc(out[0].Rules, func(r policy.ComputedRule) bool { return r.Direction == direction })
			if isolates != slices.Contains(types, kind) {
				t.Errorf("%s: isolated is %t, policyTypes are %v", kind, isolates, in.Spec.PolicyTypes)
			}
		}
	})
}
