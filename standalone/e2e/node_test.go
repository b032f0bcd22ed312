package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/tier"
)

// TestNodeAgent runs an agent on a Node with the rights that config/nodes gives to its DaemonSet
// and the token of its Pod: policies of Kubernetes and of Antrea are enforced on Pods and on the
// Node, and told so; and it speaks for no other Node.
func TestNodeAgent(t *testing.T) {
	t.Parallel()
	lab := nfttest.NewLab(t)
	pod := nfttest.PodAddresses(0)[0]
	a := &agented{host: lab.Node, peer: lab.Peers, files: t.TempDir(), port: 20000, addr: pod, peerAddr: netip.MustParseAddr("10.9.9.1")}
	a.cluster = pooledCluster(t)
	for _, dir := range []string{"../../config/agents", "../../config/nodes"} {
		for _, o := range built(t, dir) {
			if o.GetKind() == "DaemonSet" { // its Pod is below
				continue
			}
			if err := a.client.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nfttest.NodeName, Labels: map[string]string{"role": "worker"}}, Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/30", PodCIDRs: []string{"10.0.0.0/30"}}}
	a.apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}, node,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	a.status(node, func() {
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nfttest.NodeAddresses()[0].String()}}
	})
	for n := range nfttest.PodCount {
		ref := nfttest.PodRef(n)
		a.pod(ref.Namespace, ref.Name, "default", map[string]string{"app": fmt.Sprint(n)}, nfttest.PodAddresses(n))
	}
	a.pod("kube-system", "nephele-node-agent-1", "nephele-node-agent", nil, nil)
	kubeconfig, own := a.nodeToken("nephele-node-agent-1")
	config := filepath.Join(a.files, "agent.yaml")
	text := fmt.Sprintf("node: %s\nkubeconfig: %s\nstateDir: %s\nlogFile: %s\n", nfttest.NodeName, kubeconfig, filepath.Join(a.files, "state"), filepath.Join(a.files, "policies.log"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	stop := a.startAgent(config)

	info := &v1beta1.AntreaAgentInfo{}
	eventually(t, "the agent tells about itself", func(ctx context.Context) (bool, string) {
		err := a.client.Get(ctx, client.ObjectKey{Name: nfttest.NodeName}, info)
		return err == nil && info.LocalPodNum == nfttest.PodCount && info.NodeRef.Kind == "Node" && len(info.NodeSubnets) == 1, fmt.Sprintf("%+v %v", info, err)
	})
	a.sees("no policy", true, true)
	kubernetesPolicy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n1", Name: "in"}, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "0"}},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: ptr(intstr.FromInt(81))}},
			From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.9.9.0/24"}}}}},
	}}
	a.apply(kubernetesPolicy)
	a.sees("a policy of Kubernetes", false, true)

	drop := v1beta1.RuleActionDrop
	antrea := &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "no"}, Spec: v1beta1.NetworkPolicySpec{Priority: 5,
		AppliedTo: []v1beta1.AppliedTo{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "0"}}}, {NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}}}},
		Ingress:   []v1beta1.Rule{{Name: "no", Action: drop, Ports: []v1beta1.NetworkPolicyPort{{Port: ptr(intstr.FromInt(81))}}}},
	}}
	a.apply(antrea)
	a.sees("a policy on Pods and Nodes", false, false)
	eventually(t, "the status says so", func(ctx context.Context) (bool, string) {
		err := a.client.Get(ctx, client.ObjectKeyFromObject(antrea), antrea)
		return err == nil && antrea.Status.Phase == v1beta1.NetworkPolicyRealized && antrea.Status.CurrentNodesRealized == 1, fmt.Sprintf("%+v %v", antrea.Status, err)
	})
	a.addr = nfttest.NodeAddresses()[0]
	a.sees("it holds for the Node, too", true, false)
	a.addr = pod
	out, err := exec.Command(binary, "agent", "explain", "--socket", filepath.Join(a.files, "agent.sock"),
		"--from", nfttest.PodAddresses(1)[0].String(), "--to", pod.String(), "--port", "81").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "drop: AntreaClusterNetworkPolicy no rule 0 no") {
		t.Errorf("explained: %s %v", out, err)
	}

	a.diagnoses()
	a.flows("of a Pod", []string{"--to", "n1/"}, []string{"dropped", "ClusterNetworkPolicy no, rule \"no\""}, []string{"accepted", "no policy"})
	// It reads no Pods, and receives the Pods of its own Node only.
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}} {
		if err := own.List(t.Context(), list); !apierrors.IsForbidden(err) {
			t.Errorf("it lists %T: %v", list, err)
		}
	}
	for _, node := range []string{nfttest.NodeName, "other"} {
		local := &unstructured.UnstructuredList{}
		local.SetAPIVersion("analysis.nephele.io/v1alpha1")
		local.SetKind("LocalPodList")
		err := own.List(t.Context(), local, client.MatchingFields{"nodeName": node})
		if mine := node == nfttest.NodeName; mine && (err != nil || len(local.Items) != nfttest.PodCount) || !mine && !apierrors.IsForbidden(err) {
			t.Errorf("Pods of Node %s: %v, %v", node, local.Items, err)
		}
		if asOf, _ := local.Object["asOf"].(string); err == nil && asOf == "" {
			t.Errorf("Pods of Node %s are of no version: %v", node, local.Object)
		}
	}
	// Its token is for its own Node.
	other := &v1beta1.AntreaAgentInfo{}
	eventually(t, "the other Node has an info", func(ctx context.Context) (bool, string) {
		err := own.Get(ctx, client.ObjectKey{Name: "other"}, other)
		return err == nil, fmt.Sprint(err)
	})
	eventually(t, "it may not speak for another Node", func(ctx context.Context) (bool, string) {
		other.Version = "forged"
		err := own.Update(ctx, other)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "its own host only"), fmt.Sprint(err)
	})

	stop(syscall.SIGKILL)
	a.sees("without an agent", false, false)
	stop = a.startAgent(config)
	if err := a.client.Delete(t.Context(), antrea); err != nil {
		t.Fatal(err)
	}
	a.sees("the next one goes on", false, true)
	stop(syscall.SIGTERM)
}

