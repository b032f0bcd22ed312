package e2e

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// untilWritten is how often something is tried again that somebody else writes as well: half a
// minute, as a machine that other work keeps busy needs.
var untilWritten = wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1.1, Steps: 60}

// edit changes an object as a person with an editor does, who begins again when somebody was
// faster: controllers write the status of the same object.
func edit(t *testing.T, c client.Client, o client.Object, change func()) {
	t.Helper()
	if err := retry.RetryOnConflict(untilWritten, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change()
		return c.Update(t.Context(), o)
	}); err != nil {
		t.Fatalf("edit %T %s/%s: %v", o, o.GetNamespace(), o.GetName(), err)
	}
}
