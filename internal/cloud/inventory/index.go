package inventory

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

// FieldAccount is the field by which Options.Client must find the objects of an account; AccountOf
// is its value.
const FieldAccount = selection.AnnotationAccount

// AccountOf returns the account that marks an object, if any.
func AccountOf(o client.Object) []string {
	if account := o.GetAnnotations()[selection.AnnotationAccount]; account != "" {
		return []string{account}
	}
	return nil
}

// Indexed are the kinds of objects that are found by FieldAccount.
func Indexed() []client.Object {
	return []client.Object{
		&v1alpha1.VirtualMachine{}, &v1alpha1.Vpc{}, &v1alpha1.CloudNativeService{}, &v1alpha1.NetworkInterface{},
		&antreav1alpha2.ExternalEntity{}, &antreav1alpha1.ExternalNode{}, &antreav1beta1.Group{},
	}
}

// index makes a client find objects by FieldAccount.
func index(ctx context.Context, by client.FieldIndexer) error {
	for _, o := range Indexed() {
		if err := by.IndexField(ctx, o, FieldAccount, AccountOf); err != nil {
			return fmt.Errorf("index %T by account: %w", o, err)
		}
	}
	return nil
}
