package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/policy/policytest"
)

const recordedCases = "../../testdata/conformance/policy"

// ambient are manifests of the Namespaces that the recorded cluster had besides the Namespaces of
// each case.
func ambient() string {
	var out strings.Builder
	for _, name := range policytest.Ambient() {
		out.WriteString("---\n{apiVersion: v1, kind: Namespace, metadata: {name: " + name + "}}\n")
	}
	return out.String()
}

// TestComputeRecordedCases holds the whole output, spans and refusals included, against the
// recorded answers. What the recorded cluster's schema removed without a word is removed from the
// input first; the engine's tests hold the answers without that crutch, and the reading of
// `namespaces` peers with appliedTo.group, in which we depart.
func TestComputeRecordedCases(t *testing.T) {
	dirs, err := os.ReadDir(recordedCases)
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) < 94 {
		t.Fatalf("%d cases, want 94", len(dirs))
	}
	compared := 0
	for _, dir := range dirs {
		t.Run(dir.Name(), func(t *testing.T) {
			input, departs := recordedInput(t, filepath.Join(recordedCases, dir.Name(), "input.yaml"))
			if departs {
				return
			}
			want := decodeOutput(t, readFile(t, filepath.Join(recordedCases, dir.Name(), "expected.json")))
			r := nephele(t, input, "policy", "compute", "-f", "-", "-f", file(t, "ambient.yaml", ambient()), "-o", "json")
			if reason := policytest.Stricter()[dir.Name()]; reason != "" {
				if r.code != ExitBadInput {
					t.Errorf("exit %d: want %s", r.code, reason)
				}
				return
			}
			wantCode := ExitDone
			if len(want["rejected"].([]any)) > 0 {
				wantCode = ExitBadInput
			}
			if r.code != wantCode {
				t.Errorf("exit %d, want %d: %s", r.code, wantCode, r.err)
			}
			if diff := cmp.Diff(want, decodeOutput(t, r.stdout)); diff != "" {
				t.Errorf("(-recorded +got):\n%s", diff)
			}
			compared++
		})
	}
	t.Logf("%d of %d cases are compared as a whole", compared, len(dirs))
	if compared < 80 {
		t.Errorf("only %d cases are compared", compared)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// recordedInput reads the input of a case without what the recorded cluster's schema removed. It
// reports whether a rule with `namespaces` peers is applied to a group.
func recordedInput(t *testing.T, path string) (string, bool) {
	t.Helper()
	var out []string
	departs := false
	for _, doc := range strings.Split(readFile(t, path), "---\n") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		var o map[string]any
		if err := json.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		departs = policytest.PruneManifest(o) || departs
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(raw))
	}
	return strings.Join(out, "\n---\n"), departs
}

// maps returns the objects in a list field.
func maps(o map[string]any, field string) []map[string]any {
	list, _ := o[field].([]any)
	var out []map[string]any
	for _, x := range list {
		out = append(out, x.(map[string]any))
	}
	return out
}

// decodeOutput reads an output; what is not fixed is left out: the words of refusals, and the order
// of the copies of a rule that differ in their Namespace only.
func decodeOutput(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for _, r := range maps(out, "rejected") {
		if r["message"] == "" {
			t.Error("a refusal without message")
		}
		delete(r, "message")
	}
	for _, p := range maps(out, "networkpolicies") {
		rules, _ := p["rules"].([]any)
		slices.SortStableFunc(rules, func(a, b any) int { return strings.Compare(ruleKey(t, a), ruleKey(t, b)) })
	}
	return out
}

func ruleKey(t *testing.T, rule any) string {
	raw, err := json.Marshal(rule)
	if err != nil {
		t.Fatal(err)
	}
	r := rule.(map[string]any)
	priority, _ := r["priority"].(float64)
	return r["direction"].(string) + string(rune(priority+10)) + string(raw)
}

const twoVMs = `
apiVersion: v1
kind: Namespace
metadata: {name: vms}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: web, namespace: vms, labels: {role: web}}
spec: {externalNode: cloud-a, endpoints: [{ip: 10.0.1.1}, {ip: 52.0.0.1}]}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: db, namespace: vms, labels: {role: db, nephe.antrea.io/cloud-vm-name: primary-db}}
spec: {externalNode: cloud-b, endpoints: [{ip: 10.0.2.1}], ports: [{name: sql, port: 5432}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: db, namespace: vms}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {role: db}}}]
  ingress:
  - name: web
    action: Allow
    from: [{externalEntitySelector: {matchLabels: {role: web}}}]
    ports: [{port: 5432}]
`

