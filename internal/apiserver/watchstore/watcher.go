package watchstore

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/watch"
)

// The reasons for which a watch ends. The receiver of ErrCutOff must watch anew.
var (
	ErrCutOff  = errors.New("the receiver fell too far behind and was cut off")
	ErrStopped = errors.New("the watch was stopped")
)

// Watcher is one watch. Take, Next and TryNext are for one receiver at a time; Stop is for
// everybody.
//
// Unless said otherwise, its fields are guarded by the lock of the store: a writer holds that lock
// for writing, the one receiver for reading.
type Watcher struct {
	// What every event needs comes first and side by side: the publisher and the receiver, on
	// processors of their own, take turns at it.
	store *Store
	// wake holds a token while there may be something to deliver that the receiver has not looked
	// for.
	wake chan struct{}
	// heeded is the end of the context that is heeded, drained says that Take has found nothing
	// more, so that it need not look before there is a token. Both are the receiver's own.
	heeded  <-chan struct{}
	drained bool
	// beginning says that the bookmark has not been delivered.
	beginning bool
	ended     error
	// notified is the revision in which the receiver was last put on the list of those to wake.
	notified uint64
	// due is what comes after what the watch begins with. The changes of an object that it begins
	// with and that has not had its turn are not in it.
	due agenda

	// first are the objects that the watch begins with, by age; those before at have been
	// delivered. The bookmark follows.
	// run, if not nil, is the same as events.
	first    []*entry
	run      *run
	at       int
	revision uint64

	resource Resource
	kind     int
	name     string
	key      *key // nil for the empty key
	heed     heed
}

type step uint8

const (
	// nothing is due: changes cancelled each other out.
	nothing step = iota
	// add: the receiver does not hold the object.
	add
	// modify: the receiver holds the object without the last changes.
	modify
	// drop: the receiver holds an object that is gone.
	drop
	// replace: the receiver holds an object that went and came back.
	replace
)

// delivery is what is due for one object.
type delivery struct {
	step step
	// patch is the net change of a group for modify; nil if there is none.
	patch *memberPatch
	// upTo is the last member of a group that the receiver has been given, if there are more; nil
	// if it has all.
	upTo Member
	// tombstone is what DELETED carries for drop and replace.
	tombstone *tombstone
}

// Key returns the enforcer key that the watch is for; empty means everything.
func (w *Watcher) Key() string { return w.name }

// Resource returns the kind that the watch is for.
func (w *Watcher) Resource() Resource { return w.resource }

// Next waits for the next event. It fails with ErrCutOff, ErrStopped or the error of ctx.
func (w *Watcher) Next(ctx context.Context) (watch.Event, error) {
	var one [1]Event
	events, err := w.wait(ctx, one[:], len(one))
	if err != nil {
		return watch.Event{}, err
	}
	return watch.Event{Type: events[0].Type, Object: events[0].Object()}, nil
}

// TryNext returns the next event if there is one. It fails with ErrCutOff or ErrStopped.
func (w *Watcher) TryNext() (watch.Event, bool, error) {
	var one [1]Event
	events, err := w.take(one[:], len(one))
	if len(events) == 0 {
		return watch.Event{}, false, err
	}
	return watch.Event{Type: events[0].Type, Object: events[0].Object()}, true, nil
}

// Take waits for events and returns at least one: as many as fit into the buffer, or up to a few
// hundred that other receivers are given too, which are elsewhere. They must not be modified. It
// fails like Next.
func (w *Watcher) Take(ctx context.Context, into []Event) ([]Event, error) {
	return w.wait(ctx, into, pieceLength)
}

// wait is Take with at most that many events that other receivers are given too.
func (w *Watcher) wait(ctx context.Context, into []Event, shared int) ([]Event, error) {
	for {
		if !w.drained {
			events, err := w.take(into, shared)
			if len(events) > 0 || err != nil {
				return events, err
			}
		}
		if err := w.await(ctx); err != nil {
			return nil, err
		}
		w.drained = false
	}
}

