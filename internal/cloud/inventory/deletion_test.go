package inventory

import (
	"testing"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
)

// TestDeletionPolicyAtFirst: an account that is new is protected, one that a former version has
// read is not and says so, and what the spec says counts for both. The selector says the same, as
// long as there is an account.
func TestDeletionPolicyAtFirst(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		readBefore bool
		spec       v1alpha1.DeletionPolicy
		want       v1alpha1.DeletionPolicy
		condition  string
	}{
		"new":                  {want: v1alpha1.DeletionProtect},
		"new, to be released":  {spec: v1alpha1.DeletionRelease, want: v1alpha1.DeletionRelease},
		"older":                {readBefore: true, want: v1alpha1.DeletionRelease, condition: "False OlderAccount"},
		"older, protected":     {readBefore: true, spec: v1alpha1.DeletionProtect, want: v1alpha1.DeletionProtect},
		"older, as it is fine": {readBefore: true, spec: v1alpha1.DeletionRelease, want: v1alpha1.DeletionRelease},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			cpa := l.cpa()
			cpa.Spec.DeletionPolicy = x.spec
			l.create(l.secret(goodCreds), cpa, l.ces("vms", "all", wholeVPC(vpc1)))
			if x.readBefore {
				l.reconcile()
				stored := l.account() // as the former version has left it
				stored.Status.DeletionPolicy = ""
				if err := l.api.Status().Update(t.Context(), stored); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // it is decided once
				l.reconcile()
			}
			account := l.account()
			if got := accountspec.DeletionPolicyOf(account); got != x.want {
				t.Errorf("the account is under %q, want %q", got, x.want)
			}
			if got := condition(account.Status.Conditions, v1alpha1.ConditionDeletionProtected); got != x.condition {
				t.Errorf("condition %q, want %q", got, x.condition)
			}
			if got := get(l, &v1alpha1.CloudEntitySelector{}, "vms", "all").Status.DeletionPolicy; got != x.want {
				t.Errorf("the selector is under %q, want %q", got, x.want)
			}
			l.delete(account)
			for range 3 {
				l.reconcile()
			}
			if got := get(l, &v1alpha1.CloudEntitySelector{}, "vms", "all").Status.DeletionPolicy; got != "" {
				t.Errorf("without an account the selector is under %q", got)
			}
		})
	}
}
