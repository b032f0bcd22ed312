package agent

import (
	"context"
	"time"
)

// Isolated tells of ingress and egress, in this order, whether what no rule allows is dropped.
type Isolated [2]bool

const (
	// heedAgain is how often it is asked whether the cloud still lets in what we keep out, and
	// heedLimit bounds one question.
	heedAgain, heedLimit = time.Second, 5 * time.Second
	// heedRelease is how long a release waits for the cloud at most: it is for emergencies.
	heedRelease = time.Minute
)

// heed is what is known of the cloud around the host: in the directions in which the agent
// isolates, its groups may let everything in (decision 0021).
type heed struct {
	asked time.Time
	// told tells that this process has told the controller about itself. To a host that never could
	// nothing is left.
	told bool
	// since is when a release began to wait; zero while none does.
	since time.Time
}

func (s *Status) isolates() Isolated {
	return Isolated{s.Kernel.IsolatedIngress, s.Kernel.IsolatedEgress}
}

// isolated returns what is isolated now. What a former process has left in the kernel isolates what
// was kept of it, or perhaps everything if nothing was.
func (a *Agent) isolated(wanted Isolated) Isolated {
	switch {
	case a.force.program != nil:
		s := a.Status()
		return s.isolates()
	case a.loaded:
		return wanted
	}
	return Isolated{true, true}
}

// mayOpen reports whether a program may come into force that isolates these directions, where was
// are isolated. It may not while the cloud lets everything in where the isolation would end, nor
// while that is not known: then all stays as it is, and it is asked again.
func (a *Agent) mayOpen(ctx context.Context, was, isolates Isolated) bool {
	opens := was[0] && !isolates[0] || was[1] && !isolates[1]
	if a.options.Yield == nil || !opens {
		a.heed.since = time.Time{}
		a.waitsForCloud("")
		return true
	}
	now := a.options.Clock.Now()
	if !a.board.releasedUntil().IsZero() {
		if a.heed.since.IsZero() {
			a.heed.since = now
		}
		if now.Sub(a.heed.since) >= heedRelease {
			a.options.Log.Info("The host is released although the cloud may let in everything", "waited", heedRelease.String())
			a.heed.since = time.Time{}
			a.waitsForCloud("")
			return true
		}
	}
	if now.Sub(a.heed.asked) < heedAgain || a.telling.running { // what is being told is older
		return false
	}
	a.heed.asked = now
	ctx, cancel := context.WithTimeout(ctx, heedLimit)
	defer cancel()
	yielded, err := a.options.Yield(ctx, isolates)
	switch {
	case err != nil && a.heed.told:
		a.waitsForCloud("it cannot be agreed with the controller, so what was isolated stays so: " + err.Error())
		return false
	case err == nil && !yielded:
		a.waitsForCloud("the cloud lets in what is kept out here only, so what was isolated stays so until it guards the host again")
		return false
	}
	a.heed.since = time.Time{}
	a.waitsForCloud("")
	return true
}

func (a *Agent) waitsForCloud(why string) {
	a.board.change(func(s *Status) {
		if s.WaitsForCloud == "" && why != "" {
			a.options.Log.Info("Waiting for the cloud", "reason", why)
		}
		s.WaitsForCloud = why
	})
}
