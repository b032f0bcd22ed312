package kernel_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/conntrack"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// cluster is a Node with Pods, and a table of ours on the Node.
type cluster struct {
	*nfttest.Lab
	table    *kernel.Table
	port     atomic.Uint32
	services []nfttest.Service
}

// firstService is the first port of the Service addresses. Each port that Pods and peers serve is
// behind one.
const firstService = 1000

func newCluster(t *testing.T) *cluster {
	c := &cluster{Lab: nfttest.NewLab(t)}
	c.port.Store(20000)
	c.table = open(t, c.Node)
	var behind []netip.Addr
	for n := range nfttest.PodCount {
		behind = append(behind, nfttest.PodAddresses(n)...)
	}
	behind = append(behind, c.Peers4[0], c.Peers6[0])
	for i, a := range behind {
		for port := uint16(nfttest.FirstPort); port <= nfttest.LastPort; port++ {
			c.services = append(c.services, nfttest.Service{Port: firstService + uint16(i/2)*100 + port, To: netip.AddrPortFrom(a, port)})
		}
	}
	c.Translate(t, c.services)
	return c
}

// end is one end of a connection in a cluster.
type end struct {
	evaluate.Endpoint
	host *nfttest.Host
	// index is that of a Pod; -1 for the Node, -2 for others.
	index int
}

func (c *cluster) end(random *rand.Rand, six bool) end {
	pick := func(list []netip.Addr) netip.Addr {
		if six {
			return list[1]
		}
		return list[0]
	}
	switch n := random.IntN(nfttest.PodCount + 3); {
	case n < nfttest.PodCount:
		return end{evaluate.Endpoint{EntityRef: nfttest.PodRef(n), Addr: pick(nfttest.PodAddresses(n))}, c.Pods[n], n}
	case n == nfttest.PodCount:
		return end{evaluate.Endpoint{EntityRef: policy.EntityRef{Kind: policy.KindNode, Name: nfttest.NodeName}, Addr: pick(nfttest.NodeAddresses())}, c.Node, -1}
	case six:
		return end{evaluate.Endpoint{Addr: c.Peers6[random.IntN(len(c.Peers6))]}, c.Peers, -2}
	}
	return end{evaluate.Endpoint{Addr: c.Peers4[random.IntN(len(c.Peers4))]}, c.Peers, -2}
}

// draw draws a connection, as policies see it and as it is made. Some go through a Service.
func (c *cluster) draw(random *rand.Rand) (evaluate.Flow, nfttest.Attempt) {
	six := random.IntN(3) == 0
	from, to := c.end(random, six), c.end(random, six)
	for from.index == to.index && (from.index < 0 || random.IntN(4) > 0) {
		to = c.end(random, six)
	}
	f := evaluate.Flow{Direct: true, Source: from.Endpoint, Destination: to.Endpoint, Port: uint16(nfttest.FirstPort + random.IntN(nfttest.LastPort-nfttest.FirstPort+1)), SourcePort: uint16(c.port.Add(1))}
	a := nfttest.Attempt{From: from.host}
	switch random.IntN(5) {
	case 0:
		f.Protocol, a.Network = policy.UDP, "udp"
	case 1:
		if from.index != to.index {
			f.Protocol, a.Network, f.ICMPType, f.Port, f.SourcePort = policy.ICMP, "icmp", 8, 0, 0
			if six {
				f.ICMPType = 128
			}
			break
		}
		fallthrough
	default:
		f.Protocol, a.Network = policy.TCP, "tcp"
	}
	a.Source, a.Destination = netip.AddrPortFrom(f.Source.Addr, f.SourcePort), netip.AddrPortFrom(f.Destination.Addr, f.Port)
	if f.Protocol != policy.ICMP && (from.index == to.index || random.IntN(3) == 0) {
		for _, s := range c.services {
			if s.To == a.Destination && from.index != -2 {
				service := nfttest.ServiceAddress4
				if six {
					service = nfttest.ServiceAddress6
				}
				f.Service, f.Direct = nfttest.ServiceOf(s.Port), false
				a.Destination = netip.AddrPortFrom(service, s.Port)
			}
		}
	}
	return f, a
}

