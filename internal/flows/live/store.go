package live

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"time"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

const (
	// Kept is how long flows are known.
	Kept = time.Hour
	// Window is the time that one entry sums up.
	Window = 15 * time.Second
	// DefaultBytes bounds the memory of a Store, about.
	DefaultBytes = 200 << 20
	// rowBytes is what an entry takes: key, sums, and their places in maps; measured by
	// TestMemoryOfRows.
	rowBytes = 360
	// textBytes is what an owner or a cause of a window takes besides its texts, which are shared.
	textBytes = 250
	// late is how much later than its first packet an object may say that it has an address.
	late = 30 * time.Second
	// maxDelay bounds how long ago a report may be from. Enforcers that could not reach the
	// controller send what waits.
	maxDelay = 10 * time.Minute
	// share is the part of all entries that one enforcer may have once these are many.
	share = 4
	// maxCount bounds a number in a report.
	maxCount = 1 << 53
)

// Store holds what was reported.
type Store struct {
	owners *Owners
	most   int

	mu sync.Mutex
	// windows are those that are known, the oldest first.
	windows []*window
	rows    int
	texts   int
	held    map[string]int
	heard   map[string]time.Time
	since   time.Time
	// born is when it was made: as long as nothing was dropped, it is since.
	born time.Time
	// forgotten is, by Namespace, until when flows were dropped before their time.
	forgotten map[string]time.Time
	seq       uint64
	// marks hides numbers from callers who may not see everything.
	marks  cipher.Block
	losses analysis.FlowLosses
	// differing is where traffic is not as rules say.
	differing disagreements
	// unalarmed counts entries that differ and found no room there.
	unalarmed int64
	// taps take what comes.
	taps []chan *Entry
	// passed counts connections and their bytes since the start, by verdict.
	passed map[string]Passed
}

// window is what was seen within one Window.
type window struct {
	start    time.Time
	rows     map[key]*row
	latest   map[tuple]outcome
	owners   table[Owner]
	causes   table[analysis.TrafficCause]
	reporter table[string]
	held     map[string]int
}

// table gives numbers to values; that of the zero value is 0.
type table[T comparable] struct {
	numbers map[T]uint32
	values  []T
}

func (t *table[T]) number(v T) uint32 {
	var none T
	if t.numbers == nil {
		t.numbers, t.values = map[T]uint32{none: 0}, []T{none}
	}
	n, known := t.numbers[v]
	if !known {
		n = uint32(len(t.values))
		t.numbers[v], t.values = n, append(t.values, v)
	}
	return n
}

// tuple is what connections have in common, whatever became of them.
type tuple struct {
	reporter                        uint32
	client, server, asked           [16]byte
	clientOwner, serverOwner, named uint32
	port, askedPort                 uint16
	protocol, direction             uint8
}

// outcome is what became of connections, and what decided. Before is what had let them pass before.
type outcome struct {
	cause, before    uint32
	verdict, differs uint8
}

// key is what an entry sums up.
type key struct {
	tuple
	outcome
}

// row holds no pointers, so that the collector of garbage passes them over.
type row struct {
	seq                                                          uint64
	first, last                                                  int64
	connections, ended, packets, bytes, replyPackets, replyBytes int64
	uncounted                                                    bool
}

// agentWords is how many of the words for how traffic differs are the words of agents, which do
// not see what a cloud drops.
const agentWords = 3

// The words of reports, by their numbers.
var (
	verdicts   = [...]string{"", "Allow", "Drop", "Reject"}
	directions = [...]string{"", "In", "Out", "Through"}
	differing  = [...]string{"", "Leaks", "MayBeOld", "Cut", "RefusedByCloud"}
)

// New returns a Store that takes so many bytes at most, about; DefaultBytes if that is 0.
func New(o *Owners, bytes int, now time.Time) *Store {
	if bytes <= 0 {
		bytes = DefaultBytes
	}
	var key [16]byte
	_, _ = rand.Read(key[:]) // it never fails
	marks, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // only another length of the key is an error
	}
	return &Store{
		owners: o, most: bytes, held: map[string]int{}, heard: map[string]time.Time{}, since: now, born: now, forgotten: map[string]time.Time{},
		passed: map[string]Passed{}, marks: marks,
	}
}

// Policy returns what the policy with a UID is called; false if the enforcer was not given it.
type Policy func(uid string) (kind, namespace, name string, known bool)

// Problem says what is wrong with a report.
type Problem struct{ Field, Want string }

