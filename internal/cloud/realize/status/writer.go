package status

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// PolicyStatuses takes what an enforcer reports about a policy: POST networkpolicies/UID/status of
// the computed API.
type PolicyStatuses interface {
	Report(ctx context.Context, status *v1beta2.NetworkPolicyStatus) error
}

// Writer is the Sink that writes reports into the cluster: which policies apply to each
// VirtualMachine, CloudNativeService and NetworkInterface and how far they are realized, the
// realization status of each policy, and events for what a person must know.
//
// It owns status.policies, status.policySummary and the conditions of an Outcome on these objects,
// and the groups of the interfaces of a VirtualMachine that has the condition Realized; the rest of
// the status is the inventory's.
//
// Publish only keeps the report; Start writes the newest one of each account, repeats what failed
// and what Changed shows to be written over, and returns when its context ends.
type Writer struct {
	Client   client.Client
	Policies PolicyStatuses
	Events   events.EventRecorder
	Clock    clock.WithTicker
	Log      logr.Logger
	// ChangedBy, if set, returns the last author of a change to an object of an account's region,
	// other than this process; false if unknown. It is set before anything is published.
	ChangedBy func(account, region, id string) (cloud.Author, bool)
	// Mine, if set, reports whether an account is this process's to tell about.
	Mine func(account string) bool

	// queue has the keys of the accounts that have something to be written.
	queue workqueue.TypedDelayingInterface[string]
	// wrote holds the resource versions of what was written and not read since; only Start's
	// goroutine uses it.
	wrote map[written]string
	seed  maphash.Seed

	mu       sync.Mutex
	accounts map[string]*accountStatus
}

// NewWriter returns a Writer without pending reports.
func NewWriter(c client.Client, p PolicyStatuses, e events.EventRecorder, clk clock.WithTicker, log logr.Logger) *Writer {
	return &Writer{
		Client: c, Policies: p, Events: e, Clock: clk, Log: log, wrote: map[written]string{}, seed: maphash.MakeSeed(), accounts: map[string]*accountStatus{},
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Clock: clk}),
	}
}

// Publish keeps the report to be written; a newer one takes its place.
func (s *Writer) Publish(_ context.Context, r Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.of(r.Account)
	a.pending = &r
	a.changes.note(r)
	if r.Result != nil {
		a.noteDrift(r, s.Clock.Now())
	}
	s.queue.Add(r.Account)
}

// Start writes reports until ctx ends. What could not be written whole is repeated, unless a newer
// report of the account comes.
func (s *Writer) Start(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.queue.ShutDown)()
	for {
		account, ended := s.queue.Get()
		if ended || ctx.Err() != nil {
			return nil
		}
		s.serve(ctx, account)
		s.queue.Done(account)
	}
}

// serve writes what is to be written of an account now.
func (s *Writer) serve(ctx context.Context, account string) {
	if s.Mine != nil && !s.Mine(account) {
		s.part(account)
		return
	}
	a, next, wait := s.take(account)
	if next == nil {
		if wait > 0 {
			s.queue.AddAfter(account, wait)
		}
		return
	}
	next.pause = s.attempt(ctx, a, *next)
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.spoilt {
		s.queue.Add(account)
	}
	switch {
	case a.pending != nil: // it is in the queue again
	case next.pause > 0:
		a.late, a.due = next, s.Clock.Now().Add(next.pause)
		s.queue.AddAfter(account, next.pause)
	}
}

// take returns the report of an account that is to be written now; nil if there is none, and then
// how long to wait until there is one, or 0.
func (s *Writer) take(account string) (*accountStatus, *repetition, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.of(account)
	if r := a.pending; r != nil {
		a.pending, a.late = nil, nil
		return a, &repetition{report: *r}, 0
	}
	if a.spoilt && a.late == nil && a.last != nil {
		a.late, a.due = &repetition{report: *a.last}, s.Clock.Now().Add(correctPause)
	}
	a.spoilt = false
	next := a.late
	if next == nil {
		return a, nil, 0
	}
	if wait := a.due.Sub(s.Clock.Now()); wait > 0 {
		return a, nil, wait
	}
	a.late = nil
	return a, next, 0
}

// part forgets what was reported on an account that another process has now: when the account comes
// back, its objects show what that process has reported.
func (s *Writer) part(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.accounts, account)
}

