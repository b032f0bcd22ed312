package agent_test

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy"
)

// link is the link of the host to its peer, and of the peer to the host.
func (f *fixture) link(h *nfttest.Host) netlink.Link {
	f.t.Helper()
	links, err := h.Handle.LinkList()
	if err != nil {
		f.t.Fatal(err)
	}
	i := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Type() == "veth" })
	return links[i]
}

// TestAddressOfTheHostChanges gives a guarded host another address while it runs: what policies say
// of it holds there at once, new connections and old ones, before the controller knows of it.
func TestAddressOfTheHostChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	next := netip.MustParseAddr("10.1.0.9")
	f.local = []netip.Addr{next} // as the kernel says when it has it
	f.allow(80, 1, "")
	a, _ := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	address := func(a netip.Addr) *netlink.Addr {
		return &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(24, 32)}}
	}
	link := f.link(f.host)
	if err := f.host.Handle.AddrAdd(link, address(next)); err != nil {
		t.Fatal(err)
	}
	try := func(port uint16, limit time.Duration) nfttest.Result {
		f.port++
		got, err := nfttest.Attempt{From: f.peer, Network: "tcp", Source: netip.AddrPortFrom(peerAddr, f.port), Destination: netip.AddrPortFrom(next, port)}.Run(limit)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := try(80, time.Minute); got != nfttest.Passed {
		t.Errorf("what is allowed, at the new address: %v", got)
	}
	if got := try(81, 200*time.Millisecond); got != nfttest.Silent {
		t.Errorf("what is not, at the new address: %v", got)
	}
	f.port++
	held, err := nfttest.Attempt{From: f.peer, Network: "tcp", Source: netip.AddrPortFrom(peerAddr, f.port), Destination: netip.AddrPortFrom(next, 80)}.Open(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	f.allow(81, 2, "")
	f.eventually("a connection to the new address ends", func() bool { return !carries(held) })
	if err := f.host.Handle.AddrDel(link, address(hostAddr)); err != nil {
		t.Fatal(err)
	}
	if err := f.host.Handle.AddrReplace(link, address(next)); err != nil { // it goes with the first one of its network
		t.Fatal(err)
	}
	f.eventually("the new address is all that is left", func() bool {
		return try(81, 200*time.Millisecond) == nfttest.Passed && try(80, 200*time.Millisecond) == nfttest.Silent
	})
	if s := a.Status(); s.Kernel.Error+s.Kernel.ConnectionsError != "" {
		t.Errorf("%+v", s)
	}
}

// TestConnectionsBeingMade sends the first packet of a connection before rules forbid it, and has
// the answer come after: it is not made by then.
func TestConnectionsBeingMade(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, _ := f.start()
	f.eventually("enforced", func() bool { return a.Status().State == agent.StateEnforcing })
	// The way back is lost for now, so the host answers and nobody hears it.
	link := f.link(f.host)
	lost := &netlink.Neigh{LinkIndex: link.Attrs().Index, IP: peerAddr.AsSlice(), State: netlink.NUD_PERMANENT, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 99}}
	if err := f.host.Handle.NeighSet(lost); err != nil {
		t.Fatal(err)
	}
	made := make(chan net.Conn, 1)
	f.port++
	attempt := nfttest.Attempt{From: f.peer, Network: "tcp", Source: netip.AddrPortFrom(peerAddr, f.port), Destination: netip.AddrPortFrom(hostAddr, 81)}
	go func() {
		c, err := attempt.Open(8 * time.Second)
		if err != nil {
			c = nil
		}
		made <- c
	}()
	f.eventually("the first packet is there", func() bool {
		peers, err := f.connections.Peers()
		return err == nil && peers[peerAddr]
	})
	f.allow(80, 1, "")
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	f.eventually("what was being made is judged", func() bool { return a.Status().Kernel.ConnectionsCut > 0 })
	lost.HardwareAddr = f.link(f.peer).Attrs().HardwareAddr
	if err := f.host.Handle.NeighSet(lost); err != nil {
		t.Fatal(err)
	}
	if c := <-made; c != nil {
		t.Error("a connection was made that the rules forbid, because its first packet came before them")
		_ = c.Close()
	}
	if !f.reaches(80) {
		t.Error("what is allowed is not reached")
	}
}

