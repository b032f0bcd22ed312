package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// upstreamWorld has what policies of the upstream kinds select.
const upstreamWorld = `
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: ops, labels: {team: b}}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {role: web}}
spec: {nodeName: n1, containers: [{name: c, image: x, ports: [{name: http, containerPort: 80}]}]}
status: {podIPs: [{ip: 10.244.1.1}, {ip: "fd00::1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {role: db}}
spec: {nodeName: n2, containers: [{name: c, image: x, ports: [{name: dns, containerPort: 53, protocol: UDP}]}]}
status: {podIPs: [{ip: 10.244.2.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: tool, namespace: ops, labels: {role: tool}}
spec: {nodeName: n2, containers: [{name: c, image: x}]}
status: {podIPs: [{ip: 10.244.2.2}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {zone: x}}
status: {addresses: [{type: InternalIP, address: 192.168.0.1}]}
---
`

// groupNames are the names of groups by the text they are made from, with the identity that all
// Antrea controllers share.
var groupNames = func() map[string]string {
	space := uuid.MustParse("e4f24a48-ca1f-4d5b-819c-ea7632b22115")
	out := map[string]string{}
	for _, text := range []string{
		"namespaceSelector=", "namespaceSelector=team=a", "namespaceSelector=team=b", "namespaceSelector=team in (a,b),!x",
		"namespaceSelector=team=a And podSelector=role=web", "namespaceSelector= And podSelector=role=db", "namespaceSelector= And podSelector=",
		"nodeSelector=zone=x", "nodeSelector=",
	} {
		out[uuid.NewSHA1(space, []byte(text)).String()] = "{" + text + "}"
	}
	return out
}()

// legible replaces the names of groups by what they are made from.
func legible(text string) string {
	for name, from := range groupNames {
		text = strings.ReplaceAll(text, name, from)
	}
	return text
}

// upstreamPolicy is a manifest of a policy whose subject is the Namespaces of team a, with these
// rules.
func upstreamPolicy(kind, rules string) string {
	switch kind {
	case "cnp":
		return "{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: default}, " +
			"spec: {tier: Admin, priority: 7, subject: {namespaces: {matchLabels: {team: a}}}, " + rules + "}}"
	case "baseline":
		return strings.Replace(upstreamPolicy("cnp", rules), "tier: Admin", "tier: Baseline", 1)
	case "anp":
		return "{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: default}, " +
			"spec: {priority: 7, subject: {namespaces: {matchLabels: {team: a}}}, " + rules + "}}"
	}
	return "{apiVersion: policy.networking.k8s.io/v1alpha1, kind: BaselineAdminNetworkPolicy, metadata: {name: default}, " +
		"spec: {subject: {namespaces: {matchLabels: {team: a}}}, " + rules + "}}"
}

// computedJSON computes a world and returns its policies as JSON in one line, legibly.
func computedJSON(t *testing.T, manifests string) string {
	t.Helper()
	r := nephele(t, manifests, "policy", "compute", "-f", "-", "-o", "json")
	if r.code != ExitDone {
		t.Fatalf("exit %d: %s", r.code, r.err)
	}
	var out struct{ NetworkPolicies json.RawMessage }
	if err := json.Unmarshal([]byte(r.stdout), &out); err != nil {
		t.Fatal(err)
	}
	var compact strings.Builder
	var policies []map[string]any
	if err := json.Unmarshal(out.NetworkPolicies, &policies); err != nil {
		t.Fatal(err)
	}
	enc := json.NewEncoder(&compact)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(policies); err != nil {
		t.Fatal(err)
	}
	return legible(strings.TrimSpace(compact.String()))
}

