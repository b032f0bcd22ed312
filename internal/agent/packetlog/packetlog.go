// Package packetlog writes the lines of the packets that policies want logged.
//
// It owns how packets become lines, in JSON or in the form of Antrea Agents, and what waits to be
// written. It promises that packets which are alike within a second are one line, that packets
// never make it hold more than its bound, and that no name or label breaks a line.
//
// A Log may be used from several goroutines.
package packetlog

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/platform/errtext"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// gather is how long equal packets become one line.
	gather = time.Second
	// gatherMost bounds the lines that wait.
	gatherMost = 4096
	// wordMost is how much of a name or label is written.
	wordMost = 128
)

// Format is the form of lines.
type Format string

// The formats. Antrea is that of Antrea Agents, whose names of tables and priorities we do not
// have: they are "-".
const (
	JSON   Format = "json"
	Antrea Format = "antrea"
)

// Log writes a line for the packets that policies want logged. Packets that are alike within a
// second are one line. It may be used from several goroutines.
type Log struct {
	// Rule finds the rule of a LogID.
	Rule   func(id string) (ruleset.Origin, bool)
	Host   string
	Format Format
	Out    io.Writer
	Clock  clock.WithTicker

	mu      sync.Mutex
	waiting map[flowKey]*waiting
	order   []flowKey
	stats   Status
}

// Status counts.
type Status struct {
	Lines int `json:"lines"`
	// Lost counts packets that came too fast.
	Lost int `json:"lost"`
	// Error is why lines cannot be written, Unread why packets cannot be received.
	Error  string `json:"error,omitempty"`
	Unread string `json:"unread,omitempty"`
}

// flowKey tells lines apart. Source ports differ with each attempt and do not count.
type flowKey struct {
	rule                string
	source, destination netip.Addr
	protocol            uint8
	port                uint16
}

type waiting struct {
	origin  ruleset.Origin
	first   kernel.Logged
	since   time.Time
	last    time.Time
	packets int
}

// Packet takes in a packet, and how many went missing before it.
func (l *Log) Packet(p kernel.Logged, lost uint32) {
	origin, known := l.Rule(p.Rule)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Lost += int(lost)
	if !known || origin.Logged.Unasked { // somebody else logs to the group, or the rule is gone for long, or it is for others
		return
	}
	now := l.Clock.Now()
	k := flowKey{p.Rule, p.Source, p.Destination, p.Protocol, p.Port}
	if w := l.waiting[k]; w != nil {
		w.packets++
		w.last = now
		return
	}
	if l.waiting == nil {
		l.waiting = map[flowKey]*waiting{}
	}
	if len(l.waiting) >= gatherMost {
		l.flush(now.Add(gather))
	}
	l.waiting[k] = &waiting{origin, p, now, now, 1}
	l.order = append(l.order, k)
}

// Run writes lines until ctx ends, and then what waits.
func (l *Log) Run(ctx context.Context) {
	tick := l.Clock.NewTicker(gather / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			recovered.Holding(&l.mu, func() { l.flush(l.Clock.Now().Add(gather)) })
			return
		case <-tick.C():
			recovered.Holding(&l.mu, func() { l.flush(l.Clock.Now()) })
		}
	}
}

// Fail notes that nothing is received any more.
func (l *Log) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Unread = errtext.Of(err)
}

// Status returns the counts.
func (l *Log) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// flush writes the lines that have waited long enough.
func (l *Log) flush(now time.Time) {
	n := 0
	for _, k := range l.order {
		w := l.waiting[k]
		if now.Sub(w.since) < gather {
			break
		}
		n++
		delete(l.waiting, k)
		_, err := io.WriteString(l.Out, l.line(w)+"\n")
		if l.stats.Error = errtext.Of(err); err != nil {
			l.stats.Lost += w.packets
			continue
		}
		l.stats.Lines++
	}
	l.order = slices.Delete(l.order, 0, n)
}

// jsonLine is a line of LogJSON.
type jsonLine struct {
	Time        time.Time `json:"time"`
	Host        string    `json:"host"`
	Kind        string    `json:"kind"`
	Namespace   string    `json:"namespace,omitempty"`
	Policy      string    `json:"policy"`
	Rule        string    `json:"rule,omitempty"`
	Isolated    bool      `json:"isolated,omitempty"`
	Direction   string    `json:"direction"`
	Action      string    `json:"action"`
	Source      string    `json:"source"`
	SourcePort  uint16    `json:"sourcePort,omitempty"`
	Destination string    `json:"destination"`
	Port        uint16    `json:"port,omitempty"`
	Protocol    string    `json:"protocol"`
	Length      int       `json:"length"`
	Packets     int       `json:"packets"`
	Label       string    `json:"label,omitempty"`
}

func (l *Log) line(w *waiting) string {
	o, p := w.origin, w.first
	if l.Format == JSON {
		b, err := json.Marshal(
			jsonLine{w.since.UTC(), l.Host, string(o.Policy.Type), o.Policy.Namespace, o.Policy.Name, o.Name, o.Kind == ruleset.OriginIsolation,
				o.Logged.Direction.String(), string(o.Logged.Action), p.Source.String(), p.SourcePort, p.Destination.String(), p.Port,
				protocolName(p.Protocol), p.Length, w.packets, o.Logged.Label},
		)
		if err != nil { // of no value that can be here
			return ""
		}
		return string(b)
	}
	reference := string(o.Policy.Type) + ":" + o.Policy.Name
	if o.Policy.Namespace != "" {
		reference = string(o.Policy.Type) + ":" + o.Policy.Namespace + "/" + o.Policy.Name
	}
	port := func(n uint16) string {
		if n == 0 {
			return "<nil>"
		}
		return strconv.Itoa(int(n))
	}
	direction := [...]string{"Ingress", "Egress"}[o.Logged.Direction]
	fields := []string{
		w.since.Format("2006/01/02 15:04:05.000000"),
		"-",
		word(reference),
		word(o.Name),
		direction,
		string(o.Logged.Action),
		"-",
		word(l.Host),
		p.Source.String(),
		port(p.SourcePort),
		p.Destination.String(),
		port(p.Port),
		protocolName(p.Protocol),
		strconv.Itoa(p.Length),
		word(o.Logged.Label),
	}
	if w.packets > 1 {
		fields = append(fields, fmt.Sprintf("[%d packets in %s]", w.packets, w.last.Sub(w.since)))
	}
	return strings.Join(fields, " ")
}

// word is a text of a tenant as one word of a line: nobody can write a second line, or a field that
// is not his.
func word(s string) string {
	if s == "" {
		return "<nil>"
	}
	s = s[:min(len(s), wordMost)]
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
}

func protocolName(n uint8) string {
	switch n {
	case ruleset.TCP:
		return "TCP"
	case ruleset.UDP:
		return "UDP"
	case ruleset.SCTP:
		return "SCTP"
	case ruleset.ICMP, ruleset.ICMPv6:
		return "ICMP"
	case ruleset.IGMP:
		return "IGMP"
	}
	return strconv.Itoa(int(n))
}
