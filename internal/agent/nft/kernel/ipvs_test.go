package kernel_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// divert lets datagrams that come to the Node for others take the way of IPVS, without IPVS: they
// do not pass the hook forward, and leave by the hooks output and postrouting, of no process of the
// Node. That is what duplicates of the kernel do, of which the original is dropped. Answers are not
// known as such then, so only the way there is looked at.
func (c *cluster) divert(t *testing.T) {
	t.Helper()
	err := c.Node.Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		for i, f := range []struct {
			family       nftables.TableFamily
			offset, size uint32
		}{{nftables.TableFamilyIPv4, 16, 4}, {nftables.TableFamilyIPv6, 24, 16}} {
			table := conn.AddTable(&nftables.Table{Name: "like-ipvs", Family: f.family})
			chain := conn.AddChain(&nftables.Chain{Name: "divert", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRef(-350)})
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
				&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Register: 1, Data: []byte{unix.IPPROTO_UDP}},
				&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
				&expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: binaryutil.BigEndian.PutUint16(nfttest.FirstPort), ToData: binaryutil.BigEndian.PutUint16(nfttest.LastPort)},
				&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: f.offset, Len: f.size},
				&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: nfttest.NodeAddresses()[i].AsSlice()},
				&expr.Dup{RegAddr: 1}, &expr.Verdict{Kind: expr.VerdictDrop},
			}})
		}
		return conn.Flush()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// arrivals are the datagrams that have come to hosts, by their source ports.
type arrivals struct {
	mu   sync.Mutex
	seen map[uint16]bool
}

// watch takes down what comes to a host.
func (a *arrivals) watch(t *testing.T, h *nfttest.Host) {
	t.Helper()
	fd := -1
	err := h.Do(func() (err error) {
		all := int(binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL)))
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
	})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	stop := make(chan struct{})
	running.Go(func() {
		packet := make([]byte, 2048)
		for {
			select {
			case <-stop:
				return
			default:
			}
			n, from, err := unix.Recvfrom(fd, packet, 0)
			if err != nil {
				continue // nothing has come
			}
			if link, ok := from.(*unix.SockaddrLinklayer); ok && link.Pkttype == unix.PACKET_HOST {
				a.take(packet[:n])
			}
		}
	})
	t.Cleanup(func() { close(stop); running.Wait(); _ = unix.Close(fd) })
}

func (a *arrivals) take(packet []byte) {
	at, protocol := 40, byte(0)
	switch {
	case len(packet) >= 48 && packet[0]>>4 == 6:
		protocol = packet[6]
	case len(packet) >= 28 && packet[0]>>4 == 4:
		at, protocol = int(packet[0]&15)*4, packet[9]
	}
	if protocol != unix.IPPROTO_UDP || len(packet) < at+8 {
		return
	}
	if port := binary.BigEndian.Uint16(packet[at+2:]); port >= nfttest.FirstPort && port <= nfttest.LastPort {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.seen[binary.BigEndian.Uint16(packet[at:])] = true
	}
}

func (a *arrivals) has(port uint16) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[port]
}

// send sends a datagram.
func send(from *nfttest.Host, source, destination netip.AddrPort) error {
	return from.Do(func() error {
		c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(source), net.UDPAddrFromAddrPort(destination))
		if err != nil {
			return err
		}
		_, err = c.Write([]byte("x"))
		_ = c.Close()
		if err != nil && strings.Contains(err.Error(), "not permitted") { // dropped on the way out
			err = nil
		}
		return err
	})
}

