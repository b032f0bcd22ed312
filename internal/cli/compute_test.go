package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
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

// TestComputeCommand: the output has the policies in both forms, and with --node what a watch with
// that key is given.
func TestComputeCommand(t *testing.T) {
	input := file(t, "in.yaml", previewtest.TwoVMs)
	for key, policies := range map[string]int{"cloud-b": 1, "cloud-a": 0} {
		r := nephele(t, "", "policy", "compute", "-f", input, "--node", key)
		if o := decodeRaw(t, r.stdout); r.code != ExitDone || len(maps(o, "networkpolicies")) != policies {
			t.Errorf("%s: %+v", key, r)
		}
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
	write("a.yaml", previewtest.TwoVMs)
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
		previewtest.TwoVMs+"---\napiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: bad, namespace: vms}\nspec: {priority: 0.5, appliedTo: [{podSelector: {}}]}\n",
		"policy",
		"compute",
		"-f",
		"-",
	)
	o := decodeRaw(t, r.stdout)
	rejected := maps(o, "rejected")
	if r.code != ExitBadInput || len(maps(o, "networkpolicies")) != 1 || len(rejected) != 1 || rejected[0]["code"] != 422.0 || rejected[0]["name"] != "bad" {
		t.Errorf("exit %d, %v, %s", r.code, rejected, r.err)
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
