package status

import (
	"context"
	"fmt"
	"strings"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/cloud"
)

// writeClaims brings the claims to the Vpc objects of the account.
func (s *Writer) writeClaims(ctx context.Context, r Report) error {
	namespace, _, _ := strings.Cut(r.Account, "/")
	told := s.claims[r.Account]
	next := map[string]string{}
	var first error
	for id, by := range r.Claims {
		next[id] = by
		if told[id] != by {
			first = firstError(first, s.writeClaim(ctx, client.ObjectKey{Namespace: namespace, Name: strings.ToLower(id)}, by, by == r.ClusterID))
		}
	}
	for id := range told {
		if next[id] == "" {
			first = firstError(first, s.writeClaim(ctx, client.ObjectKey{Namespace: namespace, Name: strings.ToLower(id)}, "", false))
		}
	}
	if first == nil {
		s.claims[r.Account] = next
	}
	return first
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (s *Writer) writeClaim(ctx context.Context, key client.ObjectKey, by string, ours bool) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var vpc cloudv1.Vpc
		if err := s.get(ctx, key, &vpc); err != nil {
			return err
		}
		var changed bool
		switch {
		case by == "":
			changed = meta.RemoveStatusCondition(&vpc.Status.Conditions, cloudv1.ConditionClaimed)
		case ours:
			changed = meta.SetStatusCondition(&vpc.Status.Conditions, metav1.Condition{Type: cloudv1.ConditionClaimed, Status: metav1.ConditionTrue,
				Reason: cloudv1.ReasonOK, Message: "this controller enforces policies in the VPC"})
		default:
			changed = meta.SetStatusCondition(&vpc.Status.Conditions, metav1.Condition{Type: cloudv1.ConditionClaimed, Status: metav1.ConditionFalse,
				Reason: cloudv1.ReasonClaimedElsewhere, Message: "the controller " + cloud.Words(by) + " enforces policies in the VPC, so this one does nothing there"})
		}
		if !changed {
			return nil
		}
		return s.update(ctx, &vpc)
	})
	if apierrors.IsNotFound(err) {
		if by == "" {
			return nil
		}
		return errBehind // not written yet; or its region has left the account, then there will be another report
	}
	if err != nil {
		return fmt.Errorf("status of Vpc %s: %w", key, err)
	}
	return nil
}
