package status

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// guards is how many VMs of an account hold groups of ours: all, and those that each selector
// imports. Deletion protection hangs on it.
type guards struct {
	all        int32
	bySelector map[client.ObjectKey]int32
	// atLeast says that there may be more, because a region was never read.
	atLeast bool
}

// guardsOf counts the VMs of a report; the caller adds the VMs of selectors.
func guardsOf(r Report) *guards {
	out := &guards{bySelector: map[client.ObjectKey]int32{}}
	for _, vm := range r.Result.VMs {
		if holds(vm) {
			out.all++
		}
	}
	for _, u := range r.Unread {
		out.atLeast = out.atLeast || u.Never
	}
	return out
}

func (g *guards) equal(o *guards) bool {
	return o != nil && g.all == o.all && g.atLeast == o.atLeast && maps.Equal(g.bySelector, o.bySelector)
}

// holds reports whether a VM holds a group of ours.
func holds(vm plan.VMStatus) bool {
	for _, n := range vm.Interfaces {
		if n.Held && n.Elsewhere == "" {
			return true
		}
	}
	return false
}

// writeGuards brings the numbers to the account and its selectors.
func (s *Writer) writeGuards(ctx context.Context, a *accountStatus, r Report, g *guards) error {
	namespace, name, _ := strings.Cut(r.Account, "/")
	account := &cloudv1.CloudProviderAccount{}
	account.Namespace, account.Name = namespace, name
	if g.equal(a.told.guarded) {
		// The account that was reported on may have been replaced by another one of the same name.
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(account), account)
		if err != nil || account.Status.GuardedVMs != nil {
			return client.IgnoreNotFound(err)
		}
	}
	errs := []error{s.writeGuarded(ctx, account, g.all, g.atLeast)}
	var list cloudv1.CloudEntitySelectorList
	if err := s.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("selectors of account %s: %w", r.Account, err)
	}
	for i := range list.Items {
		if sel := &list.Items[i]; sel.Spec.AccountName == name && sel.Spec.AccountNamespace == namespace {
			errs = append(errs, s.writeGuarded(ctx, sel, g.bySelector[client.ObjectKeyFromObject(sel)], g.atLeast))
		}
	}
	err := errors.Join(errs...)
	if err == nil {
		a.told.guarded = g
	}
	return err
}

// writeGuarded brings a number to one object. What may be too low does not take the place of a
// greater one.
func (s *Writer) writeGuarded(ctx context.Context, obj client.Object, n int32, atLeast bool) error {
	key := client.ObjectKeyFromObject(obj)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := s.get(ctx, key, obj); err != nil {
			return err
		}
		shown := guardedOf(obj)
		if *shown != nil && (**shown == n || atLeast && **shown > n) {
			return nil
		}
		*shown = &n
		return s.update(ctx, obj)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("status of %T %s: %w", obj, key, err)
	}
	return nil
}

// guardedOf is the number of a selector or account.
func guardedOf(obj client.Object) **int32 {
	if sel, ok := obj.(*cloudv1.CloudEntitySelector); ok {
		return &sel.Status.GuardedVMs
	}
	return &obj.(*cloudv1.CloudProviderAccount).Status.GuardedVMs
}
