package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// digest returns the next pseudo-random bytes: a hash of seed and counter, so that a restart goes
// on where it stopped.
func (w *Store) digest() [sha256.Size]byte {
	w.counter++
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], w.seed)
	binary.BigEndian.PutUint64(b[8:], w.counter)
	return sha256.Sum256(b[:])
}

// NewID returns a fresh id: prefix, a dash and 17 hexadecimal digits.
func (r *Site) NewID(prefix string) string { return r.store.newID(prefix) }

func (w *Store) newID(prefix string) string {
	d := w.digest()
	return prefix + "-" + hex.EncodeToString(d[:9])[:17]
}

// NewMAC returns a locally administered unicast MAC address.
func (r *Site) NewMAC() string {
	d := r.store.digest()
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", d[0], d[1], d[2], d[3], d[4])
}

// NewIPv6Block makes up a /56 below the documentation prefix 2001:db8::/32.
func (r *Site) NewIPv6Block() netip.Prefix {
	d := r.store.digest()
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8, d[0], d[1], d[2]}
	return netip.PrefixFrom(netip.AddrFrom16(a), 56)
}

// NewIPv6 makes up a free address of the subnet's first IPv6 block.
func (r *Site) NewIPv6(s *aws.Subnet, used map[netip.Addr]bool) (netip.Addr, bool) {
	if len(s.IPv6) == 0 {
		return netip.Addr{}, false
	}
	for {
		a := s.IPv6[0].Prefix.Addr().As16()
		d := r.store.digest()
		copy(a[8:], d[:8])
		if addr := netip.AddrFrom16(a); !used[addr] {
			return addr, true
		}
	}
}

// NewPublicIP makes up an unused address of 198.18.0.0/15, which is set aside for test networks.
func (r *Site) NewPublicIP() netip.Addr {
	for {
		d := r.store.digest()
		a := netip.AddrFrom4([4]byte{198, 18 + d[0]&1, d[1], d[2]})
		if !r.store.publicInUse(a) {
			return a
		}
	}
}

func (w *Store) publicInUse(a netip.Addr) bool {
	for _, d := range w.regions {
		for _, n := range d.NICs {
			for _, p := range n.PrivateIPs {
				if p.Public == a {
					return true
				}
			}
		}
	}
	return false
}
