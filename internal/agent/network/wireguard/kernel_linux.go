package wireguard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/nephele-io/nephele/internal/agent/network"
)

// inKernel is the device of the kernel.
type inKernel struct{ client *wgctrl.Client }

func openKernel(do func(func() error) error) (out encrypter, err error) {
	outer := do(func() error {
		var c *wgctrl.Client
		if c, err = wgctrl.New(); err == nil {
			out = &inKernel{c}
		}
		return nil
	})
	if err := errors.Join(outer, err); err != nil {
		return nil, fmt.Errorf("open WireGuard of the kernel: %w", err)
	}
	return out, nil
}

func (k *inKernel) close() error { return k.client.Close() }

func (k *inKernel) read() (*network.Sealing, error) {
	d, err := k.client.Device(network.WireGuardDevice)
	if errors.Is(err, os.ErrNotExist) { // it has gone meanwhile
		return &network.Sealing{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the device of WireGuard: %w", err)
	}
	out := &network.Sealing{Port: uint16(d.ListenPort), Key: publicOf(d.PrivateKey[:]), Peers: map[network.PublicKey]network.SealedPeer{}}
	for i := range d.Peers {
		of := &d.Peers[i]
		var p network.SealedPeer
		if of.Endpoint != nil {
			at := of.Endpoint.AddrPort()
			p.Endpoint = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
		}
		for _, n := range of.AllowedIPs {
			a, ok := netip.AddrFromSlice(n.IP)
			if ones, _ := n.Mask.Size(); ok {
				p.Allowed = append(p.Allowed, netip.PrefixFrom(a.Unmap(), ones))
			}
		}
		out.Peers[network.PublicKey(of.PublicKey)] = p
	}
	return out, nil
}

func (k *inKernel) configure(c wgtypes.Config) error {
	if err := k.client.ConfigureDevice(network.WireGuardDevice, c); err != nil {
		return fmt.Errorf("write the device of WireGuard: %w", err)
	}
	return nil
}

func (k *inKernel) set(private [32]byte, port uint16) error {
	key, at := wgtypes.Key(private), int(port)
	return k.configure(wgtypes.Config{PrivateKey: &key, ListenPort: &at})
}

func (k *inKernel) setPeer(key network.PublicKey, p network.SealedPeer) error {
	of := wgtypes.PeerConfig{PublicKey: wgtypes.Key(key), Endpoint: net.UDPAddrFromAddrPort(p.Endpoint), ReplaceAllowedIPs: true}
	for _, a := range p.Allowed {
		of.AllowedIPs = append(of.AllowedIPs, net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())})
	}
	return k.configure(wgtypes.Config{Peers: []wgtypes.PeerConfig{of}})
}

func (k *inKernel) removePeer(key network.PublicKey) error {
	return k.configure(wgtypes.Config{Peers: []wgtypes.PeerConfig{{PublicKey: wgtypes.Key(key), Remove: true}}})
}
