// Package setmap is the map of reachability among several clusters: what their hub asks each of
// them, what a member answers, and what comes of all answers.
//
// It owns the form of question and answer, with its bounds, and the rule that each end of a flow is
// decided by its own cluster. What a member answers counts for its own ends alone, and an
// answer that breaks a bound is none: then that cluster's ends are not known.
//
// Everything here is pure. A Map and a Builder are used by one goroutine at a time.
package setmap

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

const (
	// MaxWorkloads is how many workloads of all clusters one map may be about.
	MaxWorkloads = 4000
	// MaxRows is how many kinds of flows one list of an answer has.
	MaxRows = 500
	// maxRanges bounds the ranges of ports in one set of packets,
	// maxPolicies the policies that decide or apply, maxText a name or a mode, in bytes.
	maxRanges   = 256
	maxPolicies = 10
	maxText     = 256
)

// Question is what a member is asked for a map.
type Question struct {
	// Own are workloads of the member.
	Own []wire.Ref `json:"own"`
	// To are addresses elsewhere that they may send to, From those by which others are seen here.
	To   []netip.Addr `json:"to,omitempty"`
	From []netip.Addr `json:"from,omitempty"`
	// Packets are those that are asked about.
	Packets Packets `json:"packets"`
}

// Check fails unless a question may be one.
func (q *Question) Check() error {
	if n := max(len(q.Own), len(q.To)/2, len(q.From)/2); n > MaxWorkloads {
		return fmt.Errorf("a question about %d workloads, want at most %d", n, MaxWorkloads)
	}
	for i := range q.Own {
		if err := q.Own[i].Check(); err != nil {
			return err
		}
	}
	return q.Packets.check()
}

// Services are the packets that are asked about; none means all.
func (q *Question) Services() []flow.Service {
	var out []flow.Service
	if !q.Packets.Except {
		for _, r := range q.Packets.Ranges {
			out = append(out, flow.Service{Protocol: r[0], From: uint16(r[1]), To: uint16(r[2])})
		}
	}
	return out
}

// Packets are a set of packets: within the ranges of ports, or with Except outside. A range is a
// protocol, its first and its last port.
type Packets struct {
	Except bool    `json:"x,omitempty"`
	Ranges [][]int `json:"r,omitempty"`
}

// Decision is what is decided about packets.
type Decision struct {
	// Outcome is Allow, Native, Unknown, Drop or Reject.
	Outcome string `json:"o"`
	// Ruled: policies have decided it. Groups: security groups decide, too.
	Ruled  bool `json:"r,omitempty"`
	Groups bool `json:"g,omitempty"`
	// Policies are the ones with the rules that decide.
	Policies []analysis.Policy `json:"p,omitempty"`
}

// Hold is how policies hold for workloads.
type Hold struct {
	Policies []analysis.Policy `json:"p,omitempty"`
	// In and Out are the directions that are isolated, Suspended why policies are not enforced.
	In        bool   `json:"i,omitempty"`
	Out       bool   `json:"e,omitempty"`
	Suspended string `json:"s,omitempty"`
}

// Row are flows that are treated alike, as four places: its sources and its destinations in Sets,
// then one in Packets and one in Decisions.
type Row []int

// Answer is what a member answers. Of one pair of ends, rows have no packet in common.
type Answer struct {
	// Sets are sets of places in the lists of the question: pairs of the first and the last place
	// of a run, in order.
	Sets      [][]int    `json:"sets,omitempty"`
	Packets   []Packets  `json:"packets,omitempty"`
	Decisions []Decision `json:"decisions,omitempty"`
	// Out are flows from Own to To, as far as the sender's end goes; In are those from From to Own,
	// as far as the receiver's end goes; Within are those among Own, with what both ends decide.
	Out    []Row `json:"out,omitempty"`
	In     []Row `json:"in,omitempty"`
	Within []Row `json:"within,omitempty"`
	// Of is for each of Own the place in Holds, or -1 for one that is not known here: no row has
	// it.
	Holds []Hold `json:"holds,omitempty"`
	Of    []int  `json:"of"`
}

