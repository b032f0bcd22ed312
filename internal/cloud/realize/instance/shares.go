package instance

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// Shares divides the accounts of a cluster between its processes. Its methods may be called at any
// time, and must not block.
type Shares interface {
	// Mine reports whether an account is this process's. Holds reports whether it may write
	// there now, which may be false for moments of what is its own.
	Mine(account string) bool
	Holds(account string) bool
	// Before is what the processes that worked on the account before have left, Fellows
	// included.
	Before(account string) tenure.Record
	// Sequence is how far this process has counted, as the others can read.
	Sequence() uint64
	// Stopped names the accounts in which nothing is written, with the epoch because of which,
	// and Stop notes one; "" takes the note away.
	Stopped() map[string]string
	Stop(account, epoch string)
}

// shared are the places of a process that shares.
type shared struct {
	Shares
	inst  Process
	beats tenure.Rules
	clock clock.Clock
}

// at implements Places.
func (s shared) at(account string) standing {
	mine, holds := s.Mine(account), s.Holds(account)
	return standing{
		before: s.Before(account), known: mine, leading: holds,
		mark:    tenure.Mark{Epoch: s.inst.Epoch, Sequence: s.Sequence(), Heartbeat: s.inst.Heartbeat},
		stopped: s.Stopped(),
	}
}

// writes implements Places.
func (s shared) writes(account string) bool { return s.Holds(account) }

// rules implements Places.
func (s shared) rules() tenure.Rules { return s.beats }

// Stop implements Places. What is noted about an account stays when it goes to another process.
func (s shared) Stop(account, epoch string) {
	if s.Mine(account) {
		s.Shares.Stop(account, epoch)
	}
}

// Run implements Places.
func (s shared) Run(ctx context.Context, beat func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.clock.After(s.beats.Beat()):
			beat()
		}
	}
}

// End implements Places: the shares say themselves that this process has ended.
func (shared) End(context.Context) {}