func TestComputeForOneKey(t *testing.T) {
	input := file(t, "in.yaml", twoVMs)
	count := func(key string) [3]int {
		t.Helper()
		r := nephele(t, "", "policy", "compute", "-f", input, "--node", key)
		if r.code != ExitDone {
			t.Fatalf("%+v", r)
		}
		o := decodeOutput(t, r.stdout)
		if len(o["span"].(map[string]any)) != 1 {
			t.Errorf("spans: %v", o["span"])
		}
		return [3]int{len(maps(o, "networkpolicies")), len(maps(o, "addressgroups")), len(maps(o, "appliedtogroups"))}
	}
	if got := count("cloud-b"); got != [3]int{1, 1, 1} {
		t.Errorf("cloud-b: %v", got)
	}
	if got := count("cloud-a"); got != [3]int{0, 0, 0} {
		t.Errorf("cloud-a, which the policy does not concern: %v", got)
	}
	r := nephele(t, "", "policy", "compute", "-f", input, "-o", "yaml")
	if r.code != ExitDone || !strings.Contains(r.stdout, "networkpolicies:\n- appliedToGroups:") {
		t.Errorf("yaml: %+v", r)
	}
}

// TestBadInput: bad input is told with file, line, object and field, and the exit code is 2.
func TestBadInput(t *testing.T) {
	policy := func(spec string) string {
		return "apiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: vms}\nspec:\n" + spec
	}
	const applied = "  appliedTo: [{externalEntitySelector: {}}]\n"
	for name, c := range map[string]struct {
		input string
		want  []string
	}{
		"not YAML":           {"a: b: c\n", []string{"in.yaml:1: not YAML or JSON"}},
		"not YAML, later":    {"{}\n---\nx: [1\n", []string{"in.yaml:1: not a Kubernetes object", "not YAML or JSON"}},
		"key given twice":    {"apiVersion: v1\nkind: Namespace\nkind: Pod\n", []string{"in.yaml:3:", `"kind" already`}},
		"no object":          {"- 1\n- 2\n", []string{"in.yaml:1: not a Kubernetes object"}},
		"no kind":            {"apiVersion: v1\n", []string{"in.yaml:1:", "kind"}},
		"no name":            {"apiVersion: v1\nkind: Namespace\n", []string{"in.yaml:1: Namespace without metadata.name"}},
		"name is a boolean":  {"apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n", []string{"in.yaml:1: metadata.name: got a bool, want a string", "quotes"}},
		"unknown version":    {"apiVersion: crd.antrea.io/v1alpha2\nkind: Tier\nmetadata: {name: x}\n", []string{"in.yaml:1: apiVersion: Tier has no version \"v1alpha2\", want crd.antrea.io/v1beta1"}},
		"unknown field":      {policy("  priority: 1\n" + applied + "  ingres: []\n"), []string{"in.yaml:7: NetworkPolicy vms/p: spec.ingres: the kind has no such field"}},
		"unknown field deep": {policy("  priority: 1\n" + applied + "  ingress:\n  - action: Allow\n    ports:\n    - port: 1\n      prot: TCP\n"), []string{"in.yaml:11: NetworkPolicy vms/p: spec.ingress[0].ports[0].prot: the kind has no such field"}},
		"wrong type":         {policy("  priority: high\n" + applied), []string{"in.yaml:5: NetworkPolicy vms/p: spec.priority:", "number"}},
		"wrong type of core": {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  hostNetwork: maybe\n", []string{"in.yaml:5: Pod default/p: spec.hostNetwork: got a string, want a bool"}},
		"twice":              {"apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", []string{"in.yaml:5: Namespace a is already given at", "in.yaml:1"}},
		"CIDR":               {policy("  priority: 1\n" + applied + "  ingress:\n  - action: Allow\n    from:\n    - ipBlock:\n        cidr: 10.0.0.0/33\n"), []string{"in.yaml:11: NetworkPolicy vms/p: spec.ingress[0].from[0].ipBlock.cidr", "10.0.0.0/33"}},
		"port":               {policy("  priority: 1\n" + applied + "  ingress:\n  - action: Allow\n    ports:\n    - port: 70000\n"), []string{"in.yaml:10: NetworkPolicy vms/p: spec.ingress[0].ports[0].port", "70000", "65535"}},
		"selector":           {policy("  priority: 1\n  appliedTo:\n  - externalEntitySelector:\n      matchExpressions:\n      - {key: a, operator: Near}\n"), []string{"in.yaml:9: NetworkPolicy vms/p: spec.appliedTo[0].externalEntitySelector.matchExpressions[0].operator", "Near", "DoesNotExist"}},
		"action":             {policy("  priority: 1\n" + applied + "  ingress:\n  - action: Permit\n"), []string{"in.yaml:8: NetworkPolicy vms/p: spec.ingress[0].action", "Permit", "Reject"}},
		"tier":               {policy("  priority: 1\n  tier: gold\n" + applied), []string{"in.yaml:6: NetworkPolicy vms/p: spec.tier", "gold"}},
		"entity address":     {"apiVersion: crd.antrea.io/v1alpha2\nkind: ExternalEntity\nmetadata: {name: e, namespace: default}\nspec:\n  endpoints:\n  - ip: 10.0.0\n", []string{"in.yaml:6: ExternalEntity default/e: spec.endpoints[0].ip"}},
		"pod address":        {"apiVersion: v1\nkind: Pod\nmetadata: {name: e}\nstatus:\n  podIPs:\n  - ip: 10.0.0\n", []string{"in.yaml:6: Pod default/e: status.podIPs[0].ip", "10.0.0"}},
		"name":               {"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: Upper\n", []string{"in.yaml:4: Namespace Upper: metadata.name", "lower case"}},
		"label":              {"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels:\n    x: 'b c'\n", []string{"Namespace a: metadata.labels", "b c"}},
		"child groups":       {"apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: a}\nspec: {childGroups: [b]}\n---\napiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: b}\nspec: {childGroups: [c]}\n", []string{"in.yaml:4: ClusterGroup a: spec.childGroups"}},
		"Kubernetes policy":  {"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: k}\nspec:\n  podSelector: {}\n  ingress:\n  - from:\n    - ipBlock:\n        cidr: nonsense\n", []string{"in.yaml:9: NetworkPolicy default/k: spec.ingress[0].from[0].ipBlock.cidr", "nonsense"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := nephele(t, "", "policy", "compute", "-f", file(t, "in.yaml", c.input))
			if r.code != ExitBadInput {
				t.Errorf("exit %d, stdout %s", r.code, r.stdout)
			}
			for _, want := range c.want {
				if !strings.Contains(r.err, want) {
					t.Errorf("no %q in:\n%s", want, r.err)
				}
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	empty, files := t.TempDir(), t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(files, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"empty file":                  {[]string{"-f", write("nothing.yaml", "---\n# nothing\n")}, "nothing.yaml: there is no object in this file"},
		"empty input":                 {[]string{"-f", "-"}, "-: there is no object in this file"},
		"mistyped kind":               {[]string{"-f", write("kind.yaml", "\napiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolice\nmetadata: {name: a}\n")}, "kind.yaml:2: kind: there is no NetworkPolice in crd.antrea.io, want one of ClusterGroup, ClusterNetworkPolicy, "},
		"mistyped kind of an account": {[]string{"-f", write("account.yaml", "apiVersion: crd.cloud.antrea.io/v1alpha1\nkind: CloudAccount\nmetadata: {name: a}\n")}, "account.yaml:1: kind: there is no CloudAccount in crd.cloud.antrea.io"},
		"none":                        {nil, "-f is missing"},
		"missing":                     {[]string{"-f", filepath.Join(empty, "missing.yaml")}, "missing.yaml: no such file"},
		"empty directory":             {[]string{"-f", empty}, "there is no .yaml, .yml or .json file"},
		"output":                      {[]string{"-f", empty, "-o", "xml"}, `--output "xml": want json or yaml`},
	} {
		r := nephele(t, "", append([]string{"policy", "compute"}, c.args...)...)
		if r.code != ExitBadInput || !strings.Contains(r.err, c.want) || r.stdout != "" {
			t.Errorf("%s: %+v, want %q", name, r, c.want)
		}
	}
}

func TestManifestForms(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", twoVMs)
	write(
		"b.json",
		"{\n\t\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n\t\t{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"other\"}}\n\t]\n}\n",
	)
	write(
		"c.yml",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\n---\n# nothing\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: x}\n---\napiVersion: crd.antrea.io/v1beta1\nkind: Traceflow\nmetadata: {name: t}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: unheard}\n",
	)
	write("README.md", "not a manifest")
	r := nephele(t, "", "policy", "compute", "-f", dir)
	if r.code != ExitDone {
		t.Fatalf("%+v", r)
	}
	for _, want := range []string{"c.yml:1: ConfigMap s (v1) has no part", "c.yml:7: Deployment x/d (apps/v1)", "c.yml:11: Traceflow t (crd.antrea.io/v1beta1) has no part", "Namespace unheard is not in the manifests"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("no note %q in\n%s", want, r.err)
		}
	}
}

// TestRefusedObjectsAreLeftOut: the rest is computed and printed all the same.
func TestRefusedObjectsAreLeftOut(t *testing.T) {
	r := nephele(
		t,
		twoVMs+"---\napiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: bad, namespace: vms}\nspec: {priority: 0.5, appliedTo: [{podSelector: {}}]}\n",
		"policy",
		"compute",
		"-f",
		"-",
	)
	o := decodeOutput(t, r.stdout)
	rejected := maps(o, "rejected")
	if r.code != ExitBadInput || len(maps(o, "networkpolicies")) != 1 || len(rejected) != 1 || rejected[0]["code"] != 422.0 || rejected[0]["name"] != "bad" {
		t.Errorf("exit %d, %v, %s", r.code, rejected, r.err)
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
		code                    float64
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
		r := nephele(t, c.input, "policy", "compute", "-f", "-")
		rejected := maps(decodeRaw(t, r.stdout), "rejected")
		if r.code != ExitBadInput || len(rejected) != 1 || rejected[0]["code"] != c.code || rejected[0]["kind"] != c.kind || rejected[0]["name"] != c.name ||
			!strings.Contains(rejected[0]["message"].(string), c.says) {
			t.Errorf("%s: exit %d, %v, want %s of %s %s with code %v", name, r.code, rejected, c.says, c.kind, c.name, c.code)
		}
	}
}

func decodeRaw(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}