// ParseQuestion reads a question.
func ParseQuestion(raw json.RawMessage) (*Question, error) {
	var q Question
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, fmt.Errorf("the question is none: %w", err)
	}
	return &q, q.Check()
}

// ParseAnswer reads an answer to a question. It fails for anything that no honest member answers.
func ParseAnswer(raw json.RawMessage, q *Question) (*Answer, error) {
	if len(raw) > wire.MostAnswer {
		return nil, errors.New("its answer is none: it is too long")
	}
	var a Answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, errors.New("its answer is none: it cannot be read")
	}
	if err := a.check(q); err != nil {
		return nil, fmt.Errorf("its answer is none: %w", err)
	}
	return &a, nil
}

func (a *Answer) check(q *Question) error {
	for i := range a.Packets {
		if err := a.Packets[i].check(); err != nil {
			return err
		}
	}
	for i := range a.Decisions {
		d := &a.Decisions[i]
		if !slices.Contains([]string{"Allow", "Native", "Unknown", "Drop", "Reject"}, d.Outcome) {
			return fmt.Errorf("%.40q is no outcome", d.Outcome)
		}
		if err := checkPolicies(d.Policies); err != nil {
			return err
		}
	}
	for i := range a.Holds {
		if len(a.Holds[i].Suspended) > maxText {
			return errors.New("a mode is too long")
		}
		if err := checkPolicies(a.Holds[i].Policies); err != nil {
			return err
		}
	}
	if len(a.Of) != len(q.Own) {
		return fmt.Errorf("%d workloads, want %d", len(a.Of), len(q.Own))
	}
	for _, n := range a.Of {
		if n < -1 || n >= len(a.Holds) {
			return errors.New("it names what it does not list")
		}
	}
	for _, list := range []struct {
		rows     []Row
		from, to int
	}{{a.Out, len(q.Own), len(q.To)}, {a.In, len(q.From), len(q.Own)}, {a.Within, len(q.Own), len(q.Own)}} {
		if len(list.rows) > MaxRows {
			return fmt.Errorf("%d kinds of flows, want at most %d: narrow it with from and to, protocol and port", len(list.rows), MaxRows)
		}
		for _, r := range list.rows {
			if len(r) != 4 {
				return errors.New("a kind of flows that is none")
			}
			for i, n := range []int{len(a.Sets), len(a.Sets), len(a.Packets), len(a.Decisions)} {
				if r[i] < 0 || r[i] >= n {
					return errors.New("it names what it does not list")
				}
			}
			if !isSet(a.Sets[r[0]], list.from) || !isSet(a.Sets[r[1]], list.to) {
				return errors.New("it names workloads that it was not asked about")
			}
		}
	}
	return nil
}

// isSet reports whether runs are a set of places below a number, none of them twice.
func isSet(runs []int, below int) bool {
	last := -1
	for i := 0; i+1 < len(runs); i += 2 {
		if runs[i] <= last || runs[i+1] < runs[i] {
			return false
		}
		last = runs[i+1]
	}
	return len(runs)%2 == 0 && len(runs) > 0 && last < below
}

func (p *Packets) check() error {
	if len(p.Ranges) > maxRanges {
		return fmt.Errorf("%d ranges of ports, want at most %d", len(p.Ranges), maxRanges)
	}
	for i, r := range p.Ranges {
		if len(r) != 3 || r[0] < 0 || r[0] > 255 || r[1] < 0 || r[2] < r[1] || r[2] > 65535 ||
			i > 0 && (r[0] < p.Ranges[i-1][0] || r[0] == p.Ranges[i-1][0] && r[1] <= p.Ranges[i-1][2]) {
			return errors.New("ranges of ports that are none")
		}
	}
	return nil
}

