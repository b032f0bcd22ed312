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
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// NodeEnv is the variable that tells a process that it is to be a Node, and in which file that Node
// is described.
const NodeEnv = "NEPHELE_CLUSTER_NODE"

// ready is what a Node writes when its programs run.
const ready = "ready"

// pauseImage is the name of the image that keeps the namespaces of a Pod.
const pauseImage = "localhost/pause:1"

// node describes a Node to the process that is to be one.
type node struct {
	Name string
	// Addresses are its own, with commas between; Names is where names are resolved.
	Addresses, Names string
	// Zone is where it is.
	Zone string
	// Pods are the ranges of addresses of its Pods, by family, Everywhere the routes to all, and
	// PodNetwork are the ranges of all Pods, with commas between.
	Pods, Everywhere []string
	PodNetwork       string
	// Forwarding are the settings by which it hands packets on.
	Forwarding []string
	// Dir is where its configuration and its logs are.
	Dir   string
	Tools Tools
	// Kubeconfig is what kubelet and kube-proxy use.
	Kubeconfig string
	// Proxy is the mode of kube-proxy; empty for none. Network is that of the agent; empty for the
	// bridge plugin.
	Proxy, Network string
	// Images is an OCI archive with what Pods run.
	Images string
}

// RunNode is a Node: the process has namespaces of its own, and a network by the time that
// something arrives at its standard input. It returns when one of its programs has ended.
func RunNode(description string) error {
	raw, err := os.ReadFile(description)
	if err != nil {
		return err
	}
	var n node
	if err := json.Unmarshal(raw, &n); err != nil {
		return err
	}
	if err := errors.Join(furnish(), unix.Sethostname([]byte(n.Name))); err != nil {
		return err
	}
	if _, err := bufio.NewReader(os.Stdin).ReadByte(); err != nil {
		return fmt.Errorf("wait for the network: %w", err)
	}
	files := map[string]any{"kubelet.json": n.kubelet(), "proxy.json": n.proxy()}
	bin := filepath.Join(n.Tools.Debian, "usr/lib/cni")
	if n.Network == "" {
		// The agent sees to this itself where it makes the network.
		for _, name := range append(n.Forwarding, "net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables") {
			if err := sysctl(name, "1"); err != nil {
				return err
			}
		}
		files["cni/10-pods.conflist"] = n.network()
	} else {
		// containerd wants one plugin besides; the agent brings its own.
		const loopback = "loopback"
		lists := pluginLists(n.Dir)
		err := errors.Join(os.MkdirAll(lists, 0o755), os.MkdirAll(plugins(n.Dir), 0o755))
		if err = errors.Join(err, os.Symlink(filepath.Join(bin, loopback), filepath.Join(plugins(n.Dir), loopback))); err != nil {
			return err
		}
		bin = plugins(n.Dir)
	}
	for name, content := range files {
		path := filepath.Join(n.Dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, encode(content), 0o644)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(n.Dir, "containerd.toml"), []byte(n.containerd(bin)), 0o644); err != nil {
		return err
	}
	containerd, err := run(n.Dir, "containerd", n.Tools.env(), n.Tools.Path("containerd"), "--config", filepath.Join(n.Dir, "containerd.toml"))
	if err != nil {
		return err
	}
	if err := n.imported(containerd); err != nil {
		return err
	}
	kubelet, err := run(n.Dir, "kubelet", n.Tools.env(), n.Tools.Path("kubelet"), "--config="+filepath.Join(n.Dir, "kubelet.json"), "--kubeconfig="+n.Kubeconfig,
		"--hostname-override="+n.Name, "--node-ip="+n.Addresses, "--node-labels="+corev1.LabelTopologyZone+"="+n.Zone, "--cert-dir="+filepath.Join(n.Dir, "certificates"))
	if err != nil {
		return err
	}
	proxy := &program{} // which never ends
	if n.Proxy != "" {
		if proxy, err = run(n.Dir, "kube-proxy", n.Tools.env(), n.Tools.Path("kube-proxy"), "--config="+filepath.Join(n.Dir, "proxy.json"), "--hostname-override="+n.Name); err != nil {
			return err
		}
	}
	if _, err := fmt.Println(ready); err != nil {
		return err
	}
	select {
	case <-containerd.done:
		return containerd.failed()
	case <-kubelet.done:
		return kubelet.failed()
	case <-proxy.done:
		return proxy.failed()
	}
}

// imported gives containerd the images, as soon as it answers.
func (n *node) imported(containerd *program) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for {
		conn, err := net.Dial("unix", "/run/containerd/containerd.sock")
		if err == nil {
			_ = conn.Close()
			_, err = output(ctx, n.Dir, n.Tools.Path("ctr"), "--namespace", "k8s.io", "images", "import", n.Images)
			if err == nil {
				return nil
			}
		}
		if failed := containerd.failed(); failed != nil || ctx.Err() != nil {
			return errors.Join(failed, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (n *node) kubelet() any {
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		// No one else is in this network.
		"authentication": object{"anonymous": object{"enabled": true}, "webhook": object{"enabled": false}},
		"authorization":  object{"mode": "AlwaysAllow"},
		// The machine may be a container, or have cgroups of the first version only, and its disks
		// are not ours to judge.
		"failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupsPerQOS": false, "enforceNodeAllocatable": []string{},
		"localStorageCapacityIsolation": false, "failSwapOn": false,
		"evictionHard":                object{"memory.available": "1Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
		"imageGCHighThresholdPercent": 100,
		"makeIPTablesUtilChains":      false,
		"containerRuntimeEndpoint":    "unix:///run/containerd/containerd.sock",
		"resolvConf":                  "",
		"clusterDNS":                  []string{n.Names},
		"clusterDomain":               "cluster.local",
		"oomScoreAdj":                 0,
	}
}

func (n *node) proxy() any {
	return object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"clientConnection": object{"kubeconfig": n.Kubeconfig}, "mode": n.Proxy, "clusterCIDR": n.PodNetwork,
		// The table is that of the machine, and large enough.
		"conntrack": object{"maxPerCore": 0, "min": 0},
	}
}

// network is the bridge plugin without masquerading, so that Pods of other Nodes see Pods.
func (n *node) network() any {
	var ranges [][]object
	var routes []object
	for i, pods := range n.Pods {
		ranges, routes = append(ranges, []object{{"subnet": pods}}), append(routes, object{"dst": n.Everywhere[i]})
	}
	return object{"cniVersion": "0.4.0", "name": "pods", "plugins": []object{{
		"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
		"ipam": object{"type": "host-local", "ranges": ranges, "routes": routes},
	}}}
}

// pluginLists and plugins are the folders of lists of CNI plugins and of their programs, below that
// of a Node.
func pluginLists(dir string) string { return filepath.Join(dir, "cni") }

func plugins(dir string) string { return filepath.Join(dir, "cni-bin") }

// containerd configures it to use the CNI plugins in a folder.
func (n *node) containerd(bin string) string {
	const cri = `plugins."io.containerd.grpc.v1.cri"`
	return fmt.Sprintf(`version = 2
[%[1]s]
  restrict_oom_score_adj = true
  tolerate_missing_hugetlb_controller = true
  disable_apparmor = true
  sandbox_image = %[2]q
[%[1]s.containerd]
  snapshotter = "overlayfs"
[%[1]s.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[%[1]s.containerd.runtimes.runc.options]
  BinaryName = %[3]q
[%[1]s.cni]
  bin_dir = %[4]q
  conf_dir = %[5]q
`, cri, pauseImage, filepath.Join(n.Tools.Debian, "usr/sbin/runc"), bin, pluginLists(n.Dir))
}
