package traffic

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/conntrack"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

const (
	// interval is how long connections are summed up before they are sent.
	interval = 2 * time.Second
	// mostRows bounds the sums of one interval.
	mostRows = 20_000
	// mostWaiting bounds the reports that wait to be sent: at mostRows in each interval, the
	// reports of about ten seconds; at ordinary rates of minutes.
	mostWaiting = 60
	// settling is how long after a change of the rules a connection that these drop may have begun
	// before it.
	settling = 2 * time.Second
	// A report has so many bytes at most: as an entry of it is counted, of which the longest take a
	// fifth more.
	mostBytes, entryBytes = analysis.MostReportedBytes * 3 / 4, 400
	// mostJudged bounds the verdicts that are remembered.
	mostJudged = 50_000
)

// Judge says what the rules in force do with the first packet of a connection.
type Judge interface {
	// InForce returns the program in force and since when it is; nil before there is one.
	InForce() (p *ruleset.Program, since time.Time)
	// LoggedRule finds the rule of a LogID.
	LoggedRule(id string) (ruleset.Origin, bool)
}

// Recorder sums up connections.
type Recorder struct {
	// Judge is set before the first event.
	Judge Judge
	clock clock.WithTicker
	// through tells that connections that begin and end elsewhere are judged as well, as on a Node.
	through bool

	mu      sync.Mutex
	since   time.Time
	rows    map[key]*sum
	losses  analysis.TrafficLosses
	waiting []*analysis.TrafficReport
	// program is that of the verdicts in judged.
	program *ruleset.Program
	exact   bool
	judged  map[question]verdict
	stats   Status
}

// Status is what the agent says of its recording.
type Status struct {
	// Connections and Denied count what was seen since the start.
	Connections int64 `json:"connections"`
	Denied      int64 `json:"denied"`
	// Found counts the connections that were found in the kernel's table, after it had dropped
	// their events.
	Found int64 `json:"found,omitempty"`
	// Losses count what was not told.
	Losses analysis.TrafficLosses `json:"losses"`
	// Error is why the last report was not taken, Unread why events cannot be received.
	Error  string `json:"error,omitempty"`
	Unread string `json:"unread,omitempty"`
}

// key is what connections have in common that one entry sums up.
type key struct {
	question
	service netip.AddrPort
	verdict
	differs string
}

// question is what one verdict is for.
type question struct {
	way                 ruleset.Way
	direction           ruleset.Direction
	source, destination netip.Addr
	protocol            uint8
	port                uint16
	// kind and code are the type and code of ICMP, which rules look at.
	kind, code uint8
	translated netip.AddrPort
}

// verdict is what became of connections, and what decided. Before is what had let them pass before
// that; its cause is empty if nothing had.
type verdict struct {
	word       string
	by, before analysis.TrafficCause
}

type sum struct{ connections, ended, packets, bytes, replyPackets, replyBytes int64 }

// New returns a Recorder, which needs a Judge before anything is recorded. Through tells that the
// host is a Node, on which rules also decide about what passes through.
func New(through bool, clk clock.WithTicker) *Recorder {
	return &Recorder{clock: clk, through: through, since: clk.Now(), rows: map[key]*sum{}, judged: map[question]verdict{}}
}

