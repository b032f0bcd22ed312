package tenure

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// stillBeats is for how many heartbeats a stranger's mark must stand still before the stranger
// counts as gone.
const stillBeats = 3

// Network names a network of an account.
type Network struct{ Region, ID string }

// State is what a Tenure has come to.
type State string

// The states.
const (
	// Sole: no other instance writes. This one may write where its readings are fresh.
	Sole State = "Sole"
	// Waiting: there is a mark of another instance that may be alive, and it is being watched.
	// Nothing may be written.
	Waiting State = "Waiting"
	// Stopped: somebody else lives, or lived when this cluster last looked. Nothing may be written
	// until somebody says TakeOver.
	Stopped State = "Stopped"
)

// Tenure is one account's answer to whether this instance may write. Make it with New.
type Tenure struct {
	rules  Rules
	record Record
	sights map[Network]*sight
	// begun is, by region, when the last reading began.
	begun map[string]time.Time
	// stopped is the epoch because of which nothing is written; empty if there is none.
	stopped string
	// taking is the epoch that is being taken over from, until all networks are marked, or at the
	// latest until then.
	taking string
	until  time.Time
	// succeeded is the stranger whose marks were taken over because he was gone; for people.
	succeeded string
}

// sight is what is known of one network.
type sight struct {
	value string
	// since is when the first of the readings in a row that showed value had ended, and moved
	// whether an earlier one showed another.
	since time.Time
	moved bool
	// holder is the kind of instance that holds the network, and other the epoch of the mark if it
	// is not ours.
	holder holder
	other  string
	// marked is when our first mark in a row had been written, and stand how long it must have
	// stood then.
	marked    time.Time
	stand     time.Duration
	confirmed bool
	// refused is true if the cloud does not let us mark the network.
	refused bool
}

// holder is the kind of instance that holds a network.
type holder int

const (
	nobody holder = iota
	we
	// somebody may be alive.
	somebody
)

// New returns the tenure of an account. stopped is the epoch in the cluster's record for the
// account, if any.
func New(rules Rules, record Record, stopped string) *Tenure {
	return &Tenure{rules: rules, record: record, stopped: stopped, sights: map[Network]*sight{}, begun: map[string]time.Time{}}
}

// Know tells what the cluster's record said before this instance led it.
func (t *Tenure) Know(r Record) { t.record = r }

// Read takes the marks on the networks of a region that the cluster claims, by network; "" means
// none. The reading began at from and ended at to.
func (t *Tenure) Read(region string, from, to time.Time, marks map[string]string) {
	t.begun[region] = from
	if from.After(t.until) {
		t.taking = ""
	}
	maps.DeleteFunc(t.sights, func(n Network, _ *sight) bool {
		_, there := marks[n.ID]
		return n.Region == region && !there
	})
	for _, id := range slices.Sorted(maps.Keys(marks)) {
		n := Network{region, id}
		s := t.sights[n]
		switch {
		case s == nil:
			s = &sight{value: marks[id], since: to, stand: t.rules.Pause}
			t.sights[n] = s
		case s.value != marks[id]:
			s.value, s.since, s.moved = marks[id], to, true
		}
		t.judge(s, from)
	}
	if t.taking != "" && t.allOurs() {
		t.taking = ""
	}
}

// judge decides which instance holds a network after a reading that began at from.
func (t *Tenure) judge(s *sight, from time.Time) {
	m, ok := ParseMark(s.value)
	if ok && (m.Epoch == t.rules.Epoch || t.record.fellow(m)) {
		s.holder, s.other = we, ""
		s.confirmed = s.confirmed || !s.marked.IsZero() && from.Sub(s.marked) >= s.stand
		return
	}
	s.holder, s.other, s.marked, s.confirmed = nobody, m.Epoch, time.Time{}, false
	s.stand = t.rules.Pause
	if !ok {
		return
	}
	left, maybeAlive := t.record.known(m)
	still := from.Sub(s.since)
	switch {
	case m.Epoch == t.taking:
		// The other one may have read its own mark just before it was written over, and trusts that
		// for a heartbeat.
		s.stand = max(t.rules.Pause, t.rules.longer(m))
	case left && !maybeAlive:
	case left:
		if still < t.rules.longer(m) {
			s.holder = somebody
		}
	case s.moved:
		s.holder = somebody
		t.stopped = m.Epoch
	case still < stillBeats*t.rules.longer(m):
		s.holder = somebody
		if t.stopped != "" {
			t.stopped = m.Epoch // the instance to report
		}
	default:
		if t.stopped == "" {
			t.succeeded = m.Epoch
		}
	}
}

func (t *Tenure) allOurs() bool {
	for n := range t.sights {
		if !t.Ours(n.Region) {
			return false
		}
	}
	return len(t.sights) > 0
}

// Ours reports whether all claimed networks of a region carry our mark for good.
func (t *Tenure) Ours(region string) bool {
	for n, s := range t.sights {
		if n.Region == region && (s.holder != we || !s.confirmed) {
			return false
		}
	}
	return true
}

