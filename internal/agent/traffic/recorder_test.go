package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/conntrack"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// inForce is a Judge by one program.
type inForce struct {
	program *ruleset.Program
	since   time.Time
}

func (f *inForce) InForce() (*ruleset.Program, time.Time) { return f.program, f.since }

func (f *inForce) LoggedRule(id string) (ruleset.Origin, bool) {
	o, known := f.program.Logs()[id]
	return o, known
}

// policies are rules by port: 80 is allowed, 81 dropped, 82 rejected, and so the rest is isolated.
func policies() *ruleset.Program {
	rule := func(port int, action v1beta2.RuleAction) v1beta2.NetworkPolicyRule {
		tcp, n := v1beta2.ProtocolTCP, intstr.FromInt(port)
		return v1beta2.NetworkPolicyRule{
			Direction: v1beta2.DirectionIn, Name: fmt.Sprintf("%s %d", action, port), Action: &action, Priority: int32(port), Services: []v1beta2.Service{{Protocol: &tcp, Port: &n}},
			From: v1beta2.NetworkPolicyPeer{IPBlocks: []v1beta2.IPBlock{{CIDR: v1beta2.IPNet{IP: make([]byte, 4)}}, {CIDR: v1beta2.IPNet{IP: make([]byte, 16)}}}},
		}
	}
	tier, priority := int32(250), 1.0
	compiler := nft.Compiler{LogDenied: true}
	return compiler.Compile(nft.Input{Computed: enforcer.Computed{
		AppliedToGroups: []*v1beta2.AppliedToGroup{{ObjectMeta: metav1.ObjectMeta{Name: "host"},
			GroupMembers: []v1beta2.GroupMember{{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "vms", Name: "host"}}}}},
		Policies: []*v1beta2.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "uid"}, TierPriority: &tier, Priority: &priority, AppliedToGroups: []string{"host"},
			SourceRef: &v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "vms", Name: "p", UID: "uid"},
			Rules:     []v1beta2.NetworkPolicyRule{rule(80, v1beta2.RuleActionAllow), rule(81, v1beta2.RuleActionDrop), rule(82, v1beta2.RuleActionReject)}}},
	}}).Program
}

// collected are reports as a controller adds them up: by direction, server port, verdict and cause.
type collected struct {
	mu      sync.Mutex
	sums    map[string]int64
	reports []*analysis.TrafficReport
}

func (c *collected) take(_ context.Context, r *analysis.TrafficReport) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reports = append(c.reports, r)
	for _, t := range r.Spec.Traffic {
		by := analysis.TrafficCause{Cause: "ended"}
		if t.By >= 0 {
			by = r.Spec.Causes[t.By]
		}
		c.sums[fmt.Sprintf("%s %d %s %s %s%s", t.Direction, t.Port, t.Verdict, by.Cause, by.Rule, t.Differs)] += t.Connections + t.Ended
	}
	return nil
}

