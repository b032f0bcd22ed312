package status

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// drifting is what is known of the drift of an account since the start.
type drifting struct {
	// open are the differences that are there, in the order in which they were seen first.
	open []found
	// gone are the findings of the present or last drift that do not exist any more, in the order
	// in which they went.
	gone []found
	// told is the message that was written last; only Start's goroutine uses it.
	told string
}

// maxTold is how many differences the condition names.
const maxTold = 5

// found is a difference that somebody else made, and when.
type found struct {
	plan.Drift
	// after is when all was still well, zero if that is not known, and seen when it was not any
	// more.
	after, seen time.Time
	// vm is the VM of the interface that it is about, if it is.
	vm string
	// by is its author, once known.
	by cloud.Author
	// over is when it was not there any more; zero while it is.
	over time.Time
}

// telling is an event about a difference.
type telling struct {
	reason string
	found
}

// The events about drift: a difference is seen, we have put it right, or what was left as it was is
// as planned again.
const (
	eventDrift    = "Drift"
	eventRepaired = "DriftRepaired"
	eventUndone   = "DriftUndone"
)

// maxSkew is how far the clock of the cloud may be from ours.
const maxSkew = time.Minute

// findOf is a difference of a report.
func findOf(r Report, d plan.Drift, now time.Time) found {
	f := found{Drift: d, after: r.AsPlanned[d.Region], seen: now}
	for _, vm := range r.Result.VMs {
		if vm.VM.Region == d.Region && slices.ContainsFunc(vm.Interfaces, func(n plan.InterfaceStatus) bool { return n.ID == d.Object }) {
			f.vm = vm.VM.ID
		}
	}
	return f
}

// ask asks for the author of a change, unless that is known. An author of a change at another time
// did something else. The groups of a VM's only interface can also be changed by calls that name
// the VM. A call with our own credentials counts only if all was well before it: else it is one of
// ours that came before a restart.
func (s *Writer) ask(account string, f *found) {
	if s.ChangedBy == nil || f.by.Name != "" {
		return
	}
	for _, id := range []string{f.Object, f.vm} {
		by, known := s.ChangedBy(account, f.Region, id)
		if by.Ours && (f.after.IsZero() || by.At.Before(f.after.Truncate(time.Second))) {
			continue
		}
		if known && by.At.After(f.after.Add(-maxSkew)) && by.At.Before(f.seen.Add(maxSkew)) && by.At.After(f.by.At) {
			f.by = by
		}
	}
}

// DriftText says what somebody else changed.
func DriftText(d plan.Drift) string {
	out := cloud.ShortIDs(d.Region + " " + d.Object + render.Concerned(d) + ": " + d.Message)
	if d.Kept {
		out += " (left as it is)"
	}
	return out
}

// String says what has changed, and the author if that is known.
func (f found) String() string {
	out := DriftText(f.Drift)
	if f.by.Name != "" {
		who := f.by.Name
		if f.by.Ours {
			who += ", the controller's own identity"
		}
		out += fmt.Sprintf(", by %s (%s at %s)", who, f.by.Call, f.by.At.UTC().Format(time.RFC3339))
	}
	return out
}

// noteDrift follows the drift of an account. It needs Writer.mu.
func (a *accountStatus) noteDrift(r Report, now time.Time) {
	d := a.drift
	for _, x := range r.Result.Drift {
		i := slices.IndexFunc(d.open, func(f found) bool { return f.Same(x) })
		if i >= 0 {
			d.open[i].Kept = x.Kept
			continue
		}
		if len(d.open) == 0 {
			d.gone = nil // a drift of its own
		}
		f := findOf(r, x, now)
		d.open = append(d.open, f)
		a.untold = append(a.untold, telling{eventDrift, f})
	}
	var open []found
	for _, f := range d.open {
		is := slices.ContainsFunc(r.Result.Drift, f.Same)
		if is || r.Err != nil || !f.Kept && !r.Result.Plan.Empty() {
			open = append(open, f)
			continue
		}
		f.over = now
		d.gone = append(d.gone, f)
		t := telling{eventRepaired, f}
		if f.Kept {
			t.reason, t.Kept = eventUndone, false
		}
		a.untold = append(a.untold, t)
	}
	d.open = open
	a.drift = d
}

// condition says it on the account; false if there is nothing to say.
func (d drifting) condition() (metav1.Condition, bool) {
	cond := metav1.Condition{Type: cloudv1.ConditionDrift, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonKept}
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	var parts []string
	say := func(all []found, text func(found) string) {
		for _, f := range all[:min(len(all), maxTold)] {
			parts = append(parts, text(f))
		}
		if more := cloud.AndMore(len(all)-maxTold, render.SeeAll); more != "" {
			parts = append(parts, more)
		}
	}
	switch {
	case len(d.open) > 0:
		if slices.ContainsFunc(d.open, func(f found) bool { return !f.Kept }) {
			cond.Reason = "BeingRepaired"
		}
		say(d.open, func(f found) string { return "since " + stamp(f.seen) + ": " + f.String() })
	case len(d.gone) > 0:
		cond.Status, cond.Reason = metav1.ConditionFalse, cloudv1.ReasonRepaired
		say(d.gone, func(f found) string {
			how := "repaired at "
			if f.Kept {
				how, f.Kept = "undone at ", false
			}
			return how + stamp(f.over) + ", seen at " + stamp(f.seen) + ": " + f.String()
		})
	default:
		return cond, false
	}
	cond.Message = strings.Join(parts, "; ")
	return cond, true
}

// writeDrift brings it to the account object.
func (s *Writer) writeDrift(ctx context.Context, a *accountStatus, r Report) error {
	s.mu.Lock()
	d := a.drift
	d.open, d.gone = slices.Clone(d.open), slices.Clone(d.gone)
	s.mu.Unlock()
	for _, all := range [][]found{d.open, d.gone} {
		for i := range all[:min(len(all), maxTold)] {
			s.ask(r.Account, &all[i])
		}
	}
	cond, known := d.condition()
	fresh := !known && d.told == "" && r.Result != nil && r.Err == nil && r.Result.Plan.Empty()
	if !known && !fresh || known && cond.Reason+cond.Message+" " == d.told {
		return nil
	}
	_, err := change(ctx, s, keyOf(r.Account), func(account *cloudv1.CloudProviderAccount) bool {
		if fresh {
			if known = inherited(meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionDrift), &cond); !known {
				return false
			}
		}
		return meta.SetStatusCondition(&account.Status.Conditions, cond)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := &a.drift
	now.told = cond.Reason + cond.Message + " " // not empty
	for _, asked := range append(d.open, d.gone...) {
		for _, all := range [][]found{now.open, now.gone} {
			for i := range all {
				if all[i].Drift == asked.Drift && all[i].seen.Equal(asked.seen) {
					all[i].by = asked.by
				}
			}
		}
	}
	return nil
}

// inherited makes of what a former process said last what is true now that the account is as
// planned again: what it was repairing is repaired. Of what was left as it was, only tags and
// descriptions in the cloud could tell, and they do not tell of all. False if there is nothing to
// be said.
func inherited(before, now *metav1.Condition) bool {
	if before == nil || before.Status != metav1.ConditionTrue {
		return false
	}
	now.Status, now.Reason = metav1.ConditionFalse, cloudv1.ReasonRepaired
	now.Message = "repaired; before the controller was started again: " + before.Message
	if before.Reason == cloudv1.ReasonKept {
		now.Status, now.Reason = metav1.ConditionUnknown, cloudv1.ReasonRestarted
		now.Message = "not known since the controller was started again; before: " + before.Message
	}
	return true
}