// diagnoses traces a packet that a policy drops, captures one, and measures the way to another
// Node.
func (a *agented) diagnoses() {
	a.t.Helper()
	from, to := nfttest.PodRef(1), nfttest.PodRef(0)
	out, err := exec.Command(binary, "traceflow", "--kubeconfig", filepath.Join(a.dir, "kubeconfig"), "--from", from.Namespace+"/"+from.Name, "--to", to.Namespace+"/"+to.Name,
		"--protocol", "TCP", "--port", "81").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "NetworkPolicy (IngressRule) Dropped by AntreaClusterNetworkPolicy:no rule no") {
		a.t.Errorf("traced: %s %v", out, err)
	}
	capture := &v1alpha1.PacketCapture{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha1.PacketCaptureSpec{
		CaptureConfig: v1alpha1.CaptureConfig{FirstN: v1alpha1.CaptureFirstN{Number: 1}}, Source: v1alpha1.CaptureEnd{Pod: &v1alpha1.CapturePod{Namespace: from.Namespace, Name: from.Name}}}}
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	a.status(other, func() {
		other.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.9.9.77"}}
	})
	if err := a.host.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 0"), 0o644) }); err != nil {
		a.t.Fatal(err)
	}
	a.apply(capture, &v1alpha1.NodeLatencyMonitor{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: v1alpha1.NodeLatencyMonitorSpec{PingIntervalSeconds: 1}})
	eventually(a.t, "a packet is captured", func(ctx context.Context) (bool, string) {
		a.port++
		try := nfttest.Attempt{From: a.peer, Network: "tcp", Source: netip.AddrPortFrom(a.peerAddr, a.port), Destination: netip.AddrPortFrom(nfttest.PodAddresses(1)[0], 80)}
		if _, err := try.Run(300 * time.Millisecond); err != nil {
			return false, err.Error()
		}
		err := a.client.Get(ctx, client.ObjectKeyFromObject(capture), capture)
		complete := capture.Status.Condition(v1alpha1.PacketCaptureComplete)
		return err == nil && complete != nil && complete.Reason == "Succeed" && strings.HasPrefix(capture.Status.FilePath, nfttest.NodeName+":"), fmt.Sprintf("%+v %v", capture.Status, err)
	})
	measured := &unstructured.Unstructured{}
	measured.SetAPIVersion("stats.antrea.io/v1alpha1")
	measured.SetKind("NodeLatencyStats")
	eventually(a.t, "the latency is reported", func(ctx context.Context) (bool, string) {
		err := a.client.Get(ctx, client.ObjectKey{Name: nfttest.NodeName}, measured)
		text := fmt.Sprint(measured.Object["peerNodeLatencyStats"])
		return err == nil && strings.Contains(text, "nodeName:other") && strings.Contains(text, "targetIP:10.9.9.77"), fmt.Sprintf("%s %v", text, err)
	})
}

