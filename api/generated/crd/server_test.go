package crd_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/generated/crd"
)

// server does to an object what kube-apiserver does to it on a write, with kube-apiserver's own code: unknown fields
// are errors (kubectl asks for that), defaults are set, then schema, list types and CEL rules are checked.
type server struct {
	kinds map[schema.GroupVersionKind]*kind
}

type kind struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// definitions decodes the embedded manifests, with the defaults that kube-apiserver sets.
func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	manifests, err := crd.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(manifests))
	for _, m := range manifests {
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(m.YAML, d); err != nil {
			t.Fatalf("%s: %v", m.File, err)
		}
		apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(d)
		out = append(out, d)
	}
	return out
}

func internalForm(t *testing.T, d *apiextensionsv1.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	out := &apiextensions.CustomResourceDefinition{}
	if err := scheme.Convert(d, out, nil); err != nil {
		t.Fatalf("%s: %v", d.Name, err)
	}
	return out
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{kinds: map[schema.GroupVersionKind]*kind{}}
	for _, d := range definitions(t) {
		for _, v := range d.Spec.Versions {
			gvk := schema.GroupVersionKind{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind}
			props := &apiextensions.JSONSchemaProps{}
			if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, props, nil); err != nil {
				t.Fatalf("%s: %v", gvk, err)
			}
			structural, err := structuralschema.NewStructural(props)
			if err != nil {
				t.Fatalf("%s: %v", gvk, err)
			}
			schemaValidator, _, err := validation.NewSchemaValidator(props)
			if err != nil {
				t.Fatalf("%s: %v", gvk, err)
			}
			s.kinds[gvk] = &kind{structural, schemaValidator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}
		}
	}
	return s
}

// create returns the object as it would be stored, or what kube-apiserver would answer instead.
func (s *server) create(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return s.write(obj, nil)
}

// update does the same for an object that replaces a stored one.
func (s *server) update(obj, stored *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return s.write(obj, stored)
}

func (s *server) write(obj, stored *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	k := s.kinds[obj.GroupVersionKind()]
	if k == nil {
		return nil, fmt.Errorf("no kind %s", obj.GroupVersionKind())
	}
	obj = obj.DeepCopy()
	unknown := pruning.PruneWithOptions(obj.Object, k.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	if len(unknown) > 0 {
		return nil, fmt.Errorf("unknown fields %q", unknown)
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, k.structural)
	defaulting.Default(obj.Object, k.structural)

	var errs field.ErrorList
	var old any
	if stored == nil {
		errs = validation.ValidateCustomResource(nil, obj.Object, k.schema)
	} else {
		old = stored.Object
		errs = validation.ValidateCustomResourceUpdate(nil, obj.Object, old, k.schema)
	}
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, obj.Object)...)
	if k.rules != nil && len(errs) == 0 {
		violations, _ := k.rules.Validate(context.Background(), nil, k.structural, obj.Object, old, celconfig.RuntimeCELCostBudget)
		errs = append(errs, violations...)
	}
	return obj, errs.ToAggregate()
}

// parse reads YAML documents the way kubectl does: numbers without fraction are integers.
func parse(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for _, doc := range bytes.Split([]byte(text), []byte("\n---\n")) {
		content, err := yaml.YAMLToJSON(doc)
		if err != nil {
			t.Fatalf("parsing %s: %v", doc, err)
		}
		if bytes.Equal(content, []byte("null")) {
			continue
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(content); err != nil {
			t.Fatalf("parsing %s: %v", doc, err)
		}
		out = append(out, obj)
	}
	return out
}
