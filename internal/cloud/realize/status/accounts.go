package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance"
)

// accountStatus is what a Writer knows of one account.
type accountStatus struct {
	// What is to be told, and what was brought to the objects; Writer.mu guards it.

	// pending is the newest report unless it was taken to be written, and last the one that was
	// brought to the objects last.
	pending, last *Report
	// late is a report that is to be written again, not before due.
	late *repetition
	due  time.Time
	// drift is the present difference, and untold the part of it without an event yet: repairs are
	// quick, and the report that shows a difference may never be written.
	drift  drifting
	untold []telling
	// changes holds the changes that were made and have no event yet.
	changes untoldChanges
	// shown are the sums of what the objects of the account show, by their entities, and spoilt
	// is true if one of them shows something else.
	shown  map[plan.EntityRef]uint64
	spoilt bool

	// told is what was told; only Start's goroutine uses it.
	told told
}

// told is what objects and events say of an account. What is nil or empty was not told since the
// start.
type told struct {
	// failing is the failure.
	failing string
	// cuts, faults and records are what the account says of its dependents, of faults, and of
	// the records of former groups.
	cuts, faults, records string
	// moded and braked tell whether the account or its selectors say something about modes, and
	// the account about a brake.
	moded, braked *bool
	// blocked are the interfaces that the cloud refuses to change.
	blocked map[plan.InterfaceKey]string
	// guarded are the numbers of VMs that hold groups of ours.
	guarded *guards
	// claims are the owners of the claims on networks.
	claims map[string]string
	sole   instance.Sole
	// suspended names the policies that were reported as not enforced because of modes.
	suspended map[string]bool
	// versions holds, per VM, the versions of the policies that were reported as realized.
	versions map[types.UID]map[types.UID]int64
	// chorus counts what VMs were told in the report that is being written, and in those before
	// it about a plan that was underway.
	chorus map[string]int
}

// of returns what is known of an account. It needs mu.
func (s *Writer) of(account string) *accountStatus {
	a := s.accounts[account]
	if a == nil {
		a = &accountStatus{shown: map[plan.EntityRef]uint64{}, told: told{versions: map[types.UID]map[types.UID]int64{}, chorus: map[string]int{}}}
		s.accounts[account] = a
	}
	return a
}

// change brings the status of an object in line: set changes it as it is now, and reports whether
// that is a change. It returns the object; nil if there is none.
func change[O any, T interface {
	*O
	client.Object
}](ctx context.Context, s *Writer, key client.ObjectKey, set func(T) bool) (T, error) {
	var obj T
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		obj = T(new(O))
		if err := s.get(ctx, key, obj); err != nil {
			return err
		}
		if !set(obj) {
			return nil
		}
		return s.update(ctx, obj)
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("status of %T %s: %w", obj, key, err)
	}
	return obj, nil
}

// keyOf is the key of an account's object.
func keyOf(account string) client.ObjectKey {
	namespace, name, _ := strings.Cut(account, "/")
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// setCondition brings a condition of the account; nil removes it. It returns the account if that
// was a change.
func (s *Writer) setCondition(ctx context.Context, account, kind string, c *metav1.Condition) (*cloudv1.CloudProviderAccount, error) {
	changed := false
	obj, err := change(ctx, s, keyOf(account), func(on *cloudv1.CloudProviderAccount) bool {
		changed = setOrRemove(&on.Status.Conditions, kind, c)
		return changed
	})
	if !changed {
		obj = nil
	}
	return obj, err
}