// decide is what becomes of a connection: first where it begins, then where it ends.
func decide(l *policy.Listing, f evaluate.Flow) nfttest.Result {
	for _, d := range []policy.Direction{policy.Egress, policy.Ingress} {
		local := f.Source
		if d == policy.Ingress {
			local = f.Destination
		}
		if local.EntityRef != (policy.EntityRef{}) {
			if r := wanted(policytest.Decide(l, f, d)); r != nfttest.Passed {
				return r
			}
		}
	}
	return nfttest.Passed
}

// scenes draws worlds in which something is enforced on the Node.
func (c *cluster) scenes(seed uint64, n int) []scene {
	var ports []uint16
	for _, s := range c.services {
		ports = append(ports, s.Port)
	}
	var out []scene
	for ; len(out) < n; seed++ {
		listing, node := nfttest.NodeWorld(rand.New(rand.NewPCG(seed, 13)), 70)
		got := new(nft.Compiler).Compile(nft.Input{Computed: nfttest.ComputedFor(listing, nfttest.NodeName), Node: node, Services: nfttest.Frontends(ports...)})
		var refused []string
		for _, r := range got.Refusals {
			refused = append(refused, r.Policy)
		}
		if got.Program.Rules() > 60 {
			out = append(out, scene{fmt.Sprintf("seed %d", seed), policy.EntityRef{}, nfttest.Without(listing, refused), got.Program})
		}
	}
	return out
}

// TestPodsDecideAsPolicies makes connections between Pods, their Node and others, directly and
// through Services, under random policies, and asks the naive evaluator about each.
func TestPodsDecideAsPolicies(t *testing.T) {
	c := newCluster(t)
	var mu sync.Mutex
	seen, through, made := map[nfttest.Result]int{}, map[nfttest.Result]int{}, 0
	for _, s := range c.scenes(1, 20) {
		if _, err := c.table.Apply(s.program); err != nil {
			t.Fatal(err)
		}
		verify(t, c.table, s.program)
		if err := c.Node.Handle.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(uint64(made), 14))
		var running sync.WaitGroup
		free := make(chan struct{}, crowd)
		for range 120 {
			f, a := c.draw(random)
			want := decide(s.listing, f)
			for tries := 0; tries < 12 && want != nfttest.Rejected && random.IntN(10) > 0; tries++ { // most pass
				f, a = c.draw(random)
				want = decide(s.listing, f)
			}
			running.Go(func() {
				free <- struct{}{}
				defer func() { <-free }()
				limit := patient
				if want == nfttest.Silent {
					limit = soon
				}
				got, err := a.Run(limit)
				// The kernel limits how many errors by ICMP it sends a second.
				for tries := 0; tries < 5 && err == nil && want == nfttest.Rejected && got == nfttest.Silent; tries++ {
					a.Source = netip.AddrPortFrom(a.Source.Addr(), uint16(c.port.Add(1)))
					got, err = a.Run(limit)
				}
				mu.Lock()
				defer mu.Unlock()
				seen[got]++
				if f.Service.Name != "" {
					through[got]++
				}
				made++
				if err != nil || got != want {
					t.Errorf("%s: %v %s: %s (%v), want %s", s.name, f, a, got, err, want)
				}
			})
		}
		running.Wait()
		if t.Failed() {
			t.Fatalf("%s\n%s", s.name, s.program)
		}
	}
	t.Logf("%d connections: %v, of these through Services: %v", made, seen, through)
	for _, r := range []nfttest.Result{nfttest.Passed, nfttest.Silent, nfttest.Rejected} {
		if seen[r] < made/60 || through[r] < made/400 {
			t.Errorf("only %d of %d connections were %s, %d through Services", seen[r], made, r, through[r])
		}
	}
}

