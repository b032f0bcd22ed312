package sharing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// Times are how long things take. All are for processes whose clocks run at about the same speed.
type Times struct {
	// Lease is how long a seat must stand still before others take what its process holds. Fence is
	// for how long a process trusts a renewal, and Period how often it renews; each is to be well
	// below the one before.
	Lease, Fence, Period time.Duration
}

// TimesFor divides a lease: five eighths of it are trusted, and three renewals are tried in that.
func TimesFor(lease time.Duration) Times {
	return Times{Lease: lease, Fence: lease * 5 / 8, Period: lease * 3 / 16}
}

// timeout is how long requests on their way that change something are waited for when a shard is
// given up.
const timeout = 5 * time.Second

// ErrNotHeld is the error of Pass for what this process may not do now.
var ErrNotHeld = errors.New("another replica works on this by now, or this one cannot show the others that it lives")

// Options are what a Member needs. All but Address, Barred, Gained and Lost are required.
type Options struct {
	Store Store
	// Epoch names this process. No other one ever had it.
	Epoch string
	// Address is where it serves others.
	Address string
	// Shards is into how many shards work is cut. It must be the same for all.
	Shards int
	Times  Times
	Clock  clock.WithTicker
	Log    logr.Logger
	// Barred says why no one may share now, although the seats would let him; empty if nothing
	// speaks against it. It is given the epochs of those that sit.
	Barred func(ctx context.Context, living []string) (why string, err error)
	// Gained and Lost are called when shards have become this process's, or are about to be no
	// more. They must not block.
	Gained, Lost func(shards []int)
}

// Term is how a shard came to this process.
type Term struct {
	// Before is the epoch of the process that held the shard before, empty if none did. Proven says
	// that it certainly works on it no more: it has given it up, or was seen from here to live and
	// then to die. Else it may belong to another copy of the same store.
	Before string
	Proven bool
}

// Member is this process among the replicas. Make it with New.
type Member struct {
	Options
	watch watch

	// Only Start's goroutine uses these.
	slot    Seat
	counted uint64
	// returned is when it took the seat, if it has lost one before. It takes no shard for a lease
	// then: others may not know yet that it sits again.
	returned time.Time
	lostSlot bool
	barred   string
	failing  string
	// unknown is when the first reading ended that showed a table of this version, which does not
	// name the holders; zero if the last one did.
	unknown        time.Time
	unknownVersion string

	mu sync.Mutex
	// trusted is when the last renewal began that succeeded, and agreed when the last reading of a
	// table began that bears out what is held; zero while there is none.
	trusted, agreed time.Time
	kept            map[int]*holding
	// known is what the seats have last told, notes the notes of the table.
	known known
	// wake has room for one token: there is a reason to look before the time.
	wake chan struct{}
}

// known is what others want to know of the seats.
type known struct {
	sequence uint64
	past     []Past
	fellows  map[string]uint64
	notes    map[string]string
	wanted   map[string]string
}

// holding is a shard that is held.
type holding struct {
	term Term
	// closing says that it is about to be given up, and empty that nothing is on its way any more.
	closing bool
	since   time.Time
	// changes counts the requests on their way that change something, and ways has what ends each
	// request.
	changes int
	ways    map[*bool]context.CancelCauseFunc
}

// end ends all that is on its way.
func (h *holding) end() {
	for _, cancel := range h.ways {
		cancel(ErrNotHeld)
	}
}

// New returns a Member that holds nothing before Start.
func New(o Options) (*Member, error) {
	if o.Store == nil || o.Epoch == "" || o.Shards < 1 || o.Clock == nil {
		return nil, errors.New("sharing: Store, Epoch, Shards and Clock must be given")
	}
	if t := o.Times; t.Period <= 0 || t.Fence < 2*t.Period || t.Lease < t.Fence*3/2 {
		return nil, fmt.Errorf("sharing: a renewal every %s, trust for %s and a lease of %s leave no room for delays", t.Period, t.Fence, t.Lease)
	}
	return &Member{Options: o, watch: watch{lease: o.Times.Lease}, kept: map[int]*holding{}, wake: make(chan struct{}, 1),
		known: known{wanted: map[string]string{}}}, nil
}

// Start shares until ctx ends, and then gives everything up in order.
func (m *Member) Start(ctx context.Context) error {
	var guarding sync.WaitGroup
	defer guarding.Wait()
	guard, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	guarding.Go(func() { m.guard(guard) })
	for {
		m.report(ctx, m.step(ctx))
		select {
		case <-ctx.Done():
			m.leave(context.WithoutCancel(ctx))
			return nil
		case <-m.wake:
		case <-m.Clock.After(m.Times.Period):
		}
	}
}

