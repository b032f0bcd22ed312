package history

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/nephele/v1alpha1"
)

const (
	// writesPerSecond and writesAtOnce are the rate of all revisions and results together.
	writesPerSecond, writesAtOnce = 20, 100
	// resultSettles is how long a result may change before it is written, and callsSettle how long
	// calls are only counted that did what they were to do: a large change makes some in every
	// second, for minutes.
	resultSettles, callsSettle = 2 * time.Second, 30 * time.Second
	// retry is how long to wait after a failure, and absentRetry where the definitions are not
	// installed.
	retry, absentRetry = 5 * time.Second, time.Minute
	// pageSize is how many revisions are read at a time.
	pageSize = 500
)

// Options are what a Recorder needs. Authors, Metrics and Proofs may be nil, the rest is required.
type Options struct {
	// Client writes revisions, Reader reads from the API itself.
	Client  client.Client
	Reader  client.Reader
	Clock   clock.WithTicker
	Log     logr.Logger
	Bounds  Bounds
	Authors *Authors
	Metrics *Metrics
	Proofs  Prover
}

// Prover proves revisions; see Keys.
type Prover interface {
	// Prove returns the proof of a revision.
	Prove(ctx context.Context, s *v1alpha1.RevisionSpec) (string, error)
	// Proven reports whether a revision carries one.
	Proven(s *v1alpha1.RevisionSpec) bool
}

// Recorder keeps the history. See the package comment; use New.
type Recorder struct {
	Options
	kinds kindTable
	wake  chan struct{}
	limit *rate.Limiter

	mu       sync.Mutex
	subjects map[types.UID]*subject
	// named are the policies by what they are called where calls are recorded.
	named  map[string]types.UID
	queue  *queue
	synced bool
	// unburied says that the index may know objects that are gone.
	unburied bool
	// results are the subjects whose result is to be written, with the time from which on.
	results map[types.UID]time.Time
	// index is that of what is stored; nil until it is known. Only Start's goroutine changes it.
	index *index
	// doomed are revisions that are to be deleted.
	doomed []entry
	absent bool
}

// New returns a Recorder that keeps nothing until Start, but takes what it is given.
func New(o Options) *Recorder {
	return &Recorder{
		Options: o, kinds: newKindTable(), wake: make(chan struct{}, 1), limit: rate.NewLimiter(writesPerSecond, writesAtOnce),
		subjects: map[types.UID]*subject{}, named: map[string]types.UID{}, queue: newQueue(), results: map[types.UID]time.Time{},
	}
}

// Changed reports an object that is new or has changed, its status included. The object is kept and
// must not be modified.
func (r *Recorder) Changed(o client.Object) {
	k, ok := r.kinds.of(o)
	if !ok {
		return
	}
	found, decided := resultOf(o)
	print := fingerprint(o)
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.subjects[o.GetUID()]
	if s == nil {
		s = &subject{kind: k, uid: o.GetUID(), limit: rate.NewLimiter(rate.Every(pause), burst)}
		r.subjects[s.uid] = s
		r.named[k.called(o)] = s.uid
	}
	if s.last != print {
		change := v1alpha1.RevisionChanged
		switch {
		case s.last == "" && r.synced:
			change = v1alpha1.RevisionCreated
		case s.last == "":
			change = v1alpha1.RevisionFound
		}
		s.last, s.decided, s.result = print, false, result{}
		s.push(version{object: o, change: change, seen: r.Clock.Now()})
		r.enqueue(s)
	}
	if decided && (!s.decided || s.result != found) {
		s.result, s.decided = found, true
		r.schedule(s)
	}
}

// called is what a policy is called where calls are recorded.
func (k kind) called(o client.Object) string {
	if k.Policy == "" {
		return k.Group + " " + k.Kind.Kind + " " + o.GetNamespace() + "/" + o.GetName()
	}
	if o.GetNamespace() == "" {
		return string(k.Policy) + " " + o.GetName()
	}
	return string(k.Policy) + " " + o.GetNamespace() + "/" + o.GetName()
}

// Deleted reports an object that is gone.
func (r *Recorder) Deleted(o client.Object) {
	k, ok := r.kinds.of(o)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.subjects[o.GetUID()]
	if s == nil || s.gone {
		return
	}
	ns := o.GetNamespace()
	if r.queue.deleted[ns] >= maxDeleted {
		r.Metrics.lost()
		delete(r.subjects, s.uid)
		r.unburied = true // told later, if there is any history of it
		return
	}
	r.queue.deleted[ns]++
	s.gone, s.kind, s.decided = true, k, false
	s.push(version{object: o, change: v1alpha1.RevisionDeleted, seen: r.Clock.Now()})
	r.enqueue(s)
}

