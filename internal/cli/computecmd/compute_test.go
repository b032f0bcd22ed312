package computecmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/policy/policytest"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

const recordedCases = "../../../testdata/conformance/policy"

// ambient are manifests of the Namespaces that the recorded cluster had besides the Namespaces of
// each case.
func ambient() string {
	var out strings.Builder
	for _, name := range policytest.Ambient() {
		out.WriteString("---\n{apiVersion: v1, kind: Namespace, metadata: {name: " + name + "}}\n")
	}
	return out.String()
}

// output computes manifests, none of which may be refused.
func output(t *testing.T, manifests, key string) computedOutput {
	t.Helper()
	in := previewtest.Inputs(t, manifests)
	out, err := computeOutput(preview.Compute(in), key)
	if err != nil || len(in.Refused) > 0 {
		t.Fatalf("%v, refused %v in\n%s", err, in.Refused, manifests)
	}
	return out
}

// encoded is the output as it is printed.
func encoded(t *testing.T, out computedOutput) string {
	t.Helper()
	raw, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
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
			in, err := preview.LoadInputs([]string{"-"}, strings.NewReader(input+"\n"+ambient()))
			if reason := policytest.Stricter()[dir.Name()]; reason != "" {
				if err == nil {
					preview.Compute(in)
				}
				if err == nil && len(in.Refused) == 0 {
					t.Errorf("nothing is refused: want %s", reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			out, err := computeOutput(preview.Compute(in), "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, decodeOutput(t, encoded(t, out))); diff != "" {
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

// TestComputeForOneKey: with the key of an enforcer the output is what a watch with that key is
// given.
func TestComputeForOneKey(t *testing.T) {
	for key, want := range map[string][3]int{"cloud-b": {1, 1, 1}, "cloud-a": {0, 0, 0}} {
		out := output(t, previewtest.TwoVMs, key)
		if got := [3]int{len(out.NetworkPolicies), len(out.AddressGroups), len(out.AppliedToGroups)}; got != want || len(out.Span) != 1 {
			t.Errorf("%s: %v of the span %v, want %v", key, got, out.Span, want)
		}
	}
}

// TestNamespaceLabel: whatever a manifest says, a Namespace has the label with its own name, as the
// API server sets it.
func TestNamespaceLabel(t *testing.T) {
	const input = `
{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {kubernetes.io/metadata.name: b}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: a}, spec: {nodeName: n1}, status: {podIPs: [{ip: 10.0.0.1}]}}
---
{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: p}, spec: {priority: 1,
 appliedTo: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}}]}}
`
	for name, members := range map[string]int{"a": 1, "b": 0} {
		out := output(t, strings.Replace(input, "NAME", name, 1), "")
		if len(out.AppliedToGroups) != 1 || len(out.AppliedToGroups[0].GroupMembers) != members {
			t.Errorf("%s: %+v, want %d members", name, out.AppliedToGroups, members)
		}
	}
}
