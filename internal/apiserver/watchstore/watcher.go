package watchstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// The reasons for which a watch ends. The receiver of ErrCutOff must watch anew.
var (
	ErrCutOff  = errors.New("the receiver fell too far behind and was cut off")
	ErrStopped = errors.New("the watch was stopped")
)

// Watcher is one watch. Next and TryNext are for one receiver at a time; Stop is for everybody.
type Watcher struct {
	store    *Store
	resource Resource
	key      string
	// wake holds a token while there may be something to deliver.
	wake chan struct{}

	// mu is taken after Store.mu.
	mu    sync.Mutex
	ended error
	// queue holds names in the order of delivery; what is due for a name stands in due. A name is in the queue at most
	// once. The bookmark comes when initial names have left the queue.
	queue    []string
	head     int
	due      map[string]*delivery
	initial  int
	bookmark bool
	revision uint64
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
	// patch is the net change of a group for modify.
	patch *memberPatch
	// tombstone is what DELETED carries for drop and replace.
	tombstone runtime.Object
}

func newWatcher(s *Store, r Resource, key string) *Watcher {
	return &Watcher{store: s, resource: r, key: key, wake: make(chan struct{}, 1), due: map[string]*delivery{}}
}

// Key returns the enforcer key that the watch is for; empty means everything.
func (w *Watcher) Key() string { return w.key }

// Resource returns the kind that the watch is for.
func (w *Watcher) Resource() Resource { return w.resource }

// Ready returns a channel that receives when TryNext may have something, for use in a select. A receiver must call
// TryNext until it reports false before it waits again.
func (w *Watcher) Ready() <-chan struct{} { return w.wake }

// Next waits for the next event. It fails with ErrCutOff, ErrStopped or the error of ctx.
func (w *Watcher) Next(ctx context.Context) (watch.Event, error) {
	for {
		if ev, ok, err := w.TryNext(); ok || err != nil {
			return ev, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return watch.Event{}, ctx.Err()
		}
	}
}

// TryNext returns the next event if there is one. It fails with ErrCutOff or ErrStopped.
func (w *Watcher) TryNext() (watch.Event, bool, error) {
	w.store.mu.RLock()
	defer w.store.mu.RUnlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended != nil {
		return watch.Event{}, false, w.ended
	}
	for {
		if w.bookmark && w.initial == 0 {
			w.bookmark = false
			return watch.Event{Type: watch.Bookmark, Object: emptyObject(w.resource, w.revision)}, true, nil
		}
		if w.head == len(w.queue) {
			w.queue, w.head = w.queue[:0], 0
			return watch.Event{}, false, nil
		}
		if ev, ok := w.deliver(); ok {
			return ev, true, nil
		}
	}
}

// deliver takes the name at the head of the queue; it reports false if nothing is due for it.
func (w *Watcher) deliver() (watch.Event, bool) {
	name := w.queue[w.head]
	d := w.due[name]
	e := w.store.tables[w.resource].entries[name]
	if d.step == replace {
		d.step = add
		return watch.Event{Type: watch.Deleted, Object: d.tombstone}, true
	}
	w.head++
	if w.initial > 0 {
		w.initial--
	}
	delete(w.due, name)
	switch d.step {
	case add:
		return watch.Event{Type: watch.Added, Object: e.whole(w.key)}, true
	case modify:
		return watch.Event{Type: watch.Modified, Object: e.modified(w.key, d.patch)}, true
	case drop:
		return watch.Event{Type: watch.Deleted, Object: d.tombstone}, true
	}
	return watch.Event{}, false
}

// Stop ends the watch. It may be called more than once.
func (w *Watcher) Stop() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.store.forget(w.store.tables[w.resource], w)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(ErrStopped)
}

func (w *Watcher) end(reason error) {
	if w.ended == nil {
		w.ended = reason
	}
	w.queue, w.due = nil, nil
	w.signal()
}

func (w *Watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// begin queues what the watch starts with.
func (w *Watcher) begin(names []string, revision uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		w.due[name] = &delivery{step: add}
	}
	w.queue, w.initial, w.bookmark, w.revision = names, len(names), true, revision
	w.signal()
}

// entered: the object has begun to concern the key.
func (w *Watcher) entered(name string) error {
	return w.update(name, func(d *delivery) {
		if d.step == drop {
			d.step = replace
		} else {
			d.step = add
		}
	})
}

// changed: the object, which concerned the key before, has changed.
func (w *Watcher) changed(name string, p *memberPatch) error {
	return w.update(name, func(d *delivery) {
		switch {
		case d.step == nothing:
			d.step, d.patch = modify, p
		case d.step == modify && p != nil:
			if d.patch = d.patch.then(p); d.patch.empty() {
				d.step = nothing
			}
		}
	})
}

// left: the object has ceased to concern the key.
func (w *Watcher) left(name string, tombstone runtime.Object) error {
	return w.update(name, func(d *delivery) {
		switch d.step {
		case add:
			d.step = nothing
		case replace:
			d.step = drop
		default:
			d.step, d.patch, d.tombstone = drop, nil, tombstone
		}
	})
}

// update changes what is due for a name. It fails if that makes the receiver fall too far behind.
func (w *Watcher) update(name string, change func(*delivery)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended != nil {
		return w.ended
	}
	d, queued := w.due[name]
	if !queued {
		if len(w.queue)-w.head-w.initial >= w.store.maxPending {
			w.end(ErrCutOff)
			return w.ended
		}
		d = &delivery{}
		w.due[name] = d
		if w.head > 64 && w.head > len(w.queue)/2 {
			w.queue, w.head = slices.Clone(w.queue[w.head:]), 0
		}
		w.queue = append(w.queue, name)
	}
	change(d)
	w.signal()
	return nil
}
