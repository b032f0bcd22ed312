package realize

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// drifting is what is known of the drift of an account since the start.
type drifting struct {
	// since is when the present or last drift was first seen, repaired when it was gone again; zero while it is there.
	since, repaired time.Time
	// first is the first difference of it, and more how many others there were.
	first found
	more  int
	// kept tells that some of it is not repaired, because the mode forbids it.
	kept bool
	// told is the message that was written last; only Start's goroutine uses it.
	told string
}

// found is a difference that somebody else made, and when.
type found struct {
	plan.Drift
	// after is when all was still well, zero if that is not known, and seen when it was not any more.
	after, seen time.Time
	// vm is the VM of the interface that it is about, if it is.
	vm string
	// by is who did it, once that is known.
	by cloud.Author
}

// maxSkew is how far the clock of the cloud may be from ours.
const maxSkew = time.Minute

// findOf is a difference of a report.
func (s *StatusWriter) findOf(r Report, d plan.Drift) found {
	f := found{Drift: d, after: r.AsPlanned[d.Region], seen: s.Clock.Now()}
	for _, vm := range r.Result.VMs {
		if vm.VM.Region == d.Region && slices.ContainsFunc(vm.Interfaces, func(n plan.InterfaceStatus) bool { return n.ID == d.Object }) {
			f.vm = vm.VM.ID
		}
	}
	return f
}

// ask asks who did it, unless that is known. Whoever changed the object at another time did something else. The groups of a VM's only
// interface can also be changed by calls that name the VM.
func (s *StatusWriter) ask(account string, f *found) {
	if s.ChangedBy == nil || f.by.Who != "" {
		return
	}
	for _, id := range []string{f.Object, f.vm} {
		by, known := s.ChangedBy(account, f.Region, id)
		if known && by.At.After(f.after.Add(-maxSkew)) && by.At.Before(f.seen.Add(maxSkew)) && by.At.After(f.by.At) {
			f.by = by
		}
	}
}

// String says what, and by whom if that is known.
func (f found) String() string {
	out := f.Region + " " + f.Object + ": " + f.Message
	if f.by.Who != "" {
		out += fmt.Sprintf(", by %s (%s at %s)", f.by.Who, f.by.Call, f.by.At.UTC().Format(time.RFC3339))
	}
	return out
}

// noteDrift follows the drift of an account. It needs mu.
func (s *StatusWriter) noteDrift(r Report) {
	d, known := s.drifting[r.Account]
	switch {
	case len(r.Result.Drift) > 0 && (!known || !d.repaired.IsZero() || len(s.untold[r.Account]) > 0):
		if !known || !d.repaired.IsZero() {
			d.since = s.Clock.Now()
		}
		d.repaired, d.kept = time.Time{}, false
		d.first, d.more = s.findOf(r, r.Result.Drift[0]), len(r.Result.Drift)-1
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
	what := d.first.String()
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
	s.ask(r.Account, &d.first)
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
	now := s.drifting[r.Account]
	now.told = cond.Reason + cond.Message
	if now.first.Drift == d.first.Drift && now.first.seen.Equal(d.first.seen) {
		now.first = d.first
	}
	s.drifting[r.Account] = now
	return nil
}