// TestAgentsSpeakForThemselves: with the ClusterRole that all agents share, nobody tells about a
// host but its own agent: on a Node the one whose token is bound to that, elsewhere the one that
// may enforce for it.
func TestAgentsSpeakForThemselves(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestInfosOfAgents (internal/controlplane) holds the same policy against the same people")
	c := newCluster(t)
	for _, o := range built(t, "../../config/agents") {
		if err := c.client.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	object := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "vms", Name: name} }
	subject := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "vms", Name: name}
	}
	vm := func(name string) *v1alpha1.ExternalNode {
		return &v1alpha1.ExternalNode{ObjectMeta: object(name), Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{"10.7.0.1"}}}}}
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms"}}, vm("web"), vm("db"),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "agents-of-vms"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nephele-agent"},
			Subjects: []rbacv1.Subject{subject("all"), subject("web"), subject("node")}},
		&rbacv1.Role{ObjectMeta: object("web"), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"controlplane.antrea.io"}, Resources: []string{"enforcers"}, ResourceNames: []string{"web"}, Verbs: []string{"enforce"}}}},
		&rbacv1.RoleBinding{ObjectMeta: object("web"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "web"}, Subjects: []rbacv1.Subject{subject("web")}},
	} {
		must(t, c.client.Create(t.Context(), o))
	}
	as := func(account, node string) client.Client {
		cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
		must(t, err)
		cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:vms:" + account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:vms", "system:authenticated"}}
		if node != "" { // as kube-apiserver says of the token of a Pod
			cfg.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
		}
		return newClient(t, cfg)
	}
	ref := func(kind, name string) v1beta1.ObjectReference {
		if kind == "ExternalNode" {
			return v1beta1.ObjectReference{Kind: kind, Namespace: "vms", Name: name}
		}
		return v1beta1.ObjectReference{Kind: kind, Name: name}
	}
	tell := func(ctx context.Context, who client.Client, name string, of v1beta1.ObjectReference) error {
		return retry.RetryOnConflict(untilWritten, func() error {
			info := &v1beta1.AntreaAgentInfo{}
			if err := who.Get(ctx, client.ObjectKey{Name: name}, info); err != nil {
				return err
			}
			info.Version, info.NodeRef = info.Version+"+", of
			return who.Update(ctx, info)
		})
	}
	all, web, node := as("all", ""), as("web", ""), as("node", "n1")
	eventually(t, "the policy is in force, and the infos are there", func(ctx context.Context) (bool, string) {
		for _, name := range []string{"db", "n1", "n2"} {
			if err := c.client.Get(ctx, client.ObjectKey{Name: name}, &v1beta1.AntreaAgentInfo{}); err != nil {
				return false, err.Error()
			}
		}
		err := tell(ctx, all, "web", ref("ExternalNode", "web"))
		return apierrors.IsForbidden(err), fmt.Sprint(err)
	})
	for what, err := range map[string]error{
		"the agent of a VM":                       tell(t.Context(), web, "web", ref("ExternalNode", "web")),
		"the same, by the namespace of its token": tell(t.Context(), web, "web", v1beta1.ObjectReference{}),
		"the agent of a Node":                     tell(t.Context(), node, "n1", ref("Node", "n1")),
		"an administrator":                        tell(t.Context(), c.client, "db", ref("ExternalNode", "db")),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"a user with the ClusterRole":              tell(t.Context(), all, "web", ref("ExternalNode", "web")),
		"the same, without saying for whom":        tell(t.Context(), all, "web", v1beta1.ObjectReference{}),
		"the same, for a Node":                     tell(t.Context(), all, "n1", ref("Node", "n1")),
		"the agent of a VM for another":            tell(t.Context(), web, "db", ref("ExternalNode", "db")),
		"the agent of a VM, as if it was its own":  tell(t.Context(), web, "db", ref("ExternalNode", "web")),
		"the agent of a VM for a Node":             tell(t.Context(), web, "n1", ref("Node", "n1")),
		"the agent of a Node for another":          tell(t.Context(), node, "n2", ref("Node", "n2")),
		"the agent of a Node for a VM":             tell(t.Context(), node, "web", ref("ExternalNode", "web")),
		"the agent of a Node for a VM of its name": tell(t.Context(), node, "n1", ref("ExternalNode", "n1")),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "its own host only") {
			t.Errorf("%s tells about another: %v", what, err)
		}
	}
}

