package manifest

import (
	"fmt"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nephele-io/nephele/internal/expect"
	"github.com/nephele-io/nephele/internal/kinds"
)

// Object is an object of a kind that matters here.
type Object interface {
	metav1.Object
	runtime.Object
}

// Document is one object and where it was read.
type Document struct {
	Position
	Object Object
	// Number counts the documents of the file from 1, also those that hold nothing; the objects of
	// a List share one.
	Number int
	// Group and Kind of the object.
	Group, Kind string
	// Refusal is why the API server would not take the object; nil if it would.
	Refusal *Refusal

	node   *yamlv3.Node
	offset int
}

// Name returns "Kind namespace/name", or "Kind name" for an object without namespace.
func (d *Document) Name() string { return title(d.Kind, d.Object.GetNamespace(), d.Object.GetName()) }

// At returns where a field stands, or the nearest one above it.
func (d *Document) At(field string) Position {
	p := d.Position
	if n := node(d.node, field); n != nil && n.Line > 0 {
		p.Line = n.Line + d.offset
	}
	return p
}

// YAML is the document as it was read, but for its form; of a List it is one object.
func (d *Document) YAML() ([]byte, error) {
	out, err := yamlv3.Marshal(d.node)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", d.Name(), err)
	}
	return out, nil
}

func title(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}

// Refusal says that the API server would not take an object.
type Refusal struct {
	// Position is zero for an object that was not read from a file.
	Position
	Group, Kind, Namespace, Name string
	// Code is the status code: 422 for a breach of the schema, 400 for one of the rules that
	// webhooks check.
	Code int
	// Text names the fields, the values and what was expected.
	Text string
	// Number is that of the document, 0 if there is none, and Field the first field that is wrong.
	Number int
	Field  string
}

// Refuse returns a refusal of the object because of a field.
func (d *Document) Refuse(code int, field, text string) Refusal {
	return Refusal{
		Position: d.At(field), Group: d.Group, Kind: d.Kind, Namespace: d.Object.GetNamespace(), Name: d.Object.GetName(),
		Code: code, Text: text, Number: d.Number, Field: field,
	}
}

// String returns the refusal as one line.
func (r Refusal) String() string {
	text := title(r.Kind, r.Namespace, r.Name) + ": " + r.Text
	if r.File == "" {
		return text
	}
	return r.Position.String() + ": " + text
}

// Set is what Load found.
type Set struct {
	// Documents in the order in which they were read.
	Documents []*Document
	// Notes say what was left out or supposed, for people.
	Notes []string
}

// InputError is bad input.
type InputError struct {
	Problems []Problem
}

// Problem is what cannot be read, and where.
type Problem struct {
	Position
	// Number is that of the document, 0 if it is about none.
	Number int
	// Object is what is given there, with its kind and name, as far as that could be read.
	Object *Document
	// Field is what is wrong with it; empty if it is no single one.
	Field, Text string
	// TooMuch tells that there is more than was asked for, and nothing else is wrong.
	TooMuch bool
}

// String returns the problem as one line.
func (p Problem) String() string {
	parts := make([]string, 0, 4)
	if p.Line == 0 {
		parts = append(parts, p.File)
	} else {
		parts = append(parts, p.Position.String())
	}
	if p.Object != nil {
		parts = append(parts, p.Object.Name())
	}
	if p.Field != "" {
		parts = append(parts, p.Field)
	}
	return strings.Join(append(parts, p.Text), ": ")
}

// Error implements error: every line names the file and the line.
func (e *InputError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// readable are the kinds that matter here.
func readable() map[schema.GroupVersionKind]func() Object {
	out := map[schema.GroupVersionKind]func() Object{
		// Of these there is no watch, and nothing is shown.
		corev1.SchemeGroupVersion.WithKind("Secret"): func() Object { return &corev1.Secret{} },
		expect.GroupVersion().WithKind(expect.Kind):  func() Object { return &expect.PolicyTest{} },
	}
	for _, k := range kinds.Of(kinds.Manifest) {
		for _, version := range append(kinds.FormerVersions(k.Group, k.Kind), k.Version) {
			out[schema.GroupVersionKind{Group: k.Group, Version: version, Kind: k.Kind}] = func() Object { return k.New() }
		}
	}
	return out
}

// clusterScoped tells the kinds that have no namespace.
func clusterScoped(gvk schema.GroupVersionKind) bool {
	k, known := kinds.Find(gvk.Group, gvk.Kind)
	return known && !k.Namespaced || gvk.Kind == expect.Kind
}
