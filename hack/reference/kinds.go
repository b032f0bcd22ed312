package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

type schema = apiextensionsv1.JSONSchemaProps

// kinds lists the definitions, and then the fields of ours. The fields of upstream kinds are
// documented by their project.
func kinds(out *bytes.Buffer) error {
	ours, err := definitions("api/generated/crd/*.yaml")
	if err != nil {
		return err
	}
	upstream, err := definitions("api/generated/crd/upstream/*.yaml")
	if err != nil {
		return err
	}
	fmt.Fprint(out, "\n| Group, version | Kind | Short | Scope | What it is |\n|---|---|---|---|---|\n")
	for _, d := range ours {
		name := fmt.Sprintf("[%s](#%s)", d.Spec.Names.Kind, anchor(d))
		row(out, d, name)
	}
	for _, d := range upstream {
		row(out, d, d.Spec.Names.Kind)
	}
	for _, d := range ours {
		v := stored(d)
		root := v.Schema.OpenAPIV3Schema
		fmt.Fprintf(out, "\n## %s %s\n\n%s\n\n| Field | Type | What it is |\n|---|---|---|\n", d.Spec.Group, d.Spec.Names.Kind, fill(escape(root.Description)))
		for _, name := range slices.Sorted(maps.Keys(root.Properties)) {
			if p := root.Properties[name]; name != "apiVersion" && name != "kind" && name != "metadata" {
				field(out, name, p, slices.Contains(root.Required, name))
			}
		}
	}
	return lists(out, list{"Kinds of native services", "Kind", "api/cloud/v1alpha1", typed("NativeServiceKind")})
}

func escape(text string) string { return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(text) }

func anchor(d apiextensionsv1.CustomResourceDefinition) string {
	return strings.ReplaceAll(d.Spec.Group, ".", "") + "-" + strings.ToLower(d.Spec.Names.Kind)
}

func row(out *bytes.Buffer, d apiextensionsv1.CustomResourceDefinition, name string) {
	what, _, _ := strings.Cut(strings.Join(strings.Fields(stored(d).Schema.OpenAPIV3Schema.Description), " "), ". ")
	fmt.Fprintf(out, "| %s/%s | %s | %s | %s | %s |\n", d.Spec.Group, stored(d).Name, name,
		strings.Join(d.Spec.Names.ShortNames, ", "), strings.ToLower(string(d.Spec.Scope)), cell(strings.TrimSuffix(what, ".")))
}

func definitions(pattern string) ([]apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%d definitions match %s: %w", len(files), pattern, err)
	}
	var out []apiextensionsv1.CustomResourceDefinition
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("reading a definition: %w", err)
		}
		var d apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &d); err != nil {
			return nil, fmt.Errorf("parsing %s: %w", f, err)
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b apiextensionsv1.CustomResourceDefinition) int {
		return cmp.Or(strings.Compare(a.Spec.Group, b.Spec.Group), strings.Compare(a.Spec.Names.Kind, b.Spec.Names.Kind))
	})
	return out, nil
}

func stored(d apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinitionVersion {
	for _, v := range d.Spec.Versions {
		if v.Storage {
			return v
		}
	}
	return d.Spec.Versions[0]
}

// field writes a field and those below it.
func field(out *bytes.Buffer, path string, s schema, required bool) {
	what := s.Description
	if required {
		what += " Required."
	}
	if bounds := bounds(s); bounds != "" {
		what += " " + bounds
	}
	fmt.Fprintf(out, "| %s | %s | %s |\n", path, typeOf(s), cell(what))
	switch below := inner(s); {
	case strings.HasSuffix(path, ".conditions"), below == nil, isSelector(*below):
	default:
		suffix := ""
		if s.Items != nil {
			suffix = "[]"
		}
		if s.AdditionalProperties != nil {
			suffix = "{}"
		}
		for _, name := range slices.Sorted(maps.Keys(below.Properties)) {
			field(out, path+suffix+"."+name, below.Properties[name], slices.Contains(below.Required, name))
		}
	}
}

// isSelector reports whether a schema is a label selector, whose fields need no description.
func isSelector(s schema) bool {
	_, labels := s.Properties["matchLabels"]
	_, expressions := s.Properties["matchExpressions"]
	return labels && expressions
}

// inner is what holds the fields of an object, of the elements of a list or of a map.
func inner(s schema) *schema {
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		return s.Items.Schema
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return s.AdditionalProperties.Schema
	case len(s.Properties) > 0:
		return &s
	}
	return nil
}

func typeOf(s schema) string {
	switch {
	case s.XIntOrString:
		return "integer or string"
	case s.Items != nil && s.Items.Schema != nil:
		return "list of " + typeOf(*s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(*s.AdditionalProperties.Schema)
	case isSelector(s):
		return "label selector"
	case s.Format != "" && s.Type == "string":
		return s.Format
	case s.Type == "":
		return "any"
	}
	return s.Type
}

// bounds says what the schema takes, as far as it is short.
func bounds(s schema) string {
	var out []string
	if n := len(s.Enum); n > 0 && n <= 20 {
		var of []string
		for _, e := range s.Enum {
			var text any
			if json.Unmarshal(e.Raw, &text) == nil {
				of = append(of, fmt.Sprint(text))
			}
		}
		out = append(out, "One of "+strings.Join(of, ", "))
	}
	if s.Default != nil && len(s.Default.Raw) <= 40 {
		out = append(out, "Default "+strings.Trim(string(s.Default.Raw), `"`))
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		out = append(out, fmt.Sprintf("%v to %v", *s.Minimum, *s.Maximum))
	case s.Minimum != nil:
		out = append(out, fmt.Sprintf("At least %v", *s.Minimum))
	case s.Maximum != nil:
		out = append(out, fmt.Sprintf("At most %v", *s.Maximum))
	}
	if s.MaxItems != nil {
		out = append(out, fmt.Sprintf("At most %d", *s.MaxItems))
	}
	if s.MaxLength != nil {
		out = append(out, fmt.Sprintf("At most %d characters", *s.MaxLength))
	}
	if len(out) == 0 {
		return ""
	}
	return strings.Join(out, ". ") + "."
}
