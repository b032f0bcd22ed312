package inventory

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// TestNewsOutlivesFailedPass: what was observed in a pass that then cannot read the objects is told
// all the same. The next pass sees nothing new.
func TestNewsOutlivesFailedPass(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	broken := false
	l.api = interceptor.NewClient(
		l.api.(client.WithWatch),
		interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
			if _, vms := o.(*v1alpha1.VirtualMachineList); vms && broken {
				return errors.New("the cache is away")
			}
			return c.List(ctx, o, opts...)
		}},
	)
	l.restart(nil)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
	heard := 0
	l.inv.Subscribe(func(string) { heard++ })
	l.reconcile()
	l.advance(time.Minute)
	l.retag("1")
	heard, broken = 0, true
	if _, err := l.inv.Reconcile(t.Context(), request(types.NamespacedName{Namespace: "clouds", Name: "acc"})); err == nil {
		t.Fatal("the pass does not fail")
	}
	broken = false
	l.reconcile()
	if heard != 1 {
		t.Errorf("heard %d times of what both passes found, want 1", heard)
	}
}
