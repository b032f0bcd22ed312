package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
)

// agented is a cluster and a host with an agent, which reaches the cluster through its peer.
type agented struct {
	*cluster
	host, peer *nfttest.Host
	// files are where the agent has its own.
	files string
	port  uint16
	// addr and peerAddr are the addresses of the two.
	addr, peerAddr netip.Addr
}

var agentAddr, agentPeer = netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.2")

func newAgented(t *testing.T, addr, peer netip.Addr, flags ...string) *agented {
	a := &agented{host: nfttest.NewHost(t), peer: nfttest.NewHost(t), files: t.TempDir(), port: 20000, addr: addr, peerAddr: peer}
	nfttest.Connect(t, a.host, a.peer, []netip.Prefix{netip.PrefixFrom(addr, 24)}, []netip.Prefix{netip.PrefixFrom(peer, 24)})
	nfttest.Serve(t, a.host, 80, 82, addr)
	if len(flags) == 0 {
		a.cluster = pooledCluster(t)
	} else {
		a.cluster = newCluster(t, flags...)
	}
	return a
}

// enroll gives the host of an ExternalNode what its agent needs, and returns the file that
// configures that.
func (a *agented) enroll(node string) (config string) {
	a.t.Helper()
	kubeconfig := filepath.Join(a.files, "kubeconfig")
	if out, err := a.nephele("enroll", node, "--server", "https://"+a.proxy(), "--tls-server-name", "127.0.0.1", "--output", kubeconfig); err != nil {
		a.t.Fatal(err, out)
	}
	return a.configure(node, kubeconfig)
}

// configure writes the file that configures the agent of an ExternalNode.
func (a *agented) configure(node, kubeconfig string) (config string) {
	a.t.Helper()
	config = filepath.Join(a.files, "agent.yaml")
	text := fmt.Sprintf("externalNode: %s\nkubeconfig: %s\nstateDir: %s\nlogFile: %s\n", node, kubeconfig, filepath.Join(a.files, "state"), filepath.Join(a.files, "policies.log"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return config
}

// TestAgent enrolls a host, starts its agent from the file that the package for hosts brings, and
// makes real connections while policies come and go.
func TestAgent(t *testing.T) {
	t.Parallel()
	a := newAgented(t, agentAddr, agentPeer)
	a.apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms"}},
		&v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "web", Labels: map[string]string{"role": "web"}},
			Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{agentAddr.String()}}}}})
	config := a.enroll("vms/web")
	stop := a.startAgent(config)

	allow := &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "in"}, Spec: v1beta1.NetworkPolicySpec{
		Priority:  5,
		AppliedTo: []v1beta1.AppliedTo{{ExternalEntitySelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "web"}}}},
		Ingress: []v1beta1.Rule{
			{Name: "web", Action: v1beta1.RuleActionAllow, EnableLogging: true, From: []v1beta1.NetworkPolicyPeer{{IPBlock: &v1beta1.IPBlock{CIDR: "10.1.0.0/24"}}},
				Ports: []v1beta1.NetworkPolicyPort{{Port: ptr(intstr.FromInt(80))}}},
		},
	}}
	a.apply(allow)
	a.sees("the policy is enforced", true, false)
	eventually(t, "the status says so", func(ctx context.Context) (bool, string) {
		err := a.client.Get(ctx, client.ObjectKeyFromObject(allow), allow)
		return err == nil && allow.Status.Phase == v1beta1.NetworkPolicyRealized && allow.Status.CurrentNodesRealized == 1, fmt.Sprintf("%+v %v", allow.Status, err)
	})
	edit(t, a.client, allow, func() { allow.Spec.Ingress[0].Ports[0].Port = ptr(intstr.FromInt(81)) })
	a.sees("the edit is enforced", false, true)

	eventuallyTold(t, "explain knows what the agent does", func(context.Context) (bool, string) {
		out, err := a.nephele("explain", "--from", agentPeer.String(), "--to", "ee/vms/web", "--port", "80")
		return strings.Contains(out, "TCP port 80: Drop") && !strings.Contains(out, "given already"), fmt.Sprintf("%s %v", out, err)
	})
	eventually(t, "the log has a line of each version", func(context.Context) (bool, string) {
		text, err := os.ReadFile(filepath.Join(a.files, "policies.log"))
		ports := map[float64]bool{}
		for line := range strings.Lines(string(text)) {
			var l map[string]any
			if json.Unmarshal([]byte(line), &l) == nil && l["policy"] == "in" && l["rule"] == "web" && l["source"] == agentPeer.String() {
				ports[l["port"].(float64)] = true
			}
		}
		return ports[80] && ports[81], fmt.Sprintf("%s %v", text, err)
	})

	// Connections are counted, for kubectl get antreanetworkpolicystats.
	eventually(t, "the statistics count the connections", func(ctx context.Context) (bool, string) {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("stats.antrea.io/v1alpha1")
		u.SetKind("AntreaNetworkPolicyStats")
		err := a.client.Get(ctx, client.ObjectKeyFromObject(allow), u)
		rules, _, _ := unstructured.NestedSlice(u.Object, "ruleTrafficStats")
		total, _, _ := unstructured.NestedInt64(u.Object, "trafficStats", "sessions")
		return err == nil && total > 0 && len(rules) == 1 && rules[0].(map[string]any)["name"] == "web", fmt.Sprintf("%v %v", u.Object, err)
	})

	// Killed, it leaves what is in force; the next one goes on, also with what has changed
	// meanwhile.
	stop(syscall.SIGKILL)
	a.sees("without an agent", false, true)
	edit(t, a.client, allow, func() { allow.Spec.Ingress[0].Ports[0].Port = ptr(intstr.FromInt(80)) })
	stop = a.startAgent(config)
	a.sees("the next one enforces what has changed", true, false)
	if err := a.client.Delete(t.Context(), allow); err != nil {
		t.Fatal(err)
	}
	a.sees("without policies", true, true)
	stop(syscall.SIGTERM)
}

