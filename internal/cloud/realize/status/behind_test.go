package status

import (
	"context"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// laggard shows the VM as it was at an earlier time while it lags, as a cache does; nil stands for
// a VM that was not there yet.
type laggard struct {
	mu   sync.Mutex
	lags bool
	vm   *cloudv1.VirtualMachine
	// shown counts how often it was asked meanwhile.
	shown int
}

func (l *laggard) lag(vm *cloudv1.VirtualMachine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lags, l.vm, l.shown = true, vm, 0
}

// catchUp ends the lag and returns how often the VM was asked for.
func (l *laggard) catchUp() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lags = false
	return l.shown
}

func (l *laggard) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	vm, ok := obj.(*cloudv1.VirtualMachine)
	if !ok || !l.lags || key.Name != "web-1" {
		return c.Get(ctx, key, obj, opts...)
	}
	l.shown++
	if l.vm == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "virtualmachines"}, key.Name)
	}
	l.vm.DeepCopyInto(vm)
	return nil
}

// repeated lets time pass until the VM's summary is as wanted.
func (d *desk) repeated(want string) bool {
	return eventually(func() bool {
		if d.clock.HasWaiters() {
			d.clock.Step(behindMost)
		}
		return d.vm().Status.PolicySummary == want
	})
}

// TestStatusBehindCache: a VM is on its way and realized again before the cache shows that it was
// on its way. What the cache shows is what is to be written, but not what is there.
func TestStatusBehindCache(t *testing.T) {
	t.Parallel()
	l := &laggard{}
	d := newDesk(t, interceptor.Funcs{Get: l.get})
	realizing, realized := reportOf(nil, nil, onVM("a", 1, false, "")), reportOf(nil, nil, onVM("a", 1, true, ""))
	for _, r := range []Report{realizing, realized} {
		delete(r.Entities, plan.EntityRef{Namespace: labNamespace, Name: cloudv1.EntityNamePrefix + "gone"}) // else it is repeated for that
	}
	d.write(realized)
	before := d.vm()
	l.lag(&before)
	d.write(realizing)
	d.write(realized)
	if l.catchUp() < 2 {
		t.Fatal("the writer did not look at the VM for every report")
	}
	if got := d.vm().Status.PolicySummary; got != "0/1" {
		t.Fatalf("summary %q while the cache is behind, want the first of the two reports", got)
	}
	if !d.repeated("1/1") {
		t.Errorf("summary %q for ever, want 1/1", d.vm().Status.PolicySummary)
	}
}

// TestStatusBeforeObject: a report on a VM whose object the cache does not show yet is not lost.
func TestStatusBeforeObject(t *testing.T) {
	t.Parallel()
	l := &laggard{}
	d := newDesk(t, interceptor.Funcs{Get: l.get})
	l.lag(nil)
	d.write(reportOf(nil, nil, onVM("a", 1, true, "")))
	if l.catchUp() == 0 {
		t.Fatal("the writer did not look at the VM")
	}
	if !d.repeated("1/1") {
		t.Errorf("summary %q for ever, want 1/1", d.vm().Status.PolicySummary)
	}
}
