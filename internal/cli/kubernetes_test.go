package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestKubernetesPoliciesAreAdmitted: what the API server refuses in a Kubernetes NetworkPolicy is
// refused offline, with the same code, and is never computed as something else.
func TestKubernetesPoliciesAreAdmitted(t *testing.T) {
	const head = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: k, namespace: a}\nspec: "
	peer := func(p string) string { return "{podSelector: {}, ingress: [{from: [" + p + "]}]}" }
	block := func(b string) string { return peer("{ipBlock: {" + b + "}}") }
	port := func(p string) string { return "{podSelector: {}, egress: [{ports: [{" + p + "}]}]}" }
	for spec, want := range map[string]string{
		"{podSelector: {}, policyTypes: [egress]}":                                     `spec.policyTypes: invalid value "egress": want Ingress or Egress`,
		"{podSelector: {}, policyTypes: [Egress, Out]}":                                `spec.policyTypes: invalid value "Out": want Ingress or Egress`,
		"{podSelector: {}, policyTypes: [Egress, Egress, Ingress]}":                    "spec.policyTypes: invalid value \"3 entries\": want at most two",
		"{podSelector: {matchLabels: {a: 'b c'}}}":                                     `spec.podSelector.matchLabels[a]: invalid value "b c"`,
		"{podSelector: {matchExpressions: [{key: a, operator: Gt}]}}":                  `spec.podSelector.matchExpressions[0].operator: invalid value "Gt"`,
		"{podSelector: {matchExpressions: [{key: a, operator: In}]}}":                  `spec.podSelector.matchExpressions[0].values: got nothing, want at least one`,
		"{podSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}": `matchExpressions[0].values: invalid value "b": want no values`,
		peer("{}"): "spec.ingress[0].from[0]: got nothing, want podSelector, namespaceSelector or ipBlock",
		peer("{ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}"): "spec.ingress[0].from[0]: got podSelector and ipBlock, want either",
		peer("{namespaceSelector: {matchLabels: {'-': b}}}"):   `spec.ingress[0].from[0].namespaceSelector.matchLabels: invalid value "-"`,
		block("cidr: ''"):                                "spec.ingress[0].from[0].ipBlock.cidr",
		block("cidr: 10.0.0.0"):                          `spec.ingress[0].from[0].ipBlock.cidr: invalid value "10.0.0.0"`,
		block("cidr: 010.0.0.0/8"):                       "ipBlock.cidr",
		block("cidr: 10.1.2.3/8"):                        `ipBlock.cidr: invalid value "10.1.2.3/8": want no bits after the prefix: 10.0.0.0/8 or 10.1.2.3/32`,
		block("cidr: '::ffff:10.0.0.0/104'"):             "ipBlock.cidr",
		block("cidr: 10.0.0.0/8, except: [11.0.0.0/16]"): `ipBlock.except[0]: invalid value "11.0.0.0/16": want a strict subset of 10.0.0.0/8`,
		block("cidr: 10.0.0.0/8, except: [10.0.0.0/8]"):  "ipBlock.except[0]",
		block("cidr: 10.0.0.0/8, except: [10.1.2.3/16]"): "ipBlock.except[0]: invalid value \"10.1.2.3/16\": want no bits after the prefix",
		block("cidr: 10.0.0.0/8, except: ['fd00::/16']"): "ipBlock.except[0]",
		port("port: '80'"):                               `spec.egress[0].ports[0].port: invalid value "80": want a number without quotes`,
		port("port: aaaaaaaaaaaaaaaa"):                   `spec.egress[0].ports[0].port: invalid value "aaaaaaaaaaaaaaaa"`,
		port("port: Http"):                               `ports[0].port: invalid value "Http"`,
		port("port: a--b"):                               `ports[0].port: invalid value "a--b"`,
		port("port: -a"):                                 `ports[0].port: invalid value "-a"`,
		port("port: 0"):                                  `ports[0].port: invalid value "0"`,
		port("port: 70000"):                              `ports[0].port: invalid value "70000"`,
		port("port: 80, endPort: 79"):                    `ports[0].endPort: invalid value "79": want a number from 80 to 65535`,
		port("port: http, endPort: 80"):                  `ports[0].endPort: invalid value "80": want no endPort with a named port`,
		port("endPort: 80"):                              `ports[0].endPort: invalid value "80": want no endPort without port`,
		port("protocol: ICMP"):                           `ports[0].protocol: invalid value "ICMP"`,
		port("protocol: ''"):                             `ports[0].protocol: invalid value ""`,
	} {
		r := nephele(t, "", "policy", "compute", "-f", file(t, "k.yaml", head+spec))
		o := decodeRaw(t, r.stdout)
		rejected := maps(o, "rejected")
		if r.code != ExitBadInput || len(rejected) != 1 || rejected[0]["code"] != 422.0 || len(maps(o, "networkpolicies")) != 0 ||
			!strings.Contains(r.err, want) || !strings.Contains(r.err, "k.yaml:4: NetworkPolicy a/k: spec.") {
			t.Errorf("%s: exit %d, %v, %s\nwant %s", spec, r.code, rejected, r.err, want)
		}
	}
	for _, spec := range []string{
		"{}", "{podSelector: {}, policyTypes: []}", "{podSelector: {}, policyTypes: [Egress], ingress: [{}]}",
		"{podSelector: {}, policyTypes: [Egress, Egress]}",
		port("port: 1, endPort: 65535, protocol: SCTP"), port("port: http-2"), port("protocol: UDP"), peer("{podSelector: {}, namespaceSelector: {}}"),
		block("cidr: 0.0.0.0/0, except: [10.0.0.0/8]"), block("cidr: 'FD00:0:0::/16'"),
	} {
		if r := nephele(t, "", "policy", "compute", "-f", file(t, "k.yaml", head+spec)); r.code != ExitDone {
			t.Errorf("%s is refused: %s", spec, r.err)
		}
	}
}