func checkPolicies(all []analysis.Policy) error {
	if len(all) > maxPolicies {
		return fmt.Errorf("%d policies, want at most %d", len(all), maxPolicies)
	}
	for _, p := range all {
		for _, text := range []string{p.Type, p.Namespace, p.Name} {
			if len(text) > maxText || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
				return errors.New("a policy without a name that may be one")
			}
		}
		if p.Cluster != "" {
			return errors.New("a policy of another cluster")
		}
	}
	return nil
}

func (p *Packets) set() forecast.Packets {
	out := forecast.Packets{Except: p.Except}
	for _, r := range p.Ranges {
		out.Ranges = append(out.Ranges, forecast.Range{Protocol: r[0], From: r[1], To: r[2]})
	}
	return out
}

func packetsOf(p forecast.Packets) Packets {
	out := Packets{Except: p.Except}
	for _, r := range p.Ranges {
		out.Ranges = append(out.Ranges, []int{r.Protocol, r.From, r.To})
	}
	return out
}

// Builder puts an answer together, each part of it once.
type Builder struct {
	answer Answer
	at     map[string]int
}

// NewBuilder returns a builder of an answer about so many workloads, of which none is known.
func NewBuilder(own int) *Builder {
	b := &Builder{at: map[string]int{}}
	b.answer.Of = make([]int, own)
	for i := range b.answer.Of {
		b.answer.Of[i] = -1
	}
	return b
}

// Hold sets how policies hold for one of Own.
func (b *Builder) Hold(own int, h Hold) {
	h.Policies = h.Policies[:min(len(h.Policies), maxPolicies)]
	h.Suspended = strings.ToValidUTF8(h.Suspended[:min(len(h.Suspended), maxText)], "")
	b.answer.Of[own] = once(b, &b.answer.Holds, h)
}

// Out, In and Within add rows: the places of sources and destinations, in any order.
func (b *Builder) Out(from, to []int, p forecast.Packets, d Decision) {
	b.row(&b.answer.Out, from, to, p, d)
}

// In is described at Out.
func (b *Builder) In(from, to []int, p forecast.Packets, d Decision) {
	b.row(&b.answer.In, from, to, p, d)
}

// Within is described at Out.
func (b *Builder) Within(from, to []int, p forecast.Packets, d Decision) {
	b.row(&b.answer.Within, from, to, p, d)
}

func (b *Builder) row(rows *[]Row, from, to []int, p forecast.Packets, d Decision) {
	if len(from) == 0 || len(to) == 0 {
		return
	}
	d.Policies = d.Policies[:min(len(d.Policies), maxPolicies)]
	*rows = append(*rows, Row{once(b, &b.answer.Sets, runs(from)), once(b, &b.answer.Sets, runs(to)), once(b, &b.answer.Packets, packetsOf(p)), once(b, &b.answer.Decisions, d)})
}

// Answer is what was put together. It fails if that is too much, or to be narrowed.
func (b *Builder) Answer(q *Question) (json.RawMessage, error) {
	if err := b.answer.check(q); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(&b.answer)
	if err == nil && len(raw) > wire.MostAnswer {
		err = fmt.Errorf("the answer has %d bytes, want at most %d: narrow it with from and to, protocol and port", len(raw), wire.MostAnswer)
	}
	if err != nil {
		return nil, err
	}
	return raw, nil
}

// once is the place of a value in a list, to which it is added if it is not there.
func once[T any](b *Builder, list *[]T, value T) int {
	text, err := json.Marshal(value)
	if err != nil { // plain texts and numbers
		text = binary.AppendUvarint(nil, uint64(len(*list)))
	}
	key := fmt.Sprintf("%T %s", value, text)
	n, known := b.at[key]
	if !known {
		n = len(*list)
		b.at[key] = n
		*list = append(*list, value)
	}
	return n
}

// runs writes places as runs.
func runs(places []int) []int {
	places = slices.Clone(places)
	slices.Sort(places)
	var out []int
	for _, n := range slices.Compact(places) {
		if k := len(out) - 1; k >= 0 && out[k]+1 == n {
			out[k] = n
			continue
		}
		out = append(out, n, n)
	}
	return out
}
