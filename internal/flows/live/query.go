package live

import (
	"cmp"
	"crypto/aes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// The bounds of answers.
const (
	defaultLimit = 1000
	maxFlows     = 5000
	maxText      = 1024
)

// Sight is what a caller may see.
type Sight struct {
	// All lets him see everything, Cluster the policies of the cluster.
	All, Cluster bool
	// Namespace reports whether he may list the network policies of a Namespace.
	Namespace func(name string) bool
}

func (s *Sight) namespace(name string) bool { return s.All || name != "" && s.Namespace(name) }

// policy reports whether he may read the policy of a cause.
func (s *Sight) policy(by *analysis.TrafficCause) bool {
	if by.Namespace != "" {
		return s.namespace(by.Namespace)
	}
	return s.Cluster || s.All
}

// isMark is the form of what Store.mark makes, and of a number of former releases, which is one of
// another process.
var isMark = regexp.MustCompile(`^([0-9a-f]{32}|[0-9]{1,20})$`)

// filter is a question.
type filter struct {
	*analysis.FlowQuerySpec
	sight    Sight
	from, to end
	after    uint64
	follows  bool
}

// end is what an end has to be: in a range of addresses, or of a name.
type end struct {
	prefix netip.Prefix
	name   string
}

func parseEnd(text string) end {
	if p, err := netip.ParsePrefix(text); err == nil {
		return end{prefix: p.Masked()}
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return end{prefix: netip.PrefixFrom(a, a.BitLen())}
	}
	return end{name: strings.ToLower(text)}
}

// is reports whether one of the ends is meant: the one that received, or the Service that was
// asked.
func (e end) is(ends ...*analysis.FlowEnd) bool {
	if !e.prefix.IsValid() && e.name == "" {
		return true
	}
	for _, x := range ends {
		if x == nil {
			continue
		}
		if e.prefix.IsValid() {
			if a, err := netip.ParseAddr(x.Address); err == nil && e.prefix.Contains(a) {
				return true
			}
		} else if x.Name != "" && strings.Contains(strings.ToLower(strings.TrimPrefix(x.Namespace+"/"+x.Name, "/")), e.name) {
			return true
		}
	}
	return false
}

// Query answers a question, with what the caller may see. What is older than memory reaches comes
// from past, which may be nil, if the question says since when it asks. Its errors are about the
// question, or in past.
func (s *Store) Query(q *analysis.FlowQuerySpec, sight Sight, past Past, now time.Time) (*analysis.FlowQueryStatus, error) {
	f, err := parseQuery(q, sight)
	if err != nil {
		return nil, err
	}
	a := &answer{filter: f, places: map[nearly][]int32{}, FlowQueryStatus: &analysis.FlowQueryStatus{Limited: !sight.All, Flows: []analysis.SeenFlow{}}}
	oldest := s.answer(a, past != nil && q.Since != nil && !f.follows, now)
	if past != nil && q.Since != nil && !f.follows && q.Since.Time.Before(oldest) {
		take, begin := sight.begins(a.add)
		from, err := past.Scan(q.Since.Truncate(time.Minute), oldest, take)
		if err != nil {
			return nil, err
		}
		if from = begin(from); !from.IsZero() && from.Before(a.Since.Time) {
			a.Since = metav1.NewMicroTime(from)
		}
	}
	out, limit := a.FlowQueryStatus, int(cmp.Or(q.Limit, defaultLimit))
	slices.SortStableFunc(out.Flows, func(a, b analysis.SeenFlow) int {
		return cmp.Or(b.Last.Compare(a.Last.Time), cmp.Compare(a.From.Address, b.From.Address), cmp.Compare(a.To.Address, b.To.Address), cmp.Compare(a.Port, b.Port))
	})
	if len(out.Flows) > limit {
		out.More += int64(len(out.Flows) - limit)
		out.Flows = out.Flows[:limit]
	}
	return out, nil
}

// Past are flows that memory does not hold any more.
type Past interface {
	// Scan calls each for what was seen in the minutes from since on and before until, in any
	// order, and returns from when on it has any; the zero time if it has none. It ends when each
	// returns false.
	Scan(since, until time.Time, each func(*Entry) bool) (from time.Time, err error)
	// ScanDecided is Scan of entries that have no more than Store.Hits looks at.
	ScanDecided(since, until time.Time, each func(*Entry) bool) (from time.Time, err error)
}

// answer adds what memory holds to an answer, and returns from which minute on that is. Minutes are
// kept on disk; with minutes those count there of which memory has dropped a part already. Of the
// minute in which the store was made, what a former one has seen is not told.
func (s *Store) answer(a *answer, minutes bool, now time.Time) (oldest time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	a.Since = metav1.NewMicroTime(s.known(a.sight, now))
	if a.sight.All {
		losses := s.losses
		a.Losses, a.Enforcers = &losses, int32(len(s.heard))
	}
	if a.follows {
		a.after = s.numberOf(a.FlowQuerySpec.After)
	}
	last, heard := a.after, map[string]bool{}
	var since time.Time
	if a.FlowQuerySpec.Since != nil {
		since = a.FlowQuerySpec.Since.Time
	}
	oldest = s.each(since, minutes, func(w *window, k key, r *row) {
		if a.follows && r.seq <= a.after {
			return
		}
		e := w.entry(k, r)
		if !a.sight.All && a.sight.sees(e) {
			last, heard[e.Enforcer] = max(last, r.seq), true
		}
		a.add(e)
	})
	if a.sight.All {
		last = s.seq
	} else { // how many others report, and how much, is none of his business
		a.Enforcers = int32(len(heard))
	}
	a.Next = s.mark(last)
	return oldest
}

// mark encrypts the position up to which an answer goes. The position counts the entries of all
// enforcers, so a caller who may not see everything must learn nothing from it, nor from a forged
// one.
func (s *Store) mark(seq uint64) string {
	var b [aes.BlockSize]byte
	binary.BigEndian.PutUint64(b[:], seq)
	s.marks.Encrypt(b[:], b[:])
	return hex.EncodeToString(b[:])
}

// numberOf is the number of a mark. Of one that this process has not made, as after a restart, it
// is that of the beginning.
func (s *Store) numberOf(mark string) uint64 {
	b, err := hex.DecodeString(mark)
	if err != nil || len(b) != aes.BlockSize {
		return 0
	}
	s.marks.Decrypt(b, b)
	if binary.BigEndian.Uint64(b[8:]) != 0 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// known is since when memory knows flows, of what the caller may see. The caller of the function
// holds the lock.
func (s *Store) known(caller Sight, now time.Time) time.Time {
	since := s.since
	if !caller.All {
		since = s.born
		for namespace, until := range s.forgotten {
			if until.After(since) && caller.namespace(namespace) {
				since = until
			}
		}
	}
	if hour := now.Add(-Kept); hour.After(since) {
		return hour
	}
	return since
}

// begins wraps what takes entries of past, from when on it has any: a caller who does not see
// everything gets the time of the entries that he sees.
func (s *Sight) begins(take func(*Entry) bool) (wrapped func(*Entry) bool, from func(known time.Time) time.Time) {
	if s.All {
		return take, func(known time.Time) time.Time { return known }
	}
	var first time.Time
	return func(e *Entry) bool {
		if s.sees(e) && (first.IsZero() || e.First.Before(first)) {
			first = e.First
		}
		return take(e)
	}, func(time.Time) time.Time { return first }
}

// each calls do for what memory holds from a time on, and returns what answer does. The caller
// holds the lock.
func (s *Store) each(since time.Time, minutes bool, do func(*window, key, *row)) (oldest time.Time) {
	if oldest = s.since.Truncate(time.Minute); minutes && s.since.After(s.born) {
		oldest = s.since.Add(time.Minute - 1).Truncate(time.Minute)
	}
	for _, w := range slices.Backward(s.windows) {
		if w.start.Add(Window).Before(since) || w.start.Before(oldest) {
			break
		}
		for k, r := range w.rows {
			do(w, k, r)
		}
	}
	return oldest
}

// answer is an answer while it is made.
type answer struct {
	*filter
	*analysis.FlowQueryStatus
	// places holds the places of flows, by what is cheap to compare, and keys what they are in
	// whole.
	places map[nearly][]int32
	keys   []alike
}

func parseQuery(q *analysis.FlowQuerySpec, sight Sight) (*filter, error) {
	f := &filter{FlowQuerySpec: q, sight: sight, from: parseEnd(q.From), to: parseEnd(q.To)}
	for field, text := range map[string]string{"from": q.From, "to": q.To, "namespace": q.Namespace, "enforcer": q.Enforcer, "policy": q.Policy} {
		if len(text) > maxText {
			return nil, &Problem{"spec." + field, fmt.Sprintf("at most %d bytes", maxText)}
		}
	}
	switch {
	case q.Port < 0 || q.Port > 65535:
		return nil, &Problem{"spec.port", "a number up to 65535"}
	case q.Verdict != "" && q.Verdict != "Allow" && q.Verdict != "Denied" && q.Verdict != "Unknown":
		return nil, &Problem{"spec.verdict", "Allow, Denied or Unknown"}
	case q.Limit < 0 || q.Limit > maxFlows:
		return nil, &Problem{"spec.limit", fmt.Sprintf("a number up to %d", maxFlows)}
	}
	if f.follows = q.After != ""; f.follows && !isMark.MatchString(q.After) {
		return nil, &Problem{"spec.after", "the next of an answer"}
	}
	return f, nil
}

// alike is what entries of several windows have in common that are one flow of an answer.
type alike struct {
	enforcer, direction, client, server, service, protocol, verdict, differs string
	port, servicePort                                                        int32
	from, to                                                                 analysis.FlowEnd
	by, before                                                               analysis.TrafficCause
	window                                                                   time.Time
}

// nearly is what flows have in common that are alike, and few others: a hash of it, and not of all
// texts, is made for every entry.
type nearly struct {
	client, server netip.Addr
	port           uint16
	protocol       uint8
	// window is when its minute began, or the same for all.
	window int64
}

// place is that of a flow in the answer; -1 if it has none.
func (a *answer) place(near nearly, k *alike) int {
	for _, at := range a.places[near] {
		if a.keys[at] == *k {
			return int(at)
		}
	}
	return -1
}

// add adds an entry to the answer, if it is asked for and the caller may see it. It is false if the
// answer has no room.
func (a *answer) add(e *Entry) bool {
	x, seen := a.see(e)
	if !seen || !a.takes(&x) {
		return true
	}
	k := alike{x.Enforcer, x.Direction, x.From.Address, x.To.Address, "", x.Protocol, x.Verdict, x.Differs, x.Port, x.ServicePort,
		x.From, x.To, x.By, analysis.TrafficCause{}, time.Time{}}
	if x.Before != nil {
		k.before = *x.Before
	}
	if x.Service != nil {
		k.service = x.Service.Address
	}
	if a.follows { // each window is reported by itself, so that a follower sees what was added
		k.window = e.Start
		x.First = metav1.NewMicroTime(e.Start)
	}
	near := nearly{e.Client, e.Server, e.Port, e.Protocol, k.window.Unix()}
	switch at := a.place(near, &k); {
	case at >= 0:
		sum(&a.Flows[at], &x)
	case len(a.Flows) >= maxFlows*4:
		a.More++
	default:
		a.places[near] = append(a.places[near], int32(len(a.Flows)))
		a.keys, a.Flows = append(a.keys, k), append(a.Flows, x)
	}
	return true
}

func sum(into, x *analysis.SeenFlow) {
	if x.First.Before(&into.First) {
		into.First = x.First
	}
	if into.Last.Before(&x.Last) {
		into.Last = x.Last
	}
	into.Connections, into.Ended = into.Connections+x.Connections, into.Ended+x.Ended
	into.Packets, into.Bytes = into.Packets+x.Packets, into.Bytes+x.Bytes
	into.ReplyPackets, into.ReplyBytes = into.ReplyPackets+x.ReplyPackets, into.ReplyBytes+x.ReplyBytes
	into.Uncounted = into.Uncounted || x.Uncounted
}

// see is an entry as the caller may see it; false if he may not see it at all: neither end is in a
// Namespace of his, nor is the one that saw it.
func (f *filter) see(e *Entry) (analysis.SeenFlow, bool) {
	host, isHost := HostOf(e.Enforcer)
	if !f.sight.sees(e) {
		return analysis.SeenFlow{}, false
	}
	x := analysis.SeenFlow{
		First: metav1.NewMicroTime(e.First), Last: metav1.NewMicroTime(e.Last), Enforcer: e.Enforcer, Direction: e.Direction,
		From: f.end(e.Client, e.ClientOwner), To: f.end(e.Server, e.ServerOwner), Protocol: ProtocolName(e.Protocol), Port: int32(e.Port),
		Verdict: cmp.Or(e.Verdict, "Unknown"), Differs: e.Differs, By: e.Cause, Connections: e.Connections, Ended: e.Ended,
		Packets: e.Packets, Bytes: e.Bytes, ReplyPackets: e.ReplyPackets, ReplyBytes: e.ReplyBytes, Uncounted: e.Uncounted,
	}
	if e.Asked.IsValid() {
		service := f.end(e.Asked.Addr(), e.AskedOwner)
		x.Service, x.ServicePort = &service, int32(e.Asked.Port())
	}
	// The Node of a hidden end is as hidden as that.
	at := func(o Owner) bool { return o.Enforcer == e.Enforcer && f.sight.namespace(o.Namespace) }
	if isHost && !f.sight.namespace(host) || !isHost && !f.sight.All && !at(e.ClientOwner) && !at(e.ServerOwner) {
		x.Enforcer = ""
	}
	if x.By.Name != "" && !f.sight.policy(&x.By) {
		x.By, x.Hidden = analysis.TrafficCause{Cause: x.By.Cause}, true
	}
	if before := e.Before; before.Cause != "" {
		if before.Name != "" && !f.sight.policy(&before) {
			before = analysis.TrafficCause{Cause: before.Cause}
		}
		x.Before = &before
	}
	return x, true
}

// HostOf is the Namespace of an enforcer that is a host: NAMESPACE/NAME. For a cloud account, which
// has a longer key, it is empty: a caller who may read the account's Namespace may not therefore
// see the traffic of its machines.
func HostOf(enforcer string) (namespace string, is bool) {
	parts := strings.Split(enforcer, "/")
	if len(parts) == 2 {
		namespace = parts[0]
	}
	return namespace, len(parts) > 1
}

// sees reports whether he may see an entry at all.
func (s *Sight) sees(e *Entry) bool {
	host, _ := HostOf(e.Enforcer)
	return s.All || s.namespace(e.ClientOwner.Namespace) || s.namespace(e.ServerOwner.Namespace) || s.namespace(host)
}

// end is an end as the caller may see it. A caller who sees the flow may see the name of a Node:
// the Pod at the other end says on which Node it runs.
func (f *filter) end(a netip.Addr, o Owner) analysis.FlowEnd {
	x := analysis.FlowEnd{Address: a.String()}
	switch {
	case o == (Owner{}):
	case o.Namespace != "" && !f.sight.namespace(o.Namespace):
		// An address like any other: that somebody has it is not told.
	default:
		x.Kind, x.Namespace, x.Name = o.Kind, o.Namespace, o.Name
	}
	return x
}

// takes reports whether a flow is asked for. It looks at what the caller sees alone, so that no one
// finds out what is hidden by asking for it.
func (f *filter) takes(x *analysis.SeenFlow) bool {
	switch {
	case f.Since != nil && x.Last.Before(f.Since):
	case f.Verdict == "Allow" && x.Verdict != "Allow":
	case f.Verdict == "Unknown" && x.Verdict != "Unknown":
	case f.Verdict == "Denied" && x.Verdict != "Drop" && x.Verdict != "Reject":
	case f.Differs && x.Differs == "":
	case f.Port != 0 && x.Port != f.Port && x.ServicePort != f.Port:
	case f.Enforcer != "" && x.Enforcer != f.Enforcer:
	case f.Namespace != "" && x.From.Namespace != f.Namespace && x.To.Namespace != f.Namespace:
	case f.Policy != "" && !calls(&x.By, f.Policy) && !calls(x.Before, f.Policy):
	default:
		return f.from.is(&x.From) && f.to.is(&x.To, x.Service)
	}
	return false
}

// calls reports whether a cause is a policy of the name.
func calls(c *analysis.TrafficCause, policy string) bool {
	return c != nil && c.Name != "" && (c.Name == policy || c.Namespace+"/"+c.Name == policy)
}

// ProtocolName is the name that people know, or the number.
func ProtocolName(p uint8) string {
	switch p {
	case 1:
		return "ICMP"
	case 6:
		return "TCP"
	case 17:
		return "UDP"
	case 58:
		return "ICMPv6"
	case 132:
		return "SCTP"
	}
	return strconv.Itoa(int(p))
}
