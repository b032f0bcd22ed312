package convert

import (
	"strings"
	"testing"

	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/internal/policy"
)

// What was written for a later version of the API arrives with fields empty; it closes what it
// cannot say.
func TestUpstreamFailsClosed(t *testing.T) {
	all := policy.Peer{NamespaceSelector: &policy.Selector{}}
	http := policy.Port{Protocol: policy.TCP, Port: &policy.PortRef{Number: 80}}
	for _, c := range []struct {
		name, rule string
		want       policy.Rule
		warnings   string
	}{
		{"allow, one peer of two", "{action: Accept, from: [{}, {namespaces: {}}]}",
			policy.Rule{Action: policy.Allow, Peers: []policy.Peer{all}, NoPeers: true}, "spec.ingress[0].from[0]"},
		{"allow, no peer", "{action: Accept, from: [{}]}", policy.Rule{Action: policy.Allow, NoPeers: true}, "spec.ingress[0].from[0]"},
		{"deny", "{action: Deny, from: [{namespaces: {}}, {}], protocols: [{tcp: {destinationPort: {number: 80}}}]}",
			policy.Rule{Action: policy.Drop, Ports: []policy.Port{http}}, "spec.ingress[0].from[1]"},
		{"pass", "{action: Pass, from: [{}]}", policy.Rule{Action: policy.Drop}, "instead of passing them on"},
		{"allow, one protocol of two", "{action: Accept, from: [{namespaces: {}}], protocols: [{}, {tcp: {destinationPort: {number: 80}}}]}",
			policy.Rule{Action: policy.Allow, Peers: []policy.Peer{all}, NoPeers: true, Ports: []policy.Port{http}}, "spec.ingress[0].protocols[0]"},
		{"allow, no protocol", "{action: Accept, from: [{namespaces: {}}], protocols: [{}]}",
			policy.Rule{Action: policy.Allow, NoPeers: true}, "spec.ingress[0].protocols[0]"},
		{"allow, a port of another form", "{action: Accept, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {}}}]}",
			policy.Rule{Action: policy.Allow, NoPeers: true}, "spec.ingress[0].protocols[0]"},
		{"deny, protocol", "{action: Deny, from: [{namespaces: {}}], protocols: [{}, {destinationNamedPort: a}]}",
			policy.Rule{Action: policy.Drop, Peers: []policy.Peer{all}, NoPeers: true}, "spec.ingress[0].protocols[0]"},
		{"pass, protocol", "{action: Pass, from: [{namespaces: {}}], protocols: [{}]}",
			policy.Rule{Action: policy.Drop, Peers: []policy.Peer{all}, NoPeers: true}, "spec.ingress[0].protocols[0]"},
		{"action", "{action: Audit, from: [{namespaces: {}}]}",
			policy.Rule{Action: policy.Drop, Peers: []policy.Peer{all}, NoPeers: true}, "spec.ingress[0].action"},
		{"no peers at all", "{action: Deny, from: []}", policy.Rule{Action: policy.Drop, NoPeers: true}, "spec.ingress[0].from"},
		{"understood", "{action: Pass, name: r, from: [{namespaces: {}}], protocols: [{udp: {}}]}",
			policy.Rule{Action: policy.Pass, Name: "r", Peers: []policy.Peer{all}, NoPeers: true, Ports: []policy.Port{{Protocol: policy.UDP}}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := UpstreamClusterNetworkPolicy(decode[v1alpha2.ClusterNetworkPolicy](t,
				"metadata: {name: p, uid: u, generation: 3}\nspec: {tier: Admin, priority: 9, subject: {namespaces: {}}, ingress: ["+c.rule+"]}"))
			want(t, []policy.Rule{c.want}, p.Ingress)
			if got := policy.JoinErrors(p.Warnings); (c.warnings == "") != (got == "") || !strings.Contains(got, c.warnings) {
				t.Errorf("warnings %q, want %q", got, c.warnings)
			}
		})
	}
}

func TestUpstreamOddities(t *testing.T) {
	p := UpstreamClusterNetworkPolicy(decode[v1alpha2.ClusterNetworkPolicy](t, "spec: {tier: Platform, priority: 9, subject: {}, "+
		"egress: [{action: Deny, to: [{domainNames: [a.example.]}]}]}"))
	if *p.TierPriority != policy.AdminTierPriority || p.AppliedTo != nil || len(p.Warnings) != 2 {
		t.Errorf("%+v", p)
	}
	want(t, []policy.Rule{{Action: policy.Drop, NoPeers: true, Peers: []policy.Peer{{DomainNames: []string{"a.example."}}}}}, p.Egress)
	b := BaselineAdminNetworkPolicy(decode[v1alpha1.BaselineAdminNetworkPolicy](t, "spec: {subject: {namespaces: {}}, "+
		"ingress: [{action: Pass, from: [{namespaces: {}}], ports: [{portNumber: {port: 0}}, {}]}]}"))
	if b.Ingress[0].Action != policy.Drop || len(b.Warnings) != 2 || b.Ingress[0].Ports != nil {
		t.Errorf("%+v", b)
	}
	a := AdminNetworkPolicy(decode[v1alpha1.AdminNetworkPolicy](t, "spec: {subject: {namespaces: {}}, "+
		"ingress: [{action: Allow, from: [{namespaces: {}}], ports: [{portRange: {}}]}]}"))
	if r := a.Ingress[0].Ports[0]; r.Port == nil || r.EndPort == nil {
		t.Errorf("a range of nothing is a range of everything: %+v", r)
	}
}
