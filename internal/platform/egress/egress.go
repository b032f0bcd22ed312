// Package egress decides which addresses the process may connect to where a tenant has chosen the
// address.
//
// It owns the rules that an operator gives (names of hosts, ranges of addresses, this machine), the
// check of a URL by them, and a dialer that checks the address again at the moment of connecting.
// For a host that no rule names, the rules judge the very address that the connection is made to,
// so a name that resolves differently after the check leads nowhere. The addresses at which clouds
// give machines their credentials are refused unless a rule names them, and so are the IPv6
// addresses that embed one of these.
//
// Rules are immutable and safe for concurrent use.
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Loopback is the rule for this machine.
const Loopback = "loopback"

// Rules say where the process may connect to. The zero value allows nothing.
type Rules struct {
	// names are hosts that may be called by their names, whatever their addresses.
	names []place
	// ranges are addresses that may be called, by whatever name.
	ranges []block
	text   []string
}

// place is a host, at one port or at all.
type place struct {
	host, port string
}

// block is a range of addresses, at one port or at all.
type block struct {
	prefix netip.Prefix
	port   string
	// single is set if the rule was an address, not a range.
	single bool
}

// RefusedError says that the rules do not allow a connection.
type RefusedError struct {
	// Host is what was asked for; Address is what it led to, if that was the fault.
	Host, Address string
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Address == "" || e.Address == e.Host {
		return fmt.Sprintf("%s is not an allowed endpoint", e.Host)
	}
	return fmt.Sprintf("%s leads to %s, which is not an allowed endpoint", e.Host, e.Address)
}

var errForm = errors.New(`want HOST, HOST:PORT, a range of addresses such as 10.0.0.0/8, or "loopback"; patterns and URLs are not known`)

// hostName is the form of a host's name.
var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

// Local returns the rule for this machine alone.
func Local() Rules {
	return Rules{ranges: []block{{prefix: netip.MustParsePrefix("127.0.0.0/8")}, {prefix: netip.MustParsePrefix("::1/128")}}, text: []string{Loopback}}
}

// Parse reads rules: each is HOST or HOST:PORT (a name or an address, IPv6 in brackets if there is
// a port), a range of addresses in CIDR form, or "loopback".
func Parse(rules []string) (Rules, error) {
	var r Rules
	for _, rule := range rules {
		if err := r.add(strings.TrimSpace(rule)); err != nil {
			return Rules{}, fmt.Errorf("%q: %w", rule, err)
		}
		r.text = append(r.text, strings.TrimSpace(rule))
	}
	return r, nil
}

func (r *Rules) add(rule string) error {
	if rule == Loopback {
		r.ranges = append(r.ranges, Local().ranges...)
		return nil
	}
	if p, err := netip.ParsePrefix(rule); err == nil {
		if p != p.Masked() {
			return fmt.Errorf("has bits behind the prefix; want %s", p.Masked())
		}
		r.ranges = append(r.ranges, block{prefix: p})
		return nil
	}
	host, port := rule, ""
	if strings.Contains(rule, "/") {
		return errForm
	}
	if h, p, err := net.SplitHostPort(rule); err == nil {
		host, port = h, p
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("port %q is not a number from 1 to 65535", port)
		}
	} else if inner, ok := strings.CutPrefix(rule, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Zone() == "" {
		a = a.Unmap()
		r.ranges = append(r.ranges, block{netip.PrefixFrom(a, a.BitLen()), port, true})
		return nil
	}
	host = normal(host)
	if !hostName.MatchString(host) || len(host) > 253 {
		return errForm
	}
	r.names = append(r.names, place{host, port})
	return nil
}

// String returns the rules as they were given.
func (r Rules) String() string {
	if len(r.text) == 0 {
		return "none"
	}
	return strings.Join(r.text, ",")
}

func normal(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// portOf is the port that a URL leads to.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// Names reports whether a rule names the host of the URL, so that its address does not matter.
func (r Rules) Names(u *url.URL) bool { return r.named(u.Hostname(), portOf(u)) }

func (r Rules) named(host, port string) bool {
	host = normal(host)
	return slices.ContainsFunc(r.names, func(p place) bool { return p.host == host && (p.port == "" || p.port == port) })
}

// Vouches reports whether a rule names the host of the URL and nothing besides: by its name, or as
// one address.
func (r Rules) Vouches(u *url.URL) bool {
	if r.Names(u) {
		return true
	}
	a, err := netip.ParseAddr(u.Hostname())
	return err == nil && slices.ContainsFunc(r.ranges, func(b block) bool {
		return b.single && b.prefix.Addr() == a.WithZone("").Unmap() && (b.port == "" || b.port == portOf(u))
	})
}

// Check refuses a URL that can be known not to be allowed before anything is connected to. The
// error is a *RefusedError. Whether a name that no rule names leads to an allowed address is only
// known when it is connected to; see Dial. Only localhost is expected to lead to this machine.
func (r Rules) Check(u *url.URL) error {
	host, port := u.Hostname(), portOf(u)
	if r.named(host, port) {
		return nil
	}
	address, err := netip.ParseAddr(host)
	switch {
	case err == nil && r.reaches(address, port):
		return nil
	case err == nil:
	case normal(host) == "localhost":
		if r.reaches(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port) || r.reaches(netip.IPv6Loopback(), port) {
			return nil
		}
	case slices.ContainsFunc(r.ranges, func(b block) bool { return !b.prefix.Addr().IsLoopback() }):
		return nil
	}
	return &RefusedError{Host: u.Host}
}

// reaches reports whether an address may be called.
func (r Rules) reaches(a netip.Addr, port string) bool {
	a = a.WithZone("").Unmap()
	narrow := secretBits(a)
	return slices.ContainsFunc(r.ranges, func(b block) bool {
		return b.prefix.Contains(a) && (b.port == "" || b.port == port) && b.prefix.Bits() >= narrow
	})
}

// Dial connects to "host:port" if the rules allow the address that the host has at this moment. It
// is a DialContext for an http.Transport without a proxy: that of a proxy would be the proxy's
// address.
func (r Rules) Dial(dialer *net.Dialer) func(ctx context.Context, network, hostPort string) (net.Conn, error) {
	return func(ctx context.Context, network, hostPort string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(hostPort)
		if err != nil {
			return nil, err
		}
		named := r.named(host, port)
		d := *dialer
		// Control is called with the very address of every attempt to connect, behind the
		// resolution of the name.
		d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			if r.reaches(at.Addr(), port) || named && !secret(at.Addr().WithZone("").Unmap()) {
				return nil
			}
			return &RefusedError{Host: hostPort, Address: at.Addr().String()}
		}
		return d.DialContext(ctx, network, hostPort)
	}
}
