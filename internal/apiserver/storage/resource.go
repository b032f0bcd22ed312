// Package storage has what the storages of the served API have in common: what a resource is
// called, which objects of it a request selects, lists that are not watched, and tables.
//
// It keeps no objects. Everything in it may be used from anywhere.
package storage

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Resource is what every storage of this server is made of.
type Resource struct {
	rest.TableConvertor
	Group      schema.GroupResource
	Singular   string
	Namespaced bool
	// Kind returns a new object.
	Kind func() runtime.Object
}

// New describes a resource with the default table.
func New(group schema.GroupResource, singular string, namespaced bool, kind func() runtime.Object) Resource {
	return Resource{rest.NewDefaultTableConvertor(group), group, singular, namespaced, kind}
}

// New implements rest.Storage.
func (r Resource) New() runtime.Object { return r.Kind() }

// Destroy implements rest.Storage.
func (r Resource) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (r Resource) NamespaceScoped() bool { return r.Namespaced }

// GetSingularName implements rest.SingularNameProvider.
func (r Resource) GetSingularName() string { return r.Singular }