// TestKubernetesPoliciesOfAll: every command that reads manifests refuses the same.
func TestKubernetesPoliciesOfAll(t *testing.T) {
	in := file(t, "k.yaml", "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: k, namespace: a}\nspec: {podSelector: {}, policyTypes: [egress]}\n")
	for _, args := range [][]string{
		{"explain", "--from", "10.0.0.1", "--to", "10.0.0.2", "--protocol", "TCP", "--port", "80"},
		{"plan", "--snapshot", previewtest.HybridCloud},
	} {
		if r := nephele(t, "", append(args, "-f", in)...); r.code != ExitBadInput || !strings.Contains(r.err, `invalid value "egress"`) {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// TestStoredHostBits: a NetworkPolicy that an API server before 1.36 has stored with bits behind
// the prefix is read as that API server reads it; a new one is refused as 1.36 does.
func TestStoredHostBits(t *testing.T) {
	const text = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a, namespace: shop%s}\n" +
		"spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.1.2.3/16, except: [10.1.5.9/24]}}]}]}\n---\n" +
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}\nspec: {nodeName: node-1, containers: [{name: c}]}\nstatus: {podIP: 10.9.0.1, podIPs: [{ip: 10.9.0.1}], phase: Running}\n"
	stored := file(t, "stored.yaml", fmt.Sprintf(text, `, uid: u, creationTimestamp: "2024-01-01T00:00:00Z"`))
	for from, want := range map[string]int{"10.1.77.1": ExitDone, "10.1.5.200": ExitNo, "10.2.2.3": ExitNo} {
		if r := nephele(t, "", "explain", "-f", stored, "--from", from, "--to", "shop/p", "--port", "80"); r.code != want {
			t.Errorf("from %s: exit %d: %s%s", from, r.code, r.stdout, r.err)
		}
	}
	if r := nephele(t, "", "policy", "compute", "-f", file(t, "new.yaml", fmt.Sprintf(text, ""))); r.code != ExitBadInput || !strings.Contains(r.stdout+r.err, "want no bits after the prefix: 10.1.0.0/16 or 10.1.2.3/32") {
		t.Errorf("new: exit %d: %s%s", r.code, r.stdout, r.err)
	}
}