// Synced tells that all objects that there are have been reported: what the history knows beyond
// them was deleted in between, and what comes from now on is new.
func (r *Recorder) Synced() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.synced, r.unburied = true, true
	r.trigger()
}

// Called reports a call that changed, or failed to change, something in a cloud for the sake of a
// policy, which is given as the record of changes names it. Failure says why it did not succeed,
// empty if it did.
func (r *Recorder) Called(account, policy, call, failure string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.subjects[r.named[policy]]
	if s == nil {
		return
	}
	if len(s.versions) > 0 {
		s.calls.add(account, call, failure)
		return
	}
	if r.index == nil {
		return
	}
	if l := r.index.lines[s.uid]; l != nil {
		l.calls.add(account, call, failure)
		if failure == "" {
			r.scheduleIn(s, callsSettle)
		} else {
			r.schedule(s)
		}
	}
}

// Author returns the user who wrote the present version of a policy, or deleted it; empty if
// unknown. The policy is named as in the record of changes.
func (r *Recorder) Author(policy string) string {
	r.mu.Lock()
	uid := r.named[policy]
	s := r.subjects[uid]
	if s == nil || len(s.versions) == 0 {
		defer r.mu.Unlock()
		if r.index == nil || r.index.lines[uid] == nil {
			return ""
		}
		return r.index.lines[uid].author
	}
	v := s.versions[len(s.versions)-1]
	r.mu.Unlock()
	hash := deletion
	if v.change != v1alpha1.RevisionDeleted {
		c, err := s.kind.contentOf(v.object)
		if err != nil {
			return ""
		}
		hash = c.hash
	}
	author, _ := r.Authors.of(v.object.GetNamespace(), admitted{s.uid, hash})
	return author.User
}

// enqueue gives a subject a turn. It needs mu.
func (r *Recorder) enqueue(s *subject) {
	if s.queued {
		return
	}
	s.queued = true
	r.queue.add(s.versions[0].object.GetNamespace(), s.uid)
	r.trigger()
}

// schedule notes that the result of a subject is to be written. It needs mu.
func (r *Recorder) schedule(s *subject) { r.scheduleIn(s, resultSettles) }

// scheduleIn notes that the result of a subject is to be written after a time, if it is not before.
// It needs mu.
func (r *Recorder) scheduleIn(s *subject, settles time.Duration) {
	at := r.Clock.Now().Add(settles)
	if due, scheduled := r.results[s.uid]; !scheduled || at.Before(due) {
		r.results[s.uid] = at
		r.trigger()
	}
}

func (r *Recorder) trigger() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (r *Recorder) NeedLeaderElection() bool { return true }

// Start records until ctx ends. It may be called once.
func (r *Recorder) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		wait, err := r.work(ctx)
		r.Metrics.fails(err != nil)
		if err != nil && ctx.Err() == nil {
			wait = r.failed(err)
		}
		timer := r.Clock.NewTimer(max(wait, time.Millisecond))
		select {
		case <-r.wake:
			if err != nil { // what came does not make it go on sooner
				select {
				case <-timer.C():
				case <-ctx.Done():
				}
			}
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// failed reports a failure and returns how long to wait.
func (r *Recorder) failed(err error) time.Duration {
	if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		r.Log.Error(err, "The history of policies cannot be kept now, trying again")
		return retry
	}
	if !r.absent {
		r.absent = true
		r.Log.Info("No history of policies is kept: the definitions of nephele.io are not installed (kubectl apply -f api/generated/crd)")
	}
	return absentRetry
}

// idle is how long to wait when there is nothing to do: something comes sooner.
const idle = time.Hour

// work does what is due, and returns how long to wait for more.
func (r *Recorder) work(ctx context.Context) (time.Duration, error) {
	if r.index == nil {
		x, err := r.load(ctx)
		if err != nil {
			return 0, err
		}
		r.mu.Lock()
		r.index = x
		r.mu.Unlock()
	}
	r.bury()
	for ctx.Err() == nil {
		now := r.Clock.Now()
		reserved := r.limit.ReserveN(now, 1)
		if wait := reserved.DelayFrom(now); wait > 0 {
			reserved.CancelAt(now)
			return wait, nil
		}
		did, wait, err := r.step(ctx, now)
		if !did {
			reserved.CancelAt(now)
		}
		if err != nil || !did && wait > 0 {
			return wait, err
		}
	}
	return 0, ctx.Err()
}