// pod makes a Pod on the Node, with addresses if it has some of its own.
func (a *agented) pod(namespace, name, account string, labels map[string]string, addresses []netip.Addr) {
	a.t.Helper()
	no := false
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Spec: corev1.PodSpec{NodeName: nfttest.NodeName, ServiceAccountName: account,
		AutomountServiceAccountToken: &no, HostNetwork: addresses == nil, Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
	eventually(a.t, "Pod "+name, func(ctx context.Context) (bool, string) {
		err := a.client.Create(ctx, p)
		return err == nil || apierrors.IsAlreadyExists(err), fmt.Sprint(err)
	})
	a.status(p, func() {
		p.Status.Phase = corev1.PodRunning
		for i, x := range addresses {
			if i == 0 {
				p.Status.PodIP, p.Status.PodIPs = x.String(), nil
			}
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: x.String()})
		}
	})
}

// status changes the status of an object.
func (a *agented) status(o client.Object, change func()) {
	a.t.Helper()
	if err := retry.RetryOnConflict(untilWritten, func() error {
		if err := a.client.Get(a.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change()
		return a.client.Status().Update(a.t.Context(), o)
	}); err != nil {
		a.t.Fatal(err)
	}
}

// nodeToken returns a kubeconfig with the token of a Pod of the agent, by which the Node reaches
// the API server, and a client with the same rights.
func (a *agented) nodeToken(pod string) (kubeconfig string, own client.Client) {
	a.t.Helper()
	admin, err := clientcmd.BuildConfigFromFlags("", filepath.Join(a.cluster.dir, "kubeconfig"))
	if err != nil {
		a.t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(admin)
	if err != nil {
		a.t.Fatal(err)
	}
	answer, err := kube.CoreV1().ServiceAccounts("kube-system").CreateToken(a.t.Context(), "nephele-node-agent",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod}}}, metav1.CreateOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://" + a.proxy(), TLSServerName: "127.0.0.1", CertificateAuthorityData: admin.CAData, CertificateAuthority: admin.CAFile}
	cfg.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: answer.Status.Token}
	cfg.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	cfg.CurrentContext = "x"
	kubeconfig = filepath.Join(a.files, "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, kubeconfig); err != nil {
		a.t.Fatal(err)
	}
	direct := *admin
	direct.BearerToken, direct.BearerTokenFile, direct.CertData, direct.KeyData, direct.CertFile, direct.KeyFile = answer.Status.Token, "", nil, nil, "", ""
	return kubeconfig, newClient(a.t, &direct)
}
