package packetlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/agent/packetlog"
)

// lines takes what is written, unless it has an error.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	err  error
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	return l.text.Write(b)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n")
}

func newPacketLog(format packetlog.Format, origin ruleset.Origin) (*packetlog.Log, *lines, *clocktesting.FakeClock) {
	out, clock := &lines{}, clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return &packetlog.Log{Host: "vms/web", Format: format, Out: out, Clock: clock, Rule: func(id string) (ruleset.Origin, bool) { return origin, id == "known" }}, out, clock
}

// write ends the log, which writes what waits.
func write(l *packetlog.Log) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l.Run(ctx)
}

func packet(source string, port uint16) kernel.Logged {
	return kernel.Logged{
		Rule:        "known",
		Source:      netip.MustParseAddr(source),
		Destination: netip.MustParseAddr("10.0.0.2"),
		Protocol:    ruleset.TCP,
		SourcePort:  4000,
		Port:        port,
		Length:      60,
	}
}

var logsDrop = ruleset.Origin{Kind: ruleset.OriginPolicy, Policy: v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "vms", Name: "p"}, Name: "ssh",
	Logged: ruleset.Logged{Direction: ruleset.Ingress, Action: v1beta2.RuleActionDrop, Label: "audit"}}

func TestLogLines(t *testing.T) {
	for format, want := range map[packetlog.Format][]string{
		packetlog.JSON: {
			`{"time":"2026-01-02T03:04:05Z","host":"vms/web","kind":"AntreaNetworkPolicy","namespace":"vms","policy":"p","rule":"ssh","direction":"ingress","action":"Drop","source":"10.0.0.1","sourcePort":4000,"destination":"10.0.0.2","port":22,"protocol":"TCP","length":60,"packets":3,"label":"audit"}`,
			`{"time":"2026-01-02T03:04:05.5Z","host":"vms/web","kind":"AntreaNetworkPolicy","namespace":"vms","policy":"p","rule":"ssh","direction":"ingress","action":"Drop","source":"10.0.0.9","sourcePort":4000,"destination":"10.0.0.2","port":22,"protocol":"TCP","length":60,"packets":1,"label":"audit"}`,
		},
		packetlog.Antrea: {
			"2026/01/02 03:04:05.000000 - AntreaNetworkPolicy:vms/p ssh Ingress Drop - vms/web 10.0.0.1 4000 10.0.0.2 22 TCP 60 audit [3 packets in 500ms]",
			"2026/01/02 03:04:05.500000 - AntreaNetworkPolicy:vms/p ssh Ingress Drop - vms/web 10.0.0.9 4000 10.0.0.2 22 TCP 60 audit",
		},
	} {
		l, out, clock := newPacketLog(format, logsDrop)
		l.Packet(packet("10.0.0.1", 22), 0)
		again := packet("10.0.0.1", 22)
		again.SourcePort++ // another attempt
		l.Packet(again, 0)
		clock.Step(500 * time.Millisecond)
		l.Packet(packet("10.0.0.1", 22), 7)
		l.Packet(packet("10.0.0.9", 22), 0)
		foreign := packet("10.0.0.9", 22)
		foreign.Rule = "of somebody else"
		l.Packet(foreign, 0)
		write(l)
		if got := out.all(); len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("%s:\n%s\nwant\n%s", format, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if s := l.Status(); s.Lines != 2 || s.Lost != 7 || s.Error != "" {
			t.Errorf("%s: %+v", format, s)
		}
	}
}

// TestLogIsForOneLine: the name of a policy cannot add lines to the log.
func TestLogIsForOneLine(t *testing.T) {
	origin := logsDrop
	origin.Name, origin.Logged.Label = "a b\n2026/01/02 03:04:05.000000 forged\x1b[2J", strings.Repeat("x", 1000)
	for _, format := range []packetlog.Format{packetlog.JSON, packetlog.Antrea} {
		l, out, _ := newPacketLog(format, origin)
		l.Packet(packet("10.0.0.1", 22), 0)
		write(l)
		got := out.all()
		if len(got) != 1 || strings.ContainsAny(got[0], "\x1b\r") {
			t.Errorf("%s: %q", format, got)
		}
		if format == packetlog.Antrea && (len(strings.Fields(got[0])) != 16 || len(got[0]) > 600) {
			t.Errorf("%d words, %d bytes: %q", len(strings.Fields(got[0])), len(got[0]), got[0])
		}
		if format == packetlog.JSON && !json.Valid([]byte(got[0])) {
			t.Errorf("no JSON: %q", got[0])
		}
	}
}

// TestLogIsBounded scans many ports within a second.
func TestLogIsBounded(t *testing.T) {
	l, out, _ := newPacketLog(packetlog.JSON, logsDrop)
	for port := range uint16(10000) {
		l.Packet(packet("10.0.0.1", port), 0)
	}
	if n := len(out.all()); n < 4000 || n > 9999 {
		t.Errorf("%d lines are written while 10,000 wait", n)
	}
	write(l)
	if n := len(out.all()); n != 10000 {
		t.Errorf("%d lines, want 10,000", n)
	}
	out.err = errors.New("no space left on device")
	l.Packet(packet("10.0.0.1", 1), 0)
	write(l)
	if s := l.Status(); s.Error != fmt.Sprint(out.err) || s.Lost != 1 || s.Lines != 10000 {
		t.Errorf("%+v", s)
	}
	out.err = nil
	l.Packet(packet("10.0.0.1", 1), 0)
	write(l)
	if s := l.Status(); s.Error != "" || s.Lines != 10001 {
		t.Errorf("%+v", s)
	}
}
