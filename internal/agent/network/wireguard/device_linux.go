package wireguard

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/network"
)

// Options are what a Device needs.
type Options struct {
	Keys *Keys
	// Handle reads and writes the links of the Node.
	Handle *netlink.Handle
	// Do runs a function where sockets and devices of the Node are made. Nil: anywhere.
	Do func(func() error) error
	// InAgent wants the agent to encrypt though the kernel may be able to.
	InAgent bool
	Log     logr.Logger
}

// Device is the device of WireGuard of the Node.
type Device struct {
	Options

	mu sync.Mutex
	// by is the implementation that encrypts; nil before it is known.
	by encrypter
}

// encrypter is an implementation of WireGuard: the kernel's, or wireguard-go in this process.
type encrypter interface {
	read() (*network.Sealing, error)
	set(private [32]byte, port uint16) error
	setPeer(k network.PublicKey, p network.SealedPeer) error
	removePeer(k network.PublicKey) error
	close() error
}

// New returns the device, which is not made before Ensure.
func New(o Options) *Device {
	if o.Do == nil {
		o.Do = func(f func() error) error { return f() }
	}
	return &Device{Options: o}
}

// kindOf is the kind of the link that there is; empty for none.
func (d *Device) kindOf() (string, netlink.Link, error) {
	l, err := d.Handle.LinkByName(network.WireGuardDevice)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("read link %s: %w", network.WireGuardDevice, err)
	}
	return l.Type(), l, nil
}

const kindKernel, kindAgent = "wireguard", "tuntap"

// Link implements links.Sealer.
func (*Device) Link() (name string, mtu int) { return network.WireGuardDevice, 0 }

// Ensure makes the device if it is not there, and gives it key and port.
func (d *Device) Ensure(want *network.Sealing) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(want.MTU); err != nil {
		return err
	}
	return d.by.set(d.Keys.private(), want.Port)
}

// open chooses the implementation that encrypts, and creates the device.
func (d *Device) open(mtu int) error {
	kind, link, err := d.kindOf()
	if err != nil {
		return err
	}
	switch kind {
	case "", kindKernel, kindAgent:
	default:
		return fmt.Errorf("link %s is of kind %s, and not ours: remove it", network.WireGuardDevice, kind)
	}
	if _, own := d.by.(*inAgent); own && kind == kindAgent || d.by != nil && kind == kindKernel && !own {
		return nil
	}
	d.drop()
	if !d.InAgent && kind != kindAgent {
		if kind == "" {
			attrs := netlink.NewLinkAttrs()
			attrs.Name = network.WireGuardDevice
			err = d.Handle.LinkAdd(&netlink.Wireguard{LinkAttrs: attrs})
		}
		switch {
		case err == nil || errors.Is(err, unix.EEXIST):
			d.by, err = openKernel(d.Do)
			return err
		case !errors.Is(err, unix.EOPNOTSUPP):
			return fmt.Errorf("make the device of WireGuard: %w", err)
		}
	}
	if kind == kindKernel { // of before the agent was to encrypt
		if err := d.Handle.LinkDel(link); err != nil {
			return fmt.Errorf("remove the device of WireGuard: %w", err)
		}
	}
	of, err := openInAgent(mtu, d)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("the kernel has no WireGuard (CONFIG_WIREGUARD), and the agent cannot encrypt in its place: /dev/net/tun: %w", err)
	}
	if err != nil {
		return fmt.Errorf("make the device of WireGuard in the agent: %w", err)
	}
	d.by = of
	return nil
}

// drop lets go of a device that is not there any more.
func (d *Device) drop() {
	if d.by != nil {
		if err := d.by.close(); err != nil {
			d.Log.Info("The former device of WireGuard could not be closed", "reason", err.Error())
		}
	}
	d.by = nil
}

// Read returns the device with its peers; nil if it is not there. One that nobody serves has no
// key.
func (d *Device) Read() (*network.Sealing, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kind, _, err := d.kindOf()
	if err != nil || kind == "" {
		return nil, err
	}
	if kind == kindKernel && d.by == nil {
		if d.by, err = openKernel(d.Do); err != nil {
			d.by = nil
			return nil, err
		}
	}
	_, own := d.by.(*inAgent)
	if d.by == nil || own != (kind == kindAgent) {
		return &network.Sealing{InAgent: kind == kindAgent}, nil
	}
	out, err := d.by.read()
	if err != nil {
		return nil, err
	}
	out.InAgent = own
	for k, p := range out.Peers {
		slices.SortFunc(p.Allowed, netip.Prefix.Compare)
		out.Peers[k] = p
	}
	return out, nil
}

var errNotMade = errors.New("there is no device of WireGuard yet")

// SetPeer sets the Node with a key, and the sources that may come from it.
func (d *Device) SetPeer(k network.PublicKey, p network.SealedPeer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		return errNotMade
	}
	return d.by.setPeer(k, p)
}

// RemovePeer says that nobody is behind a key any more.
func (d *Device) RemovePeer(k network.PublicKey) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		return nil
	}
	return d.by.removePeer(k)
}

// Remove removes the device.
func (d *Device) Remove() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop()
	_, link, err := d.kindOf()
	if err == nil && link != nil {
		err = d.Handle.LinkDel(link)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove the device of WireGuard: %w", err)
	}
	return nil
}

// Close ends the work with the device, which stays.
func (d *Device) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop()
}

// keepAlive is how often a Node that encrypts in its agent says something to each other one: these
// notice so that it has started anew.
const keepAlive = 25 * time.Second
