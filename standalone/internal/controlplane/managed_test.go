package controlplane

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// TestUnmanaged: only objects that stand for what is in a cloud lose the notes about who set which
// field.
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
		t.Error("it is for creations only")
	}
}
