package house

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/nephele-io/nephele/internal/kinds"
)

// ours tells the groups all of whose stored kinds are in the table.
func ours(group string) bool {
	return slices.Contains([]string{"crd.antrea.io", "crd.cloud.antrea.io", "nephele.io", "set.nephele.io", "policy.networking.k8s.io", "networking.k8s.io"}, group)
}

// documents reads the objects of a kind out of manifests.
func documents[T any](t *testing.T, kind string, files ...string) []T {
	t.Helper()
	var out []T
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096); ; {
			var any map[string]any
			if err := reader.Decode(&any); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if any["kind"] != kind {
				continue
			}
			var o T
			text, err := json.Marshal(any)
			if err == nil {
				err = yaml.Unmarshal(text, &o)
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			out = append(out, o)
		}
	}
	return out
}

// TestDefinitionsOfKinds: what the table says of a kind is what its definition says, and every
// definition is in the table.
func TestDefinitionsOfKinds(t *testing.T) {
	files, err := filepath.Glob("api/generated/crd/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	upstream, err := filepath.Glob("api/generated/crd/upstream/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defined := map[string]bool{}
	for _, d := range documents[apiextensionsv1.CustomResourceDefinition](t, "CustomResourceDefinition", append(files, upstream...)...) {
		k, known := kinds.Find(d.Spec.Group, d.Spec.Names.Kind)
		defined[d.Spec.Group+" "+d.Spec.Names.Kind] = true
		if !known {
			t.Errorf("%s is not in the table of internal/kinds", d.Name)
			continue
		}
		versioned := slices.ContainsFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == k.Version && v.Served })
		if !versioned || k.Resource != d.Spec.Names.Plural || k.Namespaced != (d.Spec.Scope == apiextensionsv1.NamespaceScoped) {
			t.Errorf("%s: the table says %s, %s, namespaced %v, and the definition something else", d.Name, k.GroupVersion(), k.Resource, k.Namespaced)
		}
	}
	for _, k := range kinds.All() {
		if ours(k.Group) && k.Group != "networking.k8s.io" && !defined[k.Group+" "+k.Kind] {
			t.Errorf("%s of %s is in the table, and there is no definition of it", k.Kind, k.Group)
		}
	}
}

// TestNoRuleReadsBytes: API servers read bytes for rules in the alphabet of URLs, and refuse those
// in the standard one, which everybody writes: an object below such a rule cannot be updated.
func TestNoRuleReadsBytes(t *testing.T) {
	files, err := filepath.Glob("api/generated/crd/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var below func(path string, s *apiextensionsv1.JSONSchemaProps, rules bool)
	below = func(path string, s *apiextensionsv1.JSONSchemaProps, rules bool) {
		rules = rules || len(s.XValidations) > 0
		if rules && s.Format == "byte" {
			t.Errorf("%s is bytes, and a rule is about it or what it is in", path)
		}
		for name, p := range s.Properties {
			below(path+"."+name, &p, rules)
		}
		if s.Items != nil && s.Items.Schema != nil {
			below(path+"[]", s.Items.Schema, rules)
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			below(path+"{}", s.AdditionalProperties.Schema, rules)
		}
	}
	for _, d := range documents[apiextensionsv1.CustomResourceDefinition](t, "CustomResourceDefinition", files...) {
		for _, v := range d.Spec.Versions {
			below(d.Name+" "+v.Name, v.Schema.OpenAPIV3Schema, false)
		}
	}
}

// TestRightsForKinds: the controller may watch what it computes and answers from, viewers may read
// all that is shown, and no role names a kind that the table does not have.
func TestRightsForKinds(t *testing.T) {
	may := func(role, verb string, k kinds.Kind, files ...string) bool {
		return slices.ContainsFunc(documents[rbacv1.ClusterRole](t, "ClusterRole", files...), func(r rbacv1.ClusterRole) bool {
			return r.Name == role && slices.ContainsFunc(r.Rules, func(rule rbacv1.PolicyRule) bool {
				return slices.Contains(rule.APIGroups, k.Group) && slices.Contains(rule.Resources, k.Resource) && slices.Contains(rule.Verbs, verb) && len(rule.ResourceNames) == 0
			})
		})
	}
	const controller, users, personas = "config/controller/role.yaml", "config/grants/users.yaml", "config/grants/personas.yaml"
	for _, k := range kinds.All() {
		for _, verb := range []string{"list", "watch"} {
			if (k.Is(kinds.Computed) || k.Is(kinds.Explained)) && !may("nephele-controller", verb, k, controller) {
				t.Errorf("%s: the controller may not %s %s.%s", controller, verb, k.Resource, k.Group)
			}
			// The role is aggregated from these two.
			if k.Uses&(kinds.Explained|kinds.Shown|kinds.Bundled) != 0 && !may("nephele-view", verb, k, users) && !may("nephele-audit", verb, k, personas) {
				t.Errorf("%s, %s: an auditor may not %s %s.%s", users, personas, verb, k.Resource, k.Group)
			}
		}
	}
	var manifests []string
	err := filepath.WalkDir("config", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".yaml") {
			manifests = append(manifests, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range documents[rbacv1.ClusterRole](t, "ClusterRole", manifests...) {
		for _, rule := range r.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					resource, _, _ = strings.Cut(resource, "/")
					if _, known := kinds.FindResource(group, resource); ours(group) && !known {
						t.Errorf("ClusterRole %s names %s.%s, which is not in the table of internal/kinds", r.Name, resource, group)
					}
				}
			}
		}
	}
}

// TestDocumentedKinds: docs/reference/kinds.md lists every kind that is not the cluster's own, and
// no other.
func TestDocumentedKinds(t *testing.T) {
	raw, err := os.ReadFile("docs/reference/kinds.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^\| ([a-z0-9.]+)/\w+ \| \[?([A-Z]\w+)`).FindAllStringSubmatch(string(raw), -1) {
		if !ours(line[1]) {
			continue
		}
		documented[line[1]+" "+line[2]] = true
		if _, known := kinds.Find(line[1], line[2]); !known {
			t.Errorf("the page lists %s of %s, which is not in the table of internal/kinds", line[2], line[1])
		}
	}
	for _, k := range kinds.All() {
		if ours(k.Group) && k.Group != "networking.k8s.io" && !documented[k.Group+" "+k.Kind] {
			t.Errorf("the page does not list %s of %s", k.Kind, k.Group)
		}
	}
}

// TestWatchesOfThePage: the page of the console asks for no watch that the table does not have.
func TestWatchesOfThePage(t *testing.T) {
	raw, err := os.ReadFile("web/src/lib/world.svelte.ts")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(raw), "const collections = {\n")
	text, _, _ = strings.Cut(text, "\n}\n")
	names := regexp.MustCompile(`(?m)^\s+([a-z]+): new Collection`).FindAllStringSubmatch(text, -1)
	if len(names) < 10 {
		t.Fatalf("found %d watches", len(names))
	}
	for _, m := range names {
		if m[1] != "events" && !slices.ContainsFunc(kinds.Of(kinds.Shown), func(k kinds.Kind) bool { return k.Topic == m[1] || k.Topic == "" && k.Resource == m[1] }) {
			t.Errorf("the page watches %q, which is no kind of the table", m[1])
		}
	}
}
