package e2e

import (
	"testing"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// edit changes an object as a person with an editor does, who begins again when somebody was
// faster: controllers write the status of the same object.
func edit(t *testing.T, c client.Client, o client.Object, change func()) {
	t.Helper()
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change()
		return c.Update(t.Context(), o)
	}); err != nil {
		t.Fatalf("edit %T %s/%s: %v", o, o.GetNamespace(), o.GetName(), err)
	}
}
