package agent_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/network/ipsec"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nodenetwork"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/tier"
)

// daemons are where distributions put strongSwan's daemon, and plugins where its plugins.
var (
	daemons = []string{"/usr/sbin/charon-systemd", "/usr/libexec/ipsec/charon", "/usr/lib/ipsec/charon"}
	plugins = []string{"/usr/lib/ipsec/plugins", "/usr/lib/strongswan/plugins", "/usr/lib64/strongswan/plugins"}
)

// needsCharon returns the program of charon, or skips a test.
func needsCharon(t testing.TB) string {
	t.Helper()
	at := slices.IndexFunc(daemons, exists)
	for _, plugin := range []string{"openssl", "kernel-libipsec"} {
		if !slices.ContainsFunc(plugins, func(dir string) bool { return exists(filepath.Join(dir, "libstrongswan-"+plugin+".so")) }) {
			at = -1
		}
	}
	if at < 0 {
		t.Skip("THIS TEST DID NOT RUN, IPsec is not proven: it needs strongSwan's charon with the plugins openssl and kernel-libipsec " +
			"(Debian: charon-systemd, libcharon-extra-plugins, libstrongswan-standard-plugins)")
	}
	return daemons[at]
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// signer is an authority that gives Nodes certificates.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newSigner(t testing.TB) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	cert, err := x509.ParseCertificate(der)
	check(t, err)
	return &signer{cert, key}
}

// certify signs a request of an identity.
func (s *signer) certify(identity, request string) (certificate, authorities string, err error) {
	block, _ := pem.Decode([]byte(request))
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "", "", err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return "", "", err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "nephele node"}, DNSNames: []string{identity},
		NotBefore: s.cert.NotBefore, NotAfter: s.cert.NotAfter.Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature}, s.cert, asked.PublicKey, s.key)
	inPEM := func(raw []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
	}
	return inPEM(der), inPEM(s.cert.Raw), err
}

// charon is strongSwan's daemon on a Node, with the configuration of the chart.
type charon struct {
	n         *netNode
	program   string
	dir       string
	inCharon  bool
	cmd       *exec.Cmd
	authority *signer
	// identity is what the authority certifies; empty for that of the Node.
	identity string
}

func (c *charon) socket() string { return filepath.Join(c.dir, "charon.vici") }

// newCharon prepares a daemon for a Node, which is not started.
func newCharon(n *netNode, by *signer) *charon {
	n.t.Helper()
	dir, err := os.MkdirTemp("", "charon") // the path of a socket is to be short
	check(n.t, err)
	n.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &charon{n: n, program: needsCharon(n.t), dir: dir, inCharon: true, authority: by}
}

// configuration is that of the chart.
func (c *charon) configuration() string {
	manifest, err := os.ReadFile("../../config/nodes/ipsec.yaml")
	check(c.n.t, err)
	_, text, found := strings.Cut(string(manifest), "strongswan.conf: |\n")
	text, _, ends := strings.Cut(text, "\n---\n")
	if !found || !ends || !strings.Contains(text, ipsec.DefaultSocket) {
		c.n.t.Fatal("the configuration of charon is not in the manifest as it was")
	}
	text = strings.ReplaceAll(text, ipsec.DefaultSocket, c.socket())
	if c.inCharon {
		text = strings.ReplaceAll(text, "constraints kernel-netlink", "constraints kernel-libipsec kernel-netlink")
	}
	return text
}

// start starts the daemon.
func (c *charon) start() {
	t := c.n.t
	t.Helper()
	path := filepath.Join(c.dir, "strongswan.conf")
	check(t, os.WriteFile(path, []byte(c.configuration()), 0o600))
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check(t, err)
	c.cmd = exec.Command(c.program)
	if setpriv, err := exec.LookPath("setpriv"); err == nil { // with the rights that it has in the chart
		c.cmd = exec.Command(setpriv, "--bounding-set", "-all,+net_admin", "--inh-caps", "-all,+net_admin", "--no-new-privs", c.program)
	}
	c.cmd.Env = append(os.Environ(), "STRONGSWAN_CONF="+path)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.n.site.inside(c.n.host, c.cmd.Start)
	_ = log.Close()
	cmd := c.cmd
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(c.dir, "log"))
			t.Logf("charon of %s:\n%s", c.n.name, text[max(0, len(text)-6000):])
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// kill ends the daemon with no time to say anything.
func (c *charon) kill() {
	c.n.t.Helper()
	check(c.n.t, c.cmd.Process.Kill())
	_ = c.cmd.Wait()
}

