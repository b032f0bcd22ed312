package kernel_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/conntrack"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// wired are two hosts on one link, the first with a table of ours.
type wired struct {
	host, peer     *nfttest.Host
	table          *kernel.Table
	address, other netip.Addr
}

func newWired(b *testing.B) *wired {
	w := &wired{host: nfttest.NewHost(b), peer: nfttest.NewHost(b), address: netip.MustParseAddr("172.30.0.1"), other: netip.MustParseAddr("172.30.0.2")}
	nfttest.Connect(b, w.host, w.peer, []netip.Prefix{netip.PrefixFrom(w.address, 24)}, []netip.Prefix{netip.PrefixFrom(w.other, 24)})
	w.table = open(b, w.host)
	return w
}

// port is where the host serves. Only the last rule of each program allows that.
const port = 5001

// rulesBefore is a program with rules of the ordinary kind before the one that allows what is
// measured: as a list that each packet walks, or in chains of policies.
func (w *wired) rulesBefore(n int) *ruleset.Program {
	var rules []ruleset.Rule
	for i := range n {
		rules = append(rules, ruleset.Rule{Action: ruleset.Accept, Matches: []ruleset.Match{{Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.TCP)}, {Kind: ruleset.MatchPort, Lo: uint16(10000 + i), Hi: uint16(10000 + i)},
			{Kind: ruleset.MatchMember, Of: &ruleset.PartKey{Set: ruleset.Members4, ID: ruleset.ID{1}}, Source: true}}})
	}
	rules = append(rules,
		ruleset.Rule{Action: ruleset.Accept, Matches: []ruleset.Match{{Kind: ruleset.MatchPort, Lo: port, Hi: port}, {Kind: ruleset.MatchMember, Of: &ruleset.PartKey{Set: ruleset.Members4, ID: ruleset.ID{1}}, Source: true}}},
		ruleset.Rule{Action: ruleset.Drop})
	return &ruleset.Program{
		Chains: map[string]*ruleset.Chain{
			"in4": {Rules: rules},
			"ingress": {Rules: []ruleset.Rule{
				{Matches: []ruleset.Match{{Kind: ruleset.MatchDead}}, Action: ruleset.Drop}, {Matches: []ruleset.Match{{Kind: ruleset.MatchEstablished}}, Action: ruleset.Accept},
				{Matches: []ruleset.Match{{Kind: ruleset.MatchFamily, Lo: uint16(ruleset.IPv4)}}, Action: ruleset.Goto, Target: "in4"},
			}},
		},
		Parts: ruleset.PartsOf(map[ruleset.PartKey]*ruleset.Part{{Set: ruleset.Members4, ID: ruleset.ID{1}}: {Keys: ruleset.KeysOf([]string{string(w.other.AsSlice())})}}),
	}
}

// policiesBefore is what is compiled of policies with some rules each, of which the last one allows
// what is measured.
func (w *wired) policiesBefore(policies, rules int) *ruleset.Program {
	as16 := w.other.As16()
	computed := enforcer.Computed{
		AddressGroups:   []*enforcer.AddressGroup{enforcer.NewAddressGroup(&v1beta2.AddressGroup{ObjectMeta: metav1.ObjectMeta{Name: "peer"}, GroupMembers: []v1beta2.GroupMember{{IPs: []v1beta2.IPAddress{as16[:]}}}})},
		AppliedToGroups: nfttest.World().AppliedToGroups,
	}
	allow, tcp := v1beta2.RuleActionAllow, v1beta2.ProtocolTCP
	for p := range policies {
		policy := nfttest.WorldPolicy(p, 0)
		policy.Rules = nil
		for r := range rules {
			at := intstr.FromInt(10_000 + p*rules + r)
			if p == policies-1 && r == rules-1 {
				at = intstr.FromInt(port)
			}
			policy.Rules = append(policy.Rules, v1beta2.NetworkPolicyRule{Direction: v1beta2.DirectionIn, Priority: int32(r), Action: &allow,
				From: v1beta2.NetworkPolicyPeer{AddressGroups: []string{"peer"}}, Services: []v1beta2.Service{{Protocol: &tcp, Port: &at}}})
		}
		computed.Policies = append(computed.Policies, policy)
	}
	return new(nft.Compiler).Compile(nft.Input{Computed: computed}).Program
}

