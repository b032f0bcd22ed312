package preview_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// refusals are what admission refuses of manifests.
func refusals(t *testing.T, manifests string) []manifest.Refusal {
	t.Helper()
	in, err := preview.LoadInputs([]string{"-"}, strings.NewReader(manifests))
	if err != nil {
		t.Fatal(err)
	}
	preview.Compute(in)
	return in.Refused
}

// TestUpstreamRefusals: what the schemas and the webhooks would refuse of the upstream kinds is
// refused with the code and the field.
func TestUpstreamRefusals(t *testing.T) {
	egress := func(rest string) string { return "egress: [{action: Deny, " + rest + "}]" }
	for _, c := range []struct {
		kind, rules, want string
		code              int
	}{
		{"cnp", "ingress: [{action: Allow, from: [{namespaces: {}}]}]", `spec.ingress[0].action: Unsupported value: "Allow"`, 422},
		{"anp", "ingress: [{action: Accept, from: [{namespaces: {}}]}]", `spec.ingress[0].action: Unsupported value: "Accept"`, 422},
		{"banp", "ingress: [{action: Pass, from: [{namespaces: {}}]}]", `spec.ingress[0].action: Unsupported value: "Pass"`, 422},
		{"cnp", "ingress: [{action: Deny, from: []}]", "spec.ingress[0].from", 422},
		{"cnp", "ingress: [{action: Deny, from: [{namespaces: {}, pods: {namespaceSelector: {}, podSelector: {}}}]}]", "spec.ingress[0].from[0]: Too many: 2", 422},
		{"anp", egress("to: [{networks: [10.0.0.0]}]"), "spec.egress[0].to[0].networks[0]: Invalid value", 422},
		{"cnp", egress("to: [{networks: [10.0.0.0/8]}], protocols: [{destinationNamedPort: a}]"), "there are no namedPorts", 422},
		{"anp", egress("to: [{nodes: {}}], ports: [{portRange: {start: 9, end: 8}}]"), "spec.egress[0].ports[0].portRange.end", 400},
		{"anp", egress("to: [{nodes: {}}], ports: [{portNumber: {protocol: ICMP, port: 8}}]"), "spec.egress[0].ports[0].portNumber.protocol", 400},
		{"cnp", egress("to: [{nodes: {}}], protocols: [{tcp: {destinationPort: {range: {start: 9, end: 9}}}}]"), "Start port must be less than End port", 422},
		{"cnp", egress("to: [{nodes: {matchExpressions: [{key: a, operator: Like}]}}]"), "spec.egress[0].to[0].nodes.matchExpressions[0].operator", 400},
		{"cnp", egress("to: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {a: 'b c'}}}}]"), "spec.egress[0].to[0].pods.podSelector.matchLabels", 400},
		{"cnp", egress("to: [{domainNames: [localhost]}]"), "spec.egress[0].to[0].domainNames[0]", 422},
	} {
		refused := refusals(t, previewtest.UpstreamWorld+previewtest.UpstreamPolicy(c.kind, c.rules))
		if len(refused) == 0 || !slices.ContainsFunc(refused, func(r manifest.Refusal) bool {
			return strings.Contains(r.String(), c.want) && r.Code == c.code && strings.HasPrefix(r.String(), "-:")
		}) {
			t.Errorf("%s %s: %v, want %q with code %d and a position", c.kind, c.rules, refused, c.want, c.code)
		}
	}
	other := strings.Replace(previewtest.UpstreamPolicy("banp", ""), "name: default", "name: other", 1)
	if r := refusals(t, previewtest.UpstreamWorld+other); len(r) != 1 || !strings.Contains(r[0].String(), `metadata.name="default"`) {
		t.Errorf("a second BaselineAdminNetworkPolicy: %v", r)
	}
}

// TestTiersAndGroupsAreAdmitted: tiers and groups are held against those before them, with the
// words and the code of the webhooks.
func TestTiersAndGroupsAreAdmitted(t *testing.T) {
	tier := func(name, priority string) string {
		return "---\n{apiVersion: crd.antrea.io/v1beta1, kind: Tier, metadata: {name: " + name + "}, spec: {priority: " + priority + "}}\n"
	}
	group := func(name, spec string) string {
		return "---\n{apiVersion: crd.antrea.io/v1beta1, kind: ClusterGroup, metadata: {name: " + name + "}, spec: " + spec + "}\n"
	}
	for name, c := range map[string]struct {
		input, kind, name, says string
		code                    int
	}{
		"clash":           {tier("a", "7") + tier("b", "7"), "Tier", "b", "spec.priority: invalid value \"7\": want a priority that no other Tier has; a has it", 400},
		"of the system":   {tier("a", "50"), "Tier", "a", "emergency has it", 400},
		"reserved":        {tier("a", "252"), "Tier", "a", "0 to 249", 400},
		"out of range":    {tier("a", "256"), "Tier", "a", "spec.priority", 422},
		"system tier":     {tier("emergency", "50") + tier("a", "51") + tier("a2", "51"), "Tier", "a2", "a has it", 400},
		"system priority": {tier("application", "5"), "Tier", "application", "spec.priority: invalid value \"5\": want the priority the Tier was created with, 250", 400},
		"system, free":    {tier("platform", "201"), "Tier", "platform", "want the priority the Tier was created with, 200", 400},
		"nesting":         {group("leaf", "{podSelector: {}}") + group("mid", "{childGroups: [leaf]}") + group("top", "{childGroups: [mid]}"), "ClusterGroup", "top", "spec.childGroups[0]: invalid value \"mid\"", 400},
		"nesting, before": {group("top", "{childGroups: [mid]}") + group("mid", "{childGroups: [leaf]}"), "ClusterGroup", "mid", "itself a child, of top", 400},
		"own child":       {group("g", "{childGroups: [g]}"), "ClusterGroup", "g", "want another group", 400},
		"two things":      {group("g", "{podSelector: {}, childGroups: [h]}"), "ClusterGroup", "g", "at most one of", 400},
		"CIDR":            {group("g", "{ipBlocks: [{cidr: 10.0.0.0/33}]}"), "ClusterGroup", "g", "spec.ipBlocks[0].cidr", 422},
		"label":           {group("g", "{podSelector: {matchExpressions: [{key: a, operator: Near}]}}"), "ClusterGroup", "g", "operator", 422},
	} {
		refused := refusals(t, c.input)
		if len(refused) != 1 || refused[0].Code != c.code || refused[0].Kind != c.kind || refused[0].Name != c.name || !strings.Contains(refused[0].String(), c.says) {
			t.Errorf("%s: %v, want %s of %s %s with code %d", name, refused, c.says, c.kind, c.name, c.code)
		}
	}
}

// TestUpstreamInPlan: no upstream policy applies to a VM, so none changes a plan.
func TestUpstreamInPlan(t *testing.T) {
	world := previewtest.HybridManifests + "---" + previewtest.SSHPolicy
	plain := hybrid(t, world)
	if len(plain.Plan.Steps) == 0 {
		t.Fatal("nothing is planned")
	}
	for _, kind := range []string{"cnp", "baseline", "anp", "banp"} {
		all := "ingress: [{action: Deny, from: [{namespaces: {}}]}], egress: [{action: Deny, to: [{networks: [0.0.0.0/0]}]}]"
		with := strings.Replace(previewtest.UpstreamPolicy(kind, all), "{matchLabels: {team: a}}", "{}", 1)
		if diff := cmp.Diff(plain, hybrid(t, world+"---\n"+with)); diff != "" {
			t.Errorf("%s (-without +with):\n%s", kind, diff)
		}
	}
}
