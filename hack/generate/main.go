// Command generate completes the CustomResourceDefinitions that controller-gen writes, in place.
//
// It tightens ours, and serves the policies, groups and tiers of Antrea in the versions before
// v1beta1, too. The schema of a label selector comes from apimachinery, which has no markers, so
// its operators, keys and values would go unchecked. With -upstream VERSION it leaves the schemas
// as they are and gives the definitions, all of policy.networking.k8s.io, the annotations that
// their project publishes them with; an API server takes none of a group below k8s.io without a
// link to its approval.
//
// Usage: generate [-upstream VERSION] FILE...
//
// It runs once and to the end; it is not safe to run twice at a time on the same files.
package main

import (
	"flag"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/internal/kinds"
)

// Patterns and longest lengths of label keys and values, as Kubernetes has them.
const (
	labelValuePattern = `^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
	labelKeyPattern   = `^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$`
	maxLabelValue     = 63
	maxLabelKey       = 317
)

func main() {
	upstream := flag.String("upstream", "", "version of the module that the definitions come from")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: generate [-upstream VERSION] FILE...")
		os.Exit(2)
	}
	edit := func(doc any) { walk(doc); serveFormer(doc) }
	if *upstream != "" {
		edit = func(doc any) { annotate(doc, *upstream) }
	}
	for _, path := range flag.Args() {
		if err := editFile(path, edit); err != nil {
			fmt.Fprintln(os.Stderr, "generate:", err)
			os.Exit(1)
		}
	}
}

// serveFormer adds the former versions of a kind of crd.antrea.io. They are not stored, and say
// what their fields mean nowhere: definitions have to be small enough for the annotation of
// kubectl.
func serveFormer(doc any) {
	spec := doc.(map[string]any)["spec"].(map[string]any)
	if spec["group"] != "crd.antrea.io" {
		return
	}
	kind := spec["names"].(map[string]any)["kind"].(string)
	versions := spec["versions"].([]any)
	for _, name := range kinds.FormerVersions("crd.antrea.io", kind) {
		v := withoutDescriptions(versions[0], false).(map[string]any)
		v["name"], v["storage"], v["deprecated"] = name, false, true
		v["deprecationWarning"] = "crd.antrea.io/" + name + " " + kind + " is of Antrea before 1.13: write crd.antrea.io/v1beta1, and nothing else has to change"
		if kind == "ClusterGroup" && name == "v1alpha2" {
			withIPBlock(v)
		}
		versions = append(versions, v)
	}
	spec["versions"] = versions
}

// withIPBlock gives a version of ClusterGroup the one block of addresses that a group had once. The
// webhook makes a list of it, and nothing else could keep it.
func withIPBlock(version map[string]any) {
	fields := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)
	spec := fields["spec"].(map[string]any)
	properties := spec["properties"].(map[string]any)
	properties["ipBlock"] = properties["ipBlocks"].(map[string]any)["items"]
	rules, _ := spec["x-kubernetes-validations"].([]any)
	spec["x-kubernetes-validations"] = append(rules, map[string]any{
		"rule": "!has(self.ipBlock)", "message": "ipBlock is a list since v1alpha3: write ipBlocks: [{cidr: ...}]", "fieldPath": ".ipBlock",
	})
}

// withoutDescriptions copies a schema without what it says to people. A property may be called
// description.
func withoutDescriptions(node any, properties bool) any {
	switch n := node.(type) {
	case map[string]any:
		out := make(map[string]any, len(n))
		for key, value := range n {
			if properties || key != "description" {
				out[key] = withoutDescriptions(value, key == "properties" && !properties)
			}
		}
		return out
	case []any:
		out := make([]any, len(n))
		for i := range n {
			out[i] = withoutDescriptions(n[i], false)
		}
		return out
	}
	return node
}

// approvals are the pull requests in which the kinds of policy.networking.k8s.io were approved, as
// their project says.
var approvals = map[string]string{
	"ClusterNetworkPolicy":       "https://github.com/kubernetes-sigs/network-policy-api/pull/347",
	"AdminNetworkPolicy":         "https://github.com/kubernetes-sigs/network-policy-api/pull/30",
	"BaselineAdminNetworkPolicy": "https://github.com/kubernetes-sigs/network-policy-api/pull/30",
}

// annotate replaces the annotations of a definition by the annotations of its project. The Go types
// have every field, the experimental channel included.
func annotate(doc any, version string) {
	definition := doc.(map[string]any)
	names := definition["spec"].(map[string]any)["names"].(map[string]any)
	definition["metadata"].(map[string]any)["annotations"] = map[string]any{
		"api-approved.kubernetes.io":              approvals[names["kind"].(string)],
		"policy.networking.k8s.io/bundle-version": version,
		"policy.networking.k8s.io/channel":        "experimental",
	}
}

func editFile(path string, edit func(doc any)) error {
	in, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading a manifest: %w", err)
	}
	var doc any
	if err := yaml.Unmarshal(in, &doc); err != nil {
		return fmt.Errorf("parsing %s: %w", path, err)
	}
	edit(doc)
	out, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("writing %s as YAML: %w", path, err)
	}
	if err := os.WriteFile(path, out, 0o644); err != nil {
		return fmt.Errorf("writing a manifest: %w", err)
	}
	return nil
}

// walk visits every node of a manifest and tightens those that are the schema of a label selector.
func walk(node any) {
	switch n := node.(type) {
	case map[string]any:
		if props, ok := n["properties"].(map[string]any); ok && props["matchLabels"] != nil && props["matchExpressions"] != nil {
			tightenSelector(props)
			return
		}
		for _, child := range n {
			walk(child)
		}
	case []any:
		for _, child := range n {
			walk(child)
		}
	}
}

// tightenSelector edits the properties of a label selector. That In and NotIn need values, and the
// others must have none, is said in the schema rather than by a rule: a rule would be estimated at
// the cost of the largest possible policy.
func tightenSelector(props map[string]any) {
	value := func() map[string]any {
		return map[string]any{"type": "string", "maxLength": maxLabelValue, "pattern": labelValuePattern}
	}
	labels := props["matchLabels"].(map[string]any)
	labels["additionalProperties"] = value()

	exprs := props["matchExpressions"].(map[string]any)
	item := exprs["items"].(map[string]any)
	// Two separate refusals: of alternatives the API server would name one that was not meant.
	item["allOf"] = []any{
		map[string]any{"not": map[string]any{
			"properties": map[string]any{"operator": map[string]any{"enum": []any{"In", "NotIn"}}, "values": map[string]any{"maxItems": 0}},
		}},
		map[string]any{"not": map[string]any{
			"properties": map[string]any{"operator": map[string]any{"enum": []any{"Exists", "DoesNotExist"}}, "values": map[string]any{"minItems": 1}},
			"required":   []any{"values"},
		}},
	}
	fields := item["properties"].(map[string]any)
	key := fields["key"].(map[string]any)
	key["pattern"], key["maxLength"] = labelKeyPattern, maxLabelKey
	fields["operator"].(map[string]any)["enum"] = []any{"In", "NotIn", "Exists", "DoesNotExist"}
	values := fields["values"].(map[string]any)
	values["items"] = value()
}