// write brings a report to the objects. It goes on after errors. It reports whether some objects
// are to be looked at again because the cache is behind.
func (s *Writer) write(ctx context.Context, a *accountStatus, r Report) (behind bool, err error) {
	var errs []error
	note := func(err error) {
		if errors.Is(err, errBehind) {
			behind = true
		} else if err != nil {
			errs = append(errs, err)
		}
	}
	note(s.reportFailure(ctx, a, r))
	note(s.reportBlocked(ctx, a, r))
	note(s.reportDrift(ctx, a, r))
	note(s.reportChanges(ctx, a, r))
	note(s.writeDrift(ctx, a, r))
	note(s.writeSole(ctx, a, r))
	note(s.writeFaults(ctx, a, r))
	if r.Result == nil {
		return behind, errors.Join(errs...)
	}
	note(s.writeBrake(ctx, a, r))
	note(s.writeClaims(ctx, a, r))
	note(s.writeRecords(ctx, a, r))
	note(s.writeCuts(ctx, a, r))
	note(s.writePolicies(ctx, a, r))
	vms := map[plan.VMRef]plan.VMStatus{}
	for _, vm := range r.Result.VMs {
		vms[vm.VM] = vm
	}
	outlooks, bySelector, all := map[plan.VMRef]render.Outlook(nil), map[client.ObjectKey]*modeNews{}, &modeNews{}
	if len(r.Would) > 0 {
		outlooks = render.Outlooks(r.Would)
	}
	s.look(a)
	seen, held := map[plan.EntityRef]bool{}, guardsOf(r)
	untouched := unguardedOf(r.Result)
	for ref, target := range r.subjects() {
		vm, observed := vms[target]
		_, unread := r.Unread[target.Region]
		if _, service := r.Services[ref]; service && !observed && !unread {
			// It cannot be set, or nothing applies to it. Of an unread region neither
			// is known.
			vm, observed = plan.VMStatus{VM: target, Mode: plan.Enforce, Policies: untouched[ref]}, true
		}
		if !observed {
			continue
		}
		selector, err := s.writeSubject(ctx, a, r, ref, vm, outlooks)
		seen[ref] = true
		note(err)
		all.add(r, vm, outlooks)
		if selector != "" && holds(vm) {
			held.bySelector[client.ObjectKey{Namespace: ref.Namespace, Name: selector}]++
		}
		if vm.Mode != plan.Enforce && selector != "" {
			key := client.ObjectKey{Namespace: ref.Namespace, Name: selector}
			if bySelector[key] == nil {
				bySelector[key] = &modeNews{}
			}
			bySelector[key].add(r, vm, outlooks)
		}
	}
	note(s.writeModes(ctx, a, r, bySelector, all))
	note(s.writeGuards(ctx, a, r, held))
	if !r.Underway {
		note(s.sumUp(ctx, a, r))
	}
	s.looked(a, r, seen)
	return behind, errors.Join(errs...)
}

// showGroups brings the groups of a VM's interfaces, as a snapshot has them, into its status,
// unless that shows a younger reading, and reports whether that changes it. Without the condition
// Realized the inventory writes them.
func showGroups(status *cloudv1.VirtualMachineStatus, seen *cloud.Snapshot) (changed bool) {
	if seen == nil || meta.FindStatusCondition(status.Conditions, cloudv1.ConditionRealized) == nil ||
		status.LastSeen != nil && seen.ObservedAt.Before(status.LastSeen.Time) {
		return false
	}
	for i := range status.NetworkInterfaces {
		shown := &status.NetworkInterfaces[i]
		nic := seen.Interface(shown.Name)
		if nic == nil {
			continue
		}
		groups, former := cloud.GroupObjects(nic.GroupIDs), cloud.GroupObjects(cloud.FormerGroups(nic.Tags))
		if slices.Equal(shown.SecurityGroupIds, groups) && slices.Equal(shown.FormerSecurityGroupIds, former) {
			continue
		}
		shown.SecurityGroupIds, shown.FormerSecurityGroupIds, changed = groups, former, true
	}
	if changed {
		at := metav1.NewTime(seen.ObservedAt)
		status.LastSeen = &at
	}
	return changed
}

// writeSubject brings a status to the object behind an entity. It returns the name of the selector
// that imports it.
func (s *Writer) writeSubject(ctx context.Context, a *accountStatus, r Report, ref plan.EntityRef, vm plan.VMStatus, outlooks map[plan.VMRef]render.Outlook) (string, error) {
	var before, policies []cloudv1.AppliedPolicy
	var conditions []metav1.Condition
	on := subjectBehind(ref)
	key := client.ObjectKeyFromObject(on.Object)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		on = subjectBehind(ref)
		if err := s.get(ctx, key, on.Object); err != nil {
			return err
		}
		before, conditions = *on.policies, slices.Clone(*on.conditions)
		out := r.Outcome(vm, on.word, outlooks, Outcome{Policies: before, Conditions: conditions})
		policies = out.Policies
		changed := out.bring(on.conditions)
		if obj, is := on.Object.(*cloudv1.VirtualMachine); is {
			changed = showGroups(&obj.Status, r.Seen[obj.Status.Region]) || changed
		} // what services and other interfaces hold is read again after a change, as a whole
		changed = changed || *on.summary != out.Summary || !equality.Semantic.DeepEqual(before, policies)
		*on.policies, *on.summary = policies, out.Summary
		s.shows(a, on)
		if !changed {
			return nil
		}
		return s.update(ctx, on.Object)
	})
	if apierrors.IsNotFound(err) {
		return "", errBehind // not written yet; or deselected or gone in the meantime, then there will be another report
	}
	selector := on.GetLabels()[cloudv1.LabelCESName]
	if errors.Is(err, errBehind) {
		return selector, err
	}
	if err != nil {
		return "", fmt.Errorf("status of %s %s: %w", on.kind(), key, err)
	}
	s.tellPolicies(a, on, conditions, before, policies)
	s.tellMode(on, conditions, len(policies))
	s.tellAgented(on, conditions)
	return selector, nil
}
