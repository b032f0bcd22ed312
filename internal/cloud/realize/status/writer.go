package status

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance"
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
// It owns status.policies, status.policySummary and the condition Realized of these objects; the
// rest of the status is the inventory's, but for the groups of interfaces: whoever of the two
// writes an object brings these as he knows them, unless it shows a younger reading.
//
// Publish only keeps the report; Start writes the newest one of each account, repeats what failed
// and what Changed shows to be written over, and returns when its context ends.
type Writer struct {
	Client   client.Client
	Policies PolicyStatuses
	Events   events.EventRecorder
	Clock    clock.Clock
	Log      logr.Logger
	// ChangedBy, if set, tells who, other than this process, was the last to change an object of an
	// account's region; false if that is not known. It is set before anything is published.
	ChangedBy func(account, region, id string) (cloud.Author, bool)
	// Mine, if set, reports whether an account is this process's to tell about.
	Mine func(account string) bool

	mu      sync.Mutex
	pending map[string]Report
	// owing are the accounts of which reports are to be written, or will come.
	owing map[string]bool
	wake  chan struct{}
	// drifting is the drift of every account, and untold what is still to be told of it: repairs
	// are quick, and the report that shows a difference may never be written.
	drifting map[string]drifting
	untold   map[string][]telling
	// changes is what is still to be told of changes that were made.
	changes map[string]*untoldChanges
	// failing holds, per account, the failure that was told last; only Start's goroutine uses it.
	failing map[string]string
	// told holds, per VM, the versions of the policies that were reported as realized; only Start's
	// goroutine uses it.
	told map[types.UID]map[types.UID]int64
	// suspended names, per account, the policies that were reported as not enforced because of
	// modes; only Start's goroutine uses it.
	suspended map[string]map[string]bool
	// cutsTold is what was told of each account's dependents; only Start's goroutine uses it.
	cutsTold map[string]string
	// faultsTold is what was told of each account's faults; only Start's goroutine uses it.
	faultsTold map[string]string
	// recordsTold is what was told of each account's records of former groups; only Start's
	// goroutine uses it.
	recordsTold map[string]string
	// moded tells of the accounts known whether they or their selectors say something about modes;
	// only Start's goroutine uses it.
	moded map[string]bool
	// blocked holds, per account, what was told of interfaces that the cloud refuses to change;
	// only Start's goroutine uses it.
	blocked map[string]map[plan.InterfaceKey]string
	// braked tells of the accounts known whether they say something about a brake; only Start's
	// goroutine uses it.
	braked map[string]bool
	// guarded holds, per account, what was told of the VMs that hold groups of ours; only Start's
	// goroutine uses it.
	guarded map[string]*guards
	// claims holds, per account, what was told of who claims its networks; only Start's goroutine
	// uses it.
	claims map[string]map[string]string
	// sole holds, per account, what was told of other instances; only Start's goroutine uses it.
	sole map[string]instance.Sole
	// wrote holds the resource versions of what was written and not read since; only Start's
	// goroutine uses it.
	wrote map[written]string
	// shown holds, per account, the sums of what its objects show by their entities, spoilt the
	// accounts some of whose objects show something else, and last the report that was brought to
	// the objects last.
	shown  map[string]map[plan.EntityRef]uint64
	spoilt map[string]bool
	last   map[string]Report
	seed   maphash.Seed
	// chorus counts what VMs were told in the report that is being written, and in those before it
	// about a plan that was underway, which choruses holds per account; only Start's goroutine uses
	// them.
	chorus   map[string]int
	choruses map[string]map[string]int
}

// NewWriter returns a Writer without pending reports.
func NewWriter(c client.Client, p PolicyStatuses, e events.EventRecorder, clk clock.Clock, log logr.Logger) *Writer {
	return &Writer{
		Client:      c,
		Policies:    p,
		Events:      e,
		Clock:       clk,
		Log:         log,
		pending:     map[string]Report{},
		owing:       map[string]bool{},
		wake:        make(chan struct{}, 1),
		untold:      map[string][]telling{},
		drifting:    map[string]drifting{},
		changes:     map[string]*untoldChanges{},
		faultsTold:  map[string]string{},
		recordsTold: map[string]string{},
		cutsTold:    map[string]string{},
		failing:     map[string]string{},
		told:        map[types.UID]map[types.UID]int64{},
		moded:       map[string]bool{},
		braked:      map[string]bool{},
		blocked:     map[string]map[plan.InterfaceKey]string{},
		suspended:   map[string]map[string]bool{},
		claims:      map[string]map[string]string{},
		sole:        map[string]instance.Sole{},
		wrote:       map[written]string{},
		guarded:     map[string]*guards{},
		choruses:    map[string]map[string]int{},
		shown:       map[string]map[plan.EntityRef]uint64{},
		spoilt:      map[string]bool{},
		last:        map[string]Report{},
		seed:        maphash.MakeSeed(),
	}
}