// step writes one revision or result. If nothing is due it says for how long.
func (r *Recorder) step(ctx context.Context, now time.Time) (did bool, wait time.Duration, err error) {
	if len(r.doomed) > 0 {
		return true, 0, r.remove(ctx)
	}
	s, v := r.turn(now)
	if s != nil {
		did, err := r.record(ctx, s, v)
		return did, 0, err
	}
	uid, until, ok := r.scheduled(now)
	if ok {
		return true, 0, r.report(ctx, uid)
	}
	wait = idle
	r.mu.Lock()
	defer r.mu.Unlock()
	if !until.IsZero() {
		wait = min(wait, until.Sub(now))
	}
	if len(r.queue.wait) > 0 {
		wait = min(wait, r.queue.wait[0].until.Sub(now))
	}
	return false, max(wait, time.Millisecond), nil
}

// turn returns the subject whose turn it is, with a version to be recorded, which stays with it.
func (r *Recorder) turn(now time.Time) (*subject, version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		uid, ok := r.queue.due(now)
		if !ok {
			break
		}
		if s := r.subjects[uid]; s != nil && len(s.versions) > 0 {
			r.queue.add(s.versions[0].object.GetNamespace(), uid)
		}
	}
	for {
		uid, ok := r.queue.next()
		if !ok {
			return nil, version{}
		}
		s := r.subjects[uid]
		if s == nil || len(s.versions) == 0 {
			if s != nil {
				s.queued = false
			}
			continue
		}
		reserved := s.limit.ReserveN(now, 1)
		if wait := reserved.DelayFrom(now); wait > 0 {
			reserved.CancelAt(now)
			// All that is to come until then is summed up in the last version.
			s.versions = merged(s.versions)
			r.queue.later(now.Add(wait), uid)
			continue
		}
		return s, s.versions[0]
	}
}

// merged leaves the last of some versions; a deletion needs no other beside it.
func merged(all []version) []version {
	last := all[len(all)-1]
	for _, v := range all[:len(all)-1] {
		last.merged += v.merged + 1
	}
	return []version{last}
}

// recorded ends the turn of a subject, with its first version done or, after a failure, not.
func (r *Recorder) recorded(s *subject, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endTurn(s, done)
}

// endTurn is recorded with mu.
func (r *Recorder) endTurn(s *subject, done bool) {
	s.queued = false
	if done {
		if s.versions[0].change == v1alpha1.RevisionDeleted {
			r.forget(s)
			return
		}
		s.versions = append([]version(nil), s.versions[1:]...)
		if s.decided && len(s.versions) == 0 {
			r.schedule(s)
		}
	}
	if len(s.versions) > 0 {
		r.enqueue(s)
	}
}

// forget is called with mu for a subject that is gone, and recorded as such.
func (r *Recorder) forget(s *subject) {
	ns := s.versions[0].object.GetNamespace()
	if r.queue.deleted[ns]--; r.queue.deleted[ns] <= 0 {
		delete(r.queue.deleted, ns)
	}
	delete(r.subjects, s.uid)
	if called := s.kind.called(s.versions[0].object); r.named[called] == s.uid {
		delete(r.named, called)
	}
}

