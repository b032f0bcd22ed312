package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// kindVeth and kindBridge are the kinds of links on which netfilter sees what Pods send.
	kindVeth   = "veth"
	kindBridge = "bridge"
	// ipvsLink is where kube-proxy has the addresses of Services in the mode IPVS.
	ipvsLink = "kube-ipvs0"
	// ipvsTracking is where it is set that conntrack follows what IPVS does.
	ipvsTracking = "net/ipv4/vs/conntrack"
)

// bypassPrograms begin the names of programs of eBPF that forward packets by themselves.
func bypassPrograms() []string { return []string{"cil_", "bpf_lxc", "cali_", "calico_"} }

// Wiring says how packets of Pods go through a Node.
type Wiring struct {
	handle *netlink.Handle
	// proc and sys are where the settings of the kernel are.
	proc, sys string
}

// OpenWiring opens the links and routes of the network namespace of the calling thread.
func OpenWiring() (*Wiring, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("read links and routes: %w", err)
	}
	return &Wiring{handle: h, proc: "/proc/sys", sys: "/sys"}, nil
}

// Close ends the work with the wiring, which stays as it is.
func (w *Wiring) Close() { w.handle.Close() }

// IPVS reports whether kube-proxy leads packets to Services by IPVS.
func (w *Wiring) IPVS() (bool, error) {
	_, err := w.handle.LinkByName(ipvsLink)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("link %s: %w", ipvsLink, err)
	}
	return true, nil
}

// Bypass returns why netfilter does not see all that the Pod with an address sends and receives;
// empty if it does, as far as that can be told.
func (w *Wiring) Bypass(a netip.Addr) (string, error) {
	if ipvs, err := w.IPVS(); err != nil {
		return "", err
	} else if text, _ := os.ReadFile(filepath.Join(w.proc, ipvsTracking)); ipvs && strings.TrimSpace(string(text)) != "1" {
		return "kube-proxy is in the mode IPVS, and net.ipv4.vs.conntrack is not 1, so answers through Services cannot be told from new connections", nil
	}
	routes, err := w.handle.RouteGet(a.AsSlice())
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || err == nil && len(routes) == 0 {
		return "the Node has no route to it", nil
	}
	if err != nil {
		return "", fmt.Errorf("route to %s: %w", a, err)
	}
	link, err := w.handle.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return "", fmt.Errorf("link to %s: %w", a, err)
	}
	name := link.Attrs().Name
	switch {
	case link.Type() == kindBridge:
		return w.bridge(name, a.Is6()), nil
	case routes[0].Gw != nil:
		return fmt.Sprintf("the Node reaches it by the gateway %s on %s, so what it sends to others need not come by", routes[0].Gw, name), nil
	case link.Type() != kindVeth:
		return fmt.Sprintf("the Node reaches it by %s, of the kind %s, past which it can reach others", name, link.Type()), nil
	}
	filters, err := w.handle.FilterList(link, netlink.HANDLE_MIN_INGRESS)
	if err != nil {
		return "", fmt.Errorf("programs at %s: %w", name, err)
	}
	for _, f := range filters {
		if b, ok := f.(*netlink.BpfFilter); ok && slices.ContainsFunc(bypassPrograms(), func(prefix string) bool { return strings.HasPrefix(b.Name, prefix) }) {
			return fmt.Sprintf("the program %s of eBPF forwards at %s, before netfilter sees the packets", b.Name, name), nil
		}
	}
	return "", nil
}

// Bridge returns the name of the bridge by which the Node reaches an address; empty if it reaches
// it otherwise.
func (w *Wiring) Bridge(a netip.Addr) (string, error) {
	routes, err := w.handle.RouteGet(a.AsSlice())
	if err != nil || len(routes) == 0 {
		return "", nil // Bypass tells of it
	}
	link, err := w.handle.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return "", fmt.Errorf("link to %s: %w", a, err)
	}
	if link.Type() != kindBridge || routes[0].Gw != nil {
		return "", nil
	}
	return link.Attrs().Name, nil
}

// Settings is a text that changes when settings change on which Bypass depends: settings of
// bridges, and that of IPVS.
func (w *Wiring) Settings() string {
	paths := []string{filepath.Join(w.proc, "net/bridge/bridge-nf-call-iptables"), filepath.Join(w.proc, "net/bridge/bridge-nf-call-ip6tables"), filepath.Join(w.proc, ipvsTracking)}
	bridges, _ := filepath.Glob(filepath.Join(w.sys, "class/net/*/bridge/nf_call_ip*tables"))
	var out strings.Builder
	for _, path := range append(paths, bridges...) {
		text, err := os.ReadFile(path)
		fmt.Fprintf(&out, "%s %t %s\n", path, err == nil, text)
	}
	return out.String()
}

// bridge returns why netfilter does not see what goes from port to port of a bridge.
func (w *Wiring) bridge(name string, six bool) string {
	all, one := "bridge-nf-call-iptables", "nf_call_iptables"
	if six {
		all, one = "bridge-nf-call-ip6tables", "nf_call_ip6tables"
	}
	for _, path := range []string{filepath.Join(w.proc, "net/bridge", all), filepath.Join(w.sys, "class/net", name, "bridge", one)} {
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == "1" {
			return ""
		}
	}
	return fmt.Sprintf("the bridge %s does not show netfilter what goes from port to port: load br_netfilter and set net.bridge.%s to 1", name, all)
}
