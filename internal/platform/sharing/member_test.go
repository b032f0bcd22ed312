package sharing

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	testclock "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/internal/seed"
)

var runs = flag.Int("sharing-runs", 10, "how many random histories TestNeverTwo plays")

var firstSeed = flag.Uint64("sharing-seed", 1, "seed of the first of them")

const goldenShard = 10

// memory is a Store in which anything may happen during a call: others work, time goes by, the call
// fails before or after it took effect.
type memory struct {
	slots   []Seat
	table   Table
	version int
	during  func()
	// away has the members that cannot reach the store.
	away map[string]bool
}

func newMemory(slots int) *memory {
	m := &memory{during: func() {}, away: map[string]bool{}}
	for i := range slots {
		m.slots = append(m.slots, Seat{Name: fmt.Sprintf("seat-%d", i), Version: "0"})
	}
	return m
}

// damage is what a person or a defect may do to the table, or to a seat: it is gone, or says what
// is not so.
func (m *memory) damage(rng *rand.Rand) {
	m.version++
	if rng.IntN(2) == 0 {
		m.table = Table{Version: fmt.Sprint(m.version), Unknown: true}
		if rng.IntN(2) == 0 {
			m.table.Version = "" // deleted
		}
		return
	}
	s := &m.slots[rng.IntN(len(m.slots))]
	*s = Seat{Name: s.Name, Version: fmt.Sprint(m.version)}
}

// end is a Store as one member sees it.
type end struct {
	*memory
	who string
	rng *rand.Rand
}

var errAway = errors.New("the store cannot be reached")

// call does something, amid what else happens.
func (e end) call(do func() error) error {
	e.during()
	if e.away[e.who] || e.rng != nil && e.rng.IntN(50) == 0 {
		return errAway
	}
	err := do()
	e.during()
	if e.away[e.who] || e.rng != nil && e.rng.IntN(50) == 0 {
		return errAway // the answer is lost
	}
	return err
}

func (e end) Seats(context.Context) (out []Seat, err error) {
	err = e.call(func() error { out = slices.Clone(e.slots); return nil })
	return out, err
}

func (e end) PutSeat(_ context.Context, s Seat) (version string, err error) {
	err = e.call(func() error {
		i := slices.IndexFunc(e.slots, func(o Seat) bool { return o.Name == s.Name })
		if e.slots[i].Version != s.Version {
			return ErrOvertaken
		}
		e.version++
		s.Version = fmt.Sprint(e.version)
		e.slots[i], version = s, s.Version
		return nil
	})
	return version, err
}

func (e end) Table(context.Context) (t Table, err error) {
	err = e.call(func() error { t = e.table; t.Shards = slices.Clone(t.Shards); return nil })
	return t, err
}

func (e end) PutTable(_ context.Context, t Table) (version string, err error) {
	err = e.call(func() error {
		if e.table.Version != t.Version {
			return ErrOvertaken
		}
		e.version++
		t.Version = fmt.Sprint(e.version)
		e.table, version = t, t.Version
		return nil
	})
	return version, err
}

const testShards = 8