// TestHalfOfAConnection kills one end of a connection without a word, as a power cut does: the
// other end is cut by a change like any other, and a new connection by the same ports is judged
// anew.
func TestHalfOfAConnection(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.allow(81, 1, "")
	a, _ := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	f.port++
	attempt := nfttest.Attempt{From: f.peer, Network: "tcp", Source: netip.AddrPortFrom(peerAddr, f.port), Destination: netip.AddrPortFrom(hostAddr, 81)}
	c, err := attempt.Open(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	link := f.link(f.peer)
	if err := f.peer.Handle.LinkSetDown(link); err != nil { // nothing of the end comes to the host
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	f.allow(80, 2, "")
	f.eventually("it is judged", func() bool { return a.Status().Kernel.ConnectionsCut > 0 })
	if err := f.peer.Handle.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	f.eventually("the host is reached again", func() bool { return f.reaches(80) })
	if again, err := attempt.Open(time.Second); err == nil {
		_ = again.Close()
		t.Error("the ports of an old connection open what is not allowed")
	}
	f.allow(81, 3, "")
	f.eventually("the same ports connect when it is allowed again", func() bool {
		again, err := attempt.Open(time.Second)
		if err == nil {
			_ = again.Close()
		}
		return err == nil
	})
}

// renamed is a server that knows a host by its new name only.
type renamed struct {
	*source
	former string
	gone   atomic.Bool
}

func (r *renamed) Watch(ctx context.Context, of enforcer.Resource, key string) (enforcer.Stream, error) {
	if key == r.former && r.gone.Load() {
		return nil, apierrors.NewUnauthorized("the ExternalNode " + key + " is gone, and its certificate with it")
	}
	return r.source.Watch(ctx, of, key)
}

// TestExternalNodeRenamed makes an ExternalNode anew under another name. The agent of the former
// one keeps what is in force and says why it hears nothing; the same host under the new name, with
// the state of the former one, keeps it until the controller answers, and then enforces what is
// computed for it. What a policy never allowed is open at no time.
func TestExternalNodeRenamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	server := &renamed{source: f.source, former: hostKey}
	f.from = server
	f.allow(80, 1, "")
	a, stop := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	defer f.neverOpens(81)()
	stop()
	server.gone.Store(true)
	a, stop = f.start()
	f.eventually("the former agent keeps it, and says why", func() bool {
		s := a.Status()
		return s.State == agent.StateKept && strings.Contains(s.Server.Error, "the ExternalNode vms/web is gone")
	})
	if !f.reaches(80) {
		t.Error("what was in force is not")
	}
	stop()
	f.key = "vms/web-2"
	f.source.away.Store(true)
	a, _ = f.start()
	f.eventually("the new one says what it has found", func() bool {
		return strings.Contains(a.Status().Faults.Store, "what is kept was computed for vms/web and is not enforced")
	})
	if !f.reaches(80) {
		t.Error("under the new name what was in force is not")
	}
	f.engine.DeleteEntity(policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "vms", Name: "web"})
	f.engine.PutEntity(policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "vms", Name: "web-2"},
		Labels: map[string]string{"app": "web"}, Addresses: []netip.Addr{hostAddr}, Host: f.key})
	f.source.store.Publish(convert.Delta(f.engine.Commit()))
	f.allow(82, 2, "")
	f.source.away.Store(false)
	f.eventually("what is computed for the new name is in force", func() bool { return f.open(82) && !f.open(80) && a.Status().State == agent.StateEnforcing })
}
