package crd_test

import (
	"context"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
)

// kube-apiserver 1.36 accepts every manifest: names, structural schemas, defaults, list types, selectable fields, and
// the rules compile and stay within the limits of their estimated cost.
func TestDefinitionsAreAccepted(t *testing.T) {
	for _, d := range definitions(t) {
		t.Run(d.Name, func(t *testing.T) {
			in := internalForm(t, d)
			// kube-apiserver fills these two in before it validates.
			in.Status.StoredVersions = []string{d.Spec.Versions[0].Name}
			for _, err := range validation.ValidateCustomResourceDefinition(context.Background(), in) {
				t.Error(err)
			}
		})
	}
}