// options are what encrypts on the Node.
func (c *charon) options(o *nodenetwork.Options) {
	n := c.n
	own, err := ipsec.OpenCredential(n.keys)
	check(n.t, err)
	d := ipsec.New(ipsec.Options{Credential: own, Socket: c.socket(), Handle: n.kernel.Handle(), Do: n.host.Do, Clock: clock.RealClock{}, Log: n.log,
		Certify: func(_ context.Context, request string) (string, string, error) {
			if c.authority == nil {
				return "", "", errors.New("no authority")
			}
			identity := c.identity
			if identity == "" {
				identity = cloudv1alpha1.IPsecIdentity(n.name, types.UID(n.name))
			}
			return c.authority.certify(identity, request)
		}})
	o.IPsec = d
	n.kernel.SealIPsec(d)
}

// TestIPsec hears what is on the wire between Nodes that encrypt by IPsec, in each mode: ESP, and
// nothing of Pods in the clear, whatever becomes of agents, of charon and of certificates.
func TestIPsec(t *testing.T) {
	needsCharon(t)
	if h := nfttest.NewHost(t); h.Handle.LinkAdd(&netlink.Xfrmi{LinkAttrs: netlink.LinkAttrs{Name: "probe"}, Ifid: 1}) != nil {
		t.Log("not proven: ESP by the kernel, which has no interfaces for it; charon encrypts itself")
	}
	dual := []string{"10.244.N.0/24", "fd00:N::/64"}
	cases := map[string]siteOf{
		"encap":                  {config: network.Config{Mode: network.Encap}, subnets: []int{1, 2}, cidrs: dual, four: true, six: true},
		"hybrid, on one subnet":  {config: network.Config{Mode: network.Hybrid}, subnets: []int{1, 1}, cidrs: dual, four: true, six: true},
		"noEncap, below by IPv6": {config: network.Config{Mode: network.NoEncap}, subnets: []int{1, 2}, cidrs: dual, six: true},
	}
	if !tier.Long() {
		delete(cases, "noEncap, below by IPv6")
		delete(cases, "hybrid, on one subnet")
	}
	for name, of := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of.charon, of.meets, of.config.Encryption = newSigner(t), true, network.ByIPsec
			testIPsec(t, of)
		})
	}
}

