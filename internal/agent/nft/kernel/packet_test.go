package kernel_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// lab is a host with a table of ours, and another one that has the addresses of all peers.
type lab struct {
	host, peers *nfttest.Host
	table       *kernel.Table
	port        atomic.Uint32
}

var (
	local4, local6 = netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("2001:db8:9::9")
	peers4, peers6 []netip.Addr
)

// firstPort and lastPort are where both serve: around what random rules are about.
const firstPort, lastPort = 78, 93

func newLab(t *testing.T) *lab {
	l := &lab{host: nfttest.NewHost(t), peers: nfttest.NewHost(t)}
	l.port.Store(20000)
	peers4, peers6 = nil, nil
	var there []netip.Prefix
	for i := 1; i < 7; i++ {
		peers4 = append(peers4, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
		peers6 = append(peers6, netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", i)))
	}
	for i := 1; i < 4; i++ {
		peers4 = append(peers4, netip.AddrFrom4([4]byte{192, 168, 0, byte(i)}))
	}
	for _, a := range peers4 {
		there = append(there, netip.PrefixFrom(a, 8))
	}
	for _, a := range peers6 {
		there = append(there, netip.PrefixFrom(a, 32))
	}
	nfttest.Connect(t, l.host, l.peers, []netip.Prefix{netip.PrefixFrom(local4, 8), netip.PrefixFrom(local6, 32)}, there)
	links, err := l.host.Handle.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if link.Attrs().Name != "lo" {
			to := &net.IPNet{IP: net.IPv4(192, 168, 0, 0), Mask: net.CIDRMask(16, 32)}
			if err := l.host.Handle.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: to, Scope: netlink.SCOPE_LINK}); err != nil {
				t.Fatal(err)
			}
		}
	}
	nfttest.Serve(t, l.host, firstPort, lastPort, local4, local6)
	nfttest.Serve(t, l.peers, firstPort, lastPort, append(slices.Clone(peers4), peers6...)...)
	l.table = open(t, l.host)
	return l
}

// draw draws a connection, as policies see it and as it is made.
func (l *lab) draw(random *rand.Rand, ref policy.EntityRef) (evaluate.Flow, policy.Direction, nfttest.Attempt) {
	local, remote := local4, peers4[random.IntN(len(peers4))]
	if random.IntN(4) == 0 {
		local, remote = local6, peers6[random.IntN(len(peers6))]
	}
	here, there := evaluate.Endpoint{EntityRef: ref, Addr: local, Semantics: evaluate.VMSemantics}, evaluate.Endpoint{Addr: remote}
	f := evaluate.Flow{Source: there, Destination: here, Direct: true, Port: uint16(firstPort + random.IntN(lastPort-firstPort+1)), SourcePort: uint16(l.port.Add(1))}
	d, a := policy.Ingress, nfttest.Attempt{From: l.peers}
	if random.IntN(2) == 0 {
		f.Source, f.Destination = here, there
		d, a.From = policy.Egress, l.host
	}
	switch random.IntN(5) {
	case 0:
		f.Protocol, a.Network, f.ICMPType, f.Port, f.SourcePort = policy.ICMP, "icmp", 8, 0, 0
		if local.Is6() {
			f.ICMPType = 128
		}
	case 1:
		f.Protocol, a.Network = policy.UDP, "udp"
	default:
		f.Protocol, a.Network = policy.TCP, "tcp"
	}
	a.Source, a.Destination = netip.AddrPortFrom(f.Source.Addr, f.SourcePort), netip.AddrPortFrom(f.Destination.Addr, f.Port)
	return f, d, a
}

func wanted(o evaluate.Outcome) nfttest.Result {
	switch o {
	case evaluate.OutcomeAllow, evaluate.OutcomeNative:
		return nfttest.Passed
	case evaluate.OutcomeReject:
		return nfttest.Rejected
	}
	return nfttest.Silent
}

// scene is a world as it is enforced for one entity.
type scene struct {
	name    string
	ref     policy.EntityRef
	listing *policy.Listing
	program *ruleset.Program
}

// scenes draws worlds in which something is enforced.
func scenes(seed uint64, n int, ref policy.EntityRef) []scene {
	var out []scene
	for ; len(out) < n; seed++ {
		random := rand.New(rand.NewPCG(seed, 4))
		world := policytest.NewWorld()
		for range 60 {
			world.Put(policytest.Draw(random.IntN).Object())
		}
		listing := policytest.Compute(world)
		got := new(nft.Compiler).Compile(nft.Input{Computed: nfttest.Computed(listing, ref)})
		var refused []string
		for _, r := range got.Refusals {
			refused = append(refused, r.Policy)
		}
		if got.Program.Rules() > 24 {
			out = append(out, scene{fmt.Sprintf("seed %d", seed), ref, nfttest.Without(listing, refused), got.Program})
		}
	}
	return out
}

var entity = policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "n0", Name: "e0"}