// TestPodsUnderChangesOpenAndCutNothing changes policies all the while connections are made. What
// none of the policies in force during an attempt allows must not pass, and what all of them allow
// must. The Node reaches its Pods all the while, as kubelet does with probes.
func TestPodsUnderChangesOpenAndCutNothing(t *testing.T) {
	c := newCluster(t)
	list := c.scenes(500, 6)
	if _, err := c.table.Apply(list[0].program); err != nil {
		t.Fatal(err)
	}
	// From begun on a scene may be in force, up to done it is no more the one before.
	var begun, done atomic.Int64
	var passed, stopped, certain atomic.Int64
	enough := func() bool {
		return done.Load() >= 40 && passed.Load() >= 100 && stopped.Load() >= 100 && certain.Load() >= 300
	}
	goesOn := atLeast(6*time.Second, enough)
	at := func(n int64) scene { return list[int(n)%len(list)] }
	var running sync.WaitGroup
	running.Go(func() {
		pace := time.NewTicker(25 * time.Millisecond)
		defer pace.Stop()
		for n := int64(1); goesOn(); n++ {
			<-pace.C
			begun.Store(n)
			if _, err := c.table.Apply(at(n).program); err != nil {
				t.Error(err)
				return
			}
			done.Store(n)
		}
	})
	for worker := range crowd {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 15))
			for goesOn() {
				f, a := c.draw(random)
				always := true
				for _, s := range list {
					always = always && decide(s.listing, f) == nfttest.Passed
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
					pass := decide(at(n).listing, f) == nfttest.Passed
					some, all = some || pass, all && pass
				}
				switch {
				case got == nfttest.Passed && !some:
					t.Errorf("%s passed, which none of the policies %d to %d allows", a, first, last)
				case got != nfttest.Passed && all && always:
					t.Errorf("%s: %s, which all policies allow", a, got)
				}
				if got == nfttest.Passed {
					passed.Add(1)
				} else {
					stopped.Add(1)
				}
				if some == all {
					certain.Add(1)
				}
			}
		})
	}
	running.Wait()
	t.Logf("%d changes; %d connections passed, %d did not, of %d there was one right end", done.Load(), passed.Load(), stopped.Load(), certain.Load())
	if !enough() {
		t.Error("too little has happened")
	}
}

