package controlplane

import (
	"context"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// managedPlugin is the name of unmanaged among the admission plugins.
const managedPlugin = "NepheleUnmanaged"

// accountAnnotation marks the objects that stand for what is in a cloud account; the inventory
// writes it.
const accountAnnotation = "nephele.io/account"

// unmanaged keeps the API server from noting who set which field of an object that stands for
// something in the cloud. Of such an object there is one for every virtual machine, only the
// controller writes it, and the notes would be larger than the object, in every version that is
// kept. The API server goes on without notes until somebody uses server-side apply on the object.
//
// It holds nothing and is safe for concurrent use.
type unmanaged struct{}

var _ admission.MutationInterface = unmanaged{}

// register makes it a plugin of an API server that is to be built.
func (u unmanaged) register(o *genericoptions.AdmissionOptions) {
	o.Plugins.Register(managedPlugin, func(io.Reader) (admission.Interface, error) { return u, nil })
	o.RecommendedPluginOrder = append(slices.Clone(o.RecommendedPluginOrder), managedPlugin)
}

// Handles implements admission.Interface: the creation of objects.
func (unmanaged) Handles(o admission.Operation) bool { return o == admission.Create }

// Admit implements admission.MutationInterface.
func (unmanaged) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
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
