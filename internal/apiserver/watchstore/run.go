package watchstore

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/watch"
)

// run is the list of objects that many watches begin with, as the events that they are given: made
// once, many at a time. There is none for applied-to groups, of which each key is given its own
// members.
type run struct {
	// pieces are made when a receiver comes to them, by one at a time: a thousand come to the same
	// piece at once.
	pieces []atomic.Pointer[piece]
	making sync.Mutex
}

// piece is a part of a run as it is at a revision. Without events it has an object that does not
// fit into one.
type piece struct {
	revision uint64
	events   []Event
}

const (
	// pieceLength is the number of objects in a piece. A thousand receivers take turns at the lock
	// of the store, once for each piece.
	pieceLength = 256
	// shortRun is the number of objects for which there is no run.
	shortRun = 8
)

func newRun(objects int) *run {
	return &run{pieces: make([]atomic.Pointer[piece], (objects+pieceLength-1)/pieceLength)}
}

// takeRun returns at most that many of the next events of the watch's initial list, if all watches
// with that list get the same events.
func (w *Watcher) takeRun(most int) []Event {
	if w.at == len(w.first) {
		return nil
	}
	events := w.store.pieceOf(w.run, w.first, w.at/pieceLength)
	events = events[min(w.at%pieceLength, len(events)):]
	events = events[:min(most, len(events)):len(events)]
	w.at += len(events)
	return events
}

// pieceOf returns the events of a piece. It needs the store locked for reading.
func (s *Store) pieceOf(r *run, first []*entry, number int) []Event {
	if p := r.pieces[number].Load(); p != nil && p.revision == s.revision {
		return p.events
	}
	r.making.Lock()
	defer r.making.Unlock()
	if p := r.pieces[number].Load(); p != nil && p.revision == s.revision {
		return p.events
	}
	from := number * pieceLength
	part := first[from:min(from+pieceLength, len(first))]
	p := &piece{revision: s.revision, events: make([]Event, len(part))}
	for i, e := range part {
		event, last := s.shared(watch.Added, e)
		if last != nil {
			p.events = nil
			break
		}
		if r, is := event.body.(*rendering); is && !r.few {
			r.object(&event.header) // now, and not by everybody at once
			event.body = r.ready()
		}
		p.events[i] = event
	}
	r.pieces[number].Store(p)
	s.rendering.Lock()
	defer s.rendering.Unlock()
	if len(s.runs) == 0 || s.runs[len(s.runs)-1] != r {
		s.runs = append(s.runs, r)
	}
	return p.events
}

// forget gives up the pieces.
func (r *run) forget() {
	for i := range r.pieces {
		r.pieces[i].Store(nil)
	}
}
