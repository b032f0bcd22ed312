package cli

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	examplePolicies = "../../docs/examples/policy-tests/policies/shop.yaml"
	exampleTests    = "../../docs/examples/policy-tests/tests/shop.yaml"
)

// TestTestReports: the three forms of the report say the same.
func TestTestReports(t *testing.T) {
	text, err := os.ReadFile(examplePolicies)
	if err != nil {
		t.Fatal(err)
	}
	broken := file(t, "broken.yaml", strings.Replace(string(text), "port: 443", "port: 444", 1))
	run := func(more ...string) ran {
		return nephele(t, "", append([]string{"test", "-f", broken, "-f", exampleTests}, more...)...)
	}
	plain, junit, program := run("--coverage"), run("-o", "junit"), run("-o", "json")
	for _, r := range []ran{plain, junit, program} {
		if r.code != ExitNo {
			t.Errorf("exit %d: %s", r.code, r.err)
		}
	}
	for _, want := range []string{
		"FAIL  shop: the world sees the shop (allow tcp 443 from 203.0.113.9 to shop/web-1)",
		"tests/shop.yaml:51",
		"      Drop: tcp 443 from 203.0.113.9 to vm/shop/web-1, by ingress isolated",
		"13 expectations: 12 met, 1 not met, 0 make no sense; tests are about 6 of 7 rules",
		`not tested: rule "https" (AntreaNetworkPolicy shop/web, tier 250, priority 10, rule 0)`,
	} {
		if !strings.Contains(plain.stdout, want) {
			t.Errorf("the text lacks %q:\n%s", want, plain.stdout)
		}
	}
	var suites junitSuites
	if err := xml.Unmarshal([]byte(junit.stdout), &suites); err != nil {
		t.Fatal(err)
	}
	if suites.Tests != 13 || suites.Failures != 1 || suites.Errors != 0 || len(suites.Suites) != 1 || suites.Suites[0].Cases[8].Failure == nil ||
		!strings.Contains(suites.Suites[0].Cases[8].Failure.Message, "Drop: tcp 443") {
		t.Errorf("JUnit: %+v", suites)
	}
	var report testAnswer
	if err := json.Unmarshal([]byte(program.stdout), &report); err != nil {
		t.Fatal(err)
	}
	if report.Expectations != 13 || report.NotMet != 1 || len(report.Rules) != 7 || len(report.Tests[0].Flows[8].Wrong) != 1 || report.Tests[0].Flows[8].Met {
		t.Errorf("JSON: %+v", report)
	}
	if r := nephele(t, "", "test", "-f", examplePolicies, "-f", exampleTests, "--min-coverage", "100"); r.code != ExitDone {
		t.Errorf("exit %d with all rules covered: %s", r.code, r.stdout)
	}
	one := regexp.MustCompile(`(?s)  - name: nobody else does.*`).ReplaceAllString(readFile(t, exampleTests), "")
	if r := nephele(t, "", "test", "-f", examplePolicies, "-f", file(t, "one.yaml", one), "--min-coverage", "50"); r.code != ExitNo {
		t.Errorf("exit %d with 2 of 7 rules covered: %s", r.code, r.stdout)
	}
}

