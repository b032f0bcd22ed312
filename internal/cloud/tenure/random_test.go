package tenure

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	seeds "github.com/nephele-io/nephele/internal/seed"
)

var (
	histories   = flag.Int("tenure-histories", 400, "how many random histories of instances are played")
	historySeed = flag.Uint64("tenure-seed", 0, "the first seed; 0 takes that of internal/seed")
)

// tick is the grain of the played time.
const tick = 100 * time.Millisecond

// play is a network that several instances of one cluster id want, the clusters that they run in,
// and what goes wrong.
type play struct {
	random *rand.Rand
	now    time.Duration
	// tags is the history of the network's tag.
	tags []tagged
	// clusters are the original and its copies.
	clusters  []*cluster
	processes []*process
	epochs    int
	// slowest is the longest time that a call takes, hidden the longest until a write shows, and
	// faults the probability that a call fails.
	slowest, hidden time.Duration
	faults          float64
	// calm says that calls do what they should within the times that the rules count with, and that
	// no process stands still.
	calm     bool
	together map[[2]*process]time.Duration
	log      []string
}

type tagged struct {
	at    time.Duration
	value string
}

// cluster is a control plane: its record, and whether its API answers.
type cluster struct {
	name    int
	record  Record
	version int
}

// process is an instance at work. It does what a worker does: count in the record, read, mark, and
// so on.
type process struct {
	*play
	cluster *cluster
	rules   Rules
	offset  time.Duration // of its clock
	rate    float64       // of its clock
	tenure  *Tenure

	candidacy        Candidacy
	leading, deposed bool
	sequence         uint64
	version          int

	// due is when the next thing happens, and next what it is. It is asleep until then.
	due   time.Duration
	next  func()
	beats time.Duration // when the next beat is due
	gone  bool
}

func newPlay(random *rand.Rand) *play {
	p := &play{random: random, together: map[[2]*process]time.Duration{}, clusters: []*cluster{{}}}
	p.tags = []tagged{{0, ""}}
	return p
}

func (p *play) note(format string, args ...any) {
	p.log = append(p.log, fmt.Sprintf("%8.1f ", p.now.Seconds())+fmt.Sprintf(format, args...))
}

// between returns a random time.
func (p *play) between(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(p.random.Int64N(int64(b-a)))
}

func (p *play) fails() bool { return p.random.Float64() < p.faults }

// start runs a new process on a cluster.
func (p *play) start(c *cluster, heartbeat time.Duration) *process {
	p.epochs++
	w := &process{play: p, cluster: c, offset: p.between(-1e6*time.Second, 1e6*time.Second), rate: 0.98 + 0.04*p.random.Float64()}
	w.rules = Rules{Epoch: fmt.Sprintf("c%dp%d", c.name, p.epochs), Heartbeat: heartbeat, Pause: pause}
	w.candidacy.Rules = w.rules
	w.tenure = New(w.rules, c.record, c.record.Stopped["a"])
	w.due, w.next = p.now, w.beat
	p.processes = append(p.processes, w)
	p.note("%s starts, with a heartbeat of %s, on %v", w.rules.Epoch, heartbeat, c.record)
	return w
}

// local is what the clock of the process shows.
func (w *process) local() time.Time {
	return midnight.Add(w.offset + time.Duration(float64(w.now)*w.rate))
}

func (w *process) mark() Mark { return Mark{w.rules.Epoch, w.sequence, w.rules.Heartbeat} }

// beat counts in the record, if the API answers, and begins to read.
func (w *process) beat() {
	w.beats = w.now + time.Duration(float64(w.rules.Beat())/w.rate)
	w.count()
	w.look()
}

func (w *process) count() {
	c := w.cluster
	if w.fails() || w.deposed {
		return
	}
	if !w.leading {
		if !w.candidacy.Saw(c.record, w.local(), w.local()) {
			w.tenure.Know(c.record)
			return
		}
		w.tenure.Know(c.record)
	} else if w.version != c.version && c.record.Follows(w.rules.Epoch) {
		w.deposed = true
		return
	}
	w.sequence++
	next := c.record.Led(w.mark())
	next.Stopped = map[string]string{"a": w.tenure.StoppedBy()}
	c.record, c.version = next, c.version+1
	w.leading, w.version = true, c.version
}

// look reads the tag.
func (w *process) look() {
	from, took := w.local(), w.between(0, w.slowest)
	sampled := w.now + w.between(0, took) - w.between(0, w.hidden)
	lost := w.fails()
	w.due = w.now + took
	w.next = func() {
		if lost {
			w.rest(time.Second)
			return
		}
		value := ""
		for _, v := range w.tags {
			if v.at <= sampled {
				value = v.value
			}
		}
		before := w.tenure.State(w.local())
		w.tenure.Read("here", from, w.local(), map[string]string{"vpc": value})
		if after := w.tenure.State(w.local()); after != before {
			w.note("%s reads %q and is %s", w.rules.Epoch, value, after)
		}
		if !w.leading || w.deposed || len(w.tenure.ToMark("here")) == 0 || w.local().Sub(from) > pause {
			w.rest(time.Second)
			return
		}
		w.write()
	}
}

