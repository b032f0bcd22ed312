package kernel_test

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
)

// TestBypass asks of Pods on a bridge, behind routes, and on other wires, whether netfilter sees
// what they send.
func TestBypass(t *testing.T) {
	l := nfttest.NewLab(t)
	var w *kernel.Wiring
	if err := l.Node.Do(func() (err error) { w, err = kernel.OpenWiring(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	if ipvs, err := w.IPVS(); err != nil || ipvs {
		t.Errorf("without IPVS: %t, %v", ipvs, err)
	}
	ask := func(what string, a netip.Addr, want string) {
		t.Helper()
		var got string
		err := l.Node.Do(func() (err error) { got, err = w.Bypass(a); return err })
		if err != nil || want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	set := func(name, value string) {
		t.Helper()
		if err := l.Node.Do(func() error { return os.WriteFile("/proc/sys/net/bridge/"+name, []byte(value), 0o644) }); err != nil {
			t.Fatal(err)
		}
	}
	link := func(kind netlink.Link, to string) netlink.Link {
		t.Helper()
		if err := l.Node.Handle.LinkAdd(kind); err != nil {
			t.Fatal(err)
		}
		made, err := l.Node.Handle.LinkByName(kind.Attrs().Name)
		if err == nil {
			err = l.Node.Handle.LinkSetUp(made)
		}
		if err == nil && to != "" {
			err = l.Node.Handle.RouteAdd(&netlink.Route{LinkIndex: made.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: &net.IPNet{IP: net.ParseIP(to), Mask: net.CIDRMask(32, 32)}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	for n := range nfttest.PodCount {
		for _, a := range nfttest.PodAddresses(n) {
			ask(a.String(), a, "")
			var bridge string
			err := l.Node.Do(func() (err error) { bridge, err = w.Bridge(a); return err })
			if want := map[bool]string{true: "cni0"}[n < nfttest.PodCount/2]; err != nil || bridge != want {
				t.Errorf("%s is reached by bridge %q, %v, want %q", a, bridge, err, want)
			}
		}
	}
	set("bridge-nf-call-iptables", "0")
	ask("IPv4 on the bridge", nfttest.PodAddresses(0)[0], "net.bridge.bridge-nf-call-iptables")
	ask("IPv6 on the bridge", nfttest.PodAddresses(0)[1], "")
	ask("IPv4 behind a route", nfttest.PodAddresses(2)[0], "")
	set("bridge-nf-call-iptables", "1")
	set("bridge-nf-call-ip6tables", "0")
	ask("IPv6 on the bridge", nfttest.PodAddresses(0)[1], "net.bridge.bridge-nf-call-ip6tables")
	ask("an address behind a gateway", l.Peers4[0], "by the gateway 10.9.9.1")
	link(&netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Name: "odd"}}, "10.0.0.77")
	ask("an address at another kind of link", netip.MustParseAddr("10.0.0.77"), "of the kind ifb")
	link(&netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Name: "kube-ipvs0"}}, "")
	if ipvs, err := w.IPVS(); err != nil || !ipvs {
		t.Errorf("IPVS: %t, %v", ipvs, err)
	}
	proc := t.TempDir()
	w.SettingsIn(proc)
	ask("with IPVS that conntrack does not follow", nfttest.PodAddresses(2)[0], "net.ipv4.vs.conntrack")
	if err := os.MkdirAll(filepath.Join(proc, "net/ipv4/vs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(proc, "net/ipv4/vs/conntrack"), []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ask("with IPVS that it does", nfttest.PodAddresses(2)[0], "")
}
