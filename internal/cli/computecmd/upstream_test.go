package computecmd

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

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

// computedJSON computes a world and returns its policies as JSON in one line, legibly.
func computedJSON(t *testing.T, manifests string) string {
	t.Helper()
	var policies []map[string]any
	raw, err := json.Marshal(output(t, manifests, "").NetworkPolicies)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &policies); err != nil {
		t.Fatal(err)
	}
	var compact strings.Builder
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
		if diff := cmp.Diff(c.want, computedJSON(t, previewtest.UpstreamWorld+previewtest.UpstreamPolicy(kind, c.rules))); diff != "" {
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
			got := computedJSON(t, previewtest.UpstreamWorld+previewtest.UpstreamPolicy(kind, rules))
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
				got := computedJSON(t, previewtest.UpstreamWorld+previewtest.UpstreamPolicy(kind, peers+c.ports+"}]"))
				if !strings.Contains(got, `"services":`+c.want+`,"to"`) {
					t.Errorf("%s %s%s:\nwant %s\nin   %s", kind, peers, c.ports, c.want, got)
				}
			}
		}
	}
}
