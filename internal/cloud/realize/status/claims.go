package status

import (
	"context"
	"strings"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/cloud"
)

// writeClaims brings the claims to the Vpc objects of the account.
func (s *Writer) writeClaims(ctx context.Context, a *accountStatus, r Report) error {
	namespace, _, _ := strings.Cut(r.Account, "/")
	told := a.told.claims
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
		a.told.claims = next
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
	vpc, err := change(ctx, s, key, func(vpc *cloudv1.Vpc) bool {
		switch {
		case by == "":
			return meta.RemoveStatusCondition(&vpc.Status.Conditions, cloudv1.ConditionClaimed)
		case ours:
			return meta.SetStatusCondition(&vpc.Status.Conditions, metav1.Condition{Type: cloudv1.ConditionClaimed, Status: metav1.ConditionTrue,
				Reason: cloudv1.ReasonOK, Message: "this controller enforces policies in the VPC"})
		}
		return meta.SetStatusCondition(&vpc.Status.Conditions, metav1.Condition{Type: cloudv1.ConditionClaimed, Status: metav1.ConditionFalse,
			Reason: cloudv1.ReasonClaimedElsewhere, Message: "the controller " + cloud.Words(by) + " enforces policies in the VPC, so this one does nothing there"})
	})
	if err == nil && vpc == nil && by != "" {
		return errBehind // not written yet; or its region has left the account, then there will be another report
	}
	return err
}
