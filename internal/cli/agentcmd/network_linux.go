package agentcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/network/links"
	"github.com/nephele-io/nephele/internal/agent/nodenetwork"
)

// defaultHostLocal is where the plugin host-local keeps which addresses it has given.
const defaultHostLocal = "/var/lib/cni/networks"

// defaultCharon is where the charon of the chart answers.
const defaultCharon = "/run/nephele/charon.vici"

// networkFlags are the flags of the network of a Node.
type networkFlags struct {
	mode      string
	port      uint16
	mtu       int
	noSNAT    bool
	except    []string
	hostLocal string
	services  string
	// encryption is what becomes of packets between Nodes, and sealedPort the port of WireGuard.
	encryption string
	sealedPort uint16
	// charon is the socket of what encrypts by IPsec.
	charon string
}

// What routes connections to Services.
const (
	servicesKubeProxy = "kube-proxy"
	servicesOwn       = "nephele"
)

func (f *networkFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.mode, "network-mode", string(network.PolicyOnly), `with --node, how Pods get addresses and reach Pods of other Nodes: "encap", by VXLAN; "hybrid", by VXLAN only to other subnets; `+
		`"noEncap", by routes on the subnet, and by the network around the Nodes to others; "networkPolicyOnly", by another CNI plugin`)
	flags.Uint16Var(&f.port, "network-port", network.DefaultPort, "UDP port of VXLAN, the same on all Nodes")
	flags.IntVar(&f.mtu, "network-mtu", 0, "MTU of Pods; 0: what the links of the Nodes carry")
	flags.BoolVar(&f.noSNAT, "network-no-snat", false, "what Pods send to others than Pods keeps the address of the Pod, and does not get that of the Node")
	flags.StringArrayVar(&f.except, "network-snat-except", nil, "CIDR of others to which Pods keep their address; may be repeated")
	flags.StringVar(&f.services, "network-services", servicesKubeProxy, `what routes connections to Services: "kube-proxy", or "nephele", the agent, with no kube-proxy on the Node`)
	flags.StringVar(&f.encryption, "network-encryption", string(network.NoEncryption), `with --node, what becomes of packets between Pods of different Nodes: "none"; `+
		`"wireguard", they are encrypted, and neither sent nor taken otherwise; "wireguard-or-clear", they are encrypted to Nodes that encrypt, too; "ipsec" and "ipsec-or-clear", the same by strongSwan's charon`)
	flags.StringVar(&f.charon, "network-ipsec-socket", defaultCharon, "socket (vici) of the charon that encrypts by IPsec")
	flags.Uint16Var(&f.sealedPort, "network-wireguard-port", network.DefaultWireGuardPort, "UDP port of WireGuard, the same on all Nodes")
	flags.StringVar(&f.hostLocal, "network-host-local-dir", defaultHostLocal, "folder in which the CNI plugin host-local keeps the addresses that it has given, which Pods still have on a Node that is migrated; empty for none")
}

// config is what the flags say.
func (f *networkFlags) config() (network.Config, error) {
	c := network.Config{Mode: network.Mode(f.mode), Port: f.port, MTU: f.mtu, NoSNAT: f.noSNAT, Encryption: network.Encryption(f.encryption), WireGuardPort: f.sealedPort}
	for _, text := range f.except {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return c, fmt.Errorf("--network-snat-except %q: want ADDRESS/BITS", text)
		}
		c.Except = append(c.Except, p.Masked())
	}
	switch {
	case f.services != servicesKubeProxy && f.services != servicesOwn:
		return c, fmt.Errorf("--network-services %q: want %q or %q", f.services, servicesKubeProxy, servicesOwn)
	case f.services == servicesOwn && c.Mode == network.PolicyOnly:
		return c, errors.New("--network-services nephele needs a --network-mode in which the agent makes the network")
	}
	return c, c.Check()
}

