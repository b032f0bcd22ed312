package watchstore

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/watch"
)

// The reasons for which a watch ends. The receiver of ErrCutOff must watch anew.
var (
	ErrCutOff  = errors.New("the receiver fell too far behind and was cut off")
	ErrStopped = errors.New("the watch was stopped")
)

// Watcher is one watch. Take, Next and TryNext are for one receiver at a time; Stop is for everybody.
//
// All its fields are guarded by the lock of the store: those who change it hold that for writing, the one receiver for reading.
type Watcher struct {
	store    *Store
	resource Resource
	kind     int
	name     string
	key      *key // nil for the empty key
	// wake holds a token while there may be something to deliver.
	wake  chan struct{}
	ended error

	// first are the objects that the watch begins with, by age; those before at have been delivered. The bookmark follows.
	first     []*entry
	at        int
	beginning bool
	revision  uint64
	// queue holds objects in the order of delivery; what is due for an object stands in due. An object is in the queue at
	// most once, and if it is in due.
	queue []*entry
	head  int
	due   map[*entry]delivery
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
	// unseen says that the object is among those that the watch begins with, and that its turn has not come.
	unseen bool
	// patch is the net change of a group for modify; nil if there is none.
	patch *memberPatch
	// upTo is the last member of a group that the receiver has been given, if there are more; nil if it has all.
	upTo *Member
	// tombstone is what DELETED carries for drop and replace.
	tombstone *rendering
}

// Key returns the enforcer key that the watch is for; empty means everything.
func (w *Watcher) Key() string { return w.name }

// Resource returns the kind that the watch is for.
func (w *Watcher) Resource() Resource { return w.resource }

// Ready returns a channel that receives when TryNext may have something, for use in a select. A receiver must call
// TryNext until it reports false before it waits again.
func (w *Watcher) Ready() <-chan struct{} { return w.wake }

// Next waits for the next event. It fails with ErrCutOff, ErrStopped or the error of ctx.
func (w *Watcher) Next(ctx context.Context) (watch.Event, error) {
	var one [1]Event
	if _, err := w.Take(ctx, one[:]); err != nil {
		return watch.Event{}, err
	}
	return watch.Event{Type: one[0].Type, Object: one[0].Object}, nil
}

// TryNext returns the next event if there is one. It fails with ErrCutOff or ErrStopped.
func (w *Watcher) TryNext() (watch.Event, bool, error) {
	var one [1]Event
	n, err := w.TryTake(one[:])
	return watch.Event{Type: one[0].Type, Object: one[0].Object}, n > 0, err
}