// Event takes in a connection that has begun or ended.
func (r *Recorder) Event(e conntrack.Event) {
	if e.Packet.Loopback {
		return
	}
	p := &e.Packet
	k := key{question: question{way: e.Way, direction: p.Direction, source: p.Source.Unmap(), destination: p.Destination.Unmap(), protocol: p.Protocol, port: p.Port}}
	if p.Protocol == ruleset.ICMP || p.Protocol == ruleset.ICMPv6 {
		k.port, k.kind, k.code = 0, p.Type, p.Code
	}
	if p.Translated {
		k.translated, k.service = p.Original, p.Original
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Ended {
		if s := r.row(k); s != nil {
			s.ended++
			s.packets, s.bytes = s.packets+int64(e.Packets), s.bytes+int64(e.Bytes)
			s.replyPackets, s.replyBytes = s.replyPackets+int64(e.ReplyPackets), s.replyBytes+int64(e.ReplyBytes)
		}
		return
	}
	if r.stats.Connections++; e.Found {
		r.stats.Found++
	}
	k.verdict, k.differs = r.verdict(k.question, &e)
	if s := r.row(k); s != nil {
		s.connections++
	}
}

// verdict says what let a connection pass. What passes though the rules in force drop it differs
// from these.
func (r *Recorder) verdict(q question, e *conntrack.Event) (v verdict, differs string) {
	passed := func(cause, why string) verdict {
		return verdict{word: "Allow", by: analysis.TrafficCause{Cause: cause, Why: why}}
	}
	switch {
	case e.Expected:
		return passed("Related", ""), ""
	case e.Way == ruleset.Passing && !r.through:
		return passed("Routed", "the agent of a host does not judge what passes through it"), ""
	}
	program, since := r.Judge.InForce()
	if program == nil {
		return passed("Unknown", "no policies were in force yet"), ""
	}
	if program != r.program {
		clear(r.judged)
		r.program, r.exact = program, program.NamesSourcePorts()
	}
	v, known := r.judged[q]
	if !known || r.exact {
		j := program.JudgeWay(e.Way, e.Packet)
		v = verdict{word: wordOf(j.Action), by: causeOf(&j.By, j.Direction)}
		if j.Before != nil {
			v.before = causeOf(&j.Before.By, j.Before.Direction)
		}
		if len(r.judged) >= mostJudged {
			clear(r.judged)
		}
		r.judged[q] = v
	}
	if v.word == "Allow" {
		return v, ""
	}
	v.word, differs = "Allow", "Leaks"
	if e.PickedUp || e.Found || r.clock.Now().Sub(since) < settling {
		differs = "MayBeOld"
	}
	return v, differs
}

// Denied takes in a packet that a rule has denied, and how many went missing before it.
func (r *Recorder) Denied(p kernel.Logged, lost uint32) {
	origin, known := r.Judge.LoggedRule(p.Rule)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses.Packets += int64(lost)
	r.stats.Losses.Packets += int64(lost)
	word := string(origin.Logged.Action)
	if !known || word != "Drop" && word != "Reject" { // somebody else's, or of a rule that lets pass
		return
	}
	r.stats.Denied++
	k := key{
		question: question{direction: origin.Logged.Direction, source: p.Source.Unmap(), destination: p.Destination.Unmap(), protocol: p.Protocol, port: p.Port},
		verdict:  verdict{word: word, by: causeOf(&origin, origin.Logged.Direction)},
	}
	if k.way = ruleset.Arriving; origin.Logged.Direction == ruleset.Egress {
		k.way = ruleset.Leaving
	}
	if s := r.row(k); s != nil {
		s.connections++
		s.packets, s.bytes = s.packets+1, s.bytes+int64(p.Length)
	}
}

// row returns the sum of a key; nil if there are as many as may be.
func (r *Recorder) row(k key) *sum {
	s := r.rows[k]
	if s == nil {
		if len(r.rows) >= mostRows {
			r.lose(1)
			return nil
		}
		s = &sum{}
		r.rows[k] = s
	}
	return s
}

func (r *Recorder) lose(connections int64) {
	r.losses.Connections += connections
	r.stats.Losses.Connections += connections
}

// Overrun notes that the kernel has dropped events.
func (r *Recorder) Overrun() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses.Overruns++
	r.stats.Losses.Overruns++
}

// Unended notes that so many connections have ended while the kernel dropped events.
func (r *Recorder) Unended(connections int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses.Ends += int64(connections)
	r.stats.Losses.Ends += int64(connections)
}

// Fail notes that nothing is received any more.
func (r *Recorder) Fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Unread = err.Error()
}

// Status returns the counts.
func (r *Recorder) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// cut makes reports of what was summed up, and queues them. What does not find room pushes out the
// oldest, which is counted.
func (r *Recorder) cut(uncounted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, now := r.since, r.clock.Now()
	r.since = now
	if len(r.rows) == 0 && r.losses == (analysis.TrafficLosses{}) {
		return
	}
	for len(r.rows) > 0 || r.losses != (analysis.TrafficLosses{}) {
		report := &analysis.TrafficReport{Spec: analysis.TrafficReportSpec{
			Since: metav1.NewMicroTime(since), Until: metav1.NewMicroTime(now), Losses: r.losses, Uncounted: uncounted,
		}}
		r.losses = analysis.TrafficLosses{}
		r.fill(&report.Spec)
		r.waiting = append(r.waiting, report)
	}
	for len(r.waiting) > mostWaiting {
		for i := range r.waiting[0].Spec.Traffic {
			r.lose(r.waiting[0].Spec.Traffic[i].Connections)
		}
		r.losses = plus(r.losses, r.waiting[0].Spec.Losses)
		r.waiting = slices.Delete(r.waiting, 0, 1)
	}
}

