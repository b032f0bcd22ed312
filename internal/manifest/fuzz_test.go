package manifest

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzLoad holds that whatever is read as a manifest is either refused with its place or taken, and
// that every object and every field of it has a place in the file.
func FuzzLoad(f *testing.F) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {x: y}}\n---\n# nothing\n---\n{\n\t\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"p\"}}\n",
		"apiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: a}\nspec:\n  priority: 1\n  appliedTo: [{group: ''}]\n  ingress: [{action: Drop, from: [{namespaces: {match: Self, sameLabels: [a]}}]}]\n",
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: k}\nspec: {podSelector: {}, policyTypes: [egress]}\n",
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: crd.antrea.io/v1beta1\n  kind: Tier\n  metadata: {name: t}\n  spec: {priority: 5}\n- {}\n- null\n",
		"apiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {name: p}\nspec: {priority: 1, subject: {namespaces: {}, pods: {}}}\n",
		"a: &a {b: *a}\n", "a: b: c\n", "--- \n--- x\n", "\xef\xbb\xbfapiVersion: v1\n", "apiVersion: a/b/c\nkind: X\n", "- 1\n", "kind: 1\napiVersion: y\n", "? [a]\n: b\n",
	} {
		f.Add([]byte(text))
	}
	compiled, err := loadSchemas()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		l := &loader{schemas: compiled, kinds: readable(), set: &Set{}, seen: map[string]Position{}}
		l.file("in", content)
		lines := bytes.Count(content, []byte("\n")) + 1
		for _, bad := range l.bad {
			if !strings.HasPrefix(bad.String(), "in:") {
				t.Errorf("a message without place: %s", bad)
			}
		}
		for _, d := range l.set.Documents {
			if d.Object.GetName() == "" || d.Kind == "" {
				t.Errorf("an object without name: %+v", d)
			}
			for _, field := range []string{"", "metadata.name", "spec.ingress[0].from[1].ipBlock.cidr", `metadata.labels["a.b"]`, "spec[", "spec..x"} {
				if at := d.At(field); at.Line < 1 || at.Line > lines {
					t.Errorf("%s of %s stands in line %d of %d", field, d.Name(), at.Line, lines)
				}
			}
			if r := d.Refusal; r != nil && (r.Text == "" || r.Code != 422 || r.Line < 1) {
				t.Errorf("a refusal that does not say what and where: %+v", r)
			}
		}
	})
}
