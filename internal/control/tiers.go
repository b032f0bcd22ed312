package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
)

// systemTiers are the tiers that always exist, as objects.
func systemTiers() []*v1beta1.Tier {
	titles := map[string]string{
		v1beta1.TierEmergency: "Emergency", v1beta1.TierSecurityOps: "SecurityOps", v1beta1.TierNetworkOps: "NetworkOps",
		v1beta1.TierPlatform: "Platform", v1beta1.TierApplication: "Application", v1beta1.TierBaseline: "Baseline",
	}
	var out []*v1beta1.Tier
	for _, t := range policy.SystemTiers() {
		out = append(out, &v1beta1.Tier{
			ObjectMeta: metav1.ObjectMeta{Name: t.Name, Labels: useOf(t.Name)},
			Spec:       v1beta1.TierSpec{Priority: t.Priority, Description: "[READ-ONLY]: System generated " + titles[t.Name] + " Tier"},
		})
	}
	return out
}

// useOf is the label of a system tier that is made: policies in a tier before the tiers of the
// teams need a grant. An existing tier keeps its labels, because its authors have their rights
// already.
func useOf(tier string) map[string]string {
	if !slices.Contains(v1beta1.TiersWithGrant(), tier) {
		return nil
	}
	return map[string]string{cloudv1alpha1.LabelTierUse: cloudv1alpha1.TierUseRequired}
}

// keepTiers creates the system tiers that are missing, corrects the priority of those that have
// another, and tells which tiers have the priority of another one. One tier that cannot be written
// does not keep it from the others.
func (c *Controller) keepTiers(ctx context.Context) error {
	var errs []error
	for _, want := range systemTiers() {
		errs = append(errs, c.keepTier(ctx, want))
	}
	return errors.Join(append(errs, c.tellClashes(ctx))...)
}

func (c *Controller) keepTier(ctx context.Context, want *v1beta1.Tier) error {
	have := &v1beta1.Tier{}
	err := c.Options.Client.Get(ctx, types.NamespacedName{Name: want.Name}, have)
	switch {
	case apierrors.IsNotFound(err):
		if err := c.Options.Client.Create(ctx, want); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating the system tier %s: %w", want.Name, err)
		}
	case err != nil:
		return fmt.Errorf("reading the system tier %s: %w", want.Name, err)
	case have.Spec.Priority != want.Spec.Priority:
		former := have.Spec.Priority
		have.Spec.Priority = want.Spec.Priority
		if err := c.Options.Client.Update(ctx, have); err != nil {
			return fmt.Errorf("correcting the system tier %s: %w", want.Name, err)
		}
		c.event(have, corev1.EventTypeWarning, "SystemTierCorrected", "KeepTiers",
			fmt.Sprintf("The priority of a system tier is fixed: set from %d back to %d", former, want.Spec.Priority))
	}
	return nil
}

// tellClashes records an Event on every tier that has the priority of one with a smaller name.
// Admission prevents that unless two are made at the same instant, or there is none.
func (c *Controller) tellClashes(ctx context.Context) error {
	var tiers v1beta1.TierList
	if err := c.Options.Client.List(ctx, &tiers); err != nil {
		return fmt.Errorf("listing the tiers: %w", err)
	}
	slices.SortFunc(tiers.Items, func(a, b v1beta1.Tier) int { return strings.Compare(a.Name, b.Name) })
	first := map[int32]string{}
	for i := range tiers.Items {
		t := &tiers.Items[i]
		if other, taken := first[t.Spec.Priority]; taken {
			c.event(t, corev1.EventTypeWarning, "TierPriorityTaken", "KeepTiers",
				fmt.Sprintf("Tier %s has the same priority, %d: their policies are compared as if they were in one tier", other, t.Spec.Priority))
			continue
		}
		first[t.Spec.Priority] = t.Name
	}
	return nil
}
