package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// apiPort is that of the computed API of Nephele.
	apiPort = 10349
	// patience is how long anything may take that a cluster does of itself, on a busy machine.
	patience = 5 * time.Minute
)

// Options are what Start needs.
type Options struct {
	Tools Tools
	// Nephele and Agent are the programs to test: the controller, and what runs on Nodes.
	Nephele, Agent string
	// Manifests is the directory config of the project.
	Manifests string
	// Dir is a directory of its own, where keys, configuration and logs go.
	Dir string
	// Images are the names of the images of Pods.
	Images []string
	// Proxy is the mode of kube-proxy, nftables or iptables; empty: the agents lead to Services.
	Proxy string
	// Network is the mode in which the agents make the network of the Pods, such as encap; empty
	// leaves that to the bridge plugin.
	Network string
	// Families holds the families of the addresses, the primary one first; IPv4 for none.
	Families []corev1.IPFamily
	// Nodes is how many there are, and Subnets in how many subnets they take turns; 0 means one.
	Nodes, Subnets int
}

// Cluster is a running cluster.
type Cluster struct {
	// Kubeconfig is that of an administrator.
	Kubeconfig string
	Client     kubernetes.Interface

	o        Options
	programs []*program
}

// Start starts a cluster in the namespaces that Enter has made, and returns when its Nodes are
// ready and their agents enforce. There is one at a time in a network; Stop ends it. What has been
// started ends with the process at the latest.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	runtime.LockOSThread() // Nodes end with the thread that has started them; it is not given back
	c := &Cluster{o: o, Kubeconfig: filepath.Join(o.Dir, "admin.kubeconfig")}
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Failed(), c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.fabric(); err != nil {
		return err
	}
	if err := c.control(ctx); err != nil {
		return err
	}
	images := filepath.Join(c.o.Dir, "images.tar")
	if err := writeImages(c.o.Tools, images, c.o.Images); err != nil {
		return err
	}
	for i := range c.o.Nodes {
		if err := c.node(i, images); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
	}
	if err := c.install(ctx); err != nil {
		return err
	}
	for i := range c.o.Nodes {
		if err := c.guard(ctx, i); err != nil {
			return fmt.Errorf("agent of node %d: %w", i, err)
		}
	}
	for i := range c.o.Nodes {
		if err := errors.Join(c.ready(ctx, i), c.reach(ctx, i)); err != nil {
			return err
		}
	}
	return nil
}

// Failed says what has ended that must not; nil if everything runs.
func (c *Cluster) Failed() error {
	var all []error
	for _, p := range c.programs {
		all = append(all, p.failed())
	}
	return errors.Join(all...)
}

// Stop ends everything, and says what cannot be ended.
func (c *Cluster) Stop() error {
	var all []error
	for _, p := range slices.Backward(c.programs) {
		_ = p.cmd.Process.Kill() // it may have ended
		select {
		case <-p.done:
		case <-time.After(patience):
			all = append(all, fmt.Errorf("%s was killed and does not end", p.name))
		}
	}
	// The kernel takes a dead Node's end of its wire away in its own time; the next cluster has
	// wires of the same names.
	var links []string
	for subnet := range c.subnets() {
		links = append(links, fabricName(subnet))
	}
	for i := range c.o.Nodes {
		links = append(links, nodeName(i))
	}
	for _, name := range links {
		if link, err := netlink.LinkByName(name); err == nil {
			if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
				all = append(all, fmt.Errorf("remove the link %s: %w", name, err))
			}
		}
	}
	return errors.Join(all...)
}

func writeImages(t Tools, path string, names []string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(t.Images(f, append(slices.Clone(names), pauseImage)...), f.Close())
}

