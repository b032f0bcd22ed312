package tenure

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// mostLine bounds the instances that a record remembers. A mark of an older one counts as that of a
// stranger.
const mostLine = 32

// Record is what the instances of one cluster leave to one another in the cluster's own API. It is
// written before the cloud is: no mark of an instance in it is ever ahead of it.
type Record struct {
	// Line are the instances that led the cluster, the latest first, each as far as it had counted.
	Line []Mark
	// Ended is true if the latest one has ended in order: it writes nothing any more.
	Ended bool
	// Fellows are the processes that share the cluster's accounts with this one, each as far as it
	// had counted, as was seen of them: what they mark is marked for all of them. They are not
	// written.
	Fellows map[string]uint64
	// Stopped names the accounts in which this cluster's instances write nothing, with the epoch of
	// the instance that made them stop, until somebody tells them to take over.
	Stopped map[string]string
}

// The keys of a record's data.
const (
	keyLine    = "instances"
	keyEnded   = "ended"
	keyStopped = "stopped"
)

// Data is the record in the form of a ConfigMap.
func (r Record) Data() map[string]string {
	var line, stopped strings.Builder
	for _, m := range r.Line {
		line.WriteString(m.String() + "\n")
	}
	for _, account := range slices.Sorted(maps.Keys(r.Stopped)) {
		stopped.WriteString(account + " " + r.Stopped[account] + "\n")
	}
	out := map[string]string{keyLine: line.String(), keyEnded: "false"}
	if r.Ended {
		out[keyEnded] = "true"
	}
	if stopped.Len() > 0 {
		out[keyStopped] = stopped.String()
	}
	return out
}

// ParseRecord reads a record. What cannot be read in it is left out: an unknown instance counts as
// another one, which is slow and safe.
func ParseRecord(data map[string]string) Record {
	var r Record
	for text := range strings.Lines(data[keyLine]) {
		if m, ok := ParseMark(text); ok && len(r.Line) < mostLine {
			r.Line = append(r.Line, m)
		}
	}
	r.Ended = data[keyEnded] == "true"
	for text := range strings.Lines(data[keyStopped]) {
		words := strings.Fields(text)
		if len(words) == 2 && ValidEpoch(words[1]) {
			if r.Stopped == nil {
				r.Stopped = map[string]string{}
			}
			r.Stopped[words[0]] = words[1]
		}
	}
	return r
}

// Led returns the record with m as the latest of its line, and not ended.
func (r Record) Led(m Mark) Record {
	line := []Mark{m}
	for _, old := range r.Line {
		if old.Epoch != m.Epoch && len(line) < mostLine {
			line = append(line, old)
		}
	}
	return Record{Line: line, Stopped: r.Stopped}
}

// Follows reports whether the record is that of an instance which came after the one with this
// epoch, rather than one of its own or an older state that somebody has brought back.
func (r Record) Follows(epoch string) bool {
	i := slices.IndexFunc(r.Line, func(m Mark) bool { return m.Epoch == epoch })
	return i > 0
}

// known says what a record knows of a mark: whether it is one that an instance of the line can have
// left, and whether that instance may still be at work.
func (r Record) known(m Mark) (left, maybeAlive bool) {
	i := slices.IndexFunc(r.Line, func(l Mark) bool { return l.Epoch == m.Epoch })
	if i < 0 || m.Sequence > r.Line[i].Sequence {
		return false, false
	}
	return true, i == 0 && !r.Ended
}

// fellow reports whether a mark is that of a process which shares the cluster's accounts. In a copy
// of the cluster the same processes do not move.
func (r Record) fellow(m Mark) bool {
	counted, known := r.Fellows[m.Epoch]
	return known && m.Sequence <= counted
}

// Candidacy decides when an instance may lead its cluster: when the last one has ended in order, or
// has not been heard of for a heartbeat. With leader election there is hardly ever somebody else;
// without it, this is what keeps a second one out.
type Candidacy struct {
	Rules Rules

	last  Mark
	since time.Time
}

// Saw takes a reading of the record, which began at from and ended at to, and reports whether the
// instance may lead.
func (c *Candidacy) Saw(r Record, from, to time.Time) bool {
	if len(r.Line) == 0 || r.Ended || r.Line[0].Epoch == c.Rules.Epoch {
		return true
	}
	if m := r.Line[0]; c.since.IsZero() || m != c.last {
		c.last, c.since = m, to
		return false
	}
	return from.Sub(c.since) >= c.Rules.longer(c.last)
}

// Next returns when a reading may make it lead; zero if nothing is being waited for.
func (c *Candidacy) Next() time.Time {
	if c.since.IsZero() {
		return time.Time{}
	}
	return c.since.Add(c.Rules.longer(c.last))
}
