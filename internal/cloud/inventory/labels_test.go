package inventory

import (
	"maps"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// TestLabelsComeBack: labels of ours that somebody takes away come back, all of them, without
// haste, and an object without labels goes with its VM.
func TestLabelsComeBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	bare := func(o client.Object, namespace, name string) map[string]string {
		t.Helper()
		get(l, o, namespace, name)
		before := o.GetLabels()
		if len(before) == 0 {
			t.Fatalf("%T %s has no labels", o, name)
		}
		o.SetLabels(nil)
		if err := l.api.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		l.inv.touch(client.ObjectKey{Namespace: "clouds", Name: "acc"}) // as the watch does
		return before
	}
	vpcs := &v1alpha1.VpcList{}
	if err := l.api.List(t.Context(), vpcs); err != nil || len(vpcs.Items) == 0 {
		t.Fatalf("%d networks, %v", len(vpcs.Items), err)
	}
	for _, o := range []struct {
		object          client.Object
		namespace, name string
	}{
		{&v1alpha1.VirtualMachine{}, "web", vm1},
		{&antreav1alpha2.ExternalEntity{}, "web", "virtualmachine-" + vm1},
		{&v1alpha1.Vpc{}, vpcs.Items[0].Namespace, vpcs.Items[0].Name},
	} {
		before := bare(o.object, o.namespace, o.name)
		l.takeWrites()
		if wait := l.reconcile(); wait < time.Second {
			t.Errorf("%T: the next pass is in %s", o.object, wait)
		}
		if writes := l.takeWrites(); len(writes) != 1 {
			t.Errorf("%T: writes %q; want one", o.object, writes)
		}
		get(l, o.object, o.namespace, o.name)
		if got := o.object.GetLabels(); !maps.Equal(got, before) {
			t.Errorf("%T: labels %v; want %v", o.object, got, before)
		}
	}
}
