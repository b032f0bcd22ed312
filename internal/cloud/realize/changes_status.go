package realize

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// changesPause is how long after an event about changes of an account the next one may come. What
// happens meanwhile is told together.
const changesPause = 10 * time.Second

// untoldChanges is what was changed in an account since it was told last.
type untoldChanges struct {
	Changes
	told time.Time
	// number counts the events.
	number int
}

// noteChanges keeps what a report says was changed. It needs mu.
func (s *StatusWriter) noteChanges(r Report) {
	if r.Changes.Calls == 0 && len(r.Changes.Done) == 0 {
		return
	}
	if s.changes[r.Account] == nil {
		s.changes[r.Account] = &untoldChanges{}
	}
	s.changes[r.Account].add(r.Changes)
}

// owesChanges reports whether something is to be told of an account that no further report will
// bring about.
func (s *StatusWriter) owesChanges(r Report) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.changes[r.Account]
	return u != nil && u.Calls > 0 && !r.underWay()
}

// underWay reports whether there is more to come of what the report tells.
func (r Report) underWay() bool { return r.Err == nil && r.Result != nil && !r.Result.Plan.Empty() }

// reportChanges tells, by one event on the account, what was changed in it since the last one.
func (s *StatusWriter) reportChanges(ctx context.Context, r Report) error {
	if !s.owesChanges(r) {
		return nil
	}
	account, err := s.account(ctx, r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.changes[r.Account]
	switch {
	case account == nil: // there is nobody to tell
		delete(s.changes, r.Account)
		return nil
	case s.Clock.Since(u.told) < changesPause:
		return nil
	}
	u.number++
	// Events with equal words for what is done would be counted as one, with the text of the first.
	s.Events.Eventf(account, nil, corev1.EventTypeNormal, "Changed", fmt.Sprintf("Realize-%d", u.number), "%s", note(u.String()))
	u.Changes, u.told = Changes{}, s.Clock.Now()
	return nil
}