func (p *Problem) Error() string { return p.Field + ": want " + p.Want }

// Add takes in a report of an enforcer. A report that is malformed as a whole is an error, and
// nothing of it is taken; of entries that are malformed it returns how many were left out. Policy
// knows the policies that the enforcer was given.
func (s *Store) Add(enforcer string, r *analysis.TrafficReportSpec, policy Policy, now time.Time) (refused int, err error) {
	switch {
	case len(r.Traffic) > analysis.MostReportedTraffic:
		return 0, &Problem{"spec.traffic", fmt.Sprintf("at most %d entries", analysis.MostReportedTraffic)}
	case len(r.Causes) > analysis.MostReportedCauses:
		return 0, &Problem{"spec.causes", fmt.Sprintf("at most %d entries", analysis.MostReportedCauses)}
	case r.Until.Time.Before(r.Since.Time):
		return 0, &Problem{"spec.until", "a time that is not before spec.since"}
	case !within(r.Losses.Overruns, r.Losses.Ends, r.Losses.Packets, r.Losses.Connections):
		return 0, &Problem{"spec.losses", "numbers that are not negative"}
	}
	causes := make([]analysis.TrafficCause, len(r.Causes))
	for i, c := range r.Causes {
		if err := checkCause(&c, i); err != nil {
			return 0, err
		}
		if c.UID != "" {
			var known bool // what a policy is called is not for the enforcer to say
			if c.Type, c.Namespace, c.Name, known = policy(c.UID); !known {
				c = analysis.TrafficCause{Cause: "Unknown", Why: "the enforcer has no policy of that UID, or it was deleted meanwhile"}
			}
		}
		causes[i] = c
	}
	// The clock of the enforcer may be wrong, but not by how much time has passed on it.
	at := now
	if delay := r.Sent.Sub(r.Until.Time); !r.Sent.IsZero() && delay > 0 {
		at = now.Add(-min(delay, maxDelay))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	s.heard[enforcer] = now
	s.losses.Overruns += r.Losses.Overruns
	s.losses.Ends += r.Losses.Ends
	s.losses.Packets += r.Losses.Packets
	s.losses.Connections += r.Losses.Connections
	for i := range r.Traffic {
		t, ok := parse(&r.Traffic[i], len(causes))
		if !ok {
			refused++
			continue
		}
		s.add(enforcer, t, causes, at, now, r.Uncounted)
	}
	s.losses.Refused += int64(refused)
	return refused, nil
}

// parsed is an entry of a report.
type parsed struct {
	*analysis.ReportedTraffic
	client, server              netip.Addr
	asked                       netip.AddrPort
	verdict, direction, differs uint8
}

func parse(t *analysis.ReportedTraffic, causes int) (p parsed, ok bool) {
	p.ReportedTraffic = t
	var errs [3]error
	p.client, errs[0] = netip.ParseAddr(t.Client)
	p.server, errs[1] = netip.ParseAddr(t.Server)
	if t.Service != "" {
		p.asked, errs[2] = netip.ParseAddrPort(t.Service)
	}
	if errs != [3]error{} || p.client.Zone() != "" || p.server.Zone() != "" || p.asked.Addr().Zone() != "" {
		return p, false
	}
	var known [3]bool
	p.verdict, known[0] = place(verdicts[:], t.Verdict)
	p.direction, known[1] = place(directions[1:], t.Direction)
	p.differs, known[2] = place(differing[:agentWords], t.Differs)
	p.direction++
	placed := t.By >= 0 && int(t.By) < causes || t.By == -1 && t.Verdict == ""
	if t.Before != nil {
		placed = placed && *t.Before >= 0 && int(*t.Before) < causes && t.Verdict != ""
	}
	return p, known == [3]bool{true, true, true} && placed && within(t.Connections, t.Ended, t.Packets, t.Bytes, t.ReplyPackets, t.ReplyBytes)
}

func place(words []string, word string) (uint8, bool) {
	for i, w := range words {
		if w == word {
			return uint8(i), true
		}
	}
	return 0, false
}

func within(numbers ...int64) bool {
	for _, n := range numbers {
		if n < 0 || n > maxCount {
			return false
		}
	}
	return true
}

func checkCause(c *analysis.TrafficCause, i int) error {
	known := strings.Contains(" Policy Isolation Native Failsafe Frame Related Itself NoPod Routed Unknown ", " "+c.Cause+" ")
	if !known || strings.Contains(c.Cause, " ") {
		return &Problem{fmt.Sprintf("spec.causes[%d].cause", i), "Policy, Isolation, Native, Failsafe, Frame, Related, Itself, NoPod, Routed or Unknown"}
	}
	for field, text := range map[string]string{"type": c.Type, "namespace": c.Namespace, "name": c.Name, "uid": c.UID, "rule": c.Rule, "why": c.Why} {
		if len(text) > analysis.MostReportedName {
			return &Problem{fmt.Sprintf("spec.causes[%d].%s", i, field), fmt.Sprintf("at most %d bytes", analysis.MostReportedName)}
		}
	}
	if c.Direction != "" && c.Direction != "In" && c.Direction != "Out" {
		return &Problem{fmt.Sprintf("spec.causes[%d].direction", i), "In or Out"}
	}
	if c.UID == "" && (c.Name != "" || c.Namespace != "" || c.Cause == "Policy") {
		return &Problem{fmt.Sprintf("spec.causes[%d].uid", i), "the UID of the policy"}
	}
	return nil
}

// add adds an entry to its window.
func (s *Store) add(enforcer string, t parsed, causes []analysis.TrafficCause, at, now time.Time, uncounted bool) {
	w := s.window(at)
	if w == nil {
		s.losses.Forgotten++
		return
	}
	k := key{tuple: tuple{
		reporter: w.reporter.number(enforcer), client: t.client.As16(), server: t.server.As16(), port: t.Port, protocol: t.Protocol, direction: t.direction,
	}, outcome: outcome{verdict: t.verdict, differs: t.differs}}
	client, _ := s.owners.At(t.client, at, enforcer)
	server, _ := s.owners.At(t.server, at, enforcer)
	if client.Enforcer == enforcer || server.Enforcer == enforcer {
		k.clientOwner, k.serverOwner = s.ownerNumber(w, client), s.ownerNumber(w, server)
	}
	if t.asked.IsValid() {
		k.asked, k.askedPort = t.asked.Addr().As16(), t.asked.Port()
		if asked, known := s.owners.At(t.asked.Addr(), at, ""); known && k.clientOwner != 0 {
			k.named = s.ownerNumber(w, asked)
		}
	}
	switch {
	case t.Verdict != "":
		if k.cause = s.causeNumber(w, causes[t.By]); t.Before != nil {
			k.before = s.causeNumber(w, causes[*t.Before])
		}
	default: // what has ended goes to what let it begin
		if found := s.began(w, k.tuple); found != nil {
			k.outcome = *found
		} else {
			k.cause = s.causeNumber(w, analysis.TrafficCause{Cause: "Unknown", Why: "the beginning of the connection was not seen"})
		}
	}
	added := &row{first: at.UnixNano(), last: at.UnixNano(), uncounted: uncounted, connections: t.Connections, ended: t.Ended,
		packets: t.Packets, bytes: t.Bytes, replyPackets: t.ReplyPackets, replyBytes: t.ReplyBytes}
	s.record(w, k, added, enforcer, now)
}

// record adds to the entry of a key.
func (s *Store) record(w *window, k key, added *row, enforcer string, now time.Time) {
	r := w.rows[k]
	if r == nil {
		if s.full(enforcer) {
			s.losses.Forgotten++
			return
		}
		r = &row{first: added.first}
		w.rows[k] = r
		w.held[enforcer]++
		s.held[enforcer]++
		s.rows++
	}
	if k.verdict != 0 {
		w.latest[k.tuple] = k.outcome
	}
	s.count(k, added)
	if alarmed := alarms(differing[k.differs]) && added.connections > 0; alarmed || len(s.taps) > 0 {
		e := w.entry(k, added)
		s.pour(e)
		if alarmed && !s.differing.note(e, now) {
			s.unalarmed++
		}
	}
	s.seq++
	r.seq, r.last, r.uncounted = s.seq, max(r.last, added.last), r.uncounted || added.uncounted
	r.connections, r.ended = r.connections+added.connections, r.ended+added.ended
	r.packets, r.bytes = r.packets+added.packets, r.bytes+added.bytes
	r.replyPackets, r.replyBytes = r.replyPackets+added.replyPackets, r.replyBytes+added.replyBytes
	s.trim()
}

func (s *Store) ownerNumber(w *window, o Owner) uint32 {
	before := len(w.owners.values)
	n := w.owners.number(o)
	s.texts += len(w.owners.values) - before
	return n
}

func (s *Store) causeNumber(w *window, c analysis.TrafficCause) uint32 {
	before := len(w.causes.values)
	n := w.causes.number(c)
	s.texts += len(w.causes.values) - before
	return n
}

// began finds what let the connections of a tuple begin, in the window itself or those before.
func (s *Store) began(w *window, t tuple) *outcome {
	for i := len(s.windows) - 1; i >= 0; i-- {
		in := s.windows[i]
		if in.start.After(w.start) {
			continue
		}
		there, ok := translate(t, w, in)
		if !ok {
			continue
		}
		found, known := in.latest[there]
		if !known || verdicts[found.verdict] != "Allow" {
			continue
		}
		found.cause, found.before = s.causeNumber(w, in.causes.values[found.cause]), s.causeNumber(w, in.causes.at(found.before))
		return &found
	}
	return nil
}

// translate says what a tuple of one window is in another one, whose tables give other numbers.
func translate(t tuple, from, to *window) (tuple, bool) {
	if from == to {
		return t, true
	}
	reporter, known := to.reporter.numbers[from.reporter.values[t.reporter]]
	t.reporter = reporter
	for _, n := range []*uint32{&t.clientOwner, &t.serverOwner, &t.named} {
		if *n == 0 {
			continue
		}
		number, there := to.owners.numbers[from.owners.values[*n]]
		known = known && there
		*n = number
	}
	return t, known
}

// full reports whether an enforcer may have no further entries: there are many, and it has more
// than its share of them.
func (s *Store) full(enforcer string) bool {
	return s.size() > s.most/2 && s.held[enforcer]*rowBytes > s.most/share
}

func (s *Store) size() int { return s.rows*rowBytes + s.texts*textBytes }

// window returns the one of a time; nil if it was forgotten already.
func (s *Store) window(at time.Time) *window {
	start := at.Truncate(Window)
	i := len(s.windows)
	for i > 0 && s.windows[i-1].start.After(start) {
		i--
	}
	if i > 0 && s.windows[i-1].start.Equal(start) {
		return s.windows[i-1]
	}
	if i == 0 && len(s.windows) > 0 && start.Before(s.since.Truncate(Window)) {
		return nil
	}
	w := &window{start: start, rows: map[key]*row{}, latest: map[tuple]outcome{}, held: map[string]int{}}
	s.windows = append(s.windows, nil)
	copy(s.windows[i+1:], s.windows[i:])
	s.windows[i] = w
	return w
}

// expire drops the windows whose time is over.
func (s *Store) expire(now time.Time) {
	for len(s.windows) > 0 && now.Sub(s.windows[0].start) > Kept+Window {
		s.drop()
	}
	maps.DeleteFunc(s.heard, func(_ string, at time.Time) bool { return now.Sub(at) > Kept })
	maps.DeleteFunc(s.forgotten, func(_ string, until time.Time) bool { return now.Sub(until) > Kept })
}

// drop forgets the oldest window.
func (s *Store) drop() {
	w := s.windows[0]
	s.windows[0] = nil
	s.windows = s.windows[1:]
	s.rows -= len(w.rows)
	s.texts -= max(len(w.owners.values), 0) + max(len(w.causes.values), 0)
	for enforcer, n := range w.held {
		if s.held[enforcer] -= n; s.held[enforcer] <= 0 {
			delete(s.held, enforcer)
		}
	}
	s.since = w.start.Add(Window)
}

// Passed are connections and what those that have ended carried, both ways.
type Passed struct{ Connections, Bytes int64 }

// count counts an entry by its verdict.
func (s *Store) count(k key, r *row) {
	verdict := verdicts[k.verdict]
	if verdict == "" {
		verdict = "Unknown"
	}
	n := s.passed[verdict]
	n.Connections, n.Bytes = n.Connections+r.connections, n.Bytes+r.bytes+r.replyBytes
	s.passed[verdict] = n
}

// Stats are what metrics tell.
type Stats struct {
	Flows, Bytes, Enforcers int
	Losses                  analysis.FlowLosses
	// Passed counts what was reported since the start, by verdict.
	Passed map[string]Passed
	// Unalarmed counts entries that differ and stand in no Disagreement, as there are too many.
	Unalarmed int64
}

// Stats returns the counts.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Flows: s.rows, Bytes: s.size(), Enforcers: len(s.heard), Losses: s.losses, Passed: maps.Clone(s.passed), Unalarmed: s.unalarmed}
}
