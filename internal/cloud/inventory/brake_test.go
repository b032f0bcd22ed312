package inventory

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// TestBrakeSettings: the brake is on unless the account says otherwise; subscribers receive the
// setting, and a confirmation, at once.
func TestBrakeSettings(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	heard := 0
	l.inv.Subscribe(func(string) { heard++ })
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	for _, c := range []struct {
		name                string
		brake               *v1alpha1.Brake
		annotations         map[string]string
		percent, interfaces int
		news                bool
	}{
		{"nothing said", nil, nil, 50, 20, false},
		{"nothing in it", &v1alpha1.Brake{}, nil, 50, 20, false},
		{"a share", &v1alpha1.Brake{Percent: ptr.To[int32](0)}, nil, 0, 20, true},
		{"never", &v1alpha1.Brake{Percent: ptr.To[int32](100), Interfaces: ptr.To[int32](0)}, nil, 100, 0, true},
		{"confirmed", nil, map[string]string{v1alpha1.AnnotationConfirm: "0123456789abcdef"}, 50, 20, true},
		{"again", nil, map[string]string{v1alpha1.AnnotationConfirm: "0123456789abcdef"}, 50, 20, false},
		{"no longer", nil, nil, 50, 20, true},
	} {
		cpa := l.account()
		cpa.Spec.Brake, cpa.Annotations = c.brake, c.annotations
		cpa.Generation++
		l.update(cpa)
		before := heard
		l.reconcile()
		got := l.inv.Settings("clouds/acc")
		if got.BrakePercent != c.percent || got.BrakeInterfaces != c.interfaces || got.Confirm != c.annotations[v1alpha1.AnnotationConfirm] {
			t.Errorf("%s: %+v", c.name, got)
		}
		if (heard > before) != c.news {
			t.Errorf("%s: told: %t", c.name, heard > before)
		}
	}
}

// TestDeletionSaysThatItWaits: an account that is deleted and waits for a confirmation says so
// where people look first.
func TestDeletionSaysThatItWaits(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.restart(&releaser{})
	cpa := l.cpa()
	l.create(l.secret(goodCreds), cpa)
	l.reconcile()
	l.delete(cpa)
	braked := l.account()
	meta.SetStatusCondition(&braked.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionBraked, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConfirmationNeeded})
	if err := l.api.Status().Update(t.Context(), braked); err != nil {
		t.Fatal(err)
	}
	l.reconcile()
	l.wantAccount("False Releasing", "True OK", "True OK", "waits for a confirmation: see the condition Braked")
	if !meta.IsStatusConditionTrue(l.account().Status.Conditions, v1alpha1.ConditionBraked) {
		t.Error("the condition is gone")
	}
}
