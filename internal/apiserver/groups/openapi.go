package groups

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// describe returns the descriptions of our kinds of a scheme, and of the kinds of Kubernetes that
// they are made of.
func OpenAPI(kinds *runtime.Scheme) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		all := apiextensions.GetOpenAPIDefinitions(ref)
		d := describer{ref: ref, all: all}
		for gv := range apis() {
			for _, typ := range kinds.KnownTypes(gv) {
				d.define(typ)
			}
		}
		return all
	}
}

// describer derives the description of Go types from their JSON tags.
type describer struct {
	ref common.ReferenceCallback
	all map[string]common.OpenAPIDefinition
}

// define describes a struct of ours, and those that its fields hold, and returns the name of its
// definition.
func (d describer) define(typ reflect.Type) string {
	name := util.GetCanonicalTypeName(reflect.Zero(typ).Interface())
	if strings.Contains(name, "/") && isOwn(typ) {
		// Field managers do not find a type by a name that has to be escaped in a reference.
		name = util.ToRESTFriendlyName(name)
	}
	if _, known := d.all[name]; known || !isOwn(typ) {
		return name
	}
	// A type that refers to itself finds this one.
	d.all[name] = common.OpenAPIDefinition{}
	properties := map[string]spec.Schema{}
	needs := map[string]bool{}
	d.fields(typ, properties, needs)
	d.all[name] = common.OpenAPIDefinition{
		Schema:       spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: properties}},
		Dependencies: slices.Sorted(maps.Keys(needs)),
	}
	return name
}

// fields describes the fields of a struct, and the fields of structs inlined in it.
func (d describer) fields(typ reflect.Type, properties map[string]spec.Schema, needs map[string]bool) {
	for field := range typ.Fields() {
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Type == reflect.TypeFor[metav1.TypeMeta]():
			properties["kind"], properties["apiVersion"] = *spec.StringProperty(), *spec.StringProperty()
		case field.Anonymous && key == "":
			d.fields(field.Type, properties, needs)
		default:
			properties[key] = d.describe(field.Type, needs)
		}
	}
}

func (d describer) describe(typ reflect.Type, needs map[string]bool) spec.Schema {
	switch typ.Kind() {
	case reflect.Pointer:
		return d.describe(typ.Elem(), needs)
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			return *spec.StrFmtProperty("byte")
		}
		element := d.describe(typ.Elem(), needs)
		return *spec.ArrayProperty(&element)
	case reflect.Struct:
		if typ == reflect.TypeFor[intstr.IntOrString]() {
			return *spec.StrFmtProperty(intstr.IntOrString{}.OpenAPISchemaFormat())
		}
		name := d.define(typ)
		needs[name] = true
		return spec.Schema{SchemaProps: spec.SchemaProps{Ref: d.ref(name), Default: map[string]any{}}}
	case reflect.Bool:
		return *spec.BooleanProperty()
	case reflect.Int32:
		return *spec.Int32Property()
	case reflect.Int64, reflect.Int, reflect.Uint32:
		return *spec.Int64Property()
	case reflect.Float64:
		return *spec.Float64Property()
	default:
		return *spec.StringProperty()
	}
}
