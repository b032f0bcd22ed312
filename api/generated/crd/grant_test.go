package crd_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestGrantRules: what an account may say about namespaces, and how much of it.
func TestGrantRules(t *testing.T) {
	spec := func(more string) string {
		return `{awsConfig: {region: [us-west-2], secretRef: {name: s, namespace: ns, key: k}}, ` + more + `}`
	}
	namespaces := func(n int) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("n-%d", i))
		}
		return "[" + strings.Join(names, ", ") + "]"
	}
	runSpecCases(t, cloudVersion, "CloudProviderAccount", []specCase{
		{"its own namespace only", spec(`allowedNamespaces: {}`), ""},
		{"by name", spec(`allowedNamespaces: {names: [web, team-1]}`), ""},
		{"by label", spec(`allowedNamespaces: {selector: {matchLabels: {env: prod}, matchExpressions: [{key: a/b, operator: NotIn, values: [c]}]}}`), ""},
		{"all", spec(`allowedNamespaces: {selector: {}}`), ""},
		{"most names", spec(`allowedNamespaces: {names: ` + namespaces(256) + `}, releaseNamespaces: ` + namespaces(64)), ""},
		{"too many names", spec(`allowedNamespaces: {names: ` + namespaces(257) + `}`), "spec.allowedNamespaces.names: Too many"},
		{"name twice", spec(`allowedNamespaces: {names: [a, a]}`), "spec.allowedNamespaces.names[1]: Duplicate value"},
		{"empty name", spec(`allowedNamespaces: {names: [""]}`), "spec.allowedNamespaces.names[0]"},
		{"wildcard", spec(`allowedNamespaces: {names: ["*"]}`), "spec.allowedNamespaces.names[0]"},
		{"capitals", spec(`allowedNamespaces: {names: [Web]}`), "spec.allowedNamespaces.names[0]"},
		{"long name", spec(`allowedNamespaces: {names: [` + strings.Repeat("a", 64) + `]}`), "spec.allowedNamespaces.names[0]"},
		{"operator", spec(`allowedNamespaces: {selector: {matchExpressions: [{key: a, operator: Equals, values: [b]}]}}`), "spec.allowedNamespaces.selector.matchExpressions[0]"},
		{"operator without values", spec(`allowedNamespaces: {selector: {matchExpressions: [{key: a, operator: In, values: []}]}}`), "spec.allowedNamespaces.selector.matchExpressions[0]"},
		{"list in place of names", spec(`allowedNamespaces: [web]`), "spec.allowedNamespaces"},
		{"another field", spec(`allowedNamespaces: {name: [web]}`), `"spec.allowedNamespaces.name"`},
		{"a say", spec(`releaseNamespaces: [web]`), ""},
		{"a say for none", spec(`releaseNamespaces: []`), ""},
		{"a say for all", spec(`releaseNamespaces: ["*"]`), "spec.releaseNamespaces[0]"},
		{"a say twice", spec(`releaseNamespaces: [a, a]`), "spec.releaseNamespaces[1]: Duplicate value"},
		{"a say for too many", spec(`releaseNamespaces: ` + namespaces(65)), "spec.releaseNamespaces: Too many"},
		{"tags apart", spec(`userTags: Separate`), ""},
		{"tags merged", spec(`userTags: Merge`), ""},
		{"tags otherwise", spec(`userTags: merge`), `spec.userTags: Unsupported value: "merge"`},
		{"tags empty", spec(`userTags: ""`), `spec.userTags: Unsupported value: ""`},
	})
}

// TestGrantsAreOptional: an account from before them is stored as it was.
func TestGrantsAreOptional(t *testing.T) {
	stored, err := newServer(t).create(withSpec(t, cloudVersion, "CloudProviderAccount",
		`{awsConfig: {region: [us-west-2], secretRef: {name: s, namespace: ns, key: k}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"allowedNamespaces", "releaseNamespaces", "userTags"} {
		if _, found, _ := unstructured.NestedFieldNoCopy(stored.Object, "spec", field); found {
			t.Errorf("%s is set", field)
		}
	}
}