func (a *agented) apply(objects ...client.Object) {
	a.t.Helper()
	for _, o := range objects {
		if err := a.client.Create(a.t.Context(), o); err != nil {
			a.t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

// sees waits until connections to the ports 80 and 81 of the host pass or not.
func (a *agented) sees(what string, want80, want81 bool) {
	a.t.Helper()
	eventually(a.t, what, func(context.Context) (bool, string) {
		var got [2]bool
		for i := range got {
			a.port++
			try := nfttest.Attempt{From: a.peer, Network: "tcp", Source: netip.AddrPortFrom(a.peerAddr, a.port), Destination: netip.AddrPortFrom(a.addr, uint16(80+i))}
			result, err := try.Run(300 * time.Millisecond)
			if err != nil {
				return false, err.Error()
			}
			got[i] = result == nfttest.Passed
		}
		return got == [2]bool{want80, want81}, fmt.Sprint(got)
	})
}

// flows waits until the flows that are asked for have lines with all words of each list.
func (a *agented) flows(what string, args []string, want ...[]string) {
	a.t.Helper()
	eventuallyTold(a.t, "the flows are told "+what, func(context.Context) (bool, string) {
		out, err := a.nephele(append([]string{"flows"}, args...)...)
		for _, words := range want {
			found := false
			for line := range strings.Lines(out) {
				all := strings.Contains(line, a.peerAddr.String())
				for _, w := range words {
					all = all && strings.Contains(line, w)
				}
				found = found || all
			}
			if !found {
				return false, fmt.Sprintf("no line with %q in\n%s%v", words, out, err)
			}
		}
		return err == nil, fmt.Sprintf("%s %v", out, err)
	})
}

// proxy lets the host reach the API server by an address of its peer, and returns that.
func (a *agented) proxy() string {
	a.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(a.cluster.dir, "kubeconfig"))
	if err != nil {
		a.t.Fatal(err)
	}
	server, err := url.Parse(cfg.Host)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.proxyTo(server.Host)
}

// proxyTo lets the host reach a server of this machine by an address of its peer, and returns that.
func (a *agented) proxyTo(server string) string {
	a.t.Helper()
	var l net.Listener
	if err := a.peer.Do(func() (err error) { l, err = net.Listen("tcp", a.peerAddr.String()+":6443"); return err }); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				to, err := net.Dial("tcp", server)
				if err != nil {
					_ = from.Close()
					return
				}
				var both sync.WaitGroup
				for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
					both.Go(func() {
						_, _ = io.Copy(way[0], way[1])
						_, _ = from.Close(), to.Close()
					})
				}
				both.Wait()
			}()
		}
	}()
	return l.Addr().String()
}

// startAgent starts the agent on the host, and returns what ends it.
func (a *agented) startAgent(config string) (stop func(os.Signal)) {
	a.t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(binary, "agent", "--config", config, "--socket", filepath.Join(a.files, "agent.sock"))
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := a.host.Do(cmd.Start); err != nil { // a process is where the thread is that starts it
		a.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		spent(a.t.Name(), cmd.ProcessState, true)
		ended <- err
	}()
	stop = func(s os.Signal) {
		a.t.Helper()
		if cmd.Process.Signal(s) != nil {
			return
		}
		err := <-ended
		var exit *exec.ExitError
		if s == syscall.SIGTERM && err != nil || s != syscall.SIGTERM && !errors.As(err, &exit) {
			a.t.Errorf("the agent ended with %v\n%s", err, log.String())
		}
	}
	a.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if a.t.Failed() {
			a.t.Logf("the agent says:\n%s", log.String())
		}
	})
	return stop
}

func ptr[T any](v T) *T { return &v }