// TestPackets makes connections of every kind with real packets, and reads what is recorded.
func TestPackets(t *testing.T) {
	host, peers := nfttest.NewHost(t), nfttest.NewHost(t)
	here4, there4 := netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("10.0.0.1")
	here6, there6 := netip.MustParseAddr("2001:db8:9::9"), netip.MustParseAddr("2001:db8::1")
	nfttest.Connect(t, host, peers, []netip.Prefix{netip.PrefixFrom(here4, 8), netip.PrefixFrom(here6, 32)}, []netip.Prefix{netip.PrefixFrom(there4, 8), netip.PrefixFrom(there6, 32)})
	nfttest.Serve(t, host, 80, 84, here4, here6)
	nfttest.Serve(t, peers, 80, 84, there4, there6)
	program := policies()
	var table *kernel.Table
	var events *conntrack.EventReader
	var logs *kernel.LogReader
	err := host.Do(func() (err error) {
		if table, err = kernel.Open(kernel.DefaultTable); err != nil {
			return err
		}
		if events, err = conntrack.OpenEvents(); err != nil {
			return err
		}
		logs, err = kernel.OpenLog()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = table.Close() })
	if _, err := table.Apply(program); err != nil {
		t.Fatal(err)
	}
	if differs, err := table.Verify(program); err != nil || len(differs) > 0 {
		t.Fatalf("the kernel holds something else: %v %v", differs, err)
	}
	events.Local = func() ([]netip.Addr, error) { return []netip.Addr{here4, here6}, nil }
	r := New(false, clock.RealClock{})
	r.Judge = &inForce{program, time.Now().Add(-time.Hour)}
	var running sync.WaitGroup
	running.Go(func() {
		if err := events.Run(r.Event, r.Overrun, r.Unended); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() {
		if err := logs.Run(r.Denied); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer events.Close()
	defer logs.Close()
	source := uint16(20000)
	try := func(from *nfttest.Host, network string, a, b netip.Addr, port uint16, want nfttest.Result) {
		t.Helper()
		source++
		limit := time.Minute
		if want == nfttest.Silent {
			limit = 100 * time.Millisecond
		}
		x := nfttest.Attempt{From: from, Network: network, Source: netip.AddrPortFrom(a, source), Destination: netip.AddrPortFrom(b, port)}
		if got, err := x.Run(limit); err != nil || got != want {
			t.Errorf("%s: %v %v, want %v", x, got, err, want)
		}
	}
	for _, n := range []struct{ here, there netip.Addr }{{here4, there4}, {here6, there6}} {
		for range 3 {
			try(peers, "tcp", n.there, n.here, 80, nfttest.Passed)
		}
		try(peers, "tcp", n.there, n.here, 81, nfttest.Silent)
		try(peers, "tcp", n.there, n.here, 82, nfttest.Rejected)
		try(peers, "udp", n.there, n.here, 83, nfttest.Silent)
		try(host, "tcp", n.here, n.there, 84, nfttest.Passed)
		try(host, "udp", n.here, n.there, 84, nfttest.Passed)
	}
	got := collected{sums: map[string]int64{}}
	want := map[string]int64{
		"In 80 Allow Policy Allow 80": 6, "In 81 Drop Policy Drop 81": 2, "In 82 Reject Policy Reject 82": 2, "In 83 Drop Isolation ": 2, "Out 84 Allow Native ": 4,
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		r.cut(false)
		r.flush(t.Context(), got.take)
		done := true
		for k, n := range want {
			done = done && got.sums[k] >= n
		}
		if done {
			break
		}
	}
	for k, n := range want {
		// A client without an answer tries again.
		if got.sums[k] < n || got.sums[k] > n && (k == "In 80 Allow Policy Allow 80" || k == "Out 84 Allow Native ") {
			t.Errorf("%s: %d, want %d", k, got.sums[k], n)
		}
	}
	if losses := r.Status().Losses; losses != (analysis.TrafficLosses{}) {
		t.Errorf("lost: %+v", losses)
	}
	if t.Failed() {
		t.Logf("%v", got.sums)
	}
	// The rules are flushed by somebody else, and what they would drop passes.
	if _, err := table.Apply(ruleset.LetPass()); err != nil {
		t.Fatal(err)
	}
	try(peers, "tcp", there4, here4, 81, nfttest.Passed)
	for deadline := time.Now().Add(time.Minute); got.sums["In 81 Allow Policy Drop 81Leaks"] == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		r.cut(false)
		r.flush(t.Context(), got.take)
	}
	if got.sums["In 81 Allow Policy Drop 81Leaks"] != 1 {
		t.Errorf("a leak is not told: %v", got.sums)
	}
}

// begins is a connection to a port of the host.
func begins(client string, port uint16) conntrack.Event {
	return conntrack.Event{Way: ruleset.Arriving, Packet: ruleset.Packet{Source: netip.MustParseAddr(client), Destination: netip.MustParseAddr("10.9.9.9"), Protocol: ruleset.TCP, SourcePort: 1, Port: port}}
}

// TestOldConnectionsAreNoLeaks tells what may have begun before the rules from what has not.
func TestOldConnectionsAreNoLeaks(t *testing.T) {
	fake := testingclock.NewFakeClock(time.Unix(1000, 0))
	f := &inForce{policies(), fake.Now()}
	r := New(false, fake)
	r.Judge = f
	got := collected{sums: map[string]int64{}}
	record := func(e conntrack.Event) string {
		clear(got.sums)
		r.Event(e)
		r.cut(false)
		r.flush(t.Context(), got.take)
		for k := range got.sums {
			return k
		}
		return ""
	}
	if k := record(begins("10.0.0.1", 81)); k != "In 81 Allow Policy Drop 81MayBeOld" {
		t.Errorf("just after a change: %q", k)
	}
	fake.Step(time.Minute)
	if k := record(begins("10.0.0.1", 81)); k != "In 81 Allow Policy Drop 81Leaks" {
		t.Errorf("long after: %q", k)
	}
	old := begins("10.0.0.1", 81)
	old.PickedUp = true
	if k := record(old); k != "In 81 Allow Policy Drop 81MayBeOld" {
		t.Errorf("picked up: %q", k)
	}
	expected := begins("10.0.0.1", 81)
	expected.Expected = true
	if k := record(expected); k != "In 81 Allow Related " {
		t.Errorf("expected: %q", k)
	}
	passing := begins("10.0.0.1", 81)
	passing.Way = ruleset.Passing
	if k := record(passing); k != "Through 81 Allow Routed " {
		t.Errorf("passing: %q", k)
	}
	f.program = nil
	if k := record(begins("10.0.0.1", 81)); k != "In 81 Allow Unknown " {
		t.Errorf("before there are rules: %q", k)
	}
}

// TestBounds floods the recorder while nobody takes reports: nothing grows, and all that is left
// out is counted.
func TestBounds(t *testing.T) {
	fake := testingclock.NewFakeClock(time.Unix(1000, 0))
	r := New(false, fake)
	r.Judge = &inForce{policies(), time.Unix(0, 0)}
	away := errors.New("nobody is there")
	const rounds, each = 12, 25_000
	for round := range rounds {
		for i := range each {
			e := begins("10.0.0.1", 80)
			e.Packet.Source = netip.AddrFrom4([4]byte{10, byte(round), byte(i >> 8), byte(i)})
			r.Event(e)
		}
		fake.Step(interval)
		r.cut(true)
		r.flush(t.Context(), func(context.Context, *analysis.TrafficReport) error { return away })
		if len(r.waiting) > mostWaiting || len(r.rows) > 0 {
			t.Fatalf("%d reports wait, %d rows are left", len(r.waiting), len(r.rows))
		}
	}
	if s := r.Status(); s.Error != away.Error() || s.Connections != rounds*each {
		t.Errorf("%+v", s)
	}
	var told, lost int64
	count := func(_ context.Context, report *analysis.TrafficReport) error {
		for _, x := range report.Spec.Traffic {
			told += x.Connections
		}
		if len(report.Spec.Traffic) > analysis.MostReportedTraffic || !report.Spec.Uncounted {
			t.Errorf("%d entries, uncounted %t", len(report.Spec.Traffic), report.Spec.Uncounted)
		}
		lost += report.Spec.Losses.Connections
		return nil
	}
	for range 2 { // the report of a loss may have pushed out another one
		r.cut(true)
		r.flush(t.Context(), count)
	}
	if told+lost != rounds*each || told == 0 || lost == 0 {
		t.Errorf("%d told and %d lost of %d", told, lost, rounds*each)
	}
	if s := r.Status(); s.Error != "" || s.Losses.Connections != lost {
		t.Errorf("%+v, lost %d", s, lost)
	}
}

// TestVerdictsAreNotRememberedTooLong remembers verdicts, but not over a change of the program, nor
// where source ports decide.
func TestVerdictsAreNotRememberedTooLong(t *testing.T) {
	fake := testingclock.NewFakeClock(time.Unix(1000, 0))
	f := &inForce{policies(), time.Unix(0, 0)}
	r := New(false, fake)
	r.Judge = f
	by := func(port uint16) analysis.TrafficCause {
		e := begins("10.0.0.1", 80)
		e.Packet.SourcePort = port
		r.Event(e)
		r.cut(false)
		report := r.waiting[len(r.waiting)-1]
		r.waiting = nil
		return report.Spec.Causes[0]
	}
	if c := by(1); c.Rule != "Allow 80" {
		t.Errorf("%+v", c)
	}
	f.program = ruleset.LetPass()
	if c := by(1); c.Cause != "Native" {
		t.Errorf("after a change: %+v", c)
	}
	chain := f.program.Chains[ruleset.Ingress.String()]
	f.program = &ruleset.Program{Chains: map[string]*ruleset.Chain{ruleset.Ingress.String(): {Rules: append(slices.Clone(chain.Rules),
		ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchSourcePort, Lo: 7, Hi: 7}}, Action: ruleset.Accept, Origin: &ruleset.Origin{Kind: ruleset.OriginPolicy, Name: "seven"}})}}, Parts: f.program.Parts}
	if a, b := by(7), by(8); a.Rule != "seven" || b.Rule == "seven" {
		t.Errorf("source ports: %+v and %+v", a, b)
	}
}

