package instance

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// Places is the place of this process among the processes of its cluster, for each account. Run and
// End belong to one goroutine; the other methods may be called at any time.
type Places interface {
	// Run works until ctx ends, and calls beat whenever presences should look.
	Run(ctx context.Context, beat func())
	// End says that this process writes nothing any more. It is to be called when that is true,
	// and waits for Run.
	End(ctx context.Context)
	// Stop notes the epoch because of which the account is stopped; "" if it is not.
	Stop(account, epoch string)

	at(account string) standing
	// writes reports whether the process may write to the account, as far as its cluster is
	// concerned.
	writes(account string) bool
	// rules returns the rules of this process.
	rules() tenure.Rules
}

// Open returns the places of a process; claimPause is how long a claim of a network must have stood
// before it is read again and trusted. They do nothing before Run.
func Open(p Process, claimPause time.Duration, clk clock.Clock, log logr.Logger) (Places, error) {
	switch {
	case !tenure.ValidEpoch(p.Epoch) || p.Heartbeat <= 0 || p.Register == nil && p.Shares == nil:
		return nil, errors.New("a process needs an epoch, a heartbeat, and a register or shares")
	case p.Shares != nil:
		return shared{p.Shares, p, p.rules(claimPause), clk}, nil
	}
	return newRegistrar(p, claimPause, clk, log), nil
}

func (p Process) rules(claimPause time.Duration) tenure.Rules {
	return tenure.Rules{Epoch: p.Epoch, Heartbeat: p.Heartbeat, Pause: claimPause}
}

// put leaves a token unless there is one.
func put(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
