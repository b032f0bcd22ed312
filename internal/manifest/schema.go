package manifest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/generated/crd"
)

// schemas holds the schemas of our CustomResourceDefinitions, read and compiled when a kind first
// occurs. It may be used by several at the same time.
type schemas struct {
	manifests []crd.Manifest
	mu        sync.Mutex
	compiled  map[schema.GroupVersionKind]*compiledSchema
}

// ourSchemas are the schemas of this program. They are constants, and to compile one takes longer
// than to read most texts, so that is done once.
var ourSchemas = sync.OnceValues(loadSchemas)

type compiledSchema struct {
	structural *structuralschema.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator
}

func loadSchemas() (*schemas, error) {
	manifests, err := crd.Manifests()
	if err != nil {
		return nil, fmt.Errorf("reading the definitions of our kinds: %w", err)
	}
	return &schemas{manifests: manifests, compiled: map[schema.GroupVersionKind]*compiledSchema{}}, nil
}

// definition returns the schema of a kind as it is written down, or nil if the kind is not one of
// ours.
func (s *schemas) definition(gvk schema.GroupVersionKind) (*apiextensionsv1.JSONSchemaProps, error) {
	for _, m := range s.manifests {
		// Reading one of these takes longer than reading most inputs: look before.
		if !strings.HasPrefix(m.File, gvk.Group+"_") || !bytes.Contains(m.YAML, []byte("kind: "+gvk.Kind+"\n")) {
			continue
		}
		var d apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(m.YAML, &d); err != nil {
			return nil, fmt.Errorf("reading the definition %s: %w", m.File, err)
		}
		for _, v := range d.Spec.Versions {
			if d.Spec.Names.Kind == gvk.Kind && v.Name == gvk.Version {
				return v.Schema.OpenAPIV3Schema, nil
			}
		}
	}
	return nil, nil
}

// get returns the schema of a kind, or nil if the kind is not one of ours.
func (s *schemas) get(gvk schema.GroupVersionKind) (*compiledSchema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.compiled[gvk]; ok {
		return c, nil
	}
	props, err := s.definition(gvk)
	if props == nil {
		return nil, err
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", gvk.Kind, err)
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", gvk.Kind, err)
	}
	openAPI, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", gvk.Kind, err)
	}
	c := &compiledSchema{structural, openAPI, cel.NewValidator(structural, true, celconfig.PerCallLimit)}
	s.compiled[gvk] = c
	return c, nil
}

// check sets the defaults of an object and returns what its schema and then what its rules find
// wrong.
func (c *compiledSchema) check(object map[string]any) (shape, rules field.ErrorList) {
	defaulting.PruneNonNullableNullsWithoutDefaults(object, c.structural)
	defaulting.Default(object, c.structural)
	shape = validation.ValidateCustomResource(nil, object, c.openAPI)
	shape = append(shape, listtype.ValidateListSetsAndMaps(nil, c.structural, object)...)
	if len(shape) > 0 || c.rules == nil {
		return shape, nil
	}
	rules, _ = c.rules.Validate(context.Background(), nil, c.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return shape, rules
}
