package live

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

const (
	// Standing is for how long a disagreement stands after it was seen last.
	Standing = 10 * time.Minute
	// maxDiffering bounds the disagreements that are known at once, maxDifferingOfOne the
	// disagreements of one enforcer.
	maxDiffering      = 2000
	maxDifferingOfOne = 50
)

// Disagreement is traffic that is not as one rule says, at one enforcer. What may be a connection
// that is older than the rule is none.
type Disagreement struct {
	Enforcer string
	// Differs is Leaks: connections passed that the rule drops; or Cut: the cloud dropped what the
	// rule lets pass.
	Differs string
	Cause   analysis.TrafficCause
	// First and Last are when it was reported.
	First, Last time.Time
	Connections int64
	// Client, Server, Protocol and Port are taken from the first connection, so that the
	// description of a disagreement stays the same as long as it lasts.
	Client, Server netip.Addr
	Protocol       uint8
	Port           uint16
}

// dispute is what tells disagreements apart.
type dispute struct {
	enforcer, differs string
	cause             analysis.TrafficCause
}

// disagreements are those that stand. The lock of the Store is for them, too.
type disagreements struct {
	known map[dispute]*Disagreement
	of    map[string]int
	swept time.Time
}

// note takes in an entry that differs. It is false if there is no room for it.
func (d *disagreements) note(e *Entry, now time.Time) bool {
	k := dispute{e.Enforcer, e.Differs, e.Cause}
	x := d.known[k]
	if x == nil {
		if now.Sub(d.swept) >= time.Second { // a flood does not make every call sweep
			d.expire(now)
		}
		if len(d.known) >= maxDiffering || d.of[e.Enforcer] >= maxDifferingOfOne {
			return false
		}
		if d.known == nil {
			d.known, d.of = map[dispute]*Disagreement{}, map[string]int{}
		}
		x = &Disagreement{Enforcer: e.Enforcer, Differs: e.Differs, Cause: e.Cause, First: now, Client: e.Client, Server: e.Server, Protocol: e.Protocol, Port: e.Port}
		d.known[k] = x
		d.of[e.Enforcer]++
	}
	x.Last = now
	x.Connections += e.Connections
	return true
}

// expire forgets what was not seen for long.
func (d *disagreements) expire(now time.Time) {
	d.swept = now
	for k, x := range d.known {
		if now.Sub(x.Last) <= Standing {
			continue
		}
		delete(d.known, k)
		if d.of[k.enforcer]--; d.of[k.enforcer] <= 0 {
			delete(d.of, k.enforcer)
		}
	}
}

// Disagreements returns those that stand, the oldest first.
func (s *Store) Disagreements(now time.Time) []Disagreement {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.differing.expire(now)
	out := make([]Disagreement, 0, len(s.differing.known))
	for _, x := range s.differing.known {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b Disagreement) int {
		return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.Enforcer, b.Enforcer), cmp.Compare(a.Differs, b.Differs), cmp.Compare(a.Cause.UID, b.Cause.UID),
			cmp.Compare(a.Cause.Cause, b.Cause.Cause), cmp.Compare(a.Cause.Rule, b.Cause.Rule), cmp.Compare(a.Cause.Index, b.Cause.Index))
	})
	return out
}

// alarms reports whether a word says that traffic is not as rules say, for certain.
func alarms(differs string) bool { return differs == "Leaks" || differs == "Cut" }
