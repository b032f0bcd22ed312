package kernel_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// TestAddressesOfOthers: a Pod that sends with the address of somebody else is not heard, whoever
// made the network: not with that of another Pod behind a link of its own, nor of one that is
// elsewhere. On one bridge it is, and the agent says so.
func TestAddressesOfOthers(t *testing.T) {
	c := newCluster(t)
	_, node := nfttest.NodeWorld(rand.New(rand.NewPCG(1, 1)), 0)
	node.Bridges = []string{"cni0"}
	guarded := new(nft.Compiler).Compile(nft.Input{Node: node}).Program
	const bridged, otherBridged, routed, otherRouted, port = 0, 1, nfttest.PodCount - 1, nfttest.PodCount - 2, 9999
	listener := func(host *nfttest.Host, at netip.Addr) (l net.PacketConn) {
		t.Helper()
		if err := host.Do(func() (err error) {
			l, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, port)))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	send := func(host *nfttest.Host, from, to netip.Addr, text string) {
		t.Helper()
		if err := host.Do(func() error {
			s, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, port)))
			if err != nil {
				return err
			}
			_, err = s.Write([]byte(text))
			return errors.Join(err, s.Close())
		}); err != nil {
			t.Fatal(err)
		}
	}
	// take gives a host the address of another one, as any sender of raw packets has it at once.
	take := func(host *nfttest.Host, a netip.Addr) func() {
		t.Helper()
		link, err := host.Handle.LinkByName("eth0")
		if err != nil {
			t.Fatal(err)
		}
		address := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}, Flags: 0x02}
		if err := host.Handle.AddrAdd(link, address); err != nil {
			t.Fatal(err)
		}
		return func() { _ = host.Handle.AddrDel(link, address) }
	}
	turn := 0
	for family := range 2 {
		to := nfttest.NodeAddresses()[family]
		heard := listener(c.Node, to)
		elsewhere := [][]netip.Addr{c.Peers4, c.Peers6}[family][0]
		for name, x := range map[string]struct {
			sender int
			of     netip.Addr
			bound  bool
		}{
			"from a bridge, of another one there":     {bridged, nfttest.PodAddresses(otherBridged)[family], false},
			"from a bridge, of one with a link":       {bridged, nfttest.PodAddresses(routed)[family], true},
			"from a bridge, of one elsewhere":         {bridged, elsewhere, true},
			"from a link, of one on a bridge":         {routed, nfttest.PodAddresses(bridged)[family], true},
			"from a link, of another one with a link": {routed, nfttest.PodAddresses(otherRouted)[family], true},
			"from a link, of one elsewhere":           {routed, elsewhere, true},
		} {
			for _, guard := range []bool{false, true} {
				program := ruleset.LetPass()
				if guard {
					program = guarded
				}
				if _, err := c.table.Apply(program); err != nil {
					t.Fatal(err)
				}
				turn++
				sender, own := c.Pods[x.sender], nfttest.PodAddresses(x.sender)[family]
				giveBack := take(sender, x.of)
				forged, honest := fmt.Sprint("forged ", turn), fmt.Sprint("honest ", turn)
				send(sender, x.of, to, forged)
				giveBack()
				send(sender, own, to, honest)
				// Where it is let in both come, in whatever order; else only the honest one does.
				want := map[string]bool{honest: true, forged: !guard || !x.bound}
				seen, buffer := map[string]bool{}, make([]byte, 100)
				for !seen[honest] || want[forged] && !seen[forged] {
					if err := heard.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
						t.Fatal(err)
					}
					n, _, err := heard.ReadFrom(buffer)
					if err != nil {
						t.Fatalf("%s, family %d, guarded %t: %v; heard %v", name, family, guard, err, seen)
					}
					seen[string(buffer[:n])] = true
				}
				if seen[forged] != want[forged] {
					t.Errorf("%s, family %d, guarded %t: forged is heard: %t", name, family, guard, seen[forged])
				}
			}
		}
	}
}