// compared are the programs that packets are measured with, besides none.
func (w *wired) compared() []struct {
	name    string
	program *ruleset.Program
} {
	return []struct {
		name    string
		program *ruleset.Program
	}{{"none", &ruleset.Program{}}, {"10-rules", w.rulesBefore(10)}, {"100-rules", w.rulesBefore(100)}, {"10000-rules", w.rulesBefore(10000)}, {"1000-policies", w.policiesBefore(1000, 4)}}
}

// pairs is how often each program is compared with none.
const pairs = 31

// rates measures something with each program, each time between two measurements without rules, and
// reports the medians: how much of it there is in a second, and what that is in percent of without
// rules, by the clock and by the processor time of both ends. Other work on the machine comes and
// goes; neighbours in time have about the same of it, and processor time does not count it.
func (w *wired) rates(b *testing.B, unit string, amount float64, once func()) {
	measure := func(p *ruleset.Program) (rate, perCPU float64) {
		if _, err := w.table.Apply(p); err != nil {
			b.Fatal(err)
		}
		begun, busy := time.Now(), processor(b)
		once()
		return amount / time.Since(begun).Seconds(), amount / (processor(b) - busy).Seconds()
	}
	all := map[string][]float64{}
	add := func(name string, value float64) { all[name] = append(all[name], value) }
	list := w.compared()
	for range pairs * b.N {
		for _, c := range list[1:] {
			before, cpuBefore := measure(list[0].program)
			rate, cpu := measure(c.program)
			after, cpuAfter := measure(list[0].program)
			add(list[0].name+"-"+unit, (before+after)/2)
			add(c.name+"-"+unit, rate)
			add(c.name+"-%", 200*rate/(before+after))
			add(c.name+"-cpu-%", 200*cpu/(cpuBefore+cpuAfter))
		}
	}
	for name, values := range all {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], name)
	}
	b.ReportMetric(0, "ns/op")
}

// serve takes connections to the host until the benchmark ends.
func (w *wired) serve(b *testing.B, each func(c net.Conn)) {
	b.Helper()
	var l net.Listener
	if err := w.host.Do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(w.address, port).String())
		return err
	}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				each(c)
			}()
		}
	}()
}

