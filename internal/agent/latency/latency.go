// Package latency measures on a Node how long packets take to the other Nodes and back, while there
// is a NodeLatencyMonitor.
//
// It promises:
//
//   - No packet leaves, no socket is open and the Nodes are not followed while there is no
//     NodeLatencyMonitor.
//   - An address is asked once in an interval, and no more than a bounded number of addresses each
//     second. A round that takes longer than the interval delays the next one.
//
// Monitor is for one goroutine, that of Run.
package latency

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	stats "github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// monitorName is that of the one NodeLatencyMonitor.
	monitorName = "default"
	// lookInterval is how often it is looked whether there is one, and minReport how often at
	// most is reported.
	lookInterval = time.Second
	minReport    = 10 * time.Second
	reportLimit  = 10 * time.Second
	// pause is how long is waited between two addresses.
	pause = 5 * time.Millisecond
	// maxAddresses bounds the addresses of one Node.
	maxAddresses = 2
	protocolICMP = 1
	protocolIPv6 = 58
)

// Options are what a Monitor needs.
type Options struct {
	Node string
	// Monitors lists and watches NodeLatencyMonitors, Nodes the Nodes of the cluster.
	Monitors, Nodes cache.ListerWatcher
	// Listen opens a socket for ICMP, of a family; Listen of this package does.
	Listen func(six bool) (net.PacketConn, error)
	// Report takes what was measured.
	Report func(ctx context.Context, s *stats.NodeLatencyStats) error
	Clock  clock.WithTicker
	Log    logr.Logger
}

// Listen opens a socket for ICMP that needs no right, but that the host allows the group of the
// process in net.ipv4.ping_group_range.
func Listen(six bool) (net.PacketConn, error) {
	c, err := icmp.ListenPacket("udp4", "0.0.0.0")
	if six {
		c, err = icmp.ListenPacket("udp6", "::")
	}
	if errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("%w: the sysctl net.ipv4.ping_group_range of the Node leaves out group %d", err, os.Getgid())
	}
	return c, err
}

// Monitor measures.
type Monitor struct {
	Options
	monitors cache.Store
	run      cache.Controller
	// nodes are followed while there is a NodeLatencyMonitor; nil otherwise.
	nodes     cache.Store
	runNodes  cache.Controller
	stopNodes func()

	sockets  [2]net.PacketConn
	problem  string
	next     time.Time
	reported time.Time
	number   uint32

	mu       sync.Mutex
	measured map[netip.Addr]*stats.TargetIPLatencyStats
	// waiting is when an address was asked, and what.
	waiting map[netip.Addr]asked
}

type asked struct {
	number uint32
	at     time.Time
}

// New returns what measures once it runs.
func New(o Options) *Monitor {
	m := &Monitor{Options: o, measured: map[netip.Addr]*stats.TargetIPLatencyStats{}, waiting: map[netip.Addr]asked{}}
	none := cache.ResourceEventHandlerFuncs{}
	m.monitors, m.run = cache.NewInformerWithOptions(cache.InformerOptions{ObjectType: &v1alpha1.NodeLatencyMonitor{}, Handler: none, ListerWatcher: o.Monitors})
	return m
}

// Run measures until ctx ends.
func (m *Monitor) Run(ctx context.Context) {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { m.run.RunWithContext(ctx) })
	defer m.stop()
	tick := m.Clock.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
		if fault := recovered.Do(func() { m.look(ctx) }); fault != nil {
			m.Log.Error(fault, "A panic was recovered while the latency was measured", "stack", recovered.StackOf(fault))
		}
	}
}

// stop ends all that is there for a NodeLatencyMonitor.
func (m *Monitor) stop() {
	for i, s := range m.sockets {
		if s != nil {
			_ = s.Close()
		}
		m.sockets[i] = nil
	}
	if m.stopNodes != nil {
		m.stopNodes()
	}
	m.nodes, m.runNodes, m.stopNodes = nil, nil, nil
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.measured)
	clear(m.waiting)
}

func (m *Monitor) look(ctx context.Context) {
	if !m.run.HasSynced() {
		return
	}
	o, _, _ := m.monitors.GetByKey(monitorName)
	of, ok := o.(*v1alpha1.NodeLatencyMonitor)
	if !ok || of.DeletionTimestamp != nil {
		if m.nodes != nil {
			m.stop()
		}
		return
	}
	if m.nodes == nil {
		m.follow(ctx)
	}
	now := m.Clock.Now()
	if !m.runNodes.HasSynced() || now.Before(m.next) {
		return
	}
	m.next = now.Add(time.Duration(max(of.Spec.PingIntervalSeconds, 1)) * time.Second)
	peers := m.peers()
	if now.Sub(m.reported) >= minReport && m.reports(ctx, peers) {
		m.reported = now
	}
	m.ask(ctx, peers)
}

// follow begins to follow the Nodes.
func (m *Monitor) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	none := cache.ResourceEventHandlerFuncs{}
	m.nodes, m.runNodes = cache.NewInformerWithOptions(cache.InformerOptions{ObjectType: &corev1.Node{}, Handler: none, ListerWatcher: m.Nodes, Transform: trim})
	run, done := m.runNodes, make(chan struct{})
	go func() {
		defer close(done)
		run.RunWithContext(ctx)
	}()
	m.stopNodes = func() { cancel(); <-done }
	m.next = time.Time{}
}