// Claimed notes networks that this instance has just claimed, and that had no claim before.
func (t *Tenure) Claimed(region string, now time.Time, ids ...string) {
	for _, id := range ids {
		if n := (Network{region, id}); t.sights[n] == nil {
			t.sights[n] = &sight{since: now, stand: t.rules.Pause}
		}
	}
	if t.begun[region].IsZero() {
		t.begun[region] = now
	}
}

// ToMark returns the networks of a region that this instance should mark now, sorted; none unless
// it may.
func (t *Tenure) ToMark(region string) []string {
	var out []string
	for n, s := range t.sights {
		if n.Region == region && t.stopped == "" && s.holder != somebody {
			out = append(out, n.ID)
		}
	}
	slices.Sort(out)
	return out
}

// Marked notes that calls to mark networks were sent, at the latest at now. Only a reading shows
// whether they took effect.
func (t *Tenure) Marked(region string, now time.Time, ids ...string) {
	for _, id := range ids {
		if s := t.sights[Network{region, id}]; s != nil {
			s.refused = false
			if s.marked.IsZero() {
				s.marked = now
			}
		}
	}
}

// Refused notes that the cloud does not let this instance mark networks, now or ever. It goes on
// without: others cannot see it then, but it sees them.
func (t *Tenure) Refused(region string, ids ...string) {
	for _, id := range ids {
		if s := t.sights[Network{region, id}]; s != nil {
			s.refused = true
		}
	}
}

// TakeOver makes the instance go on although it has stopped because of the one with this epoch. It
// is false, and nothing happens, if it has not.
func (t *Tenure) TakeOver(epoch string, now time.Time) bool {
	if epoch == "" || t.stopped != epoch {
		return false
	}
	longest := t.rules.Heartbeat
	for _, s := range t.sights {
		if m, ok := ParseMark(s.value); ok && m.Epoch == epoch {
			longest = max(longest, m.Heartbeat)
			s.moved = false // what it has done so far is known
		}
	}
	t.stopped, t.taking, t.until = "", epoch, now.Add(stillBeats*longest)
	return true
}

// StoppedBy returns the epoch because of which nothing is written; empty if there is none.
func (t *Tenure) StoppedBy() string { return t.stopped }

// May reports whether a region may be written to: no other instance is seen, the networks in it
// that are known to be claimed are ours, and the last reading of them is fresh. claimed are the
// networks that the caller knows of.
func (t *Tenure) May(region string, now time.Time, claimed ...string) bool {
	if t.State(now) != Sole {
		return false
	}
	for _, id := range claimed {
		if t.sights[Network{region, id}] == nil {
			return false
		}
	}
	any := false
	for n, s := range t.sights {
		if n.Region != region {
			continue
		}
		any = true
		if !s.confirmed && !s.refused {
			return false
		}
	}
	return !any || now.Sub(t.begun[region]) <= t.rules.Heartbeat
}

// State returns the present state. An instance that may be alive in one region keeps the whole
// account waiting, unless the region could not be read for long.
func (t *Tenure) State(now time.Time) State {
	if t.stopped != "" {
		return Stopped
	}
	for n, s := range t.sights {
		if s.holder == somebody && now.Sub(t.begun[n.Region]) <= stillBeats*t.rules.Heartbeat {
			return Waiting
		}
	}
	return Sole
}

// Other is the epoch of the mark of somebody else that the state is about, and the network that
// carries it; both may be empty.
func (t *Tenure) Other() (epoch string, at Network) {
	for n, s := range t.sights {
		better := at == (Network{}) || strings.Compare(n.Region+"/"+n.ID, at.Region+"/"+at.ID) < 0
		if s.holder == somebody && better && (t.stopped == "" || s.other == t.stopped) {
			epoch, at = s.other, n
		}
	}
	if t.stopped != "" {
		epoch = t.stopped
	}
	return epoch, at
}

// Carries reports whether a network carries something in the place of a mark, as far as is known.
func (t *Tenure) Carries(n Network) bool {
	s := t.sights[n]
	return s == nil || s.value != "" || !s.marked.IsZero()
}

// Succeeded is the epoch of the last stranger whose marks were taken over because they had stood
// still; empty if there was none.
func (t *Tenure) Succeeded() string { return t.succeeded }

// Unmarked reports whether there is a network that the cloud does not let us mark.
func (t *Tenure) Unmarked() bool {
	for _, s := range t.sights {
		if s.refused {
			return true
		}
	}
	return false
}

// Next returns when a reading may change something beside the beat; zero if none will.
func (t *Tenure) Next() time.Time {
	var out time.Time
	soonest := func(at time.Time) {
		if out.IsZero() || at.Before(out) {
			out = at
		}
	}
	for _, s := range t.sights {
		switch {
		case s.holder != somebody && !s.confirmed && !s.marked.IsZero():
			soonest(s.marked.Add(s.stand))
		case s.holder == somebody && t.stopped == "":
			m, _ := ParseMark(s.value)
			wait := t.rules.longer(m)
			if left, _ := t.record.known(m); !left {
				wait *= stillBeats
			}
			soonest(s.since.Add(wait))
		}
	}
	return out
}