// TestServicesByIPVS sends datagrams the way that IPVS leads them, under random policies: they
// arrive if the policies of both ends allow it, as they do on any other way. What the Node itself
// sends to its Pods arrives, and policies on the Node do not count for what only comes by.
func TestServicesByIPVS(t *testing.T) {
	c := newCluster(t)
	c.divert(t)
	got := &arrivals{seen: map[uint16]bool{}}
	for _, h := range append([]*nfttest.Host{c.Peers}, c.Pods...) {
		got.watch(t, h)
	}
	passed, stopped, evaded := 0, 0, 0
	for scene := uint64(1); scene <= 24; scene++ {
		listing, node := nfttest.NodeWorld(rand.New(rand.NewPCG(scene, 21)), 70)
		node.IPVS = scene%6 != 0
		result := new(nft.Compiler).Compile(nft.Input{Computed: nfttest.ComputedFor(listing, nfttest.NodeName), Node: node})
		var refused []string
		for _, r := range result.Refusals {
			refused = append(refused, r.Policy)
		}
		listing = nfttest.Without(listing, refused)
		if _, err := c.table.Apply(result.Program); err != nil {
			t.Fatal(err)
		}
		verify(t, c.table, result.Program)
		random := rand.New(rand.NewPCG(scene, 22))
		want := map[uint16]bool{}
		texts := map[uint16]string{}
		for range 60 {
			f, a := c.datagram(random)
			for tries := 0; tries < 8 && decide(listing, f) == nfttest.Passed && random.IntN(4) > 0; tries++ { // most pass
				f, a = c.datagram(random)
			}
			want[f.SourcePort] = decide(listing, f) == nfttest.Passed
			texts[f.SourcePort] = fmt.Sprint(f, " ", a)
			if err := send(a.From, a.Source, a.Destination); err != nil {
				t.Fatalf("%s: %v", a, err)
			}
		}
		for port, should := range want {
			for deadline := time.Now().Add(patient); should && !got.has(port) && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			}
		}
		time.Sleep(soon) // for what should not come
		for port, should := range want {
			switch arrived := got.has(port); {
			case !node.IPVS: // to see that the hook forward does not see them
				if arrived && !should {
					evaded++
				}
			case arrived != should:
				t.Errorf("world %d: %s arrived: %t", scene, texts[port], arrived)
			case arrived:
				passed++
			default:
				stopped++
			}
		}
		if t.Failed() {
			t.Fatalf("%s", result.Program)
		}
	}
	t.Logf("%d datagrams passed, %d did not; %d evaded policies where IPVS was not known", passed, stopped, evaded)
	if passed < 200 || stopped < 100 || evaded == 0 {
		t.Error("too little has happened")
	}
}

// TestPoliciesOnTheNodeByIPVS forbids the Node to send anything: what IPVS leads from Pods and
// others to Pods and others arrives nevertheless, and what the Node sends does not.
func TestPoliciesOnTheNodeByIPVS(t *testing.T) {
	c := newCluster(t)
	c.divert(t)
	got := &arrivals{seen: map[uint16]bool{}}
	for _, h := range append([]*nfttest.Host{c.Peers}, c.Pods...) {
		got.watch(t, h)
	}
	_, node := nfttest.NodeWorld(rand.New(rand.NewPCG(1, 1)), 0)
	node.IPVS = true
	program := new(nft.Compiler).Compile(nft.Input{Node: node}).Program
	host := program.Chains[string(ruleset.FromHost)]
	host.Rules = append(host.Rules, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchNeighbour}}, Action: ruleset.Accept}, ruleset.Rule{Action: ruleset.Drop})
	if _, err := c.table.Apply(program); err != nil {
		t.Fatal(err)
	}
	want := map[uint16]bool{}
	try := func(from *nfttest.Host, source, to netip.Addr, arrives bool) {
		t.Helper()
		port := uint16(c.port.Add(1))
		want[port] = arrives
		if err := send(from, netip.AddrPortFrom(source, port), netip.AddrPortFrom(to, 80)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		pod := func(n int) netip.Addr { return nfttest.PodAddresses(n)[i] }
		peer := [...]netip.Addr{c.Peers4[0], c.Peers6[0]}[i]
		try(c.Node, nfttest.NodeAddresses()[i], pod(0), false)
		try(c.Node, nfttest.NodeAddresses()[i], peer, false)
		try(c.Pods[0], pod(0), pod(1), true)
		try(c.Pods[0], pod(0), pod(3), true)
		try(c.Pods[3], pod(3), peer, true)
		try(c.Peers, peer, pod(2), true)
	}
	for port, should := range want {
		for deadline := time.Now().Add(patient); should && !got.has(port) && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		}
	}
	time.Sleep(soon) // for what should not come
	for port, should := range want {
		if got.has(port) != should {
			t.Errorf("datagram %d arrived: %t", port, got.has(port))
		}
	}
}

// datagram draws one that does not end on the Node.
func (c *cluster) datagram(random *rand.Rand) (evaluate.Flow, nfttest.Attempt) {
	for {
		f, a := c.draw(random)
		if f.Destination.Kind == policy.KindNode || f.Source.Addr == f.Destination.Addr || f.Protocol == policy.ICMP || a.Destination.Addr() != f.Destination.Addr {
			continue
		}
		if f.Source.EntityRef == (policy.EntityRef{}) && f.Destination.EntityRef == (policy.EntityRef{}) {
			continue
		}
		f.Protocol, a.Network = policy.UDP, "udp"
		return f, a
	}
}