// TestBadTests: what is wrong with a test is told with file, object, field and what was expected,
// and is no failed expectation.
func TestBadTests(t *testing.T) {
	test := func(spec string) string {
		return "apiVersion: nephele.io/v1alpha1\nkind: PolicyTest\nmetadata: {name: t}\nspec:\n" + spec + "\n"
	}
	const flow = "  flows: [{from: any, to: 10.0.0.1, expect: deny}]"
	for name, c := range map[string]struct{ input, want string }{
		"no flows":         {test("  endpoints: []"), `t.yaml:4: PolicyTest t: spec.flows: got nothing, want at least one flow`},
		"a slip":           {test("  flows: [{from: any, to: any, expect: alow}]"), `spec.flows[0].expect: invalid value "alow": want allow, deny, drop, reject or native`},
		"no such field":    {test("  flows: [{from: any, to: any, port: 1, expects: deny}]"), "t.yaml:5: PolicyTest t: spec.flows[0].expects: the kind has no such field"},
		"from nobody":      {test("  flows: [{from: [], to: any, expect: deny}]"), "spec.flows[0].from: got nothing, want an endpoint"},
		"only exceptions":  {test(`  flows: [{from: "!shop/web", to: any, expect: deny}]`), "spec.flows[0].from: got nothing, want an endpoint"},
		"a port too large": {test("  flows: [{from: any, to: any, port: 65536, expect: deny}]"), `spec.flows[0].port: invalid value "65536": want a number from 0 to 65535`},
		"a port of ICMP":   {test("  flows: [{from: any, to: any, protocol: ICMP, port: 1, expect: deny}]"), `spec.flows[0].port: invalid value "1": want none: protocol ICMP has no ports`},
		"a protocol":       {test("  flows: [{from: any, to: any, protocol: TPC, expect: deny}]"), `spec.flows[0].protocol: invalid value "TPC": want TCP`},
		"no address":       {test("  endpoints: [{kind: VM, namespace: a, name: b}]\n" + flow), "t.yaml:5: PolicyTest t: spec.endpoints[0].addresses: got nothing, want at least one address"},
		"a kind":           {test("  endpoints: [{kind: Machine, namespace: a, name: b, addresses: [10.0.0.1]}]\n" + flow), `spec.endpoints[0].kind: invalid value "Machine": want VM or Pod`},
		"twice":            {test("  endpoints: [{kind: Pod, namespace: a, name: b, addresses: [10.0.0.1]}, {kind: Pod, namespace: a, name: b, addresses: [10.0.0.2]}]\n" + flow), "spec.endpoints[1].name: invalid value \"b\": want a name that no other endpoint"},
		"another version":  {strings.Replace(test(flow), "v1alpha1", "v1", 1), `apiVersion: PolicyTest has no version "v1", want nephele.io/v1alpha1`},
		"another kind":     {strings.Replace(test(flow), "PolicyTest", "PolicyTests", 1), "kind: there is no PolicyTests in nephele.io, want one of PolicyTest"},
		"no test at all":   {"apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", "there is no PolicyTest among the files"},
		"nobody by name":   {test("  flows: [{from: any, to: shop/nobody, expect: deny}]"), `to "shop/nobody": there is no Pod, VM, host, native service, interface or Node of this name`},
		"nobody by label":  {test("  flows: [{from: shop/app=none, to: 10.0.0.1, expect: deny}]"), `from "shop/app=none": nobody with an address is meant by this`},
	} {
		r := nephele(t, "", "test", "-f", file(t, "t.yaml", c.input))
		if r.code != ExitBadInput || !strings.Contains(r.err+r.stdout, c.want) {
			t.Errorf("%s: exit %d, want %d and %q:\n%s%s", name, r.code, ExitBadInput, c.want, r.stdout, r.err)
		}
	}
}

// TestStagedPoliciesInCommands: a staged policy is left out and named, and taken in on request.
func TestStagedPoliciesInCommands(t *testing.T) {
	text := strings.Replace(readFile(t, examplePolicies), "metadata: {name: db, namespace: shop}",
		"metadata: {name: db, namespace: shop, annotations: {nephele.io/stage: plan}}", 1)
	path := file(t, "staged.yaml", text)
	without := nephele(t, "", "test", "-f", path, "-f", exampleTests)
	if without.code != ExitNo || !strings.Contains(without.err, "AntreaNetworkPolicy shop/db: staged, so not enforced") {
		t.Errorf("exit %d: %s", without.code, without.err)
	}
	if with := nephele(t, "", "test", "-f", path, "-f", exampleTests, "--staged"); with.code != ExitDone {
		t.Errorf("with --staged: exit %d: %s%s", with.code, with.stdout, with.err)
	}
	bad := file(t, "bad.yaml", strings.Replace(text, "stage: plan", "stage: planned", 1))
	if r := nephele(t, "", "test", "-f", bad, "-f", exampleTests); r.code != ExitBadInput ||
		!strings.Contains(r.err, `bad.yaml:3: NetworkPolicy shop/db: metadata.annotations[nephele.io/stage]: invalid value "planned": want plan`) {
		t.Errorf("a stage that nobody knows: exit %d: %s", r.code, r.err)
	}
}

// TestHostileNames: names from the cloud do nothing to a terminal, a table or a graph.
func TestHostileNames(t *testing.T) {
	entity := func(name, cloudName, ip string) string {
		return fmt.Sprintf("apiVersion: crd.antrea.io/v1alpha2\nkind: ExternalEntity\nmetadata: {name: %s, namespace: shop, labels: {nephe.antrea.io/cloud-vm-name: %q}}\n"+
			"spec: {externalNode: cloud/shop/a, endpoints: [{ip: %s}]}\n---\n", name, cloudName, ip)
	}
	path := file(t, "in.yaml", entity("virtualmachine-i-1", "db", "10.0.0.1")+entity("virtualmachine-i-2", "db", "10.0.0.2"))
	r := nephele(t, "", "reach", "-f", path, "--to", "shop/virtualmachine-i-1")
	if !strings.Contains(r.stdout, "vm/shop/db (virtualmachine-i-2)") || !strings.Contains(r.stdout, "vm/shop/db (virtualmachine-i-1)") {
		t.Errorf("two machines of one name are not told apart:\n%s%s", r.stdout, r.err)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		t.Error(err)
	}
}