// BenchmarkNewConnections opens connections to the host, one after the other by four at once.
func BenchmarkNewConnections(b *testing.B) {
	w := newWired(b)
	w.serve(b, func(net.Conn) {})
	const each, workers = 750, 4
	w.rates(b, "conn/s", each*workers, func() {
		var running sync.WaitGroup
		for worker := range workers {
			running.Go(func() {
				err := w.peer.Do(func() error {
					for range each {
						c, err := net.Dial("tcp", netip.AddrPortFrom(w.address, port).String())
						if err != nil {
							return err
						}
						_ = c.(*net.TCPConn).SetLinger(0) // so that ports are free again at once
						if err := c.Close(); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					b.Errorf("worker %d: %v", worker, err)
				}
			})
		}
		running.Wait()
	})
}

// BenchmarkThroughput sends 256 MB over one connection.
func BenchmarkThroughput(b *testing.B) {
	w := newWired(b)
	const size = 256 << 20
	received := make(chan error)
	w.serve(b, func(c net.Conn) {
		_, err := io.CopyN(io.Discard, c, size)
		received <- err
	})
	chunk := make([]byte, 1<<20)
	w.rates(b, "MB/s", size/1e6, func() {
		var c net.Conn
		if err := w.peer.Do(func() (err error) { c, err = net.Dial("tcp", netip.AddrPortFrom(w.address, port).String()); return err }); err != nil {
			b.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		for range size / len(chunk) {
			if _, err := c.Write(chunk); err != nil {
				b.Fatal(err)
			}
		}
		if err := <-received; err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkRoundTrip measures round trips over one connection, with nothing else, and while all
// rules of the large world are replaced again and again.
func BenchmarkRoundTrip(b *testing.B) {
	w := newWired(b)
	w.serve(b, func(c net.Conn) { _, _ = io.Copy(c, c) })
	if _, err := w.table.Apply(w.rulesBefore(100)); err != nil {
		b.Fatal(err)
	}
	var c net.Conn
	if err := w.peer.Do(func() (err error) { c, err = net.Dial("tcp", netip.AddrPortFrom(w.address, port).String()); return err }); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	trips := func(until func() bool) []time.Duration {
		var took []time.Duration
		one := make([]byte, 1)
		for !until() {
			begun := time.Now()
			if _, err := c.Write(one); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(c, one); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(begun))
		}
		return took
	}
	report := func(name string, took []time.Duration) {
		slices.Sort(took)
		for word, at := range map[string]int{"p50": len(took) / 2, "p99": len(took) * 99 / 100, "p999": len(took) * 999 / 1000} {
			b.ReportMetric(float64(took[at].Nanoseconds())/1000, fmt.Sprintf("%s-%s-us", name, word))
		}
	}
	quiet := time.Now().Add(3 * time.Second)
	report("quiet", trips(func() bool { return time.Now().After(quiet) }))
	world := nfttest.World()
	first := new(nft.Compiler).Compile(nft.Input{Computed: world}).Program
	for p := range world.Policies {
		world.Policies[p] = nfttest.WorldPolicy(p, 9000)
	}
	second := new(nft.Compiler).Compile(nft.Input{Computed: world}).Program
	done, commits := make(chan struct{}), 0
	go func() {
		defer close(done)
		for range 2 * b.N {
			for _, p := range []*ruleset.Program{first, second} {
				if _, err := w.table.Apply(p); err != nil {
					b.Error(err)
					return
				}
				commits++
			}
		}
	}()
	report("replaced", trips(func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}))
	b.ReportMetric(float64(commits), "replacements")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkCut ends 50,000 flows that a policy does not allow any more.
func BenchmarkCut(b *testing.B) {
	const flows = 50_000
	w := newWired(b)
	if _, err := w.table.Apply(w.rulesBefore(10)); err != nil {
		b.Fatal(err)
	}
	var cutter *conntrack.Connections
	var sender net.PacketConn
	if err := w.host.Do(func() (err error) {
		if cutter, err = conntrack.Open(); err == nil {
			sender, err = net.ListenPacket("udp", netip.AddrPortFrom(w.address, 0).String())
		}
		return err
	}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = cutter.Close(), sender.Close() })
	cutter.Local = func() ([]netip.Addr, error) { return []netip.Addr{w.address}, nil }
	for i := range flows {
		to := netip.AddrPortFrom(w.other, uint16(1024+i))
		if _, err := sender.WriteTo([]byte("x"), net.UDPAddrFromAddrPort(to)); err != nil && i == 0 {
			b.Fatal(err)
		}
	}
	closed := w.rulesBefore(10)
	closed.Chains["egress"] = &ruleset.Chain{Rules: []ruleset.Rule{{Matches: []ruleset.Match{{Kind: ruleset.MatchDead}}, Action: ruleset.Drop}, {Action: ruleset.Drop}}}
	begun, busy := time.Now(), processor(b)
	n, err := cutter.Cut(b.Context(), closed)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(n), "flows")
	b.ReportMetric(time.Since(begun).Seconds(), "s")
	b.ReportMetric((processor(b) - busy).Seconds(), "cpu-s")
	b.ReportMetric(0, "ns/op")
}
