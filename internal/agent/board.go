package agent

import (
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// board is what others read of an agent while it decides: how it stands, what is in force, and
// until when somebody on the host has released it. It is safe for concurrent use.
type board struct {
	mu       sync.Mutex
	released time.Time
	// heard is when something was heard that is not in force yet; zero for nothing.
	heard  time.Time
	status Status
	judge  *ruleset.Program
	// judgeSince is since when that is in force.
	judgeSince time.Time
	// logs are the rules that log, formerLogs those before the last change.
	logs, formerLogs map[string]ruleset.Origin
}

// change changes the status.
func (b *board) change(f func(s *Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.status)
}

// now is the status as it was shown last.
func (b *board) now() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// release notes until when nothing is enforced; zero for not at all.
func (b *board) release(until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released = until
}

func (b *board) releasedUntil() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.released
}

// expire ends a release whose time is over, and reports whether there was one.
func (b *board) expire(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	over := !b.released.IsZero() && !now.Before(b.released)
	if over {
		b.released = time.Time{}
	}
	return over
}

// hearAgain notes when something was heard that is not in force yet.
func (b *board) hearAgain(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.heard.IsZero() || !at.IsZero() && at.Before(b.heard) {
		b.heard = at
	}
}

// heardSince returns when the agent first heard of what it is about to enforce; the zero time if of
// nothing.
func (b *board) heardSince() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	since := b.heard
	b.heard = time.Time{}
	return since
}

// inForce returns the program in force and since when it is; nil before there is one.
func (b *board) inForce() (*ruleset.Program, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.judge, b.judgeSince
}

// loggedRule returns the rule of a LogID that is in force, or was before the last change.
func (b *board) loggedRule(id string) (ruleset.Origin, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, list := range []map[string]ruleset.Origin{b.logs, b.formerLogs} {
		if o, ok := list[id]; ok {
			return o, true
		}
	}
	return ruleset.Origin{}, false
}
