package control

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
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
			ObjectMeta: metav1.ObjectMeta{Name: t.Name},
			Spec:       v1beta1.TierSpec{Priority: t.Priority, Description: "[READ-ONLY]: System generated " + titles[t.Name] + " Tier"},
		})
	}
	return out
}

// keepTiers creates the system tiers that are missing and corrects the priority of those that have another.
func (c *Controller) keepTiers(ctx context.Context) error {
	for _, want := range systemTiers() {
		have := &v1beta1.Tier{}
		err := c.Client.Get(ctx, types.NamespacedName{Name: want.Name}, have)
		switch {
		case apierrors.IsNotFound(err):
			if err := c.Client.Create(ctx, want); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("creating the system tier %s: %w", want.Name, err)
			}
		case err != nil:
			return fmt.Errorf("reading the system tier %s: %w", want.Name, err)
		case have.Spec.Priority != want.Spec.Priority:
			former := have.Spec.Priority
			have.Spec.Priority = want.Spec.Priority
			if err := c.Client.Update(ctx, have); err != nil {
				return fmt.Errorf("correcting the system tier %s: %w", want.Name, err)
			}
			c.event(have, corev1.EventTypeWarning, "SystemTierCorrected", "KeepTiers",
				fmt.Sprintf("The priority of a system tier is fixed: set from %d back to %d", former, want.Spec.Priority))
		}
	}
	return nil
}