func testIPsec(t *testing.T, of siteOf) {
	s := newSite(t, of)
	here, there := s.nodes[0], s.nodes[1]
	wire := s.listen(here, "10.244.0.0/16", "fd00::/16")
	inTheDark := func(when string) {
		t.Helper()
		if _, clear := wire.heard(); len(clear) > 0 {
			t.Fatalf("%s: in the clear: %s", when, strings.Join(clear, "\n"))
		}
	}
	here.denies("no80", 1, policy.AppliedTo{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "guarded"}}})
	a, b := here.pod("guarded"), there.pod("free")
	s.meet("Pods reach each other", a, b)
	s.tells(a, b)
	s.both(b, a, 80, false)
	inTheDark("at first")
	wire.mu.Lock()
	pieces := wire.pieces
	wire.mu.Unlock()
	if sealed, _ := wire.heard(); sealed < 20 || pieces > 0 {
		t.Errorf("%d packets of ESP, %d cut into pieces", sealed, pieces)
	}
	here.eventually("all is well", func() bool { return here.agent.Status().Network.Trouble() == "" })
	st := here.agent.Status().Network
	if e := st.Encrypted; e == nil || e.Nodes != 1 || !e.InAgent || e.Port != network.IPsecPort || e.Key != "node0.node0.nodes.nephele.io" || st.MTU != 1400 || st.Tunnels != 0 || st.Links[0].Link != "eth0" {
		t.Errorf("%+v %+v", st, st.Encrypted)
	}
	// Nothing differs: nothing is written.
	here.made.Sync()
	if now := here.agent.Status().Network; now.Written != st.Written || now.Error != "" {
		t.Errorf("written once more: %+v, before %d", now, st.Written)
	}
	// The agent is away: charon goes on, and the next agent adopts what is there.
	asked := s.ask(a, b)
	here.ended()
	here.serve()
	here.made.Sync()
	asked.none(t, "while the agent starts anew")
	if now := here.agent.Status().Network; now.Written != 0 || now.Error != "" {
		t.Errorf("a new agent has written: %+v", now)
	}
	// charon is killed: what it encrypts is lost, nothing goes another way, and it comes back.
	for _, n := range []*netNode{here, there} {
		n.charon.kill()
		s.apart(a, b)
		s.apart(b, a)
		n.eventually("the state says it", func() bool { return strings.Contains(n.agent.Status().Network.Trouble(), "does not answer at") })
		inTheDark("without charon")
		n.charon.start()
		s.meet("Pods reach each other with another charon", a, b)
	}
	// New keys, by both sides.
	asked = s.ask(a, b)
	for _, n := range []*netNode{here, there} {
		n.swanctl("--rekey", "--child", "pods")
		n.swanctl("--rekey", "--ike", n.charon.other())
		s.meet("Pods reach each other by new keys", a, b)
	}
	asked.none(t, "while there are new keys")
	// A Node says that it has no IPsec.
	there.ended()
	there.publishesIdentity("")
	here.eventually("the state says it", func() bool {
		return strings.Contains(here.agent.Status().Network.Trouble(), "Node node1 has not told that it has IPsec, so nothing is sent to its Pods")
	})
	s.apart(a, b)
	s.apart(b, a)
	if sas := here.swanctl("--list-sas"); strings.Contains(sas, "node1") {
		t.Errorf("what was encrypted to the Node that went is still there: %s", sas)
	}
	// It says the identity of another one.
	there.publishesIdentity("node0.node0.nodes.nephele.io")
	here.eventually("the state says it", func() bool {
		return strings.Contains(here.agent.Status().Network.Trouble(), `Node node1 tells that its certificate for IPsec is of "node0.node0.nodes.nephele.io"`)
	})
	s.apart(a, b)
	inTheDark("in the end")
}

// other is the identity of the other Node.
func (c *charon) other() string {
	for _, n := range c.n.site.nodes {
		if n != c.n {
			return cloudv1alpha1.IPsecIdentity(n.name, types.UID(n.name))
		}
	}
	return ""
}

// swanctl asks charon by strongSwan's own program.
func (n *netNode) swanctl(args ...string) string {
	n.t.Helper()
	cmd := exec.Command("swanctl", append(args, "--uri", "unix://"+n.charon.socket())...)
	var problems strings.Builder // also the plugins that are not installed
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		n.t.Fatalf("swanctl %v: %v: %s%s", args, err, out, &problems)
	}
	return string(out)
}

// publishesIdentity makes the API say what a Node tells.
func (n *netNode) publishesIdentity(identity string) {
	n.t.Helper()
	value := fmt.Sprintf("%q", identity)
	if identity == "" {
		value = "null"
	}
	n.site.must(n.publish(fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, cloudv1alpha1.AnnotationIPsecIdentity, value)))
}

