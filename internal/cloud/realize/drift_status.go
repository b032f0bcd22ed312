package realize

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// drifting is what is known of the drift of an account since the start.
type drifting struct {
	// since is when the present or last drift was first seen, repaired when it was gone again; zero while it is there.
	since, repaired time.Time
	// what is the first difference of it, and more how many others there were.
	what string
	more int
	// kept tells that some of it is not repaired, because the mode forbids it.
	kept bool
	// told is the message that was written last; only Start's goroutine uses it.
	told string
}

// noteDrift follows the drift of an account. It needs mu.
func (s *StatusWriter) noteDrift(r Report) {
	d, known := s.drifting[r.Account]
	switch {
	case len(r.Result.Drift) > 0 && (!known || !d.repaired.IsZero() || len(s.untold[r.Account]) > 0):
		first := r.Result.Drift[0]
		if !known || !d.repaired.IsZero() {
			d.since = s.Clock.Now()
		}
		d.repaired, d.kept = time.Time{}, false
		d.what, d.more = first.Region+" "+first.Object+": "+first.Message, len(r.Result.Drift)-1
		for _, x := range r.Result.Drift {
			d.kept = d.kept || strings.HasSuffix(x.Message, notRepaired)
		}
	case len(r.Result.Drift) == 0 && known && d.repaired.IsZero() && r.Result.Plan.Empty() && r.Err == nil:
		d.repaired = s.Clock.Now()
	default:
		return
	}
	s.drifting[r.Account] = d
}

// condition says it on the account.
func (d drifting) condition() metav1.Condition {
	what := d.what
	if d.more > 0 {
		what += fmt.Sprintf(" (and %d more)", d.more)
	}
	cond := metav1.Condition{Type: cloudv1.ConditionDrift, Status: metav1.ConditionTrue, Reason: "BeingRepaired",
		Message: "since " + d.since.UTC().Format(time.RFC3339) + ": " + what}
	switch {
	case !d.repaired.IsZero() && d.kept:
		cond.Reason = cloudv1.ReasonKept
	case !d.repaired.IsZero():
		cond.Status, cond.Reason = metav1.ConditionFalse, cloudv1.ReasonRepaired
		cond.Message = "repaired at " + d.repaired.UTC().Format(time.RFC3339) + ", seen at " + d.since.UTC().Format(time.RFC3339) + ": " + what
	}
	return cond
}

// writeDrift brings it to the account object.
func (s *StatusWriter) writeDrift(ctx context.Context, r Report) error {
	s.mu.Lock()
	d, known := s.drifting[r.Account]
	s.mu.Unlock()
	if !known {
		return nil
	}
	cond := d.condition()
	if cond.Reason+cond.Message == d.told {
		return nil
	}
	namespace, name, _ := strings.Cut(r.Account, "/")
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var account cloudv1.CloudProviderAccount
		if err := s.get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &account); err != nil {
			return err
		}
		if !meta.SetStatusCondition(&account.Status.Conditions, cond) {
			return nil
		}
		return s.update(ctx, &account)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("status of CloudProviderAccount %s: %w", r.Account, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d = s.drifting[r.Account]
	d.told = cond.Reason + cond.Message
	s.drifting[r.Account] = d
	return nil
}