// TestAgentEnrollsByToken: a host that reaches nothing but the server of computed policies enrolls
// by a token, enforces, reports and tells about itself; and when its ExternalNode is gone it is
// served no more, and what was in force stays.
func TestAgentEnrollsByToken(t *testing.T) {
	t.Parallel()
	a := newAgented(t, agentAddr, agentPeer)
	node := &v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "web", Labels: map[string]string{"role": "web"}},
		Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{agentAddr.String()}}}}}
	a.apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms"}}, node)
	server := "https://" + a.proxyTo(a.policyServer())
	kubeconfig := filepath.Join(a.files, "kubeconfig")
	token := a.enrollToken("vms/web")
	enroll := func() (string, error) {
		var out bytes.Buffer
		cmd := exec.Command(binary, "agent", "enroll", "--server", server, "--output", kubeconfig, "-")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(token+"\n"), &out, &out
		err := a.host.Do(cmd.Run)
		return out.String(), err
	}
	if out, err := enroll(); err != nil {
		t.Fatal(err, out)
	}
	if info, err := os.Stat(kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	before, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := enroll(); err == nil || !strings.Contains(out, "it was used") {
		t.Errorf("the token works twice: %s %v", out, err)
	}
	if after, err := os.ReadFile(kubeconfig); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a failure changes the credentials: %v", err)
	}

	stop := a.startAgent(a.configure("vms/web", kubeconfig))
	allow := &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "in"}, Spec: v1beta1.NetworkPolicySpec{
		Priority:  5,
		AppliedTo: []v1beta1.AppliedTo{{ExternalEntitySelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "web"}}}},
		Ingress:   []v1beta1.Rule{{Name: "web", Action: v1beta1.RuleActionAllow, Ports: []v1beta1.NetworkPolicyPort{{Port: ptr(intstr.FromInt(80))}}}},
	}}
	a.apply(allow)
	a.sees("the policy is enforced", true, false)
	a.flows("of a host", []string{"--to", "vms/web"}, []string{"accepted", "AntreaNetworkPolicy vms/in, rule \"web\""}, []string{"dropped", "isolated by AntreaNetworkPolicy vms/in"})
	quarantine := filepath.Join(a.files, "quarantine.yaml")
	text := "apiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: quarantine, namespace: vms}\nspec:\n  priority: 1\n" +
		"  appliedTo: [{externalEntitySelector: {matchLabels: {role: web}}}]\n  ingress: [{name: nobody, action: Drop}]\n"
	if err := os.WriteFile(quarantine, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "- cut: " + agentPeer.String() + " to vms/web, tcp 80"
	if out, err := a.nephele("plan", "-f", quarantine, "--flows", "1h"); err == nil || !strings.Contains(out, want) || !strings.Contains(out, `vms/quarantine, rule "nobody"`) {
		t.Errorf("a plan does not say %q: %v\n%s", want, err, out)
	}
	eventually(t, "the status says so", func(ctx context.Context) (bool, string) {
		err := a.client.Get(ctx, client.ObjectKeyFromObject(allow), allow)
		return err == nil && allow.Status.Phase == v1beta1.NetworkPolicyRealized, fmt.Sprintf("%+v %v", allow.Status, err)
	})
	info := &v1beta1.AntreaAgentInfo{}
	eventually(t, "the agent tells about itself", func(ctx context.Context) (bool, string) {
		err := a.client.Get(ctx, client.ObjectKey{Name: "web"}, info)
		healthy := false
		for _, c := range info.AgentConditions {
			healthy = healthy || c.Type == v1beta1.AgentHealthy && c.Status == metav1.ConditionTrue
		}
		return err == nil && healthy && info.NodeRef.Kind == "ExternalNode" && info.NodeRef.Namespace == "vms", fmt.Sprintf("%+v %v", info, err)
	})
	if err := a.client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	eventuallyTold(t, "it is served no more", func(context.Context) (bool, string) {
		out, err := exec.Command(binary, "agent", "status", "--socket", filepath.Join(a.files, "agent.sock")).CombinedOutput()
		return strings.Contains(string(out), "vms/web: Kept") && strings.Contains(string(out), "trouble with server"), fmt.Sprintf("%s %v", out, err)
	})
	a.sees("what was in force stays", true, false)
	stop(syscall.SIGTERM)
}

// enrollToken makes a token for a host.
func (a *agented) enrollToken(host string) string {
	a.t.Helper()
	out, err := a.nephele("enroll-token", host, "--for", "10m")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	token := lines[len(lines)-1]
	if err != nil || !strings.HasPrefix(token, host+":") {
		a.t.Fatal(err, out)
	}
	return token
}

// policyServer is where the server of computed policies listens.
func (a *agented) policyServer() string {
	a.t.Helper()
	api := &unstructured.Unstructured{}
	api.SetAPIVersion("apiregistration.k8s.io/v1")
	api.SetKind("APIService")
	if err := a.client.Get(a.t.Context(), client.ObjectKey{Name: "v1beta2.controlplane.antrea.io"}, api); err != nil {
		a.t.Fatal(err)
	}
	port, _, err := unstructured.NestedInt64(api.Object, "spec", "service", "port")
	if err != nil || port == 0 {
		a.t.Fatal(port, err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}