// report logs an error of a step, once for each reason.
func (m *Member) report(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		m.failing = ""
		return
	}
	if text := err.Error(); m.failing != text {
		m.failing = text
		m.Log.Info("Work cannot be shared with other replicas, trying again", "error", text)
	}
}

// step renews the seat, looks at the others, and brings the table in line.
func (m *Member) step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.Times.Fence/2)
	defer cancel()
	if err := m.renew(ctx); err != nil {
		return err
	}
	// The table first: every replica that it names had a seat before the seats are read.
	begun := m.Clock.Now()
	t, err := m.Store.Table(ctx)
	if err != nil {
		return fmt.Errorf("read the table of shards: %w", err)
	}
	stands := m.agree(begun, t)
	if err := m.look(ctx); err != nil {
		return err
	}
	if m.slot.Name == "" {
		return m.sit(ctx)
	}
	if !stands {
		var made error
		if t.Version == "" { // what is absent has no version, by which it would be seen to stand
			_, made = m.Store.PutTable(ctx, t)
		}
		return errors.Join(errUnknown, made, m.clear(ctx))
	}
	return errors.Join(m.share(ctx, t), m.clear(ctx))
}

// errUnknown is the error of a step that finds no table.
var errUnknown = errors.New("the table of shards is absent or damaged; once that has lasted for a lease, no replica holds a shard, and the table is created anew")

// agree gives up at once the shards that the table does not confirm. It reports whether the table
// is usable: one that does not name the holders might hide a holder that has not read it yet. A
// holder trusts its reading for no longer than its seat, so when such a table has stood for a whole
// lease, no replica holds a shard.
func (m *Member) agree(begun time.Time, t Table) bool {
	now := m.Clock.Now()
	m.mu.Lock()
	lapsed := !m.fresh(now)
	var lost []int
	for shard, h := range m.kept {
		if lapsed || t.Unknown || shard >= len(t.Shards) || t.Shards[shard].Holder != m.Epoch {
			h.end()
			delete(m.kept, shard)
			lost = append(lost, shard)
		}
	}
	m.agreed = begun
	m.mu.Unlock()
	if len(lost) > 0 && m.Lost != nil {
		slices.Sort(lost)
		m.Lost(lost)
	}
	switch {
	case !t.Unknown:
		m.unknown = time.Time{}
	case m.unknown.IsZero() || m.unknownVersion != t.Version:
		m.unknown, m.unknownVersion = now, t.Version
	}
	return m.unknown.IsZero() || t.Version != "" && begun.Sub(m.unknown) >= m.Times.Lease
}

// clear removes dead processes from their seats, so that a new replica need not wait until it has
// observed that itself. One living replica does this.
func (m *Member) clear(ctx context.Context) error {
	if living := m.watch.living(); len(living) == 0 || living[0] != m.slot.Name {
		return nil
	}
	for _, s := range m.watch.slots {
		if s.Epoch == "" || m.watch.alive(s) {
			continue
		}
		if _, err := m.Store.PutSeat(ctx, s.left()); err != nil && !errors.Is(err, ErrOvertaken) {
			return fmt.Errorf("clear seat %s: %w", s.Name, err)
		}
	}
	return nil
}

// count is the next sequence. It is never used twice, on whatever seat: others would take it for
// one that stands still.
func (m *Member) count() uint64 {
	m.counted++
	return m.counted
}

// renew renews the seat.
func (m *Member) renew(ctx context.Context) error {
	if m.slot.Name == "" {
		return nil
	}
	next := m.slot
	next.Sequence = m.count()
	begun := m.Clock.Now()
	version, err := m.Store.PutSeat(ctx, next)
	if errors.Is(err, ErrOvertaken) {
		return m.overtaken(ctx)
	}
	if err != nil {
		return fmt.Errorf("renew seat %s: %w", next.Name, err)
	}
	next.Version = version
	m.slot = next
	m.trust(begun)
	return nil
}

// overtaken finds out what became of the seat: somebody has edited it, an answer was lost, or it is
// somebody else's by now.
func (m *Member) overtaken(ctx context.Context) error {
	slots, err := m.Store.Seats(ctx)
	if err != nil {
		return err
	}
	for _, s := range slots {
		if s.Name == m.slot.Name && s.Epoch == m.Epoch {
			m.slot.Version = s.Version
			m.again()
			return fmt.Errorf("seat %s: %w", s.Name, ErrOvertaken)
		}
	}
	m.Log.Info("The seat of this replica is another's by now; it looks for a new one", "seat", m.slot.Name)
	m.slot, m.lostSlot = Seat{}, true
	m.drop()
	return nil
}