// makesNetwork returns what makes the network of the Node, or encrypts what is between Nodes; nil
// where another CNI plugin makes it, and nothing is encrypted.
func (f *agentFlags) makesNetwork(c *cluster, log logr.Logger) (*nodenetwork.Network, error) {
	config, err := f.network.config()
	if err != nil {
		return nil, err
	}
	if config.Mode != network.PolicyOnly && f.cni.confDir == "" {
		return nil, errors.New("--network-mode " + f.network.mode + " needs --cni-conf-dir: the plugin nephele-cni makes the network of Pods")
	}
	if f.seal != nil && !config.Encryption.IPsec() {
		if err := f.seal.LeaveIPsec(f.network.charon); err != nil {
			log.Info("It is not known whether charon still encrypts to other Nodes", "reason", err.Error())
		}
	}
	if config.Mode == network.PolicyOnly && !config.Encrypts() && !leftSealed(log) {
		return nil, nil
	}
	kernel, err := links.Open()
	if err != nil {
		return nil, err
	}
	var keys nodenetwork.Keys
	var charon nodenetwork.IPsec
	var sealer links.Sealer
	switch {
	case config.Encrypts() && f.seal == nil:
		return nil, errors.New("--network-encryption " + f.network.encryption + ": this program cannot encrypt; the program nephele-agent can")
	case config.Encryption.IPsec():
		charon, sealer, err = f.seal.IPsec(IPsecOptions{
			StateDir: f.stateDir, Socket: f.network.charon, Kernel: kernel, Log: log.WithName("ipsec"),
			Certify: func(ctx context.Context, request string) (string, string, error) {
				return c.certify(ctx, f.kubeNode, request)
			},
		})
		if err != nil {
			return nil, err
		}
		kernel.SealIPsec(sealer)
	case config.Encrypts():
		if keys, sealer, err = f.seal.WireGuard(f.stateDir, kernel, log.WithName("wireguard")); err != nil {
			return nil, err
		}
		kernel.Seal(sealer)
	}
	var reserved func() ([]cni.Reserved, error)
	if dir := f.network.hostLocal; dir != "" {
		reserved = func() ([]cni.Reserved, error) { return cni.ReadHostLocal(dir) }
	}
	return nodenetwork.New(nodenetwork.Options{
		Node: f.kubeNode, Cluster: c, Config: config, Links: kernel, Reserved: reserved, Listen: links.ListenWhole, Clock: clock.RealClock{},
		Keys: keys, IPsec: charon, Publish: func(ctx context.Context, t nodenetwork.Published) error { return c.publish(ctx, f.kubeNode, t) }, Log: log.WithName("network"),
	}), nil
}

// leftSealed reports whether an agent that has encrypted has left what must go.
func leftSealed(log logr.Logger) bool {
	kernel, err := links.Open()
	if err == nil {
		defer kernel.Close()
		var left *network.State
		if left, _, err = kernel.Observe(network.Look{}); err == nil {
			return left.Sealing() != nil || len(left.Ways)+len(left.Rules) > 0
		}
	}
	log.Info("It is not known whether something is left of encryption between Nodes", "reason", err.Error())
	return false
}

// printNetwork prints how the network of the Node stands.
func printNetwork(w io.Writer, n *network.Status, printable func(string) string) {
	if n == nil {
		return
	}
	fmt.Fprintf(w, "network: %s, MTU of Pods %d; other Nodes: %d by VXLAN, %d without\n", n.Mode, n.MTU, n.Tunnels, n.Direct)
	if e := n.Encrypted; e != nil {
		fmt.Fprintf(w, "encryption: %s by %s; %d Nodes, UDP port %d, key %s\n", printable(string(e.Encryption)), e.By(), e.Nodes, e.Port, printable(e.Key))
	}
	for _, u := range n.Ranges {
		fmt.Fprintf(w, "addresses of %s: %d of %d are used, %d rest\n", u.Range, u.Used, u.Addresses, u.Resting)
	}
	if s := n.Services; s != nil {
		fmt.Fprintf(w, "Services: reached by %d addresses and ports %s\n", s.Places, printable(s.Trouble))
	}
	for _, p := range n.Problems {
		fmt.Fprintf(w, "network: %s\n", printable(p))
	}
	if n.Error != "" {
		fmt.Fprintf(w, "the network is not as it is to be: %s\n", printable(n.Error))
	}
}
