package storage

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/nephele-io/nephele/internal/apiserver/groups"
)

// Readings is a resource that is read one by one or as a list, and not watched.
type Readings struct {
	Resource
	// Lists returns a new list.
	Lists func() runtime.Object
	// Items returns the objects of a namespace, or with an empty one of all.
	Items  func(namespace string) []runtime.Object
	Object func(namespace, name string) (runtime.Object, bool)
	Table  func(ctx context.Context, object, options runtime.Object) (*metav1.Table, error)
}

var (
	_ rest.Getter = (*Readings)(nil)
	_ rest.Lister = (*Readings)(nil)
)

// NewList implements rest.Lister.
func (r *Readings) NewList() runtime.Object { return r.Lists() }

// Get implements rest.Getter.
func (r *Readings) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	object, ok := r.Object(request.NamespaceValue(ctx), name)
	if !ok {
		return nil, apierrors.NewNotFound(r.Group, name)
	}
	return object, nil
}

// List implements rest.Lister.
func (r *Readings) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	if err := CheckList(o, ""); err != nil {
		return nil, err
	}
	var chosen []runtime.Object
	for _, object := range r.Items(request.NamespaceValue(ctx)) {
		m := object.(metav1.Object)
		if o != nil && o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(m.GetLabels())) {
			continue
		}
		if o != nil && o.FieldSelector != nil && !o.FieldSelector.Matches(fields.Set{groups.FieldName: m.GetName(), "metadata.namespace": m.GetNamespace()}) {
			continue
		}
		chosen = append(chosen, object)
	}
	list := r.Lists()
	if err := meta.SetList(list, chosen); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return list, nil
}

// ConvertToTable implements rest.TableConvertor.
func (r *Readings) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return r.Table(ctx, object, options)
}

// Column is one column of a table.
type Column struct{ Name, Type, Format, Description string }

// Tabler returns a conversion to tables with the given columns; cells returns the values of one
// object.
func Tabler(columns []Column, cells func(o runtime.Object) []any) func(context.Context, runtime.Object, runtime.Object) (*metav1.Table, error) {
	return func(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
		table := &metav1.Table{}
		if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
			for _, c := range columns {
				table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description})
			}
		}
		if m, err := meta.ListAccessor(object); err == nil {
			table.ResourceVersion = m.GetResourceVersion()
		}
		var err error
		table.Rows, err = metatable.MetaToTableRow(object, func(o runtime.Object, _ metav1.Object, _, _ string) ([]any, error) { return cells(o), nil })
		return table, err
	}
}