// trust notes a renewal that has succeeded. Where the former one was not trusted any more, what was
// held has to be taken anew.
func (m *Member) trust(begun time.Time) {
	now := m.Clock.Now()
	m.mu.Lock()
	lapsed := !m.recent(m.trusted, now)
	m.mu.Unlock()
	if lapsed {
		m.drop()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trusted = begun
	m.known.sequence = m.slot.Sequence
}

// fresh reports whether what is held is to be trusted at a time: by the last renewal, and by the
// last table that was read. It needs mu.
func (m *Member) fresh(now time.Time) bool {
	return m.recent(m.trusted, now) && m.recent(m.agreed, now)
}

// trustedSince is how long after a moment the last renewal that succeeded began.
func (m *Member) trustedSince(t time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return min(m.trusted.Sub(t), m.trusted.Round(0).Sub(t.Round(0)))
}

// recent reports whether something is recent enough to be trusted.
func (m *Member) recent(begun, now time.Time) bool {
	if begun.IsZero() {
		return false
	}
	// The monotonic clock stands still while a machine sleeps; the wall clock may be set.
	return now.Sub(begun) < m.Times.Fence && now.Round(0).Sub(begun.Round(0)) < m.Times.Fence
}

// drop gives up all shards at once: they are not ours to give.
func (m *Member) drop() {
	m.mu.Lock()
	var lost []int
	for shard, h := range m.kept {
		h.end()
		lost = append(lost, shard)
	}
	m.kept = map[int]*holding{}
	m.mu.Unlock()
	if len(lost) > 0 && m.Lost != nil {
		slices.Sort(lost)
		m.Lost(lost)
	}
}

// guard ends what is on its way when trust is lost.
func (m *Member) guard(ctx context.Context) {
	for {
		wait := m.expire()
		select {
		case <-ctx.Done():
			return
		case <-m.Clock.After(wait):
		}
	}
}

// expire gives everything up if trust is lost, and returns after what time to look again.
func (m *Member) expire() time.Duration {
	m.mu.Lock()
	wait, lapsed := m.Times.Fence/4, false
	if len(m.kept) > 0 {
		now := m.Clock.Now()
		if lapsed = !m.fresh(now); !lapsed {
			wait = max(m.Times.Fence-max(now.Sub(m.trusted), now.Sub(m.agreed)), time.Millisecond)
		}
	}
	m.mu.Unlock()
	if lapsed {
		m.Log.Info("The seat of this replica could not be renewed in time; it does nothing more until it can")
		m.drop()
	}
	return wait
}

// look reads the seats.
func (m *Member) look(ctx context.Context) error {
	from := m.Clock.Now()
	slots, err := m.Store.Seats(ctx)
	if err != nil {
		return fmt.Errorf("read the seats of the replicas: %w", err)
	}
	m.watch.saw(from, m.Clock.Now(), slots)
	fellows := map[string]uint64{}
	var past []Past
	known := func(p Past) {
		if i := slices.IndexFunc(past, func(o Past) bool { return o.Epoch == p.Epoch }); i < 0 {
			past = append(past, p)
		} else {
			past[i].Sequence = max(past[i].Sequence, p.Sequence)
		}
	}
	for _, s := range slots {
		if s.Epoch != "" {
			known(Past{s.Epoch, s.Sequence})
			if m.watch.alive(s) && m.watch.moved[s.Epoch] {
				fellows[s.Epoch] = s.Sequence
			}
		}
		for _, p := range s.Past {
			known(p)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known.past, m.known.fellows = past, fellows
	return nil
}

// sit takes a seat.
func (m *Member) sit(ctx context.Context) error {
	for _, s := range m.watch.slots {
		if s.Epoch == m.Epoch { // the answer was lost; it is renewed, and then trusted
			m.seated(s)
			m.again()
			return nil
		}
	}
	s, ok := m.watch.free()
	if !ok {
		return errors.New("all seats are taken: there are more replicas than can share the work; this one only waits")
	}
	s = s.left()
	s.Epoch, s.Sequence, s.Address = m.Epoch, m.count(), m.Address
	begun := m.Clock.Now()
	version, err := m.Store.PutSeat(ctx, s)
	if err != nil {
		return fmt.Errorf("take seat %s: %w", s.Name, err)
	}
	s.Version = version
	m.seated(s)
	m.trust(begun)
	m.again()
	return nil
}

// seated notes which seat this replica has, and when it took one that is not its first.
func (m *Member) seated(s Seat) {
	m.slot = s
	if m.lostSlot {
		m.returned = m.Clock.Now()
	}
	m.Log.Info("This replica shares the work", "seat", s.Name, "epoch", s.Epoch)
}

// again makes the next step come at once.
func (m *Member) again() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// share brings the table in line with the seats.
func (m *Member) share(ctx context.Context, t Table) error {
	for len(t.Shards) < m.Shards {
		t.Shards = append(t.Shards, Shard{})
	}
	t.Unknown = false // the one that is written tells
	barred, err := m.isBarred(ctx)
	if err != nil {
		return err
	}
	mine := m.holds()
	d := m.watch.decide(m.slot.Name, m.Epoch, t, mine)
	if m.lostSlot && m.trustedSince(m.returned) < m.Times.Lease {
		d.take = nil
	}
	if barred {
		d.take, d.give = nil, slices.Sorted(maps.Keys(mine))
	}
	m.close(d.give)
	next, changed := m.next(t, d, m.emptied())
	m.mu.Lock()
	for key, note := range m.known.wanted {
		if next.Notes[key] == note {
			delete(m.known.wanted, key)
			continue
		}
		if next.Notes = maps.Clone(next.Notes); next.Notes == nil {
			next.Notes = map[string]string{}
		}
		if changed = true; note == "" {
			delete(next.Notes, key)
		} else {
			next.Notes[key] = note
		}
	}
	m.mu.Unlock()
	if changed {
		if next.Version, err = m.Store.PutTable(ctx, next); errors.Is(err, ErrOvertaken) {
			m.again() // and everything is looked at once more
			return nil
		} else if err != nil {
			return fmt.Errorf("write the table of shards: %w", err)
		}
	}
	return m.settle(ctx, next, d.take)
}

// isBarred asks Barred, and reports changes.
func (m *Member) isBarred(ctx context.Context) (bool, error) {
	if m.Barred == nil {
		return false, nil
	}
	var epochs []string
	for _, s := range m.watch.slots {
		if m.watch.alive(s) {
			epochs = append(epochs, s.Epoch)
		}
	}
	why, err := m.Barred(ctx, epochs)
	if err != nil {
		return false, err
	}
	if why != m.barred {
		m.barred = why
		if why != "" {
			m.Log.Info("Nothing is shared for now", "why", why)
		}
	}
	return why != "", nil
}

// holds are the shards that are held.
func (m *Member) holds() map[int]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[int]bool{}
	for shard := range m.kept {
		out[shard] = true
	}
	return out
}

// close begins to give shards up.
func (m *Member) close(shards []int) {
	var lost []int
	m.mu.Lock()
	for _, shard := range shards {
		if h := m.kept[shard]; h != nil && !h.closing {
			h.closing, h.since = true, m.Clock.Now()
			lost = append(lost, shard)
		}
	}
	m.mu.Unlock()
	if len(lost) > 0 && m.Lost != nil {
		m.Lost(lost)
	}
}

// emptied are the shards that were closed, for which nothing is on its way any more that changes
// something. What else is on its way is ended.
func (m *Member) emptied() map[int]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[int]bool{}
	for shard, h := range m.kept {
		if !h.closing {
			continue
		}
		if h.changes > 0 && m.Clock.Since(h.since) < timeout {
			continue
		}
		h.end()
		out[shard] = true
	}
	return out
}

// next is the table after a decision.
func (m *Member) next(t Table, d decision, emptied map[int]bool) (Table, bool) {
	t.Shards = slices.Clone(t.Shards)
	changed := false
	for _, shard := range d.take {
		s := &t.Shards[shard]
		switch s.Holder {
		case "":
		case m.Epoch:
			s.Before, s.InOrder = m.Epoch, true
		default:
			s.Before, s.InOrder = s.Holder, false
		}
		s.Holder = m.Epoch
		s.Term++
		changed = true
	}
	mine := m.holds()
	for i := range t.Shards {
		s := &t.Shards[i]
		if s.Holder != m.Epoch || slices.Contains(d.take, i) || mine[i] && !emptied[i] {
			continue
		}
		s.Holder, s.Before, s.InOrder = "", m.Epoch, true
		changed = true
	}
	return t, changed
}

// settle notes what the table that was written says.
func (m *Member) settle(ctx context.Context, t Table, taken []int) error {
	proven := map[int]bool{}
	for _, shard := range taken {
		s := t.Shards[shard]
		proven[shard] = s.Before == "" || s.InOrder || m.watch.proven(s.Before)
	}
	var err error
	if len(taken) > 0 {
		// The counts of replicas that gave up shards are read after that.
		err = m.look(ctx)
	}
	m.mu.Lock()
	m.known.notes = t.Notes
	for shard, h := range m.kept {
		if t.Shards[shard].Holder != m.Epoch {
			h.end()
			delete(m.kept, shard)
		}
	}
	for _, shard := range taken {
		m.kept[shard] = &holding{term: Term{Before: t.Shards[shard].Before, Proven: proven[shard]}, ways: map[*bool]context.CancelCauseFunc{}}
	}
	m.mu.Unlock()
	if len(taken) > 0 {
		m.Log.Info("Shards are this replica's now", "shards", len(taken))
		if m.Gained != nil {
			m.Gained(taken)
		}
	}
	return err
}

// leave gives everything up, so that others need not wait.
func (m *Member) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, m.Times.Fence)
	defer cancel()
	m.close(slices.Collect(maps.Keys(m.holds())))
	for m.slot.Name != "" && ctx.Err() == nil {
		if m.free(ctx) {
			return
		}
		select {
		case <-ctx.Done():
		case <-m.Clock.After(m.Times.Period / 8):
		}
	}
	m.drop()
}

