package convert

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// FuzzUpstream holds that the engine takes every upstream policy that admission takes, and that a
// rule never becomes wider by what is not understood: without a peer it matches everything only if
// it drops.
func FuzzUpstream(f *testing.F) {
	for _, spec := range []string{
		"{tier: Admin, priority: 9, subject: {namespaces: {}}, ingress: [{action: Accept, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 80}}}]}]}",
		"{tier: Baseline, subject: {pods: {}}, egress: [{action: Pass, to: [{networks: [10.0.0.0/8]}, {}], protocols: [{}, {destinationNamedPort: a}]}]}",
		"{priority: 9, subject: {namespaces: {matchLabels: {a: b}}}, egress: [{action: Deny, to: [{nodes: {}}], ports: [{portRange: {start: 1, end: 9}}]}]}",
		"{subject: {pods: {}}, egress: [{action: Allow, to: [{domainNames: ['*.example.com', a.]}], ports: [{portNumber: {protocol: SCTP, port: 9}}, {namedPort: x}]}]}",
		"{subject: {}, ingress: [{action: Audit, from: [{}], ports: []}], egress: [{to: [{networks: ['::ffff:10.0.0.0/104']}]}]}",
	} {
		content, err := yaml.YAMLToJSON([]byte("{metadata: {name: default, uid: u}, spec: " + spec + "}"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, o := range []runtime.Object{&v1alpha1.AdminNetworkPolicy{}, &v1alpha1.BaselineAdminNetworkPolicy{}, &v1alpha2.ClusterNetworkPolicy{}} {
			if json.Unmarshal(content, o) != nil {
				continue
			}
			p, ok := Upstream(o)
			if !ok || p.UID == "" {
				continue
			}
			for _, r := range append(p.Ingress, p.Egress...) {
				if len(r.Peers) == 0 && !r.NoPeers && r.Action != policy.Drop {
					t.Errorf("%s: a rule that does %s has become one for all peers", p.Kind, r.Action)
				}
			}
			errs := admission.ValidateUpstream(&p)
			e := compute.New(compute.Options{})
			e.PutPolicy(p)
			d := e.Commit()
			for _, problem := range d.Problems {
				if len(errs) == 0 && len(problem.Errors) > 0 {
					t.Errorf("%s: admission finds nothing, the engine %s", p.Kind, policy.JoinErrors(problem.Errors))
				}
			}
			for _, c := range d.Policies {
				for _, r := range c.Policy.Rules {
					convertible(t, r)
				}
			}
		}
	})
}

// convertible converts a computed rule for the wire.
func convertible(t *testing.T, r policy.ComputedRule) {
	t.Helper()
	if out := ruleOf(&r); string(out.Direction) != string(r.Direction) {
		t.Errorf("direction %s became %s", r.Direction, out.Direction)
	}
}