// record writes a version, if it is none that is known. It reports whether the API was asked for
// anything.
func (r *Recorder) record(ctx context.Context, s *subject, v version) (bool, error) {
	c, err := s.kind.contentOf(v.object)
	if err != nil {
		r.Log.Error(err, "A version of a policy is not recorded")
		r.recorded(s, true)
		return false, nil
	}
	l := r.index.lines[s.uid]
	gone := v.change == v1alpha1.RevisionDeleted
	switch {
	case l != nil && !gone && l.hash == c.hash && !l.gone, gone && l != nil && l.gone, gone && l == nil && v.merged > 0:
		r.recorded(s, true)
		return false, nil
	}
	spec := v1alpha1.RevisionSpec{
		Object: s.kind.revised(v.object), Change: v.change, Generation: v.object.GetGeneration(), Merged: v.merged, Time: metav1.NewTime(v.seen),
	}
	if l != nil && v.change == v1alpha1.RevisionFound {
		spec.Change = v1alpha1.RevisionChanged // while no one looked
	}
	if !gone {
		if err := pack(c, &spec); err != nil {
			r.Log.Error(err, "A version of a policy is not recorded")
			r.recorded(s, true)
			return false, nil
		}
		spec.Author = r.author(ctx, s, v, c)
	} else {
		spec.Author, _ = r.Authors.of(v.object.GetNamespace(), admitted{s.uid, deletion})
	}
	key, err := r.create(ctx, s.kind, &spec)
	switch {
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, "NamespaceTerminating"), apierrors.IsForbidden(err) && gone, apierrors.IsInvalid(err):
		// A namespace that goes takes its history with it.
		r.recorded(s, true)
		if apierrors.IsInvalid(err) {
			r.Log.Error(err, "A version of a policy is not recorded")
		}
		return true, nil
	case err != nil:
		r.recorded(s, false)
		return true, fmt.Errorf("record revision %d of %s %s: %w", spec.Number, spec.Object.Kind, spec.Object.Name, err)
	}
	r.Metrics.recorded()
	r.mu.Lock()
	defer r.mu.Unlock()
	l = r.index.add(key, &spec, &v1alpha1.RevisionStatus{})
	if len(s.versions) == 1 && len(s.calls) > 0 {
		l.calls = s.calls
		r.schedule(s)
	}
	r.doomed = append(r.doomed, r.index.excess(r.Bounds, l)...)
	r.Metrics.kept(r.index.all, r.index.size)
	r.endTurn(s, true)
	return true, nil
}

// author finds the author of a version: from admission, or else from the managers in the object, as
// long as it is that version.
func (r *Recorder) author(ctx context.Context, s *subject, v version, c content) v1alpha1.RevisionAuthor {
	if a, ok := r.Authors.of(v.object.GetNamespace(), admitted{s.uid, c.hash}); ok {
		return a
	}
	if v.change == v1alpha1.RevisionFound {
		return v1alpha1.RevisionAuthor{}
	}
	live := r.live(ctx, s, v)
	if live == nil {
		return v1alpha1.RevisionAuthor{}
	}
	if now, err := s.kind.contentOf(live); err != nil || now.hash != c.hash {
		return v1alpha1.RevisionAuthor{}
	}
	return v1alpha1.RevisionAuthor{Manager: lastManager(live)}
}

// live returns the object of a version as it is now, nil if it cannot be had. It is listed by its
// name: the right to list policies is there anyway.
func (r *Recorder) live(ctx context.Context, s *subject, v version) client.Object {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(s.kind.GroupVersion().WithKind(s.kind.Kind.Kind + "List"))
	err := r.Reader.List(ctx, list, client.InNamespace(v.object.GetNamespace()), client.MatchingFields{"metadata.name": v.object.GetName()})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetUID() != s.uid {
		return nil
	}
	live := s.kind.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[0].Object, live); err != nil {
		return nil
	}
	return live
}

// create writes a revision under the next number that is free. What another process has written in
// the meantime is taken in.
func (r *Recorder) create(ctx context.Context, k kind, spec *v1alpha1.RevisionSpec) (client.ObjectKey, error) {
	for tries := 0; ; tries++ {
		spec.Number = r.index.numbers[nameOf(spec.Object)] + 1
		key := k.revisionName(spec.Object, spec.Number)
		if r.Proofs != nil {
			proof, err := r.Proofs.Prove(ctx, spec)
			if err != nil {
				return key, err
			}
			spec.Proof = proof
		}
		o, at, _ := revisionAt(key)
		*at = *spec
		err := r.Client.Create(ctx, o)
		if !apierrors.IsAlreadyExists(err) || tries > 20 {
			return key, err
		}
		there, its, status := revisionAt(key)
		if err := r.Reader.Get(ctx, key, there); err != nil {
			return key, err
		}
		ours := r.Proofs == nil || spec.Proof == "" || r.Proofs.Proven(its)
		if ours && its.Object.UID == spec.Object.UID && its.Hash == spec.Hash && its.Change == spec.Change && its.Generation == spec.Generation {
			*spec = *its
			return key, nil
		}
		r.mu.Lock()
		r.index.add(key, its, status)
		r.index.numbers[nameOf(spec.Object)] = max(r.index.numbers[nameOf(spec.Object)], spec.Number)
		r.mu.Unlock()
	}
}

// revisionAt returns an empty revision with its parts.
func revisionAt(key client.ObjectKey) (client.Object, *v1alpha1.RevisionSpec, *v1alpha1.RevisionStatus) {
	if key.Namespace == "" {
		o := &v1alpha1.ClusterPolicyRevision{}
		o.Name = key.Name
		return o, &o.Spec, &o.Status
	}
	o := &v1alpha1.PolicyRevision{}
	o.Namespace, o.Name = key.Namespace, key.Name
	return o, &o.Spec, &o.Status
}