// free writes that nothing is held and no one sits; false if something is still on its way or has
// failed.
func (m *Member) free(ctx context.Context) bool {
	mine := m.holds()
	if len(m.emptied()) < len(mine) {
		return false
	}
	t, err := m.Store.Table(ctx)
	if err != nil {
		return false
	}
	if next, changed := m.next(t, decision{}, mine); changed {
		if _, err := m.Store.PutTable(ctx, next); err != nil {
			return false
		}
	}
	m.drop()
	if _, err := m.Store.PutSeat(ctx, m.slot.left()); err == nil {
		m.slot = Seat{}
		return true
	}
	return m.overtaken(ctx) == nil
}

// Shard is the shard of a key.
func (m *Member) Shard(key string) int { return ShardOf(key, m.Shards) }

// Holds reports whether the key is this process's to work on now, and how it came to it.
func (m *Member) Holds(key string) (Term, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.kept[m.Shard(key)]
	if h == nil || h.closing || !m.fresh(m.Clock.Now()) {
		return Term{}, false
	}
	return h.term, true
}

// Mine reports whether the key is this process's, which may be about to give it up.
func (m *Member) Mine(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.kept[m.Shard(key)]
	return h != nil && !h.closing
}

// Trusted reports whether this process may do anything for others to see: whether its seat was
// renewed not long ago. It is asked just before bytes are sent.
func (m *Member) Trusted() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.fresh(m.Clock.Now()) {
		return ErrNotHeld
	}
	return nil
}

