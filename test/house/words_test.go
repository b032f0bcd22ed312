package house

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestWordsForPolicies: kubectl (the phases of the definitions), nephele status and the console say
// how a policy stands in the words of docs/reference/conditions.md.
func TestWordsForPolicies(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	_, table, found := strings.Cut(read("docs/reference/conditions.md"), "## How a policy stands\n")
	if !found {
		t.Fatal("docs/reference/conditions.md has no table of how a policy stands")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	words := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\|").FindAllStringSubmatch(table, -1) {
		words[m[1]] = true
	}
	// Only status answers for policies by name, and reports policies without a status.
	asked := []string{"Missing", "NotReported"}
	var stored []string
	for word := range words {
		if !slices.Contains(asked, word) {
			stored = append(stored, word)
		}
	}
	slices.Sort(stored)
	quoted := func(pattern, text string) []string {
		out := map[string]bool{}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			out[m[1]] = true
		}
		return slices.Sorted(maps.Keys(out))
	}
	_, phases, _ := strings.Cut(read("internal/status/report.go"), "type Phase string")
	phases, _, _ = strings.Cut(phases, "\n)")
	_, badges, _ := strings.Cut(read("web/src/lib/derive.ts"), "export const PHASES = [")
	badges, _, _ = strings.Cut(badges, "]")
	printed := map[string][]string{
		"nephele status": quoted(`Phase += "(\w+)"`, phases),
		"the console":    quoted(`'(\w+)'`, badges),
	}
	for _, kind := range []string{"networkpolicies", "clusternetworkpolicies"} {
		printed["kubectl get "+kind] = enumOf(t, read("api/generated/crd/crd.antrea.io_"+kind+".yaml"), "status", "phase")
	}
	for who, got := range printed {
		want := stored
		if who == "nephele status" {
			want = slices.Sorted(slices.Values(append(slices.Clone(stored), asked...)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s says\n%v, want\n%v", who, got, want)
		}
	}
	onVMs := enumOf(t, read("api/generated/crd/crd.cloud.antrea.io_virtualmachines.yaml"), "status", "policies", "items", "phase")
	for _, word := range onVMs {
		if !words[word] || len(onVMs) != 4 {
			t.Errorf("on a VM a policy is %v", onVMs)
		}
	}
}

// enumOf is the enumeration of a field in the first version of a definition, sorted. "items" leads
// into a list.
func enumOf(t *testing.T, definition string, path ...string) []string {
	t.Helper()
	var d map[string]any
	if err := yaml.Unmarshal([]byte(definition), &d); err != nil {
		t.Fatal(err)
	}
	at := d["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	for _, step := range path {
		if step == "items" {
			at = at["items"].(map[string]any)
			continue
		}
		at = at["properties"].(map[string]any)[step].(map[string]any)
	}
	var out []string
	for _, v := range at["enum"].([]any) {
		out = append(out, v.(string))
	}
	slices.Sort(out)
	return out
}