// await waits until there may be something to deliver, or the watch has ended. It fails with the
// error of ctx.
func (w *Watcher) await(ctx context.Context) error {
	if done := ctx.Done(); done != w.heeded {
		if !w.heed.to(ctx, w) {
			return nil
		}
		w.heeded = done
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	<-w.wake
	return nil
}

// TryTake is Take that does not wait; it returns none if there is nothing. It fails like TryNext.
func (w *Watcher) TryTake(into []Event) ([]Event, error) { return w.take(into, pieceLength) }

// take is TryTake with at most that many events that other receivers are given too.
func (w *Watcher) take(into []Event, shared int) (events []Event, err error) {
	w.store.mu.RLock()
	defer w.store.mu.RUnlock()
	if w.ended != nil {
		return nil, w.ended
	}
	due, unread := w.due.len(), w.unread()
	if w.run != nil && due == 0 {
		events = w.takeRun(shared)
	}
	if len(events) == 0 {
		for events = into[:0]; len(events) < len(into); {
			event, ok := w.deliver()
			if !ok {
				w.drained = true
				break
			}
			events = append(events, event)
		}
	}
	if done := due - w.due.len(); done != 0 {
		w.store.due.Add(int64(-done))
	}
	if read := unread - w.unread(); read != 0 {
		w.store.unread.Add(int64(-read))
		if !w.beginning {
			w.store.trimRendered()
		}
	}
	return events, nil
}

// deliver returns the next event, or false if there is none.
func (w *Watcher) deliver() (Event, bool) {
	if w.beginning {
		if event, ok := w.deliverFirst(); ok {
			return event, true
		}
		w.beginning, w.first, w.run, w.at = false, nil, nil, 0
		return Event{watch.Bookmark, header{version: w.store.versionOf(w.revision)}, bookmark(w.kind)}, true
	}
	for next := w.due.first(); next != nil; next = w.due.first() {
		if next.step == replace {
			gone := next.tombstone
			next.delivery = delivery{step: add}
			return Event{watch.Deleted, gone.header, gone}, true
		}
		d := w.due.pop()
		switch d.step {
		case add:
			event, last := w.added(d.entry)
			if last != nil {
				w.due.put(d.entry, delivery{step: modify, upTo: last})
			}
			return event, true
		case modify:
			if event, ok := w.modified(d.entry, d.delivery); ok {
				return event, true
			}
		case drop:
			return Event{watch.Deleted, d.tombstone.header, d.tombstone}, true
		}
	}
	return Event{}, false
}

// deliverFirst returns the next of the objects that the watch begins with.
func (w *Watcher) deliverFirst() (Event, bool) {
	for w.at < len(w.first) {
		e := w.first[w.at]
		w.at++
		d := w.due.find(e)
		if d != nil && d.step == nothing {
			*d = delivery{}
			continue
		}
		event, last := w.added(e)
		switch rest := (delivery{step: modify, upTo: last}); {
		case d != nil && last != nil:
			*d = rest
		case d != nil:
			*d = delivery{}
		case last != nil:
			w.due.put(e, rest)
		}
		return event, true
	}
	return Event{}, false
}

// added is ADDED with as much of the object as fits; last is its last member if there are more.
func (w *Watcher) added(e *entry) (event Event, last Member) {
	if e.resource() == AppliedToGroups {
		if m := e.members.only(w.name); m != nil {
			return Event{watch.Added, w.store.headerOf(e), m}, nil
		}
		object, last := w.store.whole(e, w.name, w.store.maxEventBytes)
		return Event{watch.Added, w.store.headerOf(e), object}, last
	}
	return w.store.shared(watch.Added, e)
}

// modified is MODIFIED with as much of what is due as fits; the rest becomes due again, behind
// everything else. It is false if there is nothing to tell.
func (w *Watcher) modified(e *entry, d delivery) (Event, bool) {
	if e.resource() == NetworkPolicies {
		event, _ := w.store.shared(watch.Modified, e)
		return event, true
	}
	limit := w.store.maxEventBytes
	switch {
	case d.patch.empty() && d.upTo == nil:
		return Event{}, false
	case d.patch.empty():
		members, last := e.members.piece(w.name, d.upTo, limit)
		if last != nil {
			w.due.put(e, delivery{step: modify, upTo: last})
		}
		h := w.store.headerOf(e)
		return Event{watch.Modified, h, patchOf(e.members.placed, h.meta(), members, nil)}, len(members) > 0
	}
	first, rest := d.patch.split(limit)
	if rest != nil || d.upTo != nil {
		w.due.put(e, delivery{step: modify, patch: rest, upTo: d.upTo})
	}
	event := Event{watch.Modified, w.store.headerAt(e, first.revision), first}
	if x := first.ready(); x != nil {
		event.body = x
	}
	return event, true
}

// Stop ends the watch. It may be called more than once.
func (w *Watcher) Stop() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.store.forget(w)
	w.end(ErrStopped)
}