// write marks the network. A call that fails may have taken effect.
func (w *process) write() {
	took := w.between(0, w.slowest)
	value, effect := w.mark().String(), w.now+w.between(0, took)
	lost := w.random.Float64() < w.faults*w.faults
	w.due = w.now + took
	w.next = func() {
		if !lost {
			w.tags = append(w.tags, tagged{effect, value})
			for i := len(w.tags) - 1; i > 0 && w.tags[i].at < w.tags[i-1].at; i-- {
				w.tags[i], w.tags[i-1] = w.tags[i-1], w.tags[i]
			}
		}
		w.tenure.Marked("here", w.local(), "vpc")
		w.rest(time.Hour)
	}
}

// rest waits for the next beat, or until there may be something to see, or at most a while after a
// call that failed.
func (w *process) rest(most time.Duration) {
	w.due, w.next = min(w.beats, w.now+most), w.look
	until := func(at time.Time) time.Duration {
		return w.now + max(tick, time.Duration(float64(at.Sub(w.local()))/w.rate))
	}
	if at := w.tenure.Next(); !at.IsZero() {
		w.due = min(w.due, until(at))
	}
	if w.due >= w.beats {
		w.due, w.next = w.beats, w.beat
	}
	if at := w.candidacy.Next(); !at.IsZero() && !w.leading && until(at) <= w.due {
		w.due, w.next = until(at), w.beat
	}
}

// end ends a process: in order, or without a word.
func (w *process) end(inOrder bool) {
	w.gone = true
	w.note("%s ends, in order: %t", w.rules.Epoch, inOrder)
	if inOrder && w.leading && !w.deposed && w.version == w.cluster.version {
		w.cluster.record.Ended = true
		w.cluster.version++
	}
}

func (w *process) may() bool {
	return !w.gone && w.leading && !w.deposed && w.tenure.May("here", w.local(), "vpc")
}

// pass lets time pass, and returns the first pair that has written together for too long.
func (p *play) pass(d time.Duration) string {
	for end := p.now + d; p.now < end; p.now += tick {
		var living []*process
		for _, w := range p.processes {
			for !w.gone && w.due <= p.now {
				w.next()
			}
			if !w.gone {
				living = append(living, w)
			}
		}
		p.processes = living
		for i, a := range living {
			for _, b := range living[i+1:] {
				key := [2]*process{a, b}
				if !a.may() || !b.may() {
					delete(p.together, key)
					continue
				}
				p.together[key] += tick
				longest := max(a.rules.Heartbeat, b.rules.Heartbeat)
				limit := longest + longest/20 + 2*p.slowest
				if p.calm {
					limit = 0
				}
				if p.together[key] > limit {
					p.note("%s and %s have written together for %s", a.rules.Epoch, b.rules.Epoch, p.together[key])
					return strings.Join(p.log, "\n")
				}
			}
		}
	}
	return ""
}

// disturb does something to the instances.
func (p *play) disturb() {
	n := p.random.IntN(10)
	c := p.clusters[p.random.IntN(len(p.clusters))]
	var w *process
	if len(p.processes) > 0 {
		w = p.processes[p.random.IntN(len(p.processes))]
	}
	running := false
	for _, x := range p.processes {
		running = running || x.cluster == c
	}
	heartbeat := []time.Duration{5 * time.Second, beat, beat, beat, 30 * time.Second}[p.random.IntN(5)]
	switch {
	case n < 3 && w != nil:
		w.end(n == 0)
	case n < 6 && (!running || p.random.IntN(8) == 0): // sometimes without leader election
		p.start(c, heartbeat)
	case n == 6 && len(p.clusters) < 4:
		twin := &cluster{name: len(p.clusters), record: c.record}
		p.clusters = append(p.clusters, twin)
		p.note("cluster %d is copied to %d", c.name, twin.name)
		if p.random.IntN(2) == 0 {
			p.start(twin, heartbeat)
		}
	case n == 7:
		from := p.clusters[p.random.IntN(len(p.clusters))]
		c.record, c.version = from.record, c.version+1
		p.note("cluster %d is restored from %d", c.name, from.name)
	case n == 8 && w != nil && !p.calm: // SIGSTOP
		w.due += p.between(0, 2*time.Minute)
		w.beats = max(w.beats, w.due)
	case n == 9 && w != nil:
		if other := w.tenure.StoppedBy(); w.tenure.TakeOver(other, w.local()) {
			p.note("%s is told to take over from %s", w.rules.Epoch, other)
		}
	}
}