// trim drops of a Node what is not needed.
func trim(o any) (any, error) {
	if n, ok := o.(*corev1.Node); ok {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, ResourceVersion: n.ResourceVersion}, Status: corev1.NodeStatus{Addresses: n.Status.Addresses}}, nil
	}
	return o, nil
}

// peer is another Node.
type peer struct {
	name      string
	addresses []netip.Addr
}

func (m *Monitor) peers() []peer {
	var out []peer
	for _, o := range m.nodes.List() {
		n, ok := o.(*corev1.Node)
		if !ok || n.Name == m.Node {
			continue
		}
		p := peer{name: n.Name}
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP && len(p.addresses) < maxAddresses && ip.Zone() == "" {
				p.addresses = append(p.addresses, ip.Unmap())
			}
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b peer) int { return cmp.Compare(a.name, b.name) })
	return out
}

// ask asks all addresses.
func (m *Monitor) ask(ctx context.Context, peers []peer) {
	there := map[netip.Addr]bool{}
	for _, p := range peers {
		for _, a := range p.addresses {
			there[a] = true
			if err := m.send(a); err != nil {
				m.complain(err)
			}
			select {
			case <-ctx.Done():
				return
			case <-m.Clock.After(pause):
			}
			if _, wanted, _ := m.monitors.GetByKey(monitorName); !wanted {
				return
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for a := range m.measured {
		if !there[a] {
			delete(m.measured, a)
			delete(m.waiting, a)
		}
	}
}

func (m *Monitor) complain(err error) {
	if text := err.Error(); text != m.problem {
		m.problem = text
		m.Log.Error(err, "The latency to other Nodes is not measured as it should be")
	}
}

// send asks one address.
func (m *Monitor) send(a netip.Addr) error {
	index, kind := 0, icmp.Type(ipv4.ICMPTypeEcho)
	if a.Is6() {
		index, kind = 1, ipv6.ICMPTypeEchoRequest
	}
	if m.sockets[index] == nil {
		s, err := m.Listen(a.Is6())
		if err != nil {
			return fmt.Errorf("open a socket for ICMP: %w", err)
		}
		m.sockets[index] = s
		go m.receive(s, a.Is6())
	}
	m.number++
	data := binary.BigEndian.AppendUint32(nil, m.number)
	b, err := (&icmp.Message{Type: kind, Body: &icmp.Echo{Seq: int(m.number & 0xffff), Data: data}}).Marshal(nil)
	if err != nil {
		return err
	}
	now := m.Clock.Now()
	m.mu.Lock()
	if m.measured[a] == nil {
		m.measured[a] = &stats.TargetIPLatencyStats{TargetIP: a.String()}
	}
	m.measured[a].LastSendTime, m.waiting[a] = metav1.NewTime(now), asked{m.number, now}
	m.mu.Unlock()
	if _, err = m.sockets[index].WriteTo(b, &net.UDPAddr{IP: a.AsSlice()}); err != nil {
		return fmt.Errorf("ask %s: %w", a, err)
	}
	return nil
}

// receive takes the answers that come, until the socket is closed.
func (m *Monitor) receive(s net.PacketConn, six bool) {
	protocol := protocolICMP
	if six {
		protocol = protocolIPv6
	}
	b := make([]byte, 1500)
	for {
		n, from, err := s.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // an error of ICMP that came back; not as fast as they come
			continue
		}
		now := m.Clock.Now()
		message, err := icmp.ParseMessage(protocol, b[:n])
		if err != nil || message.Type != ipv4.ICMPTypeEchoReply && message.Type != ipv6.ICMPTypeEchoReply {
			continue
		}
		echo, is := message.Body.(*icmp.Echo)
		at, known := from.(*net.UDPAddr)
		if !is || !known || len(echo.Data) != 4 {
			continue
		}
		a := at.AddrPort().Addr().Unmap()
		m.mu.Lock()
		if w, waits := m.waiting[a]; waits && w.number == binary.BigEndian.Uint32(echo.Data) {
			delete(m.waiting, a)
			m.measured[a].LastRecvTime, m.measured[a].LastMeasuredRTTNanoseconds = metav1.NewTime(now), int64(now.Sub(w.at))
		}
		m.mu.Unlock()
	}
}

// reports reports what was measured, and whether there was something.
func (m *Monitor) reports(ctx context.Context, peers []peer) bool {
	out := &stats.NodeLatencyStats{ObjectMeta: metav1.ObjectMeta{Name: m.Node}}
	m.mu.Lock()
	for _, p := range peers {
		of := stats.PeerNodeLatencyStats{NodeName: p.name}
		for _, a := range p.addresses {
			if x := m.measured[a]; x != nil {
				of.TargetIPLatencyStats = append(of.TargetIPLatencyStats, *x)
			}
		}
		if len(of.TargetIPLatencyStats) > 0 {
			out.PeerNodeLatencyStats = append(out.PeerNodeLatencyStats, of)
		}
	}
	m.mu.Unlock()
	if len(out.PeerNodeLatencyStats) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	if err := m.Report(ctx, out); err != nil {
		m.complain(err)
	}
	return true
}