// eventually waits until ok returns nil.
func (c *Cluster) eventually(ctx context.Context, what string, ok func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := ok(ctx)
		if err == nil {
			return nil
		}
		if failed := c.Failed(); failed != nil || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, errors.Join(failed, err))
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// fabric makes the network between the control plane and the Nodes: a link for each subnet, between
// which the control plane routes, as it does to the Pods of each Node.
func (c *Cluster) fabric() error {
	here, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer here.Close()
	lo, err := here.LinkByName("lo")
	if err != nil {
		return err
	}
	err = here.LinkSetUp(lo)
	for _, name := range c.forwarding() {
		err = errors.Join(err, sysctl(name, "1"))
	}
	if err != nil {
		return fmt.Errorf("make the network of the nodes: %w", err)
	}
	for subnet := range c.subnets() {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: fabricName(subnet)}}
		err := here.LinkAdd(bridge)
		for _, p := range c.families() {
			err = errors.Join(err, p.give(here, bridge, p.gatewayOf(subnet)))
		}
		if err := errors.Join(err, here.LinkSetUp(bridge)); err != nil {
			return fmt.Errorf("make the subnet %d of the nodes: %w", subnet, err)
		}
	}
	return nil
}

func (c *Cluster) subnets() int { return max(c.o.Subnets, 1) }

// subnetOf is the subnet of a Node: neighbours in number are in different ones.
func (c *Cluster) subnetOf(i int) int { return i % c.subnets() }

// zones is in how many zones Nodes are, one after the other: cases about hints need three.
const zones = 3

func fabricName(subnet int) string { return fmt.Sprintf("fabric-%d", subnet) }

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// program starts a program of the control plane.
func (c *Cluster) program(name, path string, args ...string) error {
	p, err := run(c.o.Dir, name, c.o.Tools.env(), path, args...)
	if err == nil {
		c.programs = append(c.programs, p)
	}
	return err
}