// Publish keeps the report to be written; a newer one takes its place.
func (s *Writer) Publish(_ context.Context, r Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[r.Account], s.owing[r.Account] = r, true
	s.noteChanges(r)
	if r.Result != nil {
		s.noteDrift(r)
	}
	put(s.wake)
}

// Start writes reports until ctx ends. What could not be written whole is repeated, unless a newer
// report of the account comes.
func (s *Writer) Start(ctx context.Context) error {
	late := map[string]repetition{}
	var again <-chan time.Time
	var due time.Time
	putOff := func(key string, r repetition) {
		late[key] = r
		if at := s.Clock.Now().Add(r.pause); again == nil || at.Before(due) {
			again, due = s.Clock.After(r.pause), at
		}
	}
	for {
		batch := map[string]repetition{}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-again:
			batch, late, again = late, batch, nil
		}
		for key, r := range s.take() {
			batch[key] = repetition{report: r}
			delete(late, key)
		}
		for _, key := range slices.Sorted(maps.Keys(batch)) {
			r := batch[key]
			if s.Mine != nil && !s.Mine(key) {
				s.part(key)
				continue
			}
			if r.pause = s.attempt(ctx, r); r.pause > 0 {
				putOff(key, r)
			} else {
				s.paid(r.report)
			}
		}
		for key, r := range s.takeSpoilt() {
			if _, known := late[key]; !known {
				putOff(key, repetition{report: r, pause: correctPause})
			}
		}
	}
}

// Owes reports whether the statuses of an account's VMs are about to be written: a report was not
// written whole yet, or another one will follow the last.
func (s *Writer) Owes(account string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owing[account]
}

// paid notes that a report was written.
func (s *Writer) paid(r Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, newer := s.pending[r.Account]; !newer && !r.Underway {
		delete(s.owing, r.Account)
	}
}

// take returns the reports that have come since the last call.
func (s *Writer) take() map[string]Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch := s.pending
	s.pending = map[string]Report{}
	return batch
}

// write brings a report to the objects. It goes on after errors. It reports whether some objects
// are to be looked at again because the cache is behind.
func (s *Writer) write(ctx context.Context, r Report) (behind bool, err error) {
	var errs []error
	note := func(err error) {
		if errors.Is(err, errBehind) {
			behind = true
		} else if err != nil {
			errs = append(errs, err)
		}
	}
	s.chorus = s.choruses[r.Account]
	delete(s.choruses, r.Account)
	note(s.reportFailure(ctx, r))
	note(s.reportBlocked(ctx, r))
	note(s.reportDrift(ctx, r))
	note(s.reportChanges(ctx, r))
	note(s.writeDrift(ctx, r))
	note(s.writeSole(ctx, r))
	note(s.writeFaults(ctx, r))
	if r.Result == nil {
		return behind, errors.Join(errs...)
	}
	note(s.writeBrake(ctx, r))
	note(s.writeClaims(ctx, r))
	note(s.writeRecords(ctx, r))
	note(s.writeCuts(ctx, r))
	note(s.writePolicies(ctx, r))
	vms := map[plan.VMRef]plan.VMStatus{}
	for _, vm := range r.Result.VMs {
		vms[vm.VM] = vm
	}
	outlooks, bySelector, all := map[plan.VMRef]render.Outlook(nil), map[client.ObjectKey]*modeNews{}, &modeNews{}
	if len(r.Would) > 0 {
		outlooks = render.Outlooks(r.Would)
	}
	seen, held := s.look(r), guardsOf(r)
	untouched := unguardedOf(r.Result)
	for ref, target := range r.subjects() {
		vm, observed := vms[target]
		_, unread := r.Unread[target.Region]
		if _, service := r.Services[ref]; service && !observed && !unread {
			// It cannot be set, or nothing applies to it. Of an unread region neither is known.
			vm, observed = plan.VMStatus{VM: target, Mode: plan.Enforce, Policies: untouched[ref]}, true
		}
		if !observed {
			continue
		}
		selector, err := s.writeSubject(ctx, r, ref, vm, outlooks)
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
	note(s.writeModes(ctx, r, bySelector, all))
	note(s.writeGuards(ctx, r, held))
	if r.Underway {
		s.choruses[r.Account] = s.chorus
	} else {
		note(s.sumUp(ctx, r))
	}
	s.looked(r, seen)
	return behind, errors.Join(errs...)
}

// showGroups brings the groups of a VM's interfaces, as a snapshot has them, into its status, and
// reports whether that changes it.
func showGroups(status *cloudv1.VirtualMachineStatus, seen *cloud.Snapshot) (changed bool) {
	if seen == nil || status.LastSeen != nil && seen.ObservedAt.Before(status.LastSeen.Time) {
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
func (s *Writer) writeSubject(ctx context.Context, r Report, ref plan.EntityRef, vm plan.VMStatus, outlooks map[plan.VMRef]render.Outlook) (string, error) {
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
		s.shows(r.Account, on)
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
	s.tellPolicies(on, conditions, before, policies)
	s.tellMode(on, conditions, len(policies))
	s.tellAgented(on, conditions)
	return selector, nil
}