// end needs the store locked for writing.
func (w *Watcher) end(reason error) {
	if w.ended == nil {
		w.ended = reason
	}
	w.store.unread.Add(int64(-w.unread()))
	w.store.due.Add(int64(-w.due.len()))
	w.first, w.run, w.beginning, w.due = nil, nil, false, agenda{}
	w.heed.end()
	w.signal()
}

func (w *Watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// unread is how much the watch has to deliver yet of what it begins with; the bookmark counts.
func (w *Watcher) unread() int {
	if !w.beginning {
		return 0
	}
	return len(w.first) - w.at + 1
}

// begin says what the watch starts with.
func (w *Watcher) begin(first []*entry, as *run) {
	w.first, w.run, w.at, w.beginning, w.revision = first, as, 0, true, w.store.revision
	w.store.unread.Add(int64(w.unread()))
	w.signal()
}

// awaits reports whether the object, which concerns the key and for which nothing is due, has still
// to be delivered for the first time.
func (w *Watcher) awaits(e *entry) bool {
	return w.beginning && (w.at == 0 || e.age > w.first[w.at-1].age)
}

// entered: the object has begun to concern the key. Like changed and left it fails if the receiver
// has fallen too far behind.
func (w *Watcher) entered(e *entry) error {
	d := w.due.find(e)
	switch {
	case d == nil:
		return w.queue(e, delivery{step: add})
	case d.step == drop:
		d.step = replace
	default:
		d.step = add
	}
	return w.ended
}

// changed: the object, which concerned the key before, has changed. The diff is nil for policies;
// otherwise p is the patch that was cut from it for the key.
func (w *Watcher) changed(e *entry, diff *groupDiff, p *memberPatch) error {
	d := w.due.find(e)
	if d == nil {
		if w.awaits(e) {
			return nil
		}
		return w.queue(e, delivery{step: modify, patch: p})
	}
	if d.step == add || d.step == replace {
		return nil
	}
	if d.upTo != nil {
		p = diff.cut(w.name, d.upTo)
	}
	d.step, d.patch = modify, d.patch.then(p)
	if diff != nil && d.patch.empty() && d.upTo == nil {
		d.step, d.patch = nothing, nil
	}
	return w.ended
}

// left: the object has ceased to concern the key.
func (w *Watcher) left(e *entry, tombstone *tombstone) error {
	d := w.due.find(e)
	switch {
	case d == nil && w.awaits(e):
		return w.queue(e, delivery{step: nothing})
	case d == nil:
		return w.queue(e, delivery{step: drop, tombstone: tombstone})
	case d.step == add:
		d.step = nothing
	case d.step == replace:
		d.step = drop
	default:
		*d = delivery{step: drop, tombstone: tombstone}
	}
	return w.ended
}

// queue notes what is due for an object for which nothing was.
func (w *Watcher) queue(e *entry, d delivery) error {
	if w.ended != nil {
		return w.ended
	}
	if w.due.len() >= w.store.maxPending {
		w.end(ErrCutOff)
		return w.ended
	}
	w.due.put(e, d)
	w.store.due.Add(1)
	w.store.notify(w)
	return nil
}
