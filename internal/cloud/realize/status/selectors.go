package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// modeNews is what a report says of the modes of some VMs.
type modeNews struct {
	// outlooks holds the outlooks of the planned VMs.
	outlooks []render.Outlook
	// broken are the VMs that break-glass releases, with the object that says so, and free how many
	// of them hold no group of ours any more.
	broken map[plan.VMRef]string
	free   int
	// failsafe are the failsafe flows of the account.
	failsafe string
}

// add counts a VM.
func (n *modeNews) add(r Report, vm plan.VMStatus, outlooks map[plan.VMRef]render.Outlook) {
	switch vm.Mode {
	case plan.Planned:
		if o, known := outlooks[vm.VM]; known {
			n.outlooks = append(n.outlooks, o)
		}
	case plan.BreakGlass:
		if _, counted := n.broken[vm.VM]; counted {
			return
		}
		if n.broken == nil {
			n.broken = map[plan.VMRef]string{}
		}
		n.broken[vm.VM] = r.ModeReasons[vm.VM]
		if givenBack(r, vm) == released {
			n.free++
		}
	}
}

// any reports whether there is something to say.
func (n *modeNews) any() bool { return len(n.outlooks)+len(n.broken)+len(n.failsafe) > 0 }

// set brings the conditions in line and reports whether that changes any.
func (n *modeNews) set(conditions *[]metav1.Condition) bool {
	var planned, broken, failsafe *metav1.Condition
	if n != nil && len(n.outlooks) > 0 {
		sum := render.Sum(slices.Values(n.outlooks))
		c := plannedCondition(sum, render.Planned(len(n.outlooks), sum))
		planned = &c
	}
	if n != nil && len(n.broken) > 0 {
		why := ""
		for _, reason := range n.broken {
			if why == "" || reason < why {
				why = reason
			}
		}
		broken = &metav1.Condition{Type: cloudv1.ConditionBreakGlass, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonBreakGlass,
			Message: fmt.Sprintf("VMs on which policies are not enforced: %d, of which released already: %d (%s)", len(n.broken), n.free, why)}
	}
	if n != nil && n.failsafe != "" {
		failsafe = &metav1.Condition{Type: cloudv1.ConditionFailsafe, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonOK,
			Message: "allowed on every VM with policies, before any rule: " + n.failsafe}
	}
	changed := setOrRemove(conditions, cloudv1.ConditionPlanned, planned)
	changed = setOrRemove(conditions, cloudv1.ConditionFailsafe, failsafe) || changed
	return setOrRemove(conditions, cloudv1.ConditionBreakGlass, broken) || changed
}

// setOrRemove sets a condition, or removes it if it is nil, and reports whether that is a change.
func setOrRemove(conditions *[]metav1.Condition, kind string, c *metav1.Condition) bool {
	if c == nil {
		return meta.RemoveStatusCondition(conditions, kind)
	}
	return meta.SetStatusCondition(conditions, *c)
}

// writeModes brings to the selectors of the account and to the account itself what the modes of
// their VMs lead to. bySelector is about the VMs that the selectors import, all about all of the
// account.
func (s *Writer) writeModes(ctx context.Context, a *accountStatus, r Report, bySelector map[client.ObjectKey]*modeNews, all *modeNews) error {
	all.failsafe = failsafeText(r.Failsafe)
	now := len(bySelector) > 0 || all.any()
	if before := a.told.moded; before != nil && !*before && !now {
		return nil
	}
	namespace, name, _ := strings.Cut(r.Account, "/")
	var list cloudv1.CloudEntitySelectorList
	if err := s.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("selectors of account %s: %w", r.Account, err)
	}
	account := &cloudv1.CloudProviderAccount{}
	account.Namespace, account.Name = namespace, name
	errs := []error{s.writeMode(ctx, account, &modeNews{broken: all.broken, free: all.free, failsafe: all.failsafe})}
	for i := range list.Items {
		if sel := &list.Items[i]; sel.Spec.AccountName == name && sel.Spec.AccountNamespace == namespace {
			errs = append(errs, s.writeMode(ctx, sel, bySelector[client.ObjectKeyFromObject(sel)]))
		}
	}
	err := errors.Join(errs...)
	if err == nil {
		a.told.moded = &now
	}
	return err
}

// mostFailsafe is how many failsafe flows are named in a status.
const mostFailsafe = 5

// failsafeText names failsafe flows; it is empty if there are none.
func failsafeText(flows []plan.FailsafeFlow) string {
	var parts []string
	for _, f := range flows[:min(len(flows), mostFailsafe)] {
		parts = append(parts, f.String())
	}
	if more := len(flows) - mostFailsafe; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// writeMode brings news to a selector or account, with an event when the first glass is broken and
// one when all is over.
func (s *Writer) writeMode(ctx context.Context, obj client.Object, news *modeNews) error {
	key := client.ObjectKeyFromObject(obj)
	var before, after *metav1.Condition
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := s.get(ctx, key, obj); err != nil {
			return err
		}
		conditions := conditionsOf(obj)
		before = nil
		if c := meta.FindStatusCondition(*conditions, cloudv1.ConditionBreakGlass); c != nil {
			before = c.DeepCopy()
		}
		changed := news.set(conditions)
		after = meta.FindStatusCondition(*conditions, cloudv1.ConditionBreakGlass)
		if !changed {
			return nil
		}
		return s.update(ctx, obj)
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("status of %T %s: %w", obj, key, err)
	case before == nil && after != nil:
		s.Events.Eventf(obj, nil, corev1.EventTypeWarning, "BreakGlass", "Realize", "%s", note(after.Message))
	case before != nil && after == nil:
		s.Events.Eventf(obj, nil, corev1.EventTypeNormal, "BreakGlassOver", "Realize", "policies are enforced again as far as the mode says so")
	}
	return nil
}

// conditionsOf are the conditions of a selector or account.
func conditionsOf(obj client.Object) *[]metav1.Condition {
	if sel, ok := obj.(*cloudv1.CloudEntitySelector); ok {
		return &sel.Status.Conditions
	}
	return &obj.(*cloudv1.CloudProviderAccount).Status.Conditions
}
