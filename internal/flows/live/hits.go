package live

import (
	"time"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// maxHits bounds the rules of an answer.
const maxHits = 50_000

// RuleKey names a rule, or with index -1 all rules of a Kubernetes NetworkPolicy in a direction,
// which enforcers do not tell apart.
type RuleKey struct {
	Type, Namespace, Name, Direction, Rule string
	Index                                  int32
}

// Hit is how often a rule decided, and when last.
type Hit struct {
	Connections int64
	Last        time.Time
}

// Hits is what rules have decided.
type Hits struct {
	Rules map[RuleKey]Hit
	// Since is from when on flows are known, and Enforcers how many have reported any within the
	// last hour, or of whose reports the caller may see any.
	Since     time.Time
	Enforcers int
	// More is how many entries were left out, because they are of too many rules.
	More int64
}

// Hits returns what rules have decided since a time, of what the caller may see. What rules do not
// do though they should counts for none.
func (s *Store) Hits(since time.Time, sight Sight, past Past, now time.Time) (*Hits, error) {
	out, heard := &Hits{Rules: map[RuleKey]Hit{}}, map[string]bool{}
	add := func(e *Entry) bool {
		if !sight.All && sight.sees(e) {
			heard[e.Enforcer] = true
		}
		if e.Connections > 0 && e.Differs == "" && !e.Last.Before(since) && sight.sees(e) {
			out.add(&e.Cause, e)
			out.add(&e.Before, e)
		}
		return true
	}
	oldest := s.decided(out, since, past != nil, sight, now, add)
	if !sight.All {
		out.Enforcers = len(heard)
	}
	if past != nil && since.Before(oldest) {
		take, begin := sight.begins(add)
		from, err := past.ScanDecided(since.Truncate(time.Minute), oldest, take)
		if err != nil {
			return nil, err
		}
		if from = begin(from); !from.IsZero() && from.Before(out.Since) {
			out.Since = from
		}
	}
	if out.Since.Before(since) {
		out.Since = since
	}
	return out, nil
}

func (s *Store) decided(out *Hits, since time.Time, minutes bool, caller Sight, now time.Time, add func(*Entry) bool) (oldest time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	out.Since, out.Enforcers = s.known(caller, now), len(s.heard)
	return s.each(since, minutes, func(w *window, k key, r *row) { add(w.entry(k, r)) })
}

// add counts an entry for a rule.
func (h *Hits) add(c *analysis.TrafficCause, e *Entry) {
	if c.Cause != "Policy" {
		return
	}
	k := RuleKey{c.Type, c.Namespace, c.Name, c.Direction, c.Rule, c.Index}
	if k.Direction == "" && e.Direction != "Through" { // of a former version
		k.Direction = e.Direction
	}
	x, known := h.Rules[k]
	if !known && len(h.Rules) >= maxHits {
		h.More++
		return
	}
	x.Connections += e.Connections
	if e.Last.After(x.Last) {
		x.Last = e.Last
	}
	h.Rules[k] = x
}