// Take waits for events, writes as many as there are and fit into the buffer, and returns their number, which is at least
// one. It fails like Next.
func (w *Watcher) Take(ctx context.Context, into []Event) (int, error) {
	for {
		if n, err := w.TryTake(into); n > 0 || err != nil {
			return n, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// TryTake is Take that does not wait; it returns 0 if there is nothing. It fails like TryNext.
func (w *Watcher) TryTake(into []Event) (int, error) {
	w.store.mu.RLock()
	defer w.store.mu.RUnlock()
	if w.ended != nil {
		return 0, w.ended
	}
	n := 0
	for n < len(into) {
		event, ok := w.deliver()
		if !ok {
			break
		}
		into[n] = event
		n++
	}
	return n, nil
}

// deliver returns the next event, or false if there is none.
func (w *Watcher) deliver() (Event, bool) {
	if w.beginning {
		if event, ok := w.deliverFirst(); ok {
			return event, true
		}
		w.beginning, w.first, w.at = false, nil, 0
		if w.store.beginners.Add(-1) == 0 {
			w.store.dropRendered()
		}
		return Event{Type: watch.Bookmark, Object: emptyObject(w.resource, w.revision)}, true
	}
	for w.head < len(w.queue) {
		e := w.queue[w.head]
		d := w.due[e]
		if d.step == replace {
			w.due[e] = delivery{step: add}
			return d.tombstone.event(watch.Deleted), true
		}
		w.queue[w.head] = nil
		w.head++
		w.store.due.Add(-1)
		delete(w.due, e)
		switch d.step {
		case add:
			event, last := w.added(e)
			if last != nil {
				w.put(e, delivery{step: modify, upTo: last})
			}
			return event, true
		case modify:
			if event, ok := w.modified(e, d); ok {
				return event, true
			}
		case drop:
			return d.tombstone.event(watch.Deleted), true
		}
	}
	w.queue, w.head = w.queue[:0], 0
	return Event{}, false
}

// deliverFirst returns the next of the objects that the watch begins with.
func (w *Watcher) deliverFirst() (Event, bool) {
	for w.at < len(w.first) {
		e := w.first[w.at]
		w.at++
		d, queued := w.due[e]
		if queued && d.step == nothing {
			w.due[e] = delivery{}
			continue
		}
		event, last := w.added(e)
		switch rest := (delivery{step: modify, upTo: last}); {
		case queued && last != nil:
			w.due[e] = rest
		case queued:
			w.due[e] = delivery{}
		case last != nil:
			w.put(e, rest)
		}
		return event, true
	}
	return Event{}, false
}

// added is ADDED with as much of the object as fits; last is its last member if there are more.
func (w *Watcher) added(e *entry) (event Event, last *Member) {
	if e.resource == AppliedToGroups {
		object, last := e.whole(w.name, w.store.maxEventBytes)
		return Event{Type: watch.Added, Object: object}, last
	}
	r := w.store.render(e)
	return r.event(watch.Added), r.last
}

// modified is MODIFIED with as much of what is due as fits; the rest becomes due again, behind everything else. It is false if
// there is nothing to tell.
func (w *Watcher) modified(e *entry, d delivery) (Event, bool) {
	if e.resource == NetworkPolicies {
		return w.store.render(e).event(watch.Modified), true
	}
	limit := w.store.maxEventBytes
	switch {
	case d.patch.empty() && d.upTo == nil:
		return Event{}, false
	case d.patch.empty():
		members, last := e.members.piece(w.name, d.upTo, limit)
		if last != nil {
			w.put(e, delivery{step: modify, upTo: last})
		}
		return Event{Type: watch.Modified, Object: e.patched(e.revision, members, nil)}, len(members) > 0
	}
	first, rest := d.patch.split(limit)
	if rest != nil || d.upTo != nil {
		w.put(e, delivery{step: modify, patch: rest, upTo: d.upTo})
	}
	return w.store.renderPatch(e, first).event(watch.Modified), true
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
	if w.beginning {
		w.store.beginners.Add(-1)
	}
	w.store.due.Add(int64(w.head - len(w.queue)))
	w.first, w.beginning, w.queue, w.head, w.due = nil, false, nil, 0, nil
	w.signal()
}

func (w *Watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// begin says what the watch starts with.
func (w *Watcher) begin(first []*entry, revision uint64) {
	w.first, w.at, w.beginning, w.revision = first, 0, true, revision
	w.store.beginners.Add(1)
	w.signal()
}

// awaits reports whether the object, which concerns the key and for which nothing is due, has still to be delivered for the
// first time.
func (w *Watcher) awaits(e *entry) bool {
	return w.beginning && (w.at == 0 || e.age > w.first[w.at-1].age)
}

// entered: the object has begun to concern the key. Like changed and left it fails if the receiver has fallen too far behind.
func (w *Watcher) entered(e *entry) error {
	d, ok := w.due[e]
	if d.step == drop {
		d.step = replace
	} else {
		d.step = add
	}
	return w.update(e, d, ok)
}

// changed: the object, which concerned the key before, has changed. The diff is nil for policies; otherwise p is the patch that
// was cut from it for the key.
func (w *Watcher) changed(e *entry, diff *groupDiff, p *memberPatch) error {
	d, ok := w.due[e]
	if !ok && w.awaits(e) {
		return nil
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
	return w.update(e, d, ok)
}

// left: the object has ceased to concern the key.
func (w *Watcher) left(e *entry, tombstone *rendering) error {
	d, ok := w.due[e]
	switch {
	case !ok && w.awaits(e):
		d.unseen = true
	case d.step == add:
		d.step = nothing
	case d.step == replace:
		d.step = drop
	default:
		d = delivery{step: drop, tombstone: tombstone}
	}
	return w.update(e, d, ok)
}

// update notes what is due for an object, and queues it unless it is.
func (w *Watcher) update(e *entry, d delivery, queued bool) error {
	if w.ended != nil {
		return w.ended
	}
	if queued {
		w.due[e] = d
		return nil
	}
	if len(w.queue)-w.head >= w.store.maxPending {
		w.end(ErrCutOff)
		return w.ended
	}
	w.put(e, d)
	w.signal()
	return nil
}

// put queues an object that is not queued.
func (w *Watcher) put(e *entry, d delivery) {
	if w.due == nil {
		w.due = map[*entry]delivery{}
	}
	w.due[e] = d
	if w.head > 64 && w.head > len(w.queue)/2 {
		w.queue, w.head = slices.Delete(w.queue, 0, w.head), 0
	}
	w.queue = append(w.queue, e)
	w.store.due.Add(1)
}
