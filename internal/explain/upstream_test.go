package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestUpstreamTiers: of the tiers of the upstream kinds among the others, each policy decides one
// port more than those before it leave open.
func TestUpstreamTiers(t *testing.T) {
	antrea := func(name, tier, action string, ports string) string {
		return fmt.Sprintf("---\n{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: %s}, spec: {tier: %s, priority: 1, "+
			"appliedTo: [{podSelector: {matchLabels: {role: web}}}], ingress: [{name: %s, action: %s, from: [{namespaceSelector: {}}], ports: [%s]}]}}\n", name, tier, name, action, ports)
	}
	upstream := func(kind, name, rules string) string {
		return "---\n" + strings.Replace(previewtest.UpstreamPolicy(kind, rules), "name: default", "name: "+name, 1) + "\n"
	}
	peers := "from: [{namespaces: {}}]"
	world := previewtest.UpstreamWorld +
		antrea("platform", "platform", "Drop", "{port: 1}") +
		upstream("cnp", "admin", "ingress: [{name: pass, action: Pass, "+peers+", protocols: [{tcp: {destinationPort: {number: 3}}}]}, "+
			"{name: accept, action: Accept, "+peers+", protocols: [{tcp: {destinationPort: {range: {start: 1, end: 2}}}}]}]") +
		antrea("application", "application", "Drop", "{port: 1, endPort: 4}") +
		upstream(
			"anp",
			"anp",
			"ingress: [{name: deny, action: Deny, "+peers+", ports: [{portNumber: {port: 5}}]}, {name: pass, action: Pass, "+peers+", ports: [{portNumber: {port: 6}}]}]",
		) +
		antrea("baseline", "baseline", "Reject", "{port: 6}") +
		upstream("baseline", "last", "ingress: [{name: pass, action: Pass, "+peers+", protocols: [{tcp: {destinationPort: {number: 8}}}]}, "+
			"{name: deny, action: Deny, "+peers+", protocols: [{tcp: {destinationPort: {range: {start: 3, end: 8}}}}]}]")
	c := preview.Compute(previewtest.Inputs(t, world)).Computed
	for port, want := range map[int]struct{ outcome, rule, policy, passed string }{
		1: {"Drop", "platform", "AntreaClusterNetworkPolicy platform", ""}, 2: {"Allow", "accept", "ClusterNetworkPolicy admin", ""}, 3: {"Drop", "deny", "ClusterNetworkPolicy last", "ClusterNetworkPolicy admin"},
		4: {"Drop", "application", "AntreaClusterNetworkPolicy application", ""}, 5: {"Drop", "deny", "AdminNetworkPolicy anp", ""}, 6: {"Reject", "baseline", "AntreaClusterNetworkPolicy baseline", "AdminNetworkPolicy anp"},
		7: {"Drop", "deny", "ClusterNetworkPolicy last", ""}, 8: {"Allow", "", "", "ClusterNetworkPolicy last"}, 9: {"Allow", "", "", ""},
	} {
		got, err := c.Answer(explain.Question{From: "ops/tool", To: "shop/web", Protocol: "TCP", Port: fmt.Sprint(port)})
		if err != nil {
			t.Fatal(err)
		}
		d, rule, policy := got.Ingress, "", ""
		if d.DecidedBy != nil {
			rule, policy = d.DecidedBy.Name, d.DecidedBy.Policy.Type+" "+d.DecidedBy.Policy.Name
		}
		var passed []string
		for _, p := range d.Passed {
			passed = append(passed, p.Policy.Type+" "+p.Policy.Name)
		}
		if d.Outcome != want.outcome || rule != want.rule || policy != want.policy || strings.Join(passed, ", ") != want.passed {
			t.Errorf("port %d: %s by rule %q of %s, passed %q; want %+v", port, d.Outcome, rule, policy, passed, want)
		}
	}
}