// remove deletes a revision that is too much.
func (r *Recorder) remove(ctx context.Context) error {
	e := r.doomed[0]
	o, _, _ := revisionAt(e.key)
	if err := r.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete revision %s: %w", e.key, err)
	}
	r.doomed = r.doomed[1:]
	return nil
}

// scheduled returns a subject whose result is to be written now, or else the next time at which one
// is.
func (r *Recorder) scheduled(now time.Time) (uid types.UID, next time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, at := range r.results {
		if !at.After(now) {
			delete(r.results, uid)
			return uid, time.Time{}, true
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return "", next, false
}

// report writes the result of a subject to its last revision.
func (r *Recorder) report(ctx context.Context, uid types.UID) error {
	r.mu.Lock()
	s, l := r.subjects[uid], r.index.lines[uid]
	if s == nil || l == nil || len(l.entries) == 0 || len(s.versions) > 0 {
		r.mu.Unlock()
		return nil // it will be owed again once its version is recorded
	}
	key, became := l.entries[len(l.entries)-1].key, l.reported
	if s.decided {
		became = s.result
	}
	accounts := l.calls.list()
	r.mu.Unlock()
	o, _, status := revisionAt(key)
	if err := r.Reader.Get(ctx, key, o); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("read revision %s: %w", key, err)
	}
	before := o.DeepCopyObject().(client.Object)
	if status.Phase != became.phase || status.VMs != became.vms || status.Message != became.message || status.Since.IsZero() {
		status.Since = metav1.NewTime(r.Clock.Now())
	}
	status.Phase, status.VMs, status.Message, status.Accounts = became.phase, became.vms, became.message, accounts
	switch err := r.Client.Status().Patch(ctx, o, client.MergeFrom(before)); {
	case err == nil, apierrors.IsNotFound(err):
	case apierrors.IsInvalid(err): // and would be the next time
		r.Metrics.unwritten()
		r.Log.Error(err, "A result is not kept in the history", "revision", key.String())
	default:
		r.mu.Lock()
		r.schedule(s)
		r.mu.Unlock()
		return fmt.Errorf("write the result into revision %s: %w", key, err)
	}
	r.mu.Lock()
	l.reported = became
	r.mu.Unlock()
	return nil
}

// load reads the revisions that there are.
func (r *Recorder) load(ctx context.Context) (*index, error) {
	x := newIndex()
	own := &v1alpha1.PolicyRevisionList{}
	err := r.pages(ctx, own, func() {
		for i := range own.Items {
			o := &own.Items[i]
			x.add(client.ObjectKeyFromObject(o), &o.Spec, &o.Status)
		}
	})
	cluster := &v1alpha1.ClusterPolicyRevisionList{}
	err = errors.Join(err, r.pages(ctx, cluster, func() {
		for i := range cluster.Items {
			o := &cluster.Items[i]
			x.add(client.ObjectKeyFromObject(o), &o.Spec, &o.Status)
		}
	}))
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	r.Metrics.kept(x.all, x.size)
	return x, nil
}

func (r *Recorder) pages(ctx context.Context, list client.ObjectList, next func()) error {
	more := ""
	for {
		if err := r.Reader.List(ctx, list, client.Limit(pageSize), client.Continue(more)); err != nil {
			return err
		}
		next()
		if more = list.GetContinue(); more == "" {
			return nil
		}
	}
}

// bury notes what was deleted while no one looked, once it is known what there is.
func (r *Recorder) bury() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.synced || !r.unburied {
		return
	}
	r.unburied = false
	for uid, l := range r.index.lines {
		if l.gone || len(l.entries) == 0 || r.subjects[uid] != nil {
			continue
		}
		k, ok := r.kinds.byName[[2]string{l.object.Group, l.object.Kind}]
		if !ok {
			continue
		}
		o := k.New()
		o.SetNamespace(l.object.Namespace)
		o.SetName(l.object.Name)
		o.SetUID(uid)
		o.SetGeneration(l.generation)
		s := &subject{kind: k, uid: uid, gone: true, limit: rate.NewLimiter(rate.Every(pause), burst)}
		r.subjects[uid] = s
		r.queue.deleted[l.object.Namespace]++
		s.push(version{object: o, change: v1alpha1.RevisionDeleted, seen: r.Clock.Now()})
		r.enqueue(s)
	}
}
