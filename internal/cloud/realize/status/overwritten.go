package status

import (
	"hash/maphash"
	"maps"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// This file puts right what somebody writes over statuses: the next report may be far away if
// nothing happens.

// correctPause is how long a status stays wrong, so that another writer in a loop does not keep us
// busy.
const correctPause = time.Second

// Changed reports a VirtualMachine, CloudNativeService or NetworkInterface as it is now. If it does
// not show what was written into its status, the last report of its account is written again. It
// may be called at any time and by any watcher of the objects; it does not block.
func (s *Writer) Changed(obj client.Object) {
	on, is := subjectOf(obj)
	if !is {
		return
	}
	ref, sum := on.ref(), s.sum(on)
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, a := range s.accounts {
		if want, known := a.shown[ref]; known && want != sum && !a.spoilt {
			a.spoilt = true
			s.queue.Add(key)
		}
	}
}

// sum identifies the part of a status that we own.
func (s *Writer) sum(on subject) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	add := func(parts ...string) {
		for _, part := range parts {
			_, _ = h.WriteString(part)
			_ = h.WriteByte(0)
		}
	}
	add(*on.summary)
	for _, p := range *on.policies {
		add(p.Kind, p.Namespace, p.Name, string(p.UID), strconv.FormatInt(p.Generation, 10), string(p.Phase), p.Message)
	}
	for _, kind := range outcomeKinds {
		if c := meta.FindStatusCondition(*on.conditions, kind); c != nil {
			add(kind, string(c.Status), c.Reason, c.Message)
		}
	}
	return h.Sum64()
}

// shows notes what an object shows from now on. It is called before that is written, so that the
// news of it finds it noted.
func (s *Writer) shows(a *accountStatus, on subject) {
	sum := s.sum(on)
	s.mu.Lock()
	defer s.mu.Unlock()
	a.shown[on.ref()] = sum
}

// look begins to bring a report to the objects; what was found to be overwritten before is put
// right by that.
func (s *Writer) look(a *accountStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.spoilt = false
}

// looked ends it: other objects are none of the account any more.
func (s *Writer) looked(a *accountStatus, r Report, seen map[plan.EntityRef]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(a.shown, func(ref plan.EntityRef, _ uint64) bool { return !seen[ref] })
	a.last = &r
	if len(seen) == 0 {
		a.last = nil
	}
}