// Pass asks for one request about a key, which may change something. The request is to be made with
// the context, and done to be called when it has been answered.
func (m *Member) Pass(ctx context.Context, key string, changes bool) (_ context.Context, done func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.kept[m.Shard(key)]
	if h == nil || h.closing || !m.fresh(m.Clock.Now()) {
		return nil, nil, ErrNotHeld
	}
	ctx, cancel := context.WithCancelCause(ctx)
	way := &changes
	h.ways[way] = cancel
	if changes {
		h.changes++
	}
	return ctx, sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(h.ways, way)
		cancel(nil)
		if !changes {
			return
		}
		if h.changes--; h.changes == 0 && h.closing {
			m.again()
		}
	}), nil
}

// Sequence is how often the seat was renewed, as far as that is known to be written.
func (m *Member) Sequence() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known.sequence
}

// Line are all processes that the seats know, living and gone, each once, as far as it had counted
// when the seats were last read: one that has lost a seat and sits again stands there several
// times. Fellows are the members of them that live, as was seen from here.
func (m *Member) Line() (line []Past, fellows map[string]uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known.past, m.known.fellows
}

// Notes are the notes about keys, as the table had them last, with those that are still to be
// written.
func (m *Member) Notes() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := maps.Clone(m.known.notes)
	if out == nil {
		out = map[string]string{}
	}
	for key, note := range m.known.wanted {
		if out[key] = note; note == "" {
			delete(out, key)
		}
	}
	return out
}

// Note has a note about a key written; an empty one is removed. It is for the holder of the key.
func (m *Member) Note(key, note string) {
	m.mu.Lock()
	if m.known.wanted[key] == note && (note != "" || m.known.notes[key] == "") {
		m.mu.Unlock()
		return
	}
	m.known.wanted[key] = note
	m.mu.Unlock()
	m.again()
}
