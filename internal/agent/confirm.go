package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/platform/errtext"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// confirmWithin is how long a change has to prove that the host is still well, unless Options
	// say so.
	confirmWithin = time.Minute
	// probeInterval is how often the host is probed when nothing has changed, probeSoon how often
	// after a change.
	probeInterval = 10 * time.Second
	probeSoon     = time.Second
	// probeLimit bounds one probe.
	probeLimit = 5 * time.Second
)

// trial is a change that has yet to prove that the probes of the owner succeed with it.
type trial struct {
	// former is what was in force when they did.
	former   enforcer.Computed
	deadline time.Time
	// reverted tells that former is in force again, and blamed which versions of policies are not
	// tried again.
	reverted bool
	blamed   map[string]int64
	// proven tells that the probes succeeded with former in force again.
	proven bool
	// because is what the probes failed with.
	because string
}

// probing is what is known of the probes.
type probing struct {
	results chan probed
	running bool
	begun   time.Time
	// well tells that the last probe succeeded, asked that there was one.
	well, asked bool
	// change counts the changes of what is in force. A probe that began before the last one says
	// nothing about it.
	change int
	trial  *trial
}

type probed struct {
	err    error
	change int
}

// held reports whether a change was taken back, and nobody has changed a policy since.
func (a *Agent) held() bool {
	t := a.probing.trial
	return t != nil && t.reverted && a.wanted != nil && maps.Equal(t.blamed, generations(a.wanted))
}

func generations(c *enforcer.Computed) map[string]int64 {
	out := map[string]int64{}
	for _, p := range c.Policies {
		out[p.Name] = p.Generation
	}
	return out
}

// changed begins a trial of what has come into force, if all was well before. Changes that follow
// one another are one trial.
func (a *Agent) changed(former *enforcer.Computed) {
	p := &a.probing
	p.change++
	if a.options.Probe == nil || former == nil || a.held() {
		return
	}
	switch {
	case p.trial != nil:
		p.trial.reverted, p.trial.proven = false, false
	case p.well || !p.asked:
		p.trial = &trial{former: *former}
	default: // it cannot be to blame
		return
	}
	p.trial.deadline = a.options.Clock.Now().Add(a.options.ConfirmWithin)
}

// probe asks the probes when it is time, and takes back a change that is not confirmed in time. If
// that does not help, the change was not to blame and comes into force again.
func (a *Agent) probe(ctx context.Context) {
	if a.options.Probe == nil || a.force.program == nil {
		return
	}
	p, now := &a.probing, a.options.Clock.Now()
	interval := probeInterval
	if p.trial != nil {
		interval = probeSoon
	}
	if !p.running && now.Sub(p.begun) >= interval {
		p.running, p.begun = true, now
		change, limit := p.change, min(probeLimit, a.options.ConfirmWithin/4)
		go func() {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			p.results <- probed{recovered.Call(func() error { return a.options.Probe(ctx) }), change}
		}()
	}
	if t := p.trial; t != nil && !now.Before(t.deadline) {
		if t.reverted {
			if !t.proven {
				a.options.Log.Info("The probes fail with what was in force before, too; what policies say now is enforced again")
				p.trial, a.dirty, a.tried = nil, true, 0
			}
			return
		}
		t.reverted, t.blamed, t.deadline = true, generations(a.wanted), now.Add(a.options.ConfirmWithin)
		t.because, a.dirty = cmp.Or(a.Status().Faults.Probe, "no probe has answered"), true
		a.tried = 0
		a.options.Log.Error(errors.New(t.because), "The probes fail since policies have changed, so what was in force before is enforced again until a policy changes")
	}
}

// answered takes in the result of a probe.
func (a *Agent) answered(r probed) {
	p := &a.probing
	p.running = false
	a.board.change(func(s *Status) { s.Faults.Probe = errtext.Of(r.err) })
	if r.change != p.change {
		return
	}
	p.well, p.asked = r.err == nil, true
	switch {
	case !p.well || p.trial == nil:
	case p.trial.reverted:
		p.trial.proven = true
	default:
		p.trial = nil
	}
}

// ParseProbe reads what the owner wants to be reachable from the host: "tcp HOST:PORT", or the URL
// of a page that answers with success.
func ParseProbe(text string) (func(ctx context.Context) error, error) {
	words := strings.Fields(text)
	switch {
	case len(words) == 2 && words[0] == "tcp":
		if _, port, err := net.SplitHostPort(words[1]); err == nil && port != "" {
			return func(ctx context.Context) error {
				c, err := (&net.Dialer{}).DialContext(ctx, "tcp", words[1])
				if err != nil {
					return fmt.Errorf("probe %q: %w", text, err)
				}
				return c.Close()
			}, nil
		}
	case len(words) == 1:
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			break
		}
		return func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, text, nil)
			if err != nil {
				return fmt.Errorf("probe %q: %w", text, err)
			}
			// A connection of its own each time: one that is established proves nothing.
			transport := &http.Transport{DisableKeepAlives: true}
			answer, err := (&http.Client{Transport: transport}).Do(request)
			if err != nil {
				return fmt.Errorf("probe %q: %w", text, err)
			}
			if err := answer.Body.Close(); err != nil || answer.StatusCode >= http.StatusBadRequest {
				return fmt.Errorf("probe %q: %s", text, answer.Status)
			}
			return nil
		}, nil
	}
	return nil, fmt.Errorf("probe %q: want \"tcp HOST:PORT\", or a URL of http or https", text)
}

// Probes joins probes: all must succeed. It is nil for none.
func Probes(list ...func(ctx context.Context) error) func(ctx context.Context) error {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	return func(ctx context.Context) error {
		for _, probe := range list {
			if err := probe(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}