const (
	// soon is how long an answer may take that should not come, patient one that must.
	soon    = 150 * time.Millisecond
	patient = 5 * time.Second
	crowd   = 48
)

// TestPacketsDecideAsPolicies makes thousands of connections under random policies and asks the
// naive evaluator about each.
func TestPacketsDecideAsPolicies(t *testing.T) {
	l := newLab(t)
	var mu sync.Mutex
	seen, made := map[nfttest.Result]int{}, 0
	for _, s := range scenes(1, 24, entity) {
		if _, err := l.table.Apply(s.program); err != nil {
			t.Fatal(err)
		}
		if err := l.host.Handle.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(uint64(len(s.name)), 5))
		var running sync.WaitGroup
		free := make(chan struct{}, crowd)
		for range 140 {
			f, d, a := l.draw(random, s.ref)
			want := wanted(policytest.Decide(s.listing, f, d))
			running.Go(func() {
				free <- struct{}{}
				defer func() { <-free }()
				limit := patient
				if want == nfttest.Silent {
					limit = soon
				}
				got, err := a.Run(limit)
				mu.Lock()
				defer mu.Unlock()
				seen[got]++
				made++
				if err != nil || got != want {
					t.Errorf("%s: %s %s: %s (%v), want %s", s.name, d, a, got, err, want)
				}
			})
		}
		running.Wait()
		if t.Failed() {
			t.Fatalf("%s\n%s", s.name, s.program)
		}
	}
	t.Logf("%d connections: %v", made, seen)
	for _, r := range []nfttest.Result{nfttest.Passed, nfttest.Silent, nfttest.Rejected} {
		if seen[r] < made/50 {
			t.Errorf("only %d of %d connections were %s", seen[r], made, r)
		}
	}
}

// TestChangesOpenAndCutNothing changes policies all the while connections are made. What none of
// the policies in force during an attempt allows must not pass, and what all of them allow must.
func TestChangesOpenAndCutNothing(t *testing.T) {
	l := newLab(t)
	list := scenes(700, 6, entity)
	if _, err := l.table.Apply(list[0].program); err != nil {
		t.Fatal(err)
	}
	// From begun on a scene may be in force, up to done it is no more the one before.
	var begun, done atomic.Int64
	var passed, stopped, spanning, certain atomic.Int64
	enough := func() bool {
		return done.Load() >= 50 && passed.Load() >= 100 && stopped.Load() >= 100 && spanning.Load() >= 50 && certain.Load() >= 500
	}
	goesOn := atLeast(8*time.Second, enough)
	at := func(n int64) scene { return list[int(n)%len(list)] }
	var running sync.WaitGroup
	running.Go(func() {
		pace := time.NewTicker(20 * time.Millisecond) // so that most connections meet one change or none
		defer pace.Stop()
		for n := int64(1); goesOn(); n++ {
			<-pace.C
			begun.Store(n)
			if _, err := l.table.Apply(at(n).program); err != nil {
				t.Error(err)
				return
			}
			done.Store(n)
		}
	})
	for worker := range crowd {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 6))
			for goesOn() {
				f, d, a := l.draw(random, entity)
				always := true
				for _, s := range list {
					always = always && wanted(policytest.Decide(s.listing, f, d)) == nfttest.Passed
				}
				limit := soon
				if always {
					limit = patient
				}
				first := done.Load()
				got, err := a.Run(limit)
				last := begun.Load()
				if err != nil {
					t.Errorf("%s: %v", a, err)
					return
				}
				some, all := false, true
				for n := first; n <= last && n < first+int64(len(list)); n++ {
					pass := wanted(policytest.Decide(at(n).listing, f, d)) == nfttest.Passed
					some, all = some || pass, all && pass
				}
				switch {
				case got == nfttest.Passed && !some:
					t.Errorf("%s %s passed, which none of the policies %d to %d allows", d, a, first, last)
				case got != nfttest.Passed && all && always:
					t.Errorf("%s %s: %s, which all policies allow", d, a, got)
				}
				if got == nfttest.Passed {
					passed.Add(1)
				} else {
					stopped.Add(1)
				}
				if last > first {
					spanning.Add(1)
				}
				if some == all {
					certain.Add(1)
				}
			}
		})
	}
	running.Wait()
	t.Logf(
		"%d changes; %d connections passed, %d did not, %d met a change, of %d there was one right end",
		done.Load(),
		passed.Load(),
		stopped.Load(),
		spanning.Load(),
		certain.Load(),
	)
	if !enough() {
		t.Error("too little has happened")
	}
}

// atLeast reports whether something goes on: for a while, and on a busy machine until it is enough,
// but for two minutes at most.
func atLeast(while time.Duration, enough func() bool) (goesOn func() bool) {
	begin := time.Now()
	return func() bool {
		took := time.Since(begin)
		return took < while || !enough() && took < 2*time.Minute
	}
}
