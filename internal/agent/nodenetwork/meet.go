package nodenetwork

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/agent/network"
)

const (
	// meetInterval is how often other Nodes are asked, meetAgain how soon while one does not
	// answer, meetAtOnce how many of them each time, and meetLimit how long an answer is waited
	// for.
	meetInterval = 15 * time.Second
	meetAgain    = 3 * time.Second
	meetAtOnce   = 8
	meetLimit    = time.Second
	// meetTries is how often a question is asked.
	meetTries = 3
)

// meeting asks other Nodes for answers by VXLAN or WireGuard, and answers them: so it is found out
// that a port is blocked between two Nodes, or that large packets are lost. It is safe for
// concurrent use.
type meeting struct {
	listen func(ctx context.Context, network, address string) (net.PacketConn, error)

	mu sync.Mutex
	// wrong are the Nodes that something is wrong with; the text is what. suspected are those that
	// something was wrong with for the first time: their agents may be starting.
	wrong     map[string]string
	suspected map[string]bool
	// waiting are the questions without an answer.
	waiting map[uint64]chan int
	number  uint64
	next    int
}

// troubles are what is wrong, of the Nodes that there are.
func (m *meeting) troubles(peers []network.Peer) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, p := range peers {
		if text := m.wrong[p.Name]; text != "" {
			out = append(out, text)
		}
	}
	return out
}

// meet asks and answers until ctx ends.
func (n *Network) meet(ctx context.Context) {
	var socket net.PacketConn
	var at netip.Addr
	closed := func() {
		if socket != nil {
			_ = socket.Close()
			socket = nil
		}
	}
	defer closed()
	for {
		n.mu.Lock()
		plan := n.plan
		n.mu.Unlock()
		own := netip.Addr{}
		if plan != nil && (plan.State.Device != nil || plan.State.Sealing() != nil) && len(plan.Ranges) > 0 {
			own = network.OwnAddress(plan.Ranges[0])
		}
		if own != at || !own.IsValid() {
			closed()
		}
		if own.IsValid() && socket == nil {
			var err error
			if socket, err = n.meeting.listen(ctx, "udp", netip.AddrPortFrom(own, network.MeetPort).String()); err != nil {
				n.Log.V(1).Info("Other Nodes are not asked whether packets come to them", "reason", err.Error())
				socket = nil
			} else {
				at = own
				go n.meeting.answer(socket)
			}
		}
		if socket != nil {
			n.meeting.round(ctx, n, plan, socket)
		}
		wait := meetInterval
		if plan == nil || n.meeting.something() {
			wait = meetAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-n.Clock.After(wait):
		}
	}
}

// something reports whether something is wrong.
func (m *meeting) something() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.wrong)+len(m.suspected) > 0
}

// answer takes what comes until the socket is closed.
func (m *meeting) answer(socket net.PacketConn) {
	b := make([]byte, 1<<16)
	for {
		n, from, err := socket.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // an error of ICMP that came back; not as fast as they come
			continue
		}
		if reply := network.AnswerTo(b[:n]); reply != nil {
			_, _ = socket.WriteTo(reply, from) // the peer asks again
			continue
		}
		if number, size, ok := network.ParseAnswer(b[:n]); ok {
			m.mu.Lock()
			if c := m.waiting[number]; c != nil {
				delete(m.waiting, number)
				c <- size
			}
			m.mu.Unlock()
		}
	}
}

// turn are the Nodes whose turn it is, and some of those with which something is wrong.
func (m *meeting) turn(peers []network.Peer) []network.Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := func(name string) bool {
		return !slices.ContainsFunc(peers, func(p network.Peer) bool { return p.Name == name })
	}
	maps.DeleteFunc(m.wrong, func(name, _ string) bool { return gone(name) })
	maps.DeleteFunc(m.suspected, func(name string, _ bool) bool { return gone(name) })
	first := m.next % len(peers)
	m.next = first + meetAtOnce
	some := slices.Concat(peers[first:], peers[:first])
	some = some[:min(len(some), meetAtOnce)]
	again := 0 // of those with which something is wrong
	for _, p := range peers {
		if bad := m.wrong[p.Name] != "" || m.suspected[p.Name]; bad && again < meetAtOnce && !slices.Contains(some, p) {
			some, again = append(some, p), again+1
		}
	}
	return some
}

// round asks some of the other Nodes, each time the next ones.
func (m *meeting) round(ctx context.Context, n *Network, plan *network.Plan, socket net.PacketConn) {
	peers := plan.Peers
	if len(peers) == 0 {
		return
	}
	some := m.turn(peers)
	var running sync.WaitGroup
	for _, p := range some {
		running.Go(func() {
			ask := func(size int) bool {
				for range meetTries {
					if m.ask(ctx, n, socket, p.Through, size) {
						return true
					}
				}
				return false
			}
			met := network.Met{Small: ask(0)}
			met.Large = met.Small && ask(network.QuestionSize(plan.MTU, p.Through.Is6()))
			if ctx.Err() != nil {
				return
			}
			text := p.Trouble(met, plan.Local, plan.MTU)
			m.mu.Lock()
			defer m.mu.Unlock()
			if text != "" && m.wrong[p.Name] == "" && !m.suspected[p.Name] {
				m.suspected[p.Name] = true
				return
			}
			delete(m.suspected, p.Name)
			if text != "" && m.wrong[p.Name] == "" {
				n.Log.Info("Another Node is not reached as it should be", "trouble", text)
			}
			if m.wrong[p.Name] = text; text == "" {
				delete(m.wrong, p.Name)
			}
		})
	}
	running.Wait()
}

// ask asks once, and reports whether an answer came.
func (m *meeting) ask(ctx context.Context, n *Network, socket net.PacketConn, to netip.Addr, size int) bool {
	m.mu.Lock()
	m.number++
	number, got := m.number, make(chan int, 1)
	m.waiting[number] = got
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.waiting, number)
		m.mu.Unlock()
	}()
	question := network.Question(number, size)
	if _, err := socket.WriteTo(question, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, network.MeetPort))); err != nil {
		return false
	}
	select {
	case came := <-got:
		return came == len(question)
	case <-n.Clock.After(meetLimit):
	case <-ctx.Done():
	}
	return false
}