func newTestMember(t *testing.T, store *memory, who string, clk *testclock.FakeClock, rng *rand.Rand) *Member {
	t.Helper()
	m, err := New(Options{Store: end{store, who, rng}, Epoch: who, Shards: testShards, Times: TimesFor(16 * time.Second), Clock: clk, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// request is one on its way.
type request struct {
	who   string
	shard int
	ctx   context.Context
	done  func()
}

// TestNeverTwo: replicas come, die, sleep in the middle of any call, and lose the store, calls take
// any time and their answers are lost. At no moment may two of them begin something about one
// shard, or one while another's change is on its way and not given up. When all is well again,
// every shard is held within two leases.
func TestNeverTwo(t *testing.T) {
	t.Parallel()
	for n := range *runs {
		seed := seed.Of(t) + uint64(n)
		if n == 0 {
			seed = *firstSeed
		}
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { neverTwo(t, seed) }) {
			return
		}
	}
}

func neverTwo(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	clk := testclock.NewFakeClock(time.Unix(1e9, 0))
	store := newMemory(4)
	var members []*Member
	busy := map[*Member]bool{}
	asleep := map[*Member]bool{}
	var onWay []request
	keys := make([]string, testShards) // one of each shard
	for i := 0; slices.Contains(keys, ""); i++ {
		key := fmt.Sprint("key-", i)
		keys[ShardOf(key, testShards)] = key
	}
	births := 0
	passes := 0
	check := func() {
		for shard, key := range keys {
			var who []string
			for _, m := range members {
				m.expire()
				if ctx, done, err := m.Pass(t.Context(), key, true); err == nil {
					who = append(who, m.Epoch)
					passes++
					for _, r := range onWay {
						if r.shard == shard && r.who != m.Epoch && r.ctx.Err() == nil {
							t.Fatalf("%s may begin something about shard %d while a request of %s is on its way", m.Epoch, shard, r.who)
						}
					}
					if rng.IntN(40) == 0 {
						onWay = append(onWay, request{m.Epoch, shard, ctx, done})
					} else {
						done()
					}
				}
			}
			if len(who) > 1 {
				t.Fatalf("%v may all begin something about shard %d", who, shard)
			}
		}
		onWay = slices.DeleteFunc(onWay, func(r request) bool {
			over := r.ctx.Err() != nil || rng.IntN(5) == 0
			if over {
				r.done()
			}
			return over
		})
	}
	depth := 0
	var something func()
	step := func(m *Member) {
		if busy[m] || asleep[m] {
			return
		}
		busy[m] = true
		_ = m.step(t.Context()) // it is tried again
		busy[m] = false
	}
	something = func() {
		check()
		if depth > 2 {
			return
		}
		depth++
		defer func() { depth-- }()
		for range rng.IntN(3) {
			if len(members) > 0 {
				step(members[rng.IntN(len(members))])
			}
			if rng.IntN(4) == 0 {
				clk.Step(time.Duration(rng.IntN(4000)) * time.Millisecond)
			}
			check()
		}
	}
	store.during = something
	for range 150 {
		switch rng.IntN(13) {
		case 0:
			if len(members) < 4 {
				births++
				members = append(members, newTestMember(t, store, fmt.Sprintf("m%d", births), clk, rng))
			}
		case 1:
			if len(members) > 1 { // dies; what it sent may still be on its way, but ends with its connections
				i := rng.IntN(len(members))
				m := members[i]
				if !busy[m] {
					m.drop()
					members = slices.Delete(members, i, i+1)
				}
			}
		case 2:
			if len(members) > 0 {
				m := members[rng.IntN(len(members))]
				asleep[m] = !asleep[m]
			}
		case 3:
			if len(members) > 0 {
				who := members[rng.IntN(len(members))].Epoch
				store.away[who] = !store.away[who]
			}
		case 4:
			clk.Step(time.Duration(rng.IntN(20)) * time.Second)
		case 5:
			store.damage(rng)
		default:
			if len(members) > 0 {
				step(members[rng.IntN(len(members))])
			}
			clk.Step(time.Duration(rng.IntN(1500)) * time.Millisecond)
		}
		something()
	}
	// All is well again.
	for _, r := range onWay {
		r.done()
	}
	onWay = nil
	store.during = func() {}
	store.away, asleep = map[string]bool{}, map[*Member]bool{}
	if len(members) == 0 {
		members = append(members, newTestMember(t, store, "last", clk, nil))
	}
	for _, m := range members {
		m.Store = end{store, m.Epoch, nil}
	}
	times := TimesFor(16 * time.Second)
	for from := clk.Now(); clk.Since(from) < 3*times.Lease; clk.Step(times.Period) {
		for _, m := range members {
			step(m)
		}
	}
	for shard, key := range keys {
		holders := 0
		for _, m := range members {
			if _, ok := m.Holds(key); ok {
				holders++
			}
		}
		if holders != 1 {
			t.Errorf("shard %d has %d holders when all is well; table %+v", shard, holders, store.table.Shards[shard])
		}
	}
	if passes == 0 {
		t.Error("nobody ever did anything")
	}
}

// TestHandOver: a member that ends in order leaves its shards at once, one that dies after a lease
// and a period.
func TestHandOver(t *testing.T) {
	t.Parallel()
	clk := testclock.NewFakeClock(time.Unix(1e9, 0))
	store := newMemory(3)
	times := TimesFor(16 * time.Second)
	run := func(m *Member, n int) {
		for range n {
			if err := m.step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	holds := func(m *Member) int { return len(m.holds()) }
	a, b := newTestMember(t, store, "a", clk, nil), newTestMember(t, store, "b", clk, nil)
	run(a, 3)
	if holds(a) != testShards {
		t.Fatalf("alone, a holds %d", holds(a))
	}
	run(b, 3)
	for range 3 {
		clk.Step(times.Period)
		run(a, 1)
		run(b, 1)
	}
	if holds(a)+holds(b) != testShards || holds(a) == 0 || holds(b) == 0 {
		t.Fatalf("a holds %d, b %d", holds(a), holds(b))
	}
	// a dies.
	died := clk.Now()
	for holds(b) < testShards {
		clk.Step(times.Period)
		run(b, 1)
		if clk.Since(died) > times.Lease+2*times.Period {
			t.Fatalf("b holds %d of %d after %s", holds(b), testShards, clk.Since(died))
		}
	}
	for shard, h := range b.kept {
		if !h.term.Proven {
			t.Errorf("shard %d: %+v", shard, h.term)
		}
	}
	// b dies too, and a member comes that has never seen it live.
	c := newTestMember(t, store, "c", clk, nil)
	for range 12 {
		clk.Step(times.Period)
		run(c, 1)
	}
	if holds(c) != testShards {
		t.Fatalf("c holds %d", holds(c))
	}
	for shard, h := range c.kept {
		if h.term.Before != "b" || h.term.Proven {
			t.Errorf("shard %d: %+v", shard, h.term)
		}
	}
	if line, _ := c.Line(); !slices.ContainsFunc(line, func(p Past) bool { return p.Epoch == "b" && p.Sequence > 1 }) {
		t.Errorf("b is forgotten: %v", line)
	}
	c.leave(t.Context())
	d := newTestMember(t, store, "d", clk, nil)
	run(d, 3)
	if holds(d) != testShards || store.table.Shards[0].Before != "c" || !d.kept[0].term.Proven {
		t.Errorf("after an orderly end d holds %d, %+v", holds(d), store.table.Shards[0])
	}
}

// TestLineHasEachOnce: a process that has slept so long that it was taken from its seat, that sits
// again and dies, stands in the line as far as it had counted in the end. With the older number,
// what it did last would be taken for a stranger's.
func TestLineHasEachOnce(t *testing.T) {
	t.Parallel()
	clk := testclock.NewFakeClock(time.Unix(1e9, 0))
	store := newMemory(3)
	a, b := newTestMember(t, store, "a", clk, nil), newTestMember(t, store, "b", clk, nil)
	steps := func(n int, members ...*Member) {
		for range n {
			clk.Step(a.Times.Period)
			for _, m := range members {
				if err := m.step(t.Context()); err != nil && !errors.Is(err, ErrOvertaken) {
					t.Fatal(err)
				}
			}
		}
	}
	steps(5, a, b)
	steps(12, a)    // b sleeps,
	steps(12, a, b) // is awake,
	last := b.Sequence()
	for range 3 { // and dies; the seat remembers it more than once
		steps(12, a)
	}
	line, _ := a.Line()
	var of []Past
	for _, p := range line {
		if p.Epoch == "b" {
			of = append(of, p)
		}
	}
	if want := []Past{{"b", last}}; !slices.Equal(of, want) {
		t.Errorf("%v, want %v", of, want)
	}
	times := 0
	for _, s := range store.slots {
		for _, p := range s.Past {
			if p.Epoch == "b" {
				times++
			}
		}
	}
	if times < 2 {
		t.Errorf("the seats tell of b %d times: this shows nothing", times)
	}
}

// TestBarred: nothing is shared while something speaks against it, and what is held is given up.
func TestBarred(t *testing.T) {
	t.Parallel()
	clk := testclock.NewFakeClock(time.Unix(1e9, 0))
	a := newTestMember(t, newMemory(2), "a", clk, nil)
	why := ""
	a.Barred = func(context.Context, []string) (string, error) { return why, nil }
	for _, want := range []int{testShards, 0, testShards} {
		for range 3 {
			clk.Step(a.Times.Period)
			if err := a.step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(a.holds()); n != want {
			t.Errorf("%q: holds %d, want %d", why, n, want)
		}
		if why == "" {
			why = "somebody else works"
		} else {
			why = ""
		}
	}
}

// TestNotes: a note about a key outlives the member that wrote it, until it is taken away.
func TestNotes(t *testing.T) {
	t.Parallel()
	clk := testclock.NewFakeClock(time.Unix(1e9, 0))
	store := newMemory(2)
	a := newTestMember(t, store, "a", clk, nil)
	step := func(m *Member) {
		for range 3 {
			if err := m.step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	step(a)
	a.Note("x", "stopped")
	if a.Notes()["x"] != "stopped" {
		t.Error("not known at once")
	}
	step(a)
	a.leave(t.Context())
	b := newTestMember(t, store, "b", clk, nil)
	step(b)
	if b.Notes()["x"] != "stopped" {
		t.Errorf("forgotten: %v", b.Notes())
	}
	b.Note("x", "")
	step(b)
	if len(store.table.Notes) != 0 || len(b.Notes()) != 0 {
		t.Errorf("%v, %v", store.table.Notes, b.Notes())
	}
}

// TestSeatOfALostAnswerIsLogged: the log says which seat a replica has, also when it learns from
// the seats that its request for one was carried out.
func TestSeatOfALostAnswerIsLogged(t *testing.T) {
	t.Parallel()
	store := newMemory(2)
	m := newTestMember(t, store, "a", testclock.NewFakeClock(time.Unix(1, 0)), nil)
	var lines []string
	m.Log = funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	written := func() bool { return slices.ContainsFunc(store.slots, func(s Seat) bool { return s.Epoch == "a" }) }
	store.during = func() { store.away["a"] = written() }
	if err := m.step(t.Context()); !errors.Is(err, errAway) || !written() {
		t.Fatalf("the answer is not lost: %v, %+v", err, store.slots)
	}
	store.during = func() { store.away["a"] = false }
	_ = m.step(t.Context()) // there is no table yet, which is an error
	if !slices.ContainsFunc(lines, func(l string) bool {
		return strings.Contains(l, "This replica shares the work") && strings.Contains(l, `"epoch"="a"`)
	}) {
		t.Errorf("the log says %q", lines)
	}
}
