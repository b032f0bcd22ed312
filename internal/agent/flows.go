package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// controllerFlow is the name of the flows to the servers that the agent talks to.
const controllerFlow = "controller"

// Flows makes the failsafe flows of a host: the flows that an agent cannot do without, and the ones
// that its owner has named.
type Flows struct {
	// Servers are the URLs of the servers that the agent talks to.
	Servers func() ([]string, error)
	// Own are the owner's flows.
	Own []nft.Failsafe
	// Resolvers returns the addresses of the resolvers of the host.
	Resolvers func() ([]netip.Addr, error)
	// LookUp returns the addresses of a host by its name.
	LookUp func(ctx context.Context, host string) ([]netip.Addr, error)
}

// All returns the flows. If some cannot be found it returns the others with the error.
func (f Flows) All(ctx context.Context) ([]nft.Failsafe, error) {
	everywhere := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	everywhere6 := []netip.Prefix{netip.MustParsePrefix("::/0")}
	out := append(slices.Clone(f.Own),
		nft.Failsafe{Name: "dhcp", Direction: ruleset.Egress, Protocol: ruleset.UDP, SourcePort: 68, Port: 67, CIDRs: everywhere},
		nft.Failsafe{Name: "dhcp", Direction: ruleset.Ingress, Protocol: ruleset.UDP, SourcePort: 67, Port: 68, CIDRs: everywhere},
		nft.Failsafe{Name: "dhcp", Direction: ruleset.Egress, Protocol: ruleset.UDP, SourcePort: 546, Port: 547, CIDRs: everywhere6},
		nft.Failsafe{Name: "dhcp", Direction: ruleset.Ingress, Protocol: ruleset.UDP, SourcePort: 547, Port: 546, CIDRs: everywhere6},
	)
	var errs []error
	resolvers, err := f.Resolvers()
	errs = append(errs, err)
	if hosts := prefixes(resolvers); len(hosts) > 0 {
		out = append(out, nft.Failsafe{Name: "dns", Direction: ruleset.Egress, Protocol: ruleset.UDP, Port: 53, CIDRs: hosts},
			nft.Failsafe{Name: "dns", Direction: ruleset.Egress, Protocol: ruleset.TCP, Port: 53, CIDRs: hosts})
	}
	servers, err := f.Servers()
	errs = append(errs, err)
	for _, s := range servers {
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" {
			errs = append(errs, fmt.Errorf("server %q: not a URL", s))
			continue
		}
		port := u.Port()
		if port == "" {
			port = "443"
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			errs = append(errs, fmt.Errorf("server %q: %w", s, err))
			continue
		}
		addrs, err := f.LookUp(ctx, u.Hostname())
		if err != nil {
			errs = append(errs, fmt.Errorf("server %q: %w", s, err))
			continue
		}
		out = append(out, nft.Failsafe{Name: controllerFlow, Direction: ruleset.Egress, Protocol: ruleset.TCP, Port: uint16(n), CIDRs: prefixes(addrs)})
	}
	return out, errors.Join(errs...)
}

func prefixes(addrs []netip.Addr) []netip.Prefix {
	var out []netip.Prefix
	for _, a := range addrs {
		a = a.Unmap().WithZone("")
		out = append(out, netip.PrefixFrom(a, a.BitLen()))
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// LookUp asks the resolver of the host.
func LookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// ParseResolvers reads the resolvers out of the text of resolv.conf.
func ParseResolvers(text string) []netip.Addr {
	var out []netip.Addr
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "nameserver" {
			if a, err := netip.ParseAddr(words[1]); err == nil && !a.IsLoopback() {
				out = append(out, a)
			}
		}
	}
	return out
}

// ParseFailsafe reads a flow of the owner: "in tcp 22 10.0.0.0/8,fd00::/8".
func ParseFailsafe(text string) (nft.Failsafe, error) {
	words := strings.Fields(text)
	bad := func(what string) (nft.Failsafe, error) {
		return nft.Failsafe{}, fmt.Errorf("failsafe flow %q: %s; want DIRECTION PROTOCOL PORT CIDR[,CIDR...], for example \"in tcp 22 10.0.0.0/8\"", text, what)
	}
	if len(words) != 4 {
		return bad(fmt.Sprintf("%d words", len(words)))
	}
	f := nft.Failsafe{Name: text}
	switch words[0] {
	case "in":
	case "out":
		f.Direction = ruleset.Egress
	default:
		return bad("the direction is in or out")
	}
	switch words[1] {
	case "tcp":
		f.Protocol = ruleset.TCP
	case "udp":
		f.Protocol = ruleset.UDP
	default:
		return bad("the protocol is tcp or udp")
	}
	port, err := strconv.ParseUint(words[2], 10, 16)
	if err != nil || port == 0 {
		return bad("the port is a number up to 65535")
	}
	f.Port = uint16(port)
	for c := range strings.SplitSeq(words[3], ",") {
		p, err := netip.ParsePrefix(c)
		if err != nil {
			return bad(err.Error())
		}
		f.CIDRs = append(f.CIDRs, p.Masked())
	}
	return f, nil
}