// TestUnknownPodHasNoNetwork gives a Pod an address of those for Pods before the program knows it:
// nobody reaches it but its Node, and it reaches nobody. Once it is known it does.
func TestUnknownPodHasNoNetwork(t *testing.T) {
	c := newCluster(t)
	_, node := nfttest.NodeWorld(rand.New(rand.NewPCG(1, 1)), 0)
	node.Ranges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/29"), netip.MustParsePrefix("2001:db8::/125")}
	all := node.Pods
	try := func(want nfttest.Result, from *nfttest.Host, source, to netip.Addr) nfttest.Result {
		t.Helper()
		limit := patient
		if want == nfttest.Silent {
			limit = 2 * soon
		}
		got, err := nfttest.Attempt{From: from, Network: "tcp", Source: netip.AddrPortFrom(source, uint16(c.port.Add(1))), Destination: netip.AddrPortFrom(to, 80)}.Run(limit)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for n := range nfttest.PodCount {
		for known, want := range map[bool]nfttest.Result{false: nfttest.Silent, true: nfttest.Passed} {
			node.Pods = append(append([]nft.Pod{}, all[:n]...), all[n+1:]...)
			if known {
				node.Pods = all
			}
			if _, err := c.table.Apply(new(nft.Compiler).Compile(nft.Input{Node: node}).Program); err != nil {
				t.Fatal(err)
			}
			for i, a := range nfttest.PodAddresses(n) {
				other := (n + 1) % nfttest.PodCount
				if got := try(want, c.Pods[other], nfttest.PodAddresses(other)[i], a); got != want {
					t.Errorf("Pod %d, known: %t: reached from Pod %d: %s", n, known, other, got)
				}
				if got := try(want, c.Pods[n], a, nfttest.NodeAddresses()[i]); got != want {
					t.Errorf("Pod %d, known: %t: reaches its Node: %s", n, known, got)
				}
				if got := try(nfttest.Passed, c.Node, nfttest.NodeAddresses()[i], a); got != nfttest.Passed {
					t.Errorf("Pod %d, known: %t: a probe of its Node: %s", n, known, got)
				}
			}
		}
	}
}

// TestEstablishedConnectionsOfPodsObey holds connections of Pods open while policies change.
func TestEstablishedConnectionsOfPodsObey(t *testing.T) {
	c := newCluster(t)
	var cutter *conntrack.Connections
	if err := c.Node.Do(func() (err error) { cutter, err = conntrack.Open(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cutter.Close() })
	cutter.Local, cutter.Through = func() ([]netip.Addr, error) { return nfttest.NodeAddresses(), nil }, true
	_, node := nfttest.NodeWorld(rand.New(rand.NewPCG(1, 1)), 0)
	enforce := func(change func(p *ruleset.Program)) int {
		t.Helper()
		p := new(nft.Compiler).Compile(nft.Input{Node: node}).Program
		change(p)
		if _, err := c.table.Apply(p); err != nil {
			t.Fatal(err)
		}
		n, err := cutter.Cut(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	enforce(func(*ruleset.Program) {})
	type held struct {
		net.Conn
		name   string
		toPod0 bool
	}
	var all []held
	dial := func(from *nfttest.Host, source netip.Addr, to netip.AddrPort, toPod0 bool) {
		t.Helper()
		a := nfttest.Attempt{From: from, Network: "tcp", Source: netip.AddrPortFrom(source, uint16(c.port.Add(1))), Destination: to}
		conn, err := a.Open(patient)
		if err != nil {
			t.Fatal(a, err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		all = append(all, held{conn, a.String(), toPod0})
	}
	for i := range 2 {
		pod := func(n int) netip.Addr { return nfttest.PodAddresses(n)[i] }
		service := [...]netip.Addr{nfttest.ServiceAddress4, nfttest.ServiceAddress6}[i]
		peer := [...]netip.Addr{c.Peers4[1], c.Peers6[1]}[i]
		dial(c.Pods[1], pod(1), netip.AddrPortFrom(pod(0), 80), true)                   // over the bridge
		dial(c.Pods[3], pod(3), netip.AddrPortFrom(pod(0), 80), true)                   // from a route
		dial(c.Pods[3], pod(3), netip.AddrPortFrom(service, firstService+80), true)     // through a Service
		dial(c.Peers, peer, netip.AddrPortFrom(pod(0), 80), true)                       // from outside
		dial(c.Pods[0], pod(0), netip.AddrPortFrom(pod(2), 80), false)                  // the other way
		dial(c.Node, nfttest.NodeAddresses()[i], netip.AddrPortFrom(pod(0), 80), false) // a probe
	}
	check := func(when string, alive func(h held) bool) {
		t.Helper()
		for _, h := range all {
			limit := patient
			if !alive(h) {
				limit = soon
			}
			if got := echoes(h, limit); got != alive(h) {
				t.Errorf("%s: %s alive: %t", when, h.name, got)
			}
		}
	}
	check("before", func(held) bool { return true })
	tightened := func(p *ruleset.Program) {
		p.Chains["in4.x"] = &ruleset.Chain{Rules: []ruleset.Rule{{Action: ruleset.Drop}}}
		p.Chains["in6.x"] = p.Chains["in4.x"]
		for i, name := range []ruleset.SetName{"pods-in4", "pods-in6"} {
			p.Dispatch[name].Set(string(nfttest.PodAddresses(0)[i].AsSlice()), [...]string{"in4.x", "in6.x"}[i])
		}
	}
	if n := enforce(tightened); n != 8 {
		t.Errorf("%d connections were cut, want 8", n)
	}
	check("tightened", func(h held) bool { return !h.toPod0 })
	if n := enforce(func(*ruleset.Program) {}); n != 0 {
		t.Errorf("%d connections were cut by no policy", n)
	}
	check("loosened", func(held) bool { return true })
}

// TestConnectionsOfPodsOnTheNodeNetwork holds connections of a Pod in the network of its Node,
// which are the Node's: a policy on the Node ends them, in both directions, and no policy on Pods
// does.
func TestConnectionsOfPodsOnTheNodeNetwork(t *testing.T) {
	c := newCluster(t)
	var cutter *conntrack.Connections
	if err := c.Node.Do(func() (err error) { cutter, err = conntrack.Open(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cutter.Close() })
	cutter.Local, cutter.Through = func() ([]netip.Addr, error) { return nfttest.NodeAddresses(), nil }, true
	_, node := nfttest.NodeWorld(rand.New(rand.NewPCG(1, 1)), 0)
	enforce := func(change func(p *ruleset.Program)) int {
		t.Helper()
		p := new(nft.Compiler).Compile(nft.Input{Node: node}).Program
		change(p)
		if _, err := c.table.Apply(p); err != nil {
			t.Fatal(err)
		}
		n, err := cutter.Cut(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	enforce(func(*ruleset.Program) {})
	held := map[string]net.Conn{}
	for i := range 2 {
		at, peer, pod := nfttest.NodeAddresses()[i], [...]netip.Addr{c.Peers4[1], c.Peers6[1]}[i], nfttest.PodAddresses(0)[i]
		for name, a := range map[string]nfttest.Attempt{
			"to it from outside": {From: c.Peers, Source: netip.AddrPortFrom(peer, 0), Destination: netip.AddrPortFrom(at, 80)},
			"to it from a Pod":   {From: c.Pods[0], Source: netip.AddrPortFrom(pod, 0), Destination: netip.AddrPortFrom(at, 80)},
			"from it to outside": {From: c.Node, Source: netip.AddrPortFrom(at, 0), Destination: netip.AddrPortFrom(peer, 80)},
			"from it to a Pod":   {From: c.Node, Source: netip.AddrPortFrom(at, 0), Destination: netip.AddrPortFrom(pod, 80)},
		} {
			a.Network, a.Source = "tcp", netip.AddrPortFrom(a.Source.Addr(), uint16(c.port.Add(1)))
			conn, err := a.Open(patient)
			if err != nil {
				t.Fatal(name, a, err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			held[fmt.Sprintf("%s, %s", name, a)] = conn
		}
	}
	check := func(when string, alive func(name string) bool) {
		t.Helper()
		for name, conn := range held {
			limit := patient
			if !alive(name) {
				limit = soon
			}
			if got := echoes(conn, limit); got != alive(name) {
				t.Errorf("%s: %s alive: %t", when, name, got)
			}
		}
	}
	check("before", func(string) bool { return true })
	onPods := func(p *ruleset.Program) {
		p.Chains["in4.x"] = &ruleset.Chain{Rules: []ruleset.Rule{{Action: ruleset.Drop}}}
		p.Chains["in6.x"] = p.Chains["in4.x"]
		for i, name := range []ruleset.SetName{"pods-in4", "pods-in6"} {
			p.Dispatch[name].Set(string(nfttest.PodAddresses(1)[i].AsSlice()), [...]string{"in4.x", "in6.x"}[i])
		}
	}
	if n := enforce(onPods); n != 0 {
		t.Errorf("a policy on another Pod has cut %d connections", n)
	}
	check("with a policy on another Pod", func(string) bool { return true })
	for _, d := range []ruleset.Direction{ruleset.Ingress, ruleset.Egress} {
		onNode := func(p *ruleset.Program) {
			base := p.Chains[d.String()]
			base.Rules = append(base.Rules, ruleset.Rule{Action: ruleset.Drop})
		}
		if n := enforce(onNode); n < 4 {
			t.Errorf("a policy on the Node, %s, has cut %d connections, want at least 4", d, n)
		}
		word := [...]string{ruleset.Ingress: "to it", ruleset.Egress: "from it"}[d]
		check("with a policy on the Node, "+d.String(), func(name string) bool { return name[:len(word)] != word })
		if n := enforce(func(*ruleset.Program) {}); n != 0 {
			t.Errorf("no policy has cut %d connections", n)
		}
		check("without it", func(string) bool { return true })
	}
}
