package controlplane

import (
	"context"
	"errors"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// managedPlugin is the name of unmanaged among the admission plugins.
const managedPlugin = "NepheleUnmanaged"

// accountAnnotation marks the objects that represent what is in a cloud account; the inventory
// writes it.
const accountAnnotation = "nephele.io/account"

// unmanaged keeps the API server from recording the managers of fields of objects that represent
// something in the cloud. There is one such object for every virtual machine and only the
// controller writes it. The managed fields would be larger than the object, in every version that
// is kept. The API server goes on without notes until somebody uses server-side apply on the
// object.
//
// For the same reason the garbage collector does not watch virtual machines, which own nothing and
// are owned by no one: they would be decoded once more for it whenever their status changes. A
// deletion that would wait for the garbage collector would wait for ever, and is refused.
//
// It holds nothing and is safe for concurrent use.
type unmanaged struct{}

var (
	_ admission.MutationInterface   = unmanaged{}
	_ admission.ValidationInterface = unmanaged{}
)

// uncollected is the kind that the garbage collector does not watch.
var uncollected = schema.GroupResource{Group: "crd.cloud.antrea.io", Resource: "virtualmachines"}

// register makes it a plugin of an API server that is to be built.
func (u unmanaged) register(o *genericoptions.AdmissionOptions) {
	o.Plugins.Register(managedPlugin, func(io.Reader) (admission.Interface, error) { return u, nil })
	o.RecommendedPluginOrder = append(slices.Clone(o.RecommendedPluginOrder), managedPlugin)
}

// Handles implements admission.Interface: the creation and deletion of objects.
func (unmanaged) Handles(o admission.Operation) bool {
	return o == admission.Create || o == admission.Delete
}

// Validate implements admission.ValidationInterface.
func (unmanaged) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetOperation() != admission.Delete || a.GetResource().GroupResource() != uncollected {
		return nil
	}
	o, _ := a.GetOperationOptions().(*metav1.DeleteOptions)
	if o == nil || o.PropagationPolicy == nil || *o.PropagationPolicy == metav1.DeletePropagationBackground {
		return nil
	}
	return admission.NewForbidden(a, errors.New("a VirtualMachine owns nothing that could be deleted before it or be orphaned: delete it with --cascade=background"))
}

// Admit implements admission.MutationInterface.
func (unmanaged) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetOperation() != admission.Create {
		return nil
	}
	if group := a.GetResource().Group; group != "crd.cloud.antrea.io" && group != "crd.antrea.io" {
		return nil
	}
	object, err := meta.Accessor(a.GetObject())
	if err != nil || object.GetAnnotations()[accountAnnotation] == "" {
		return nil // it is not for us to say what is wrong with it
	}
	object.SetManagedFields(nil)
	return nil
}