// TestIPsecBesides encrypts what is between Nodes whose network another plugin makes, and takes all
// of it away again.
func TestIPsecBesides(t *testing.T) {
	t.Parallel()
	needsCharon(t)
	s := newSite(t, siteOf{config: network.Config{Mode: network.PolicyOnly, Encryption: network.ByIPsec}, subnets: []int{1, 1}, cidrs: []string{"10.244.N.0/24", "fd00:N::/64"}, four: true, six: true, charon: newSigner(t)})
	wire := s.listen(s.nodes[0], "10.244.0.0/16", "fd00::/16")
	pods := []*netPod{s.theirs(0), s.theirs(1)}
	s.meet("Pods reach each other", pods[0], pods[1])
	s.tells(pods[0], pods[1])
	if sealed, clear := wire.heard(); sealed < 20 || len(clear) > 0 {
		t.Errorf("%d packets of ESP, in the clear: %s", sealed, strings.Join(clear, "\n"))
	}
	for _, n := range s.nodes {
		n.ended()
		n.config.Encryption = network.NoEncryption
		n.serve()
	}
	s.meet("Pods reach each other in the clear", pods[0], pods[1])
	if state, _, err := s.nodes[0].kernel.Observe(network.Look{}); err != nil || state.Sealing() != nil || len(state.Ways)+len(state.Rules) > 0 {
		t.Errorf("left: %+v, %v", state, err)
	}
}

// TestIPsecForged: a Node whose certificate another authority has signed, and one that proves
// itself as another Node, are refused, and nothing goes to their Pods.
func TestIPsecForged(t *testing.T) {
	t.Parallel()
	needsCharon(t)
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap, Encryption: network.ByIPsec}, subnets: []int{1, 2}, cidrs: []string{"10.244.N.0/24"}, four: true, charon: newSigner(t)})
	here, there := s.nodes[0], s.nodes[1]
	wire := s.listen(here, "10.244.0.0/16")
	a, b := here.pod("free"), there.pod("free")
	s.meet("Pods reach each other", a, b)
	right, own := there.charon.authority, cloudv1alpha1.IPsecIdentity(there.name, types.UID(there.name))
	for what, forge := range map[string]func(){
		"another authority": func() { there.charon.authority = newSigner(t) },
		"another Node":      func() { there.charon.authority, there.charon.identity = right, "other.uid.nodes.nephele.io" },
	} {
		there.ended()
		there.charon.kill()
		check(t, os.Remove(filepath.Join(there.keys, "ipsec.pem")))
		there.publishesIdentity("")
		forge()
		there.charon.start()
		there.serve()
		there.eventually("it has the forged certificate", func() bool {
			published := s.object(there).Annotations[cloudv1alpha1.AnnotationIPsecIdentity]
			return published == own || published != "" && there.charon.identity != ""
		})
		there.ended()
		there.publishesIdentity(own)
		here.eventually(what+" is refused, and that is reported", func() bool {
			return strings.Contains(here.agent.Status().Network.Trouble(), "no IPsec with "+own)
		})
		s.apart(a, b)
		s.apart(b, a)
		if sas := here.swanctl("--list-sas"); strings.Contains(sas, "INSTALLED") {
			t.Errorf("%s: packets are encrypted for it: %s", what, sas)
		}
	}
	// The right one is taken again.
	there.charon.kill()
	check(t, os.Remove(filepath.Join(there.keys, "ipsec.pem")))
	there.charon.authority, there.charon.identity = right, ""
	there.charon.start()
	there.serve()
	s.meet("Pods reach each other by the right certificate", a, b)
	if _, clear := wire.heard(); len(clear) > 0 {
		t.Errorf("in the clear: %s", strings.Join(clear, "\n"))
	}
}

// TestIPsecLeaves: what is encrypted to a Node ends when the Node leaves, and only that.
func TestIPsecLeaves(t *testing.T) {
	t.Parallel()
	needsCharon(t)
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap, Encryption: network.ByIPsec}, subnets: []int{1, 1, 2}, cidrs: []string{"10.244.N.0/24", "fd00:N::/64"}, four: true, six: true, charon: newSigner(t)})
	a, b, c := s.nodes[0].pod("free"), s.nodes[1].pod("free"), s.nodes[2].pod("free")
	s.meet("Pods reach one another", a, b)
	s.meet("Pods reach one another", a, c)
	s.meet("Pods reach one another", b, c)
	asked := s.ask(a, b)
	gone := s.nodes[2]
	check(t, s.client.CoreV1().Nodes().Delete(t.Context(), gone.name, metav1.DeleteOptions{}))
	for _, n := range s.nodes[:2] {
		n.eventually("nothing is encrypted to the Node that has left", func() bool {
			return !strings.Contains(n.swanctl("--list-sas")+n.swanctl("--list-conns"), cloudv1alpha1.IPsecIdentity(gone.name, types.UID(gone.name)))
		})
	}
	s.apart(c, a)
	asked.none(t, "while a Node leaves")
}