// each plays histories with their own seeds.
func each(t *testing.T, one func(*rand.Rand) string) {
	t.Helper()
	first := *historySeed
	if first == 0 {
		first = seeds.Of(t)
	}
	for i := range uint64(*histories) {
		if wrong := one(rand.New(rand.NewPCG(first+i, 0))); wrong != "" {
			t.Fatalf("seed %d (repeat with -args -tenure-seed %d -tenure-histories 1):\n%s", first+i, first+i, wrong)
		}
	}
}

// TestNeverTwo plays up to some instances in up to four clusters with the same id, with kills,
// copies, restored backups, clocks that show anything and run a little differently, lost and slow
// calls, and processes that stand still: no two of them may write for longer than a heartbeat and
// the calls on their way; and not at all where calls are neither lost nor slow and no process
// stands still. Then all is quiet, and an instance that is left alone goes on, if its cluster was
// stopped when he is told to.
func TestNeverTwo(t *testing.T) {
	t.Parallel()
	each(t, func(random *rand.Rand) string {
		p := newPlay(random)
		if p.calm = random.IntN(2) == 0; p.calm {
			p.slowest, p.hidden = p.between(tick, 500*time.Millisecond), p.between(0, 300*time.Millisecond)
		} else {
			p.slowest, p.hidden, p.faults = p.between(tick, 3*time.Second), p.between(0, 500*time.Millisecond), 0.2*random.Float64()
		}
		p.start(p.clusters[0], beat)
		for range 10 + random.IntN(40) {
			if wrong := p.pass(p.between(0, 40*time.Second)); wrong != "" {
				return wrong
			}
			p.disturb()
		}
		for _, w := range p.processes {
			w.end(random.IntN(2) == 0)
		}
		p.faults, p.slowest = 0, tick
		last := p.start(p.clusters[random.IntN(len(p.clusters))], beat)
		// What stands longest is a mark with the longest heartbeat, behind a record that says
		// nothing of it.
		const enough = stillBeats*30*time.Second + 2*beat
		if wrong := p.pass(enough); wrong != "" {
			return wrong
		}
		if by := last.tenure.StoppedBy(); by != "" {
			if last.may() {
				return strings.Join(p.log, "\n") + "\nit has stopped and may write"
			}
			last.tenure.TakeOver(by, last.local())
			if wrong := p.pass(enough); wrong != "" {
				return wrong
			}
		}
		if !last.may() {
			return strings.Join(p.log, "\n") + fmt.Sprintf("\nthe last one may not write; tags %v", p.tags[len(p.tags)-1])
		}
		return ""
	})
}

// TestOriginalStays: an instance that works is never driven out, nor even stopped for a moment, by
// copies of its cluster that are taken and started at any moment, and none of these ever writes.
func TestOriginalStays(t *testing.T) {
	t.Parallel()
	each(t, func(random *rand.Rand) string {
		p := newPlay(random)
		p.slowest, p.hidden = p.between(tick, time.Second), p.between(0, 500*time.Millisecond)
		original := p.start(p.clusters[0], beat)
		p.pass(p.between(time.Minute, 2*time.Minute))
		var twins []*process
		for i := range 3 {
			twin := &cluster{name: i + 1, record: p.clusters[0].record}
			p.pass(p.between(0, 20*time.Second))
			if random.IntN(3) == 0 {
				twin.record = p.clusters[0].record
			}
			twins = append(twins, p.start(twin, beat))
			for range 1000 {
				p.pass(tick)
				if !original.may() {
					return strings.Join(p.log, "\n") + "\nthe original may not write"
				}
				for _, w := range twins {
					if w.may() {
						return strings.Join(p.log, "\n") + "\na copy may write"
					}
				}
			}
		}
		for _, w := range twins {
			if w.tenure.StoppedBy() != original.rules.Epoch {
				return strings.Join(p.log, "\n") + "\na copy has not stopped"
			}
		}
		return ""
	})
}

// TestSeamless: in one cluster the next instance goes on right after an orderly end, and a
// heartbeat after a crash.
func TestSeamless(t *testing.T) {
	t.Parallel()
	each(t, func(random *rand.Rand) string {
		p := newPlay(random)
		p.slowest, p.hidden = p.between(tick, time.Second), p.between(0, 500*time.Millisecond)
		for range 5 {
			w := p.start(p.clusters[0], beat)
			began := p.now
			inOrder := p.clusters[0].record.Ended || len(p.clusters[0].record.Line) == 0
			limit := pause + pause/20 + 4*p.slowest + 5*tick
			if !inOrder {
				limit += beat + beat/20 + p.hidden
			}
			for !w.may() {
				p.pass(tick)
				if p.now-began > limit {
					return strings.Join(p.log, "\n") + fmt.Sprintf("\nafter %s it may not write yet", p.now-began)
				}
			}
			p.pass(p.between(0, time.Minute))
			w.end(random.IntN(2) == 0)
			p.pass(p.between(0, time.Minute))
		}
		return ""
	})
}
