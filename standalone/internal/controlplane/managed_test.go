package controlplane

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// TestUnmanaged: only objects that stand for what is in a cloud lose the notes about the managers
// of field.
func TestUnmanaged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		group   string
		account string
		kept    bool
	}{
		"a VM of an account":            {"crd.cloud.antrea.io", "clouds/shop", false},
		"an entity of an account":       {"crd.antrea.io", "clouds/shop", false},
		"a user's own entity":           {"crd.antrea.io", "", true},
		"something else with the mark":  {"apps", "clouds/shop", true},
		"an account, which users apply": {"crd.cloud.antrea.io", "", true},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate}})
		if c.account != "" {
			o.SetAnnotations(map[string]string{accountAnnotation: c.account})
		}
		resource := schema.GroupVersionResource{Group: c.group, Version: "v1", Resource: "things"}
		a := admission.NewAttributesRecord(o, nil, schema.GroupVersionKind{}, "ns", "name", resource, "", admission.Create, nil, false, nil)
		if err := (unmanaged{}).Admit(t.Context(), a, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if kept := len(o.GetManagedFields()) > 0; kept != c.kept {
			t.Errorf("%s: the notes are kept: %t; want %t", name, kept, c.kept)
		}
	}
	if u := (unmanaged{}); !u.Handles(admission.Create) || u.Handles(admission.Update) {
		t.Error("it is for creations and deletions only")
	}
}

// TestNothingWaitsForTheGarbageCollector: a virtual machine cannot be deleted in a way that only
// the garbage collector could finish, because it does not look at them.
func TestNothingWaitsForTheGarbageCollector(t *testing.T) {
	admin := guarded(t)
	namespace := newNamespace(t, "uncollected")
	vm := func(name string) *cloudv1.VirtualMachine {
		return &cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground} {
		o := vm("vm-1")
		if err := admin.Create(t.Context(), o); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
		err := admin.Delete(t.Context(), o, client.PropagationPolicy(policy))
		refused := policy != metav1.DeletePropagationBackground
		if apierrors.IsForbidden(err) != refused || !refused && err != nil {
			t.Errorf("%s: %v", policy, err)
		}
		err = admin.DeleteAllOf(t.Context(), vm(""), client.InNamespace(namespace), client.PropagationPolicy(policy))
		if apierrors.IsForbidden(err) && !refused {
			t.Errorf("all, %s: %v", policy, err)
		}
		err = admin.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		if refused && (err != nil || !o.DeletionTimestamp.IsZero()) || !refused && !apierrors.IsNotFound(err) {
			t.Errorf("%s: it is left as %v, %v", policy, o.ObjectMeta, err)
		}
	}
}