// TestIPsecByAndBy goes from nothing to IPsec, to WireGuard and back Node by Node while Pods talk,
// by way of sending to Nodes in the clear that cannot be encrypted to.
func TestIPsecByAndBy(t *testing.T) {
	t.Parallel()
	needsCharon(t)
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 2}, cidrs: []string{"10.244.N.0/24", "fd00:N::/64"}, four: true, six: true, keys: true, charon: newSigner(t)})
	a, b := s.nodes[0].pod("free"), s.nodes[1].pod("free")
	s.meet("Pods reach each other in the clear", a, b)
	for _, encryption := range []network.Encryption{
		network.ByIPsecOrClear, network.ByIPsec, network.ByIPsecOrClear, network.ByWireGuardOrClear, network.ByWireGuard, network.ByWireGuardOrClear, network.NoEncryption,
	} {
		for i, n := range s.nodes {
			n.ended()
			n.config.Encryption = encryption
			n.serve()
			s.meet(fmt.Sprintf("Pods reach each other when %s has %s", n.name, encryption), a, b)
			other := s.nodes[1-i].config.Encryption
			on := func(e network.Encryption) bool { return e != "" && e != network.NoEncryption }
			both := on(encryption) && on(other) && encryption.IPsec() == other.IPsec()
			n.eventually("encrypted or not, as it is to be", func() bool {
				e := n.agent.Status().Network.Encrypted
				return e == nil && !on(encryption) || e != nil && (e.Nodes == 1) == both
			})
		}
	}
	for _, n := range s.nodes { // nothing is left
		if o := s.object(n); o.Annotations[cloudv1alpha1.AnnotationIPsecIdentity] != "" {
			t.Errorf("%s still publishes an identity", n.name)
		}
		state, _, err := n.kernel.Observe(network.Look{})
		s.must(err)
		if left := n.swanctl("--list-sas") + n.swanctl("--list-conns"); state.Sealing() != nil || len(state.Ways)+len(state.Rules) > 0 || left != "" {
			t.Errorf("%s has left %+v, %q", n.name, state, left)
		}
	}
}

// TestIPsecMissing: where neither the kernel nor charon can encrypt, or there is no charon, that is
// reported in a sentence, and nothing is sent.
func TestIPsecMissing(t *testing.T) {
	t.Parallel()
	needsCharon(t)
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap, Encryption: network.ByIPsec}, subnets: []int{1, 2}, cidrs: []string{"10.244.N.0/24"}, four: true, charon: newSigner(t)})
	here, there := s.nodes[0], s.nodes[1]
	wire := s.listen(here, "10.244.0.0/16")
	a, b := here.pod("free"), there.pod("free")
	s.meet("Pods reach each other", a, b)
	there.charon.kill()
	there.charon.authority = nil
	s.apart(a, b)
	there.eventually("it is reported that there is no charon", func() bool {
		return strings.Contains(there.agent.Status().Network.Trouble(), "strongSwan's daemon that encrypts by IPsec, does not answer at "+there.charon.socket())
	})
	if h := nfttest.NewHost(t); h.Handle.LinkAdd(&netlink.Xfrmi{LinkAttrs: netlink.LinkAttrs{Name: "probe"}, Ifid: 1}) == nil {
		t.Skip("not proven: a kernel that cannot encrypt is reported, for this one can")
	}
	there.charon.inCharon = false
	there.charon.start()
	there.eventually("it is reported that the kernel cannot", func() bool {
		text := there.agent.Status().Network.Trouble()
		return strings.Contains(text, "the kernel has no ") && strings.Contains(text, "and charon has no plugin kernel-libipsec")
	})
	s.apart(a, b)
	s.apart(b, a)
	if _, clear := wire.heard(); len(clear) > 0 {
		t.Errorf("in the clear: %s", strings.Join(clear, "\n"))
	}
}