// control starts what Kubernetes runs once.
func (c *Cluster) control(ctx context.Context) error {
	dir := c.o.Dir
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, err := newAuthority(dir, "ca")
	if err != nil {
		return err
	}
	front, err := newAuthority(dir, "front-ca")
	if err != nil {
		return err
	}
	var served []net.IP
	for _, p := range c.families() {
		served = append(served, net.ParseIP(p.control()), net.ParseIP(p.apiService))
	}
	err = errors.Join(
		ca.issue("server", "kube-apiserver", nil, served, []string{"kubernetes.default.svc"}),
		ca.issue("admin", "admin", []string{"system:masters"}, nil, nil),
		ca.issue("account", "service-accounts", nil, nil, nil),
		front.issue("front", "front-proxy", nil, nil, nil),
		c.writeKubeconfig(c.Kubeconfig, fmt.Sprintf("client-certificate: %s\n    client-key: %s", file("admin.crt"), file("admin.key"))),
	)
	if err != nil {
		return err
	}
	const etcd = "http://127.0.0.1:2379"
	if err := c.program("etcd", c.o.Tools.Path("etcd"), "--data-dir="+file("etcd"), "--unsafe-no-fsync", "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd); err != nil {
		return err
	}
	err = c.program("kube-apiserver", c.o.Tools.Path("kube-apiserver"),
		"--etcd-servers="+etcd, "--bind-address="+c.primary().any, "--secure-port=6443", "--advertise-address="+c.primary().control(), "--allow-privileged=true",
		"--tls-cert-file="+file("server.crt"), "--tls-private-key-file="+file("server.key"), "--client-ca-file="+file("ca.crt"),
		"--authorization-mode=Node,RBAC", "--service-cluster-ip-range="+c.listed(func(p *plan) string { return p.services }), "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+file("account.crt"), "--service-account-signing-key-file="+file("account.key"),
		"--requestheader-client-ca-file="+file("front-ca.crt"), "--requestheader-allowed-names=front-proxy", "--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+file("front.crt"), "--proxy-client-key-file="+file("front.key"),
		// No one resolves the names of Nodes here.
		"--kubelet-preferred-address-types=InternalIP",
		// There is no kube-proxy where the API server is.
		"--enable-aggregator-routing=true",
	)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	if c.Client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	err = c.eventually(ctx, "the API server is ready", func(ctx context.Context) error {
		return c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	if err != nil {
		return err
	}
	corefile := fmt.Sprintf(".:53 {\n  bind %s\n  errors\n  kubernetes cluster.local in-addr.arpa ip6.arpa {\n    kubeconfig %s\n    pods insecure\n    ttl 1\n  }\n}\n", strings.Join(c.each((*plan).control), " "), c.Kubeconfig)
	if err := os.WriteFile(file("Corefile"), []byte(corefile), 0o600); err != nil {
		return err
	}
	return errors.Join(
		c.program("coredns", c.o.Tools.Path("coredns"), "-conf", file("Corefile")),
		c.program("kube-controller-manager", c.o.Tools.Path("kube-controller-manager"), "--kubeconfig="+c.Kubeconfig, "--secure-port=0", "--leader-elect=false",
			"--use-service-account-credentials=true", "--service-account-private-key-file="+file("account.key"), "--root-ca-file="+file("ca.crt"),
			"--allocate-node-cidrs="+strconv.FormatBool(c.o.Network != ""), "--cluster-cidr="+c.podNetwork()),
		c.program("kube-scheduler", c.o.Tools.Path("kube-scheduler"), "--kubeconfig="+c.Kubeconfig, "--secure-port=0", "--leader-elect=false"),
	)
}

// writeKubeconfig writes a kubeconfig file for a user.
func (c *Cluster) writeKubeconfig(path, user string) error {
	return os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: cluster
  cluster:
    server: https://%s
    certificate-authority: %s
users:
- name: user
  user:
    %s
contexts:
- name: context
  context: {cluster: cluster, user: user}
current-context: context
`, net.JoinHostPort(c.primary().control(), "6443"), filepath.Join(c.o.Dir, "ca.crt"), user), 0o600)
}

// as writes a kubeconfig file for a ServiceAccount of kube-system, with a token that is bound to a
// Node, as the tokens of its Pods are; "" for none.
func (c *Cluster) as(ctx context.Context, account, node string) (path string, err error) {
	lifetime := int64((12 * time.Hour).Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}
	if node != "" {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node}
	}
	got, err := c.Client.CoreV1().ServiceAccounts(system).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	path = filepath.Join(c.o.Dir, account+"-"+node+".kubeconfig")
	return path, c.writeKubeconfig(path, "token: "+got.Status.Token)
}

// node starts a Node, wires it, and waits until its programs run.
func (c *Cluster) node(i int, images string) error {
	dir := filepath.Join(c.o.Dir, nodeName(i))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	n := node{Name: nodeName(i), Dir: dir, Tools: c.o.Tools, Kubeconfig: c.Kubeconfig, Images: images,
		Addresses: c.listed(func(p *plan) string { return c.nodeAddress(p, i) }), Pods: c.each(func(p *plan) string { return p.podsOf(i) }),
		Everywhere: c.each(func(p *plan) string { return p.everywhere }), Names: c.primary().control(), PodNetwork: c.podNetwork(),
		Forwarding: c.forwarding(), Zone: fmt.Sprintf("zone-%d", i%zones)}
	n.Proxy, n.Network = c.o.Proxy, c.o.Network
	raw, err := json.Marshal(n)
	if err != nil {
		return err
	}
	description := filepath.Join(dir, "node.json")
	if err := os.WriteFile(description, raw, 0o644); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "node.log"))
	if err != nil {
		return err
	}
	cmd := inNamespaces(nil, NodeEnv+"="+description)
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		return err
	}
	p := &program{name: n.Name, cmd: cmd, done: make(chan struct{})}
	c.programs = append(c.programs, p)
	said := make(chan string, 1)
	go func() {
		defer close(p.done)
		line, _ := bufio.NewReader(out).ReadString('\n') // how it ends is what counts
		said <- line
		p.err = cmd.Wait()
	}()
	if err := c.wire(i, cmd.Process.Pid); err != nil {
		return fmt.Errorf("wire: %w", err)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		return err
	}
	select {
	case line := <-said:
		if line != ready+"\n" {
			<-p.done
			text, err := os.ReadFile(log.Name())
			return errors.Join(fmt.Errorf("it did not start: %s", text), err)
		}
	case <-time.After(patience):
		return errors.New("it does not start")
	}
	return nil
}

// wire connects the network of a process with the fabric, and makes routes to its Pods where their
// network does not.
func (c *Cluster) wire(i, pid int) error {
	theirs, err := netns.GetFromPid(pid)
	if err != nil {
		return err
	}
	defer func() { _ = theirs.Close() }()
	inside, err := netlink.NewHandleAt(theirs)
	if err != nil {
		return err
	}
	defer inside.Close()
	fabric, err := netlink.LinkByName(fabricName(c.subnetOf(i)))
	if err != nil {
		return err
	}
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: nodeName(i), MasterIndex: fabric.Attrs().Index}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(theirs))}
	if err := errors.Join(netlink.LinkAdd(pair), netlink.LinkSetUp(pair)); err != nil {
		return err
	}
	lo, err := inside.LinkByName("lo")
	if err != nil {
		return err
	}
	eth0, err := inside.LinkByName("eth0")
	if err != nil {
		return err
	}
	err = errors.Join(inside.LinkSetUp(lo), inside.LinkSetUp(eth0))
	for _, p := range c.families() {
		err = errors.Join(err, p.give(inside, eth0, c.nodeAddress(p, i)), route(inside, p.everywhere, p.gatewayOf(c.subnetOf(i))))
	}
	if err != nil || c.o.Network != "" {
		return err
	}
	here, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer here.Close()
	for _, p := range c.families() {
		err = errors.Join(err, route(here, p.podsOf(i), c.nodeAddress(p, i)))
		for j := range c.o.Nodes {
			if j != i && c.subnetOf(j) == c.subnetOf(i) { // to other subnets the gateway leads
				err = errors.Join(err, route(inside, p.podsOf(j), c.nodeAddress(p, j)))
			}
		}
	}
	return err
}

// reach makes a route to the Pods of a Node where the control plane is, which is no Node and so is
// not in the network that agents make: the API server leads callers to Pods, and noEncap leaves it
// to the routers between subnets.
func (c *Cluster) reach(ctx context.Context, i int) error {
	if c.o.Network == "" {
		return nil // it was made with the wire
	}
	n, err := c.Client.CoreV1().Nodes().Get(ctx, nodeName(i), metav1.GetOptions{})
	if err != nil {
		return err
	}
	here, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer here.Close()
	for _, pods := range n.Spec.PodCIDRs {
		for _, p := range c.families() {
			if strings.Contains(pods, ":") == (p.family == corev1.IPv6Protocol) {
				err = errors.Join(err, route(here, pods, c.nodeAddress(p, i)))
			}
		}
	}
	return err
}

// ready waits until a Node is ready.
func (c *Cluster) ready(ctx context.Context, i int) error {
	name := nodeName(i)
	return c.eventually(ctx, name+" is ready", func(ctx context.Context) error {
		n, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("%v", n.Status.Conditions)
	})
}

// guard starts the agent of a Node, in its namespaces, with the rights of the DaemonSet, and waits
// until it enforces.
func (c *Cluster) guard(ctx context.Context, i int) error {
	name := nodeName(i)
	if c.o.Network == "" {
		if err := c.ready(ctx, i); err != nil {
			return err
		}
		pods := c.each(func(p *plan) string { return p.podsOf(i) })
		ranges := encode(object{"spec": object{"podCIDR": pods[0], "podCIDRs": pods}})
		if _, err := c.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, ranges, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	// A token is bound to an object that there is.
	err := c.eventually(ctx, name+" is known", func(ctx context.Context) error {
		_, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	kubeconfig, err := c.as(ctx, "nephele-node-agent", name)
	if err != nil {
		return err
	}
	// The directories in memory belong to the Node: the agent joins its namespaces.
	pid := 0
	for _, p := range c.programs {
		if p.name == name {
			pid = p.cmd.Process.Pid
		}
	}
	args := []string{"--target", fmt.Sprint(pid), "--net", "--mount", "--pid", "--", c.o.Agent, "--node=" + name, "--kubeconfig=" + kubeconfig, "--verbose"}
	if c.o.Network != "" {
		dir := filepath.Join(c.o.Dir, name)
		args = append(args, "--network-mode="+c.o.Network, "--cni-conf-dir="+pluginLists(dir), "--cni-bin-dir="+plugins(dir))
	}
	if c.o.Proxy == "" {
		args = append(args, "--network-services=nephele")
	}
	if err := c.program("agent-"+name, "nsenter", args...); err != nil {
		return err
	}
	return c.eventually(ctx, "the agent of "+name+" enforces", func(ctx context.Context) error {
		text, err := output(ctx, "", "nsenter", "--target", fmt.Sprint(pid), "--net", "--mount", "--", c.o.Agent, "status", "-o", "json")
		if err != nil {
			return err
		}
		var status struct{ State string }
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			return err
		}
		if status.State != "Enforcing" {
			return errors.New(text)
		}
		return nil
	})
}
