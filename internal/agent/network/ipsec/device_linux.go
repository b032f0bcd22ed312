package ipsec

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent/network"
)

// DefaultSocket is where charon answers.
const DefaultSocket = "/run/nephele/charon.vici"

// Options are what a Device needs. All but Do are required.
type Options struct {
	Credential *Credential
	// Socket is where charon answers.
	Socket string
	// Handle reads and writes the links of the Node.
	Handle *netlink.Handle
	// Do runs a function where sockets of the Node are made. Nil: anywhere.
	Do func(func() error) error
	// Certify has the controller sign a request for a certificate of a Node. It returns the
	// certificate and the certificates of the authorities, all in PEM.
	Certify func(ctx context.Context, request string) (certificate, authorities string, err error)
	Clock   clock.WithTicker
	Log     logr.Logger
}

// Device is the device of IPsec of the Node.
type Device struct {
	Options

	mu sync.Mutex
	// link is the name of the device, and own tells that charon makes it; empty while that is not
	// known.
	link string
	own  bool
	// uncertified is why the Node has no certificate.
	uncertified string
	// calls are how calls of other Nodes stand, by their identities.
	calls map[string]*call
	// firsts are the Nodes that this one is to call first.
	firsts map[string]bool
}

// New returns the device, which is not made before Ensure.
func New(o Options) *Device {
	if o.Do == nil {
		o.Do = func(f func() error) error { return f() }
	}
	return &Device{Options: o, calls: map[string]*call{}, firsts: map[string]bool{}}
}

// Link is the name of the device, whether or not it is there, and the most that it carries; empty
// while that is not known.
func (d *Device) Link() (name string, mtu int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.link == "" {
		c, err := talk(d.Socket)
		if err != nil {
			return "", 0
		}
		defer c.close()
		if err := d.learn(c); err != nil {
			return "", 0
		}
	}
	if d.own {
		return d.link, ownMTU
	}
	return d.link, 0
}

// learn finds out whether the kernel or charon encrypts.
func (d *Device) learn(c *charon) (err error) {
	link, own, err := c.device()
	if err == nil {
		d.link, d.own = link, own
	}
	return err
}

// Read returns the device with its peers; nil if it is not there. It has no key while charon does
// not answer, or has no credentials of this Node.
func (d *Device) Read() (*network.Sealing, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := talk(d.Socket)
	if err != nil { // Ensure reports that
		return &network.Sealing{InAgent: d.own}, nil
	}
	defer c.close()
	if err := d.learn(c); err != nil {
		return nil, err
	}
	out := &network.Sealing{Port: network.IPsecPort, Peers: map[network.PublicKey]network.SealedPeer{}, InAgent: d.own}
	if now := d.Credential.get(); now.certificate != nil {
		has, err := c.proves(now)
		if err != nil {
			return nil, err
		}
		if has {
			out.Key = network.KeyOf(now.identity)
		}
	}
	peers, err := c.peers()
	if err != nil {
		return nil, err
	}
	for identity, p := range peers {
		out.Peers[network.KeyOf(identity)] = p
	}
	return out, nil
}

// Ensure creates the device if it is missing, and loads the credentials of this Node into charon.
func (d *Device) Ensure(*network.Sealing) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := talk(d.Socket)
	if err != nil {
		return err
	}
	defer c.close()
	if err := d.learn(c); err != nil {
		return err
	}
	if !d.own {
		if err := d.inKernel(); err != nil {
			return err
		}
	}
	now := d.Credential.get()
	if now.certificate == nil {
		return fmt.Errorf("this Node has no certificate for IPsec: %s", d.uncertified)
	}
	has, err := c.proves(now)
	if err != nil || has {
		return err
	}
	return c.prove(now)
}

// inKernel makes the device of the kernel.
func (d *Device) inKernel() error {
	l, err := d.Handle.LinkByName(network.IPsecDevice)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		if err := d.hasESP(); err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name = network.IPsecDevice
		err = d.Handle.LinkAdd(&netlink.Xfrmi{LinkAttrs: attrs, Ifid: network.IPsecMark})
		if errors.Is(err, unix.ENODEV) { // kernels that want a link below, whichever
			attrs.ParentIndex = 1
			err = d.Handle.LinkAdd(&netlink.Xfrmi{LinkAttrs: attrs, Ifid: network.IPsecMark})
		}
		if errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("the kernel has no interfaces for IPsec (CONFIG_XFRM_INTERFACE), and charon has no plugin %s: %w", pluginOwnESP, err)
		}
		if err != nil {
			return fmt.Errorf("make the device of IPsec: %w", err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read link %s: %w", network.IPsecDevice, err)
	}
	if x, ok := l.(*netlink.Xfrmi); !ok || x.Ifid != network.IPsecMark {
		return fmt.Errorf("link %s is of kind %s, and not ours: remove it", network.IPsecDevice, l.Type())
	}
	return nil
}