// Every form of a policy: its place among the tiers, subject, actions, names and order of rules.
func TestUpstreamPlaces(t *testing.T) {
	rule := func(action string) string {
		return "{action: " + action + ", %s: [{namespaces: {matchLabels: {team: b}}}]}"
	}
	rules := func(ingress, egress string) string {
		return fmt.Sprintf("ingress: [{name: first, action: Deny, from: [{namespaces: {}}]}, "+ingress+"], egress: ["+egress+"]", "from", "to")
	}
	const applied, body = `"appliedToGroups":["{namespaceSelector=team=a}"],`, `"rules":[` +
		`{"action":"Drop","direction":"In","enableLogging":false,"from":{"addressGroups":["{namespaceSelector=}"]},"name":"first","to":{}},` +
		`{"action":"%s","direction":"In","enableLogging":false,"from":{"addressGroups":["{namespaceSelector=team=b}"]},"priority":1,"to":{}},` +
		`{"action":"%s","direction":"Out","enableLogging":false,"from":{},"to":{"addressGroups":["{namespaceSelector=team=b}"]}}],`
	for kind, c := range map[string]struct{ rules, want string }{
		"cnp": {rules(rule("Accept"), rule("Pass")), `[{` + applied + `"priority":7,` + fmt.Sprintf(body, "Allow", "Pass") +
			`"sourceRef":{"name":"default","type":"ClusterNetworkPolicy"},"tierPriority":220}]`},
		"baseline": {rules(rule("Accept"), rule("Pass")), `[{` + applied + `"priority":7,` + fmt.Sprintf(body, "Allow", "Pass") +
			`"sourceRef":{"name":"default","type":"ClusterNetworkPolicy"},"tierPriority":254}]`},
		"anp": {rules(rule("Allow"), rule("Pass")), `[{` + applied + `"priority":7,` + fmt.Sprintf(body, "Allow", "Pass") +
			`"sourceRef":{"name":"default","type":"AdminNetworkPolicy"},"tierPriority":251}]`},
		"banp": {rules(rule("Allow"), rule("Deny")), `[{` + applied + `"priority":1,` + fmt.Sprintf(body, "Allow", "Drop") +
			`"sourceRef":{"name":"default","type":"BaselineAdminNetworkPolicy"},"tierPriority":254}]`},
	} {
		if diff := cmp.Diff(c.want, computedJSON(t, upstreamWorld+upstreamPolicy(kind, c.rules))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

// Every form of a peer, in every kind that has it.
func TestUpstreamPeers(t *testing.T) {
	for _, c := range []struct{ direction, peer, want, kinds string }{
		{"In", "{namespaces: {}}", `{"addressGroups":["{namespaceSelector=}"]}`, "cnp baseline anp banp"},
		{"In", "{namespaces: {matchExpressions: [{key: team, operator: In, values: [b, a]}, {key: x, operator: DoesNotExist}]}}",
			`{"addressGroups":["{namespaceSelector=team in (a,b),!x}"]}`, "cnp baseline anp banp"},
		{"In", "{pods: {namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {role: web}}}}",
			`{"addressGroups":["{namespaceSelector=team=a And podSelector=role=web}"]}`, "cnp baseline anp banp"},
		{"In", "{pods: {namespaceSelector: {}, podSelector: {}}}", `{"addressGroups":["{namespaceSelector= And podSelector=}"]}`, "cnp baseline anp banp"},
		{"Out", "{namespaces: {matchLabels: {team: b}}}", `{"addressGroups":["{namespaceSelector=team=b}"]}`, "cnp baseline anp banp"},
		{"Out", "{pods: {namespaceSelector: {}, podSelector: {matchLabels: {role: db}}}}",
			`{"addressGroups":["{namespaceSelector= And podSelector=role=db}"]}`, "cnp baseline anp banp"},
		{"Out", "{nodes: {matchLabels: {zone: x}}}", `{"addressGroups":["{nodeSelector=zone=x}"]}`, "cnp baseline anp banp"},
		{"Out", "{nodes: {}}", `{"addressGroups":["{nodeSelector=}"]}`, "cnp baseline anp banp"},
		{"Out", "{networks: [10.0.0.0/8, 'fd00::/8', 192.0.2.7/24]}", `{"ipBlocks":[{"cidr":{"ip":"10.0.0.0","prefixLength":8}},` +
			`{"cidr":{"ip":"fd00::","prefixLength":8}},{"cidr":{"ip":"192.0.2.7","prefixLength":24}}]}`, "cnp baseline anp banp"},
		{"Out", "{networks: [0.0.0.0/0]}", `{"ipBlocks":[{"cidr":{"ip":"0.0.0.0"}}]}`, "cnp baseline anp banp"},
		{"Out", "{domainNames: ['*.example.com', example.org.]}", `{"fqdns":["*.example.com","example.org."]}`, "cnp baseline anp"},
		{"Out", "{nodes: {}}, {networks: [10.0.0.0/8]}, {domainNames: [a.example]}, {namespaces: {}}",
			`{"addressGroups":["{nodeSelector=}","{namespaceSelector=}"],"fqdns":["a.example"],"ipBlocks":[{"cidr":{"ip":"10.0.0.0","prefixLength":8}}]}`, "cnp baseline anp"},
	} {
		for _, kind := range strings.Fields(c.kinds) {
			action := "Allow"
			if kind == "cnp" || kind == "baseline" {
				action = "Accept"
			}
			rules, want := "ingress: [{action: "+action+", from: ["+c.peer+"]}]", `"from":`+c.want+`,"to":{}`
			if c.direction == "Out" {
				rules, want = "egress: [{action: "+action+", to: ["+c.peer+"]}]", `"from":{},"to":`+c.want
			}
			got := computedJSON(t, upstreamWorld+upstreamPolicy(kind, rules))
			if !strings.Contains(got, `"rules":[{"action":"Allow","direction":"`+c.direction+`","enableLogging":false,`+want+`}]`) {
				t.Errorf("%s %s %s:\nwant %s\nin   %s", kind, c.direction, c.peer, want, got)
			}
		}
	}
}

// Every form of ports and protocols.
func TestUpstreamPorts(t *testing.T) {
	for _, c := range []struct{ kinds, ports, want string }{
		{"anp banp", "ports: [{portNumber: {port: 443}}]", `[{"port":443,"protocol":"TCP"}]`},
		{"anp banp", "ports: [{portNumber: {protocol: UDP, port: 53}}, {portNumber: {protocol: SCTP, port: 9}}]",
			`[{"port":53,"protocol":"UDP"},{"port":9,"protocol":"SCTP"}]`},
		{"anp banp", "ports: [{portRange: {start: 8000, end: 9000}}, {portRange: {protocol: UDP, start: 1, end: 65535}}]",
			`[{"endPort":9000,"port":8000,"protocol":"TCP"},{"endPort":65535,"port":1,"protocol":"UDP"}]`},
		{"anp banp", "ports: [{namedPort: http}]", `[{"port":"http"}]`},
		{"cnp baseline", "protocols: [{tcp: {destinationPort: {number: 443}}}]", `[{"port":443,"protocol":"TCP"}]`},
		{"cnp baseline", "protocols: [{udp: {destinationPort: {range: {start: 1, end: 9}}}}, {sctp: {destinationPort: {number: 9}}}]",
			`[{"endPort":9,"port":1,"protocol":"UDP"},{"port":9,"protocol":"SCTP"}]`},
		{"cnp baseline", "protocols: [{destinationNamedPort: dns}]", `[{"port":"dns"}]`},
	} {
		for _, kind := range strings.Fields(c.kinds) {
			for _, peers := range []string{"ingress: [{action: Deny, from: [{namespaces: {}}], ", "egress: [{action: Deny, to: [{namespaces: {}}], "} {
				got := computedJSON(t, upstreamWorld+upstreamPolicy(kind, peers+c.ports+"}]"))
				if !strings.Contains(got, `"services":`+c.want+`,"to"`) {
					t.Errorf("%s %s%s:\nwant %s\nin   %s", kind, peers, c.ports, c.want, got)
				}
			}
		}
	}
}

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
		r := nephele(t, upstreamWorld+upstreamPolicy(c.kind, c.rules), "policy", "compute", "-f", "-", "-o", "json")
		if r.code != ExitBadInput || !strings.Contains(r.err, c.want) || !strings.Contains(r.stdout, fmt.Sprintf(`"code": %d`, c.code)) {
			t.Errorf("%s %s: exit %d, want %q with code %d:\n%s%s", c.kind, c.rules, r.code, c.want, c.code, r.err, r.stdout)
		}
		if !strings.Contains(r.err, "error: -:") {
			t.Errorf("%s %s: no position in %s", c.kind, c.rules, r.err)
		}
	}
	other := strings.Replace(upstreamPolicy("banp", ""), "name: default", "name: other", 1)
	if r := nephele(t, upstreamWorld+other, "policy", "compute", "-f", "-"); r.code != ExitBadInput || !strings.Contains(r.err, `metadata.name="default"`) {
		t.Errorf("a second BaselineAdminNetworkPolicy: exit %d, %s", r.code, r.err)
	}
}

// The tiers of the upstream kinds among the others: each policy decides one port more than those
// before it leave open.
func TestUpstreamTiers(t *testing.T) {
	antrea := func(name, tier, action string, ports string) string {
		return fmt.Sprintf("---\n{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: %s}, spec: {tier: %s, priority: 1, "+
			"appliedTo: [{podSelector: {matchLabels: {role: web}}}], ingress: [{name: %s, action: %s, from: [{namespaceSelector: {}}], ports: [%s]}]}}\n", name, tier, name, action, ports)
	}
	upstream := func(kind, name, rules string) string {
		return "---\n" + strings.Replace(upstreamPolicy(kind, rules), "name: default", "name: "+name, 1) + "\n"
	}
	peers := "from: [{namespaces: {}}]"
	world := upstreamWorld +
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
	for port, want := range map[int]string{
		1: `Drop: rule "platform"`, 2: `Allow: rule "accept" (ClusterNetworkPolicy admin, tier 220, priority 7, rule 1)`,
		3: `Drop: rule "deny" (ClusterNetworkPolicy last, tier 254, priority 7, rule 1)`, 4: `Drop: rule "application"`,
		5: `Drop: rule "deny" (AdminNetworkPolicy anp, tier 251`, 6: `Reject: rule "baseline"`, 7: `Drop: rule "deny" (ClusterNetworkPolicy last`,
		8: "Allow: no policy decides", 9: "Allow: no policy decides",
	} {
		r := nephele(t, world, "explain", "-f", "-", "--from", "ops/tool", "--to", "shop/web", "--port", fmt.Sprint(port))
		if !strings.Contains(r.stdout, "ingress "+want) {
			t.Errorf("port %d: want ingress %s in\n%s%s", port, want, r.stdout, r.err)
		}
		if passes := map[int]string{3: "passed: rule \"pass\" (ClusterNetworkPolicy admin", 8: "passed: rule \"pass\" (ClusterNetworkPolicy last"}[port]; !strings.Contains(
			r.stdout,
			passes,
		) {
			t.Errorf("port %d: want %s in\n%s", port, passes, r.stdout)
		}
	}
}

// No upstream policy applies to a VM, so none changes a plan; one that is refused is refused here
// as well.
func TestUpstreamInPlan(t *testing.T) {
	world := previewtest.HybridManifests + "---" + previewtest.SSHPolicy
	plain := nephele(t, world, "plan", "-f", "-", "--snapshot", previewtest.HybridCloud, "-o", "json")
	if plain.code != ExitNo {
		t.Fatalf("exit %d: %s", plain.code, plain.err)
	}
	for _, kind := range []string{"cnp", "baseline", "anp", "banp"} {
		all := "ingress: [{action: Deny, from: [{namespaces: {}}]}], egress: [{action: Deny, to: [{networks: [0.0.0.0/0]}]}]"
		with := strings.Replace(upstreamPolicy(kind, all), "{matchLabels: {team: a}}", "{}", 1)
		r := nephele(t, world+"---\n"+with, "plan", "-f", "-", "--snapshot", previewtest.HybridCloud, "-o", "json")
		if diff := cmp.Diff(plain.stdout, r.stdout); diff != "" || r.code != plain.code {
			t.Errorf("%s: exit %d, %s (-without +with):\n%s", kind, r.code, r.err, diff)
		}
	}
	bad := upstreamPolicy("anp", "egress: [{action: Deny, to: [{networks: [10.0.0.0]}]}]")
	if r := nephele(t, world+"---\n"+bad, "plan", "-f", "-", "--snapshot", previewtest.HybridCloud); r.code != ExitBadInput || !strings.Contains(r.err, "networks[0]") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}
