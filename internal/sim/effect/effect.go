// Package effect tells which edits of a simulated cloud are in force where packets are decided. A
// cloud accepts an edit at once; each network interface sees it some time later, and not in the
// order of the calls.
//
// An edit is what one call changes of one whole: of the rules of a group, of the groups of an
// interface, of the entries of a prefix list. Each viewer, which is an interface, sees all of it or
// nothing. What comes into being together with its whole is no edit and is in force at once.
//
// A Log is a pure function of its edits, its Delay and the time: nothing runs in the background. It
// has no lock; its owner guards Record and Set as writes, and the rest as reads.
package effect

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"time"
)

// MaxDelay is the highest bound that a Delay may have.
const MaxDelay = time.Hour

// Delay says how long edits take: each one, for each viewer, a time of its own from 0 to Bound. The
// zero Delay puts everything into force at once.
type Delay struct {
	Bound time.Duration
	Seed  uint64
}

// Check refuses bounds that no cloud has.
func (d Delay) Check() error {
	if d.Bound < 0 || d.Bound > MaxDelay {
		return fmt.Errorf("the effect delay is %s, expected 0 to %s", d.Bound, MaxDelay)
	}
	return nil
}

type delayText struct {
	Bound string `json:"bound"`
	Seed  uint64 `json:"seed,omitempty"`
}

// MarshalJSON spells the bound as a person does, such as "5s".
func (d Delay) MarshalJSON() ([]byte, error) {
	return json.Marshal(delayText{d.Bound.String(), d.Seed})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (d *Delay) UnmarshalJSON(text []byte) error {
	var t delayText
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	bound, err := time.ParseDuration(t.Bound)
	if err != nil {
		return fmt.Errorf("the effect delay: %w", err)
	}
	*d = Delay{bound, t.Seed}
	return d.Check()
}

// of is how long a viewer waits for an edit.
func (d Delay) of(serial uint64, viewer string) time.Duration {
	h := fnv.New64a()
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], d.Seed)
	binary.LittleEndian.PutUint64(b[8:], serial)
	h.Write(b[:])
	h.Write([]byte(viewer))
	x := h.Sum64() // numbers that follow one another must not give delays that do
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return time.Duration((x ^ x>>31) % uint64(d.Bound+1))
}

// Parts are the parts of a whole by name: its rules, groups or entries.
type Parts map[string]any

// change is what an edit makes of one part; nil means that the part is not there.
type change struct{ before, after any }

type edit struct {
	serial  uint64
	at      time.Time
	changes map[string]change
}

// Log holds the edits that may not be in force everywhere yet.
type Log struct {
	delay  Delay
	clock  func() time.Time
	serial uint64
	edits  map[string][]edit // by whole, in the order of the calls
}

// New returns an empty log.
func New(d Delay, clock func() time.Time) *Log {
	return &Log{delay: d, clock: clock, edits: map[string][]edit{}}
}

// Delay returns the delay of edits from now on.
func (l *Log) Delay() Delay { return l.delay }

// Set changes the delay. What is on its way is in force with that.
func (l *Log) Set(d Delay) {
	l.delay = d
	clear(l.edits)
}

// Keeps reports whether edits take time, so that they have to be recorded.
func (l *Log) Keeps() bool { return l != nil && l.delay.Bound > 0 }

// Record notes what a call has made of one whole; after is nil if the whole has gone.
func (l *Log) Record(whole string, before, after Parts) {
	if !l.Keeps() || before == nil {
		return
	}
	changes := map[string]change{}
	for name, v := range before {
		if now := after[name]; !reflect.DeepEqual(v, now) {
			changes[name] = change{v, now}
		}
	}
	for name, v := range after {
		if _, known := before[name]; !known {
			changes[name] = change{nil, v}
		}
	}
	if len(changes) == 0 {
		return
	}
	now := l.clock()
	maps.DeleteFunc(l.edits, func(_ string, all []edit) bool { return !l.underWay(all[len(all)-1], now) })
	l.serial++
	l.edits[whole] = append(l.edits[whole], edit{l.serial, now, changes})
}

// underWay reports whether an edit may not have come to everybody yet.
func (l *Log) underWay(e edit, now time.Time) bool { return e.at.Add(l.delay.Bound).After(now) }

// Pending reports whether a viewer may see something else of a whole than there is.
func (l *Log) Pending(whole string) bool {
	if !l.Keeps() {
		return false
	}
	all := l.edits[whole]
	return len(all) > 0 && l.underWay(all[len(all)-1], l.clock())
}

// Wholes are the objects of which a viewer may see something else than there is, by name.
func (l *Log) Wholes() []string {
	if !l.Keeps() {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(l.edits)), func(whole string) bool { return !l.Pending(whole) })
}

// Seen returns the parts of a whole as a viewer sees them. Of several edits of one part, the latest
// that has come to the viewer counts: an earlier one that comes after it changes nothing.
func (l *Log) Seen(viewer, whole string, current Parts) Parts {
	if !l.Pending(whole) {
		return current
	}
	now := l.clock()
	out, decided := maps.Clone(current), map[string]bool{}
	if out == nil {
		out = Parts{}
	}
	for _, e := range slices.Backward(l.edits[whole]) {
		arrived := !e.at.Add(l.delay.of(e.serial, viewer)).After(now)
		for name, c := range e.changes {
			if decided[name] {
				continue
			}
			v := c.before
			if arrived {
				v, decided[name] = c.after, true
			}
			if out[name] = v; v == nil {
				delete(out, name)
			}
		}
	}
	return out
}

// PartsOf makes parts of a list.
func PartsOf[T any](list []T, name func(*T) string) Parts {
	out := make(Parts, len(list))
	for i := range list {
		out[name(&list[i])] = list[i]
	}
	return out
}

// View is Seen for a list: the result is in the order of names unless nothing is on its way.
func View[T any](l *Log, viewer, whole string, current []T, name func(*T) string) []T {
	if !l.Pending(whole) {
		return current
	}
	parts := l.Seen(viewer, whole, PartsOf(current, name))
	out := make([]T, 0, len(parts))
	for _, k := range slices.Sorted(maps.Keys(parts)) {
		out = append(out, parts[k].(T))
	}
	return out
}