// fill moves sums into a report, as many as it may have.
func (r *Recorder) fill(spec *analysis.TrafficReportSpec) {
	places := map[analysis.TrafficCause]int32{}
	size := 0
	placeOf := func(c analysis.TrafficCause) int32 {
		place, known := places[c]
		if !known {
			place = int32(len(spec.Causes))
			places[c] = place
			spec.Causes = append(spec.Causes, c)
			size += entryBytes + len(c.Namespace) + len(c.Name) + len(c.UID) + len(c.Rule) + len(c.Why)
		}
		return place
	}
	for k, s := range r.rows {
		if len(spec.Traffic) == analysis.MostReportedTraffic || len(spec.Causes) > analysis.MostReportedCauses-2 || size > mostBytes {
			break
		}
		size += entryBytes
		by, before := int32(-1), (*int32)(nil)
		if k.word != "" {
			by = placeOf(k.by)
		}
		if k.before.Cause != "" {
			place := placeOf(k.before)
			before = &place
		}
		t := analysis.ReportedTraffic{
			Direction: directionOf(k.way), Client: k.source.String(), Server: k.destination.String(), Protocol: k.protocol, Port: k.port, Verdict: k.word, By: by, Before: before,
			Connections: s.connections, Ended: s.ended, Packets: s.packets, Bytes: s.bytes, ReplyPackets: s.replyPackets, ReplyBytes: s.replyBytes, Differs: k.differs,
		}
		if k.service.IsValid() {
			t.Service = netip.AddrPortFrom(k.service.Addr().Unmap(), k.service.Port()).String()
		}
		spec.Traffic = append(spec.Traffic, t)
		delete(r.rows, k)
	}
	// The order of a map is nobody's; reports are compared and compressed.
	slices.SortFunc(spec.Traffic, func(a, b analysis.ReportedTraffic) int {
		return cmp.Or(
			cmp.Compare(a.Client, b.Client), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port),
			cmp.Compare(a.Verdict, b.Verdict),
		)
	})
}

func plus(a, b analysis.TrafficLosses) analysis.TrafficLosses {
	return analysis.TrafficLosses{Overruns: a.Overruns + b.Overruns, Ends: a.Ends + b.Ends, Packets: a.Packets + b.Packets, Connections: a.Connections + b.Connections}
}

func directionOf(w ruleset.Way) string {
	switch w {
	case ruleset.Arriving:
		return "In"
	case ruleset.Leaving:
		return "Out"
	}
	return "Through"
}

func wordOf(a ruleset.Action) string {
	switch a {
	case ruleset.Accept:
		return "Allow"
	case ruleset.RejectReset, ruleset.RejectICMP:
		return "Reject"
	}
	return "Drop"
}

// causeOf says what a rule of a direction stands for.
func causeOf(o *ruleset.Origin, d ruleset.Direction) analysis.TrafficCause {
	c := analysis.TrafficCause{
		Type: string(o.Policy.Type), Namespace: o.Policy.Namespace, Name: o.Policy.Name, UID: string(o.Policy.UID), Rule: o.Name, Index: o.Index,
	}
	direction := "In"
	if d == ruleset.Egress {
		direction = "Out"
	}
	switch o.Kind {
	case ruleset.OriginPolicy:
		c.Cause, c.Direction = "Policy", direction
	case ruleset.OriginIsolation:
		c.Cause, c.Direction, c.Rule, c.Index = "Isolation", direction, "", 0
	case ruleset.OriginNative:
		c.Cause = "Native"
	case ruleset.OriginFailsafe:
		c.Cause = "Failsafe"
	case ruleset.OriginItself:
		c.Cause = "Itself"
	case ruleset.OriginUnknown:
		c.Cause = "NoPod"
	default: // what holds the program together: the link's own packets, answers, names
		c.Cause = "Frame"
	}
	return c
}
