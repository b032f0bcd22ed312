package audit

import (
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
)

const (
	// countBeats is how often it is reported how many heartbeats there were.
	countBeats = time.Hour
	// maxPulses bounds how many kinds of heartbeats are known. What is beyond has lines as any
	// other call.
	maxPulses = 10_000
)

// A heartbeat is a call that does nothing but write the mark of a running instance,
// cloud.TagInstance, on networks, again and again. The record has the first one of an instance on
// the same networks, each that ends otherwise than the one before, and every hour how many were
// left out. Nothing else is ever left out.

// pulse is the heartbeats of one instance on the same networks.
type pulse struct {
	// told is when a line was written last, and outcome what that line says.
	told    time.Time
	outcome beatOutcome
	// left are the attempts since, all of them with that outcome, and last the line that the last
	// of them would have had.
	left int
	last line
}

// beatOutcome is what the outcomes of heartbeats have in common that need one line.
type beatOutcome struct{ outcome, class, code string }

func (l line) beatOutcome() beatOutcome { return beatOutcome{l.Outcome, l.Class, l.Code} }

// beatOf names what the heartbeats are that a call belongs to; empty if it is none.
func beatOf(c cloud.Call) string {
	if c.Name != "CreateTags" || len(c.Objects) == 0 || len(c.After.Tags) != len(c.Objects) || len(c.Policies) > 0 {
		return ""
	}
	epoch := ""
	for _, id := range c.Objects {
		mark, marked := c.After.Tags[id][cloud.TagInstance]
		if !marked || len(c.After.Tags[id]) != 1 {
			return ""
		}
		epoch, _, _ = strings.Cut(mark, " ")
	}
	return strings.Join(slices.Concat([]string{c.Account, c.Region, epoch}, slices.Sorted(slices.Values(c.Objects))), "\x00")
}

// quiet reports whether a heartbeat may turn out to need no line.
func (r *Record) quiet(beat string, now time.Time) bool {
	if beat == "" {
		return false
	}
	r.beating.Lock()
	defer r.beating.Unlock()
	p := r.pulses[beat]
	return p != nil && now.Sub(p.told) < countBeats
}

// leftOut counts a heartbeat that ended as the one before and needs no line; else it returns how
// many were left out before it.
func (r *Record) leftOut(beat string, l line, quiet bool) (out bool, before int) {
	r.beating.Lock()
	defer r.beating.Unlock()
	p := r.pulses[beat]
	if p == nil {
		r.forget(l.Time)
		if len(r.pulses) >= maxPulses {
			return false, 0
		}
		p = &pulse{}
		if r.pulses == nil {
			r.pulses = map[string]*pulse{}
		}
		r.pulses[beat] = p
	} else if quiet && p.outcome == l.beatOutcome() {
		p.left, p.last = p.left+1, l
		return true, 0
	}
	before = p.left
	*p = pulse{told: l.Time, outcome: l.beatOutcome()}
	return false, before
}

// forget drops the heartbeats that have ended: another instance, or other networks, have come in
// their place. What was left out of them is reported. The caller holds beating.
func (r *Record) forget(now time.Time) {
	for beat, p := range r.pulses {
		if now.Sub(p.told) > 2*countBeats {
			r.tellLeft(p)
			delete(r.pulses, beat)
		}
	}
}

// tellLeft writes how many heartbeats were left out, in the line of the last of them.
func (r *Record) tellLeft(p *pulse) {
	if p.left == 0 {
		return
	}
	l := p.last
	l.Beats = p.left - 1
	r.writeAndLog(l)
	p.left = 0
}

// tellAll does that for all.
func (r *Record) tellAll() {
	r.beating.Lock()
	defer r.beating.Unlock()
	for _, p := range r.pulses {
		r.tellLeft(p)
	}
}