// probe is an SA of no Node: of addresses for documentation, and a number that is not given.
func probe() *netlink.XfrmState {
	return &netlink.XfrmState{
		Src: net.IPv4(192, 0, 2, 1), Dst: net.IPv4(192, 0, 2, 2), Proto: netlink.XFRM_PROTO_ESP, Mode: netlink.XFRM_MODE_TUNNEL, Spi: 0xfe,
		Aead: &netlink.XfrmStateAlgo{Name: "rfc4106(gcm(aes))", Key: make([]byte, 36), ICVLen: 128}, Ifid: network.IPsecMark,
	}
}

// hasESP returns what the kernel lacks for ESP.
func (d *Device) hasESP() error {
	return d.Do(func() error {
		h, err := netlink.NewHandle(unix.NETLINK_XFRM)
		if err != nil {
			return fmt.Errorf("the kernel has no IPsec (CONFIG_XFRM_USER), and charon has no plugin %s: %w", pluginOwnESP, err)
		}
		defer h.Close()
		err = h.XfrmStateAdd(probe())
		if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOSYS) {
			return fmt.Errorf("the kernel has no ESP with AES-GCM (CONFIG_INET_ESP, CONFIG_CRYPTO_GCM), and charon has no plugin %s: %w", pluginOwnESP, err)
		}
		if err == nil {
			err = h.XfrmStateDel(probe())
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("find out whether the kernel has ESP: %w", err)
		}
		return nil
	})
}

// SetPeer sets the Node with an identity, and the sources that may come from it. While charon is
// away nothing is done, which Ensure reports.
func (d *Device) SetPeer(_ network.PublicKey, p network.SealedPeer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Credential.get()
	c, err := talk(d.Socket)
	if err != nil || now.certificate == nil {
		return nil
	}
	defer c.close()
	peers, err := c.peers()
	if err != nil {
		return err
	}
	if err := c.load(now.identity, p, !d.own); err != nil {
		return err
	}
	if was, there := peers[p.Identity]; there && !alike(was, p) {
		if err := c.terminate(p.Identity); err != nil {
			return err
		}
	}
	d.firsts[p.Identity] = p.First
	return nil
}

// alike reports whether two Nodes are at the same place and have the same Pods.
func alike(a, b network.SealedPeer) bool {
	return a.IPsecPeer == b.IPsecPeer && a.Endpoint == b.Endpoint && slices.Equal(a.Own, b.Own) && slices.Equal(a.Allowed, b.Allowed)
}

// RemovePeer says that no Node has an identity any more.
func (d *Device) RemovePeer(k network.PublicKey) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := talk(d.Socket)
	if err != nil { // charon has forgotten it
		return nil
	}
	defer c.close()
	peers, err := c.peers()
	if err != nil {
		return err
	}
	for identity := range peers {
		if network.KeyOf(identity) == k {
			delete(d.calls, identity)
			delete(d.firsts, identity)
			return c.unload(identity)
		}
	}
	return nil
}

// Remove makes charon forget all other Nodes, and removes the device where we have made it.
func (d *Device) Remove() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := Leave(d.Socket)
	if d.own {
		return err
	}
	link, missing := d.Handle.LinkByName(network.IPsecDevice)
	if missing == nil {
		err = errors.Join(err, d.Handle.LinkDel(link))
	}
	return err
}

// Leave makes the charon at a socket forget all Nodes and the credentials of this one. A charon
// that does not answer has none.
func Leave(socket string) error {
	c, err := talk(socket)
	if err != nil {
		return nil
	}
	defer c.close()
	peers, err := c.peers()
	if err != nil || len(peers) == 0 {
		return err
	}
	var errs []error
	for identity := range peers {
		errs = append(errs, c.unload(identity))
	}
	_, err = c.call("clear-creds", nil)
	return errors.Join(append(errs, err)...)
}