func BenchmarkEvent(b *testing.B) {
	r := New(false, clock.RealClock{})
	r.Judge = &inForce{policies(), time.Unix(0, 0)}
	e := begins("10.0.0.1", 80)
	for i := 0; b.Loop(); i++ {
		e.Packet.Source = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		r.Event(e)
		if i%4000 == 0 {
			r.cut(false)
			r.waiting = nil
		}
	}
}

// TestReportsAreNotTooLarge: whatever policies are called, the controller takes the reports.
func TestReportsAreNotTooLarge(t *testing.T) {
	r := New(false, testingclock.NewFakeClock(time.Unix(1000, 0)))
	address := netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:6666")
	for i := range 3 * analysis.MostReportedTraffic {
		long := func(kind string) string { return fmt.Sprint(i, strings.Repeat(kind, 240)) }
		r.rows[key{
			question: question{way: ruleset.Arriving, source: address, destination: address, protocol: 6, port: uint16(i)}, service: netip.AddrPortFrom(address, 65535), differs: "MayBeOld",
			verdict: verdict{word: "Reject", by: analysis.TrafficCause{
				Cause: "Isolation", Type: "AntreaClusterNetworkPolicy", Namespace: long("n"), Name: long("p"), UID: long("u"), Rule: long("r"), Why: long("w"),
			}},
		}] = &sum{connections: 1, ended: 1 << 62, packets: 1 << 62, bytes: 1 << 62, replyPackets: 1 << 62, replyBytes: 1 << 62}
	}
	entries := 0
	for len(r.rows) > 0 {
		var spec analysis.TrafficReportSpec
		r.fill(&spec)
		entries += len(spec.Traffic)
		raw, err := json.Marshal(&analysis.TrafficReport{Spec: spec})
		if err != nil || len(raw) > analysis.MostReportedBytes || len(spec.Traffic) == 0 {
			t.Fatalf("%d entries in %d bytes, %v", len(spec.Traffic), len(raw), err)
		}
	}
	if entries != 3*analysis.MostReportedTraffic {
		t.Errorf("%d entries", entries)
	}
}
