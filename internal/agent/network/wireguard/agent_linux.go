package wireguard

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/nephele-io/nephele/internal/agent/network"
)

// leastMTU is that of a device that is made before it is known what links carry.
const leastMTU = 1280

// inAgent is a device whose packets wireguard-go encrypts in this process.
type inAgent struct {
	*device.Device
	// serves tells that it has key and port.
	serves bool
}

// bindIn makes the sockets in the network namespace of the Node: wireguard-go opens them when it
// likes.
type bindIn struct {
	conn.Bind
	do func(func() error) error
}

// Open implements conn.Bind.
func (b bindIn) Open(port uint16) (fns []conn.ReceiveFunc, actual uint16, err error) {
	outer := b.do(func() error {
		fns, actual, err = b.Bind.Open(port)
		return nil
	})
	return fns, actual, errors.Join(outer, err)
}

// tunIn reads the MTU of the device where the device is.
type tunIn struct {
	tun.Device
	do func(func() error) error
}

// MTU implements tun.Device.
func (t tunIn) MTU() (mtu int, err error) {
	outer := t.do(func() error {
		mtu, err = t.Device.MTU()
		return nil
	})
	return mtu, errors.Join(outer, err)
}

func openInAgent(mtu int, d *Device) (encrypter, error) {
	var of tun.Device
	err := d.Do(func() (err error) {
		if of, err = tun.CreateTUN(network.WireGuardDevice, max(mtu, leastMTU)); err != nil {
			return err
		}
		// The device and its routes stay when the process ends, and what would go over it is lost
		// then, and does not go another way.
		raw, err := of.File().SyscallConn()
		if err != nil {
			return err
		}
		var failed error
		err = raw.Control(func(fd uintptr) { failed = unix.IoctlSetInt(int(fd), unix.TUNSETPERSIST, 1) })
		return errors.Join(err, failed)
	})
	if err == nil { // wireguard-go serves only one that is up
		var link netlink.Link
		if link, err = d.Handle.LinkByName(network.WireGuardDevice); err == nil {
			err = d.Handle.LinkSetUp(link)
		}
	}
	if err != nil {
		if of != nil {
			err = errors.Join(err, of.Close())
		}
		return nil, err
	}
	return &inAgent{Device: device.NewDevice(tunIn{of, d.Do}, bindIn{conn.NewDefaultBind(), d.Do}, &device.Logger{
		Verbosef: device.DiscardLogf, Errorf: (&seldom{log: d.Log}).errorf,
	})}, nil
}

// tellAgain is how long after one error WireGuard tells of the next one: it has one for each packet
// that cannot be sent.
const tellAgain = 10 * time.Second

// seldom tells of some errors and counts the others. It is safe for concurrent use.
type seldom struct {
	log logr.Logger

	mu     sync.Mutex
	last   time.Time
	untold int
}

func (s *seldom) errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if since := now.Sub(s.last); since >= 0 && since < tellAgain {
		s.untold++
		return
	}
	s.log.Info("WireGuard has an error", "error", fmt.Sprintf(format, args...), "untold", s.untold)
	s.last, s.untold = now, 0
}

func (a *inAgent) close() error {
	a.Close()
	return nil
}

func (a *inAgent) set(private [32]byte, port uint16) error {
	a.serves = false
	if err := a.IpcSet("private_key=" + hex.EncodeToString(private[:]) + "\nlisten_port=" + strconv.Itoa(int(port)) + "\n"); err != nil {
		return fmt.Errorf("write the device of WireGuard in the agent: %w", err)
	}
	if err := a.Up(); err != nil {
		return fmt.Errorf("open UDP port %d for WireGuard: %w", port, err)
	}
	a.serves = true
	return nil
}

func (a *inAgent) peer(k network.PublicKey, lines ...string) error {
	text := "public_key=" + hex.EncodeToString(k[:]) + "\n" + strings.Join(lines, "\n") + "\n"
	if err := a.IpcSet(text); err != nil {
		return fmt.Errorf("write the device of WireGuard in the agent: %w", err)
	}
	return nil
}

func (a *inAgent) setPeer(k network.PublicKey, p network.SealedPeer) error {
	lines := []string{"endpoint=" + p.Endpoint.String(), fmt.Sprintf("persistent_keepalive_interval=%d", int(keepAlive.Seconds())), "replace_allowed_ips=true"}
	for _, of := range p.Allowed {
		lines = append(lines, "allowed_ip="+of.String())
	}
	return a.peer(k, lines...)
}

func (a *inAgent) removePeer(k network.PublicKey) error { return a.peer(k, "remove=true") }

// read reads the form in which WireGuard tells of a device.
func (a *inAgent) read() (*network.Sealing, error) {
	text, err := a.IpcGet()
	if err != nil {
		return nil, fmt.Errorf("read the device of WireGuard in the agent: %w", err)
	}
	out := &network.Sealing{Peers: map[network.PublicKey]network.SealedPeer{}}
	var of network.PublicKey
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		p := out.Peers[of]
		switch name {
		case "private_key":
			raw, err := hex.DecodeString(value)
			if err == nil && a.serves {
				out.Key = publicOf(raw)
			}
		case "listen_port":
			port, err := strconv.ParseUint(value, 10, 16)
			if err == nil {
				out.Port = uint16(port)
			}
		case "public_key":
			raw, err := hex.DecodeString(value)
			if err != nil || len(raw) != len(of) {
				return nil, fmt.Errorf("read the device of WireGuard in the agent: key %q", value)
			}
			of = network.PublicKey(raw)
			out.Peers[of] = network.SealedPeer{}
		case "endpoint":
			if p.Endpoint, err = netip.ParseAddrPort(value); err != nil {
				return nil, fmt.Errorf("read the device of WireGuard in the agent: %w", err)
			}
			p.Endpoint = netip.AddrPortFrom(p.Endpoint.Addr().Unmap(), p.Endpoint.Port())
			out.Peers[of] = p
		case "allowed_ip":
			at, err := netip.ParsePrefix(value)
			if err != nil {
				return nil, fmt.Errorf("read the device of WireGuard in the agent: %w", err)
			}
			p.Allowed = append(p.Allowed, at)
			out.Peers[of] = p
		}
	}
	return out, nil
}
