package convert

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/policy"
)

func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

func addresses(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range texts {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func want(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNamespace(t *testing.T) {
	n := decode[corev1.Namespace](t, `metadata: {name: a, labels: {x: z}, annotations: {networkpolicy.antrea.io/enable-logging: "true"}}`)
	want(t, policy.Namespace{Name: "a", Labels: map[string]string{"x": "z", "kubernetes.io/metadata.name": "a"}, LogNetworkPolicies: true}, Namespace(n))
	if len(n.Labels) != 1 {
		t.Error("the labels of the argument are modified")
	}
}

func TestPod(t *testing.T) {
	got, errs := Pod(decode[corev1.Pod](t, `
metadata: {name: p, namespace: a, labels: {x: z}}
spec:
  nodeName: n1
  serviceAccountName: sa
  initContainers:
  - {name: i, ports: [{name: early, containerPort: 1}]}
  - {name: proxy, restartPolicy: Always, ports: [{name: admin, containerPort: 15000}]}
  containers: [{name: c, ports: [{name: http, containerPort: 80}, {containerPort: 81}, {name: dns, containerPort: 53, protocol: UDP}]}]
status: {phase: Running, podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: "2001:db8::1"}]}`))
	want(t, policy.Entity{
		EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "a", Name: "p"}, Labels: map[string]string{"x": "z"},
		Addresses: addresses("10.0.0.1", "2001:db8::1"), Host: "n1", ServiceAccount: "sa",
		Ports: []policy.NamedPort{{Name: "http", Protocol: "TCP", Port: 80}, {Name: "dns", Protocol: "UDP", Port: 53}, {Name: "admin", Protocol: "TCP", Port: 15000}},
	}, got)
	want(t, 0, len(errs))
	got, errs = Pod(decode[corev1.Pod](t, `{metadata: {name: p}, spec: {hostNetwork: true}, status: {phase: Failed, podIP: nonsense}}`))
	if !got.HostNetwork || !got.Terminated || got.ServiceAccount != "default" || len(got.Addresses) != 0 {
		t.Errorf("%+v", got)
	}
	want(t, []policy.FieldError{{Field: "status.podIPs[0].ip", Value: "nonsense", Want: "an IPv4 or IPv6 address"}}, errs)
}

func TestNode(t *testing.T) {
	got, errs := Node(decode[corev1.Node](t, `
metadata: {name: n1, annotations: {node.antrea.io/transport-addresses: "172.16.0.9, 192.168.0.1"}}
spec: {podCIDRs: [10.244.1.0/24, "fd00:1::/64"]}
status: {addresses: [{type: InternalIP, address: 192.168.0.1}, {type: Hostname, address: n1}, {type: ExternalIP, address: 52.0.0.1}]}`))
	want(t, addresses("10.244.1.1", "172.16.0.9", "192.168.0.1", "fd00:1::1"), got.Addresses)
	want(t, 0, len(errs))
	// The ExternalIP counts only in a family without InternalIP, and of several addresses the
	// first.
	got, errs = Node(decode[corev1.Node](t, `
metadata: {name: n1}
status: {addresses: [{type: ExternalIP, address: 52.0.0.1}, {type: ExternalIP, address: "2001:db8::1"}, {type: InternalIP, address: 192.168.0.1},
  {type: InternalIP, address: 192.168.0.2}, {type: ExternalIP, address: "2001:db8::2"}]}`))
	want(t, addresses("192.168.0.1", "2001:db8::1"), got.Addresses)
	want(t, 0, len(errs))
	_, errs = Node(decode[corev1.Node](t, `{metadata: {name: n1}, spec: {podCIDR: x}, status: {addresses: [{type: InternalIP, address: z}]}}`))
	want(t, []policy.FieldError{
		{Field: "status.addresses[0].address", Value: "z", Want: "an IPv4 or IPv6 address"}, {Field: "spec.podCIDRs[0]", Value: "x", Want: "a CIDR"},
	}, errs)
}

func TestExternalEntity(t *testing.T) {
	got, errs := ExternalEntity(decode[v1alpha2.ExternalEntity](t, `
metadata: {name: e, namespace: a}
spec: {externalNode: cloud-a, endpoints: [{ip: 10.0.0.2}, {ip: 10.0.0.1}, {ip: "::ffff:10.0.0.3"}], ports: [{name: p, port: 1}]}`))
	want(t, addresses("10.0.0.2", "10.0.0.1", "10.0.0.3"), got.Addresses)
	want(t, []policy.NamedPort{{Name: "p", Protocol: "TCP", Port: 1}}, got.Ports)
	want(t, "cloud-a", got.Host)
	want(t, 0, len(errs))
	_, errs = ExternalEntity(decode[v1alpha2.ExternalEntity](t, `{spec: {endpoints: [{ip: "fe80::1%eth0"}]}}`))
	want(t, []policy.FieldError{{Field: "spec.endpoints[0].ip", Value: "fe80::1%eth0", Want: "an IPv4 or IPv6 address"}}, errs)
}

func TestEntityOfExternalNode(t *testing.T) {
	n := decode[v1alpha1.ExternalNode](t, `
metadata: {name: host, namespace: a, uid: u, labels: {x: z}}
spec: {interfaces: [{ips: [10.0.0.1, "2001:db8::1"]}, {name: second, ips: [10.0.0.2]}]}`)
	x := EntityOfExternalNode(n)
	want(t, "host", x.Name)
	want(t, []v1alpha2.Endpoint{{IP: "10.0.0.1"}, {IP: "2001:db8::1"}}, x.Spec.Endpoints)
	e, errs := ExternalEntity(x)
	want(t, "a/host", e.Host)
	want(t, 0, len(errs))
	n.Spec.Interfaces = nil
	if EntityOfExternalNode(n) != nil {
		t.Error("an ExternalNode without interface has an entity")
	}
}

func TestTierNamesOfOld(t *testing.T) {
	for old, now := range map[string]string{"": "", "Emergency": "emergency", "SecurityOps": "securityops", "custom": "custom", "EMERGENCY": "EMERGENCY"} {
		p := NetworkPolicy(&v1beta1.NetworkPolicy{Spec: v1beta1.NetworkPolicySpec{Tier: old}})
		want(t, now, p.Tier)
	}
}

func TestKubernetesNetworkPolicy(t *testing.T) {
	got := KubernetesNetworkPolicy(decode[networkingv1.NetworkPolicy](t, `
metadata: {name: k, namespace: a, uid: u, generation: 3}
spec:
  podSelector: {}
  policyTypes: [Ingress, Egress]
  ingress: [{from: [{namespaceSelector: {}}, {ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}], ports: [{port: http}, {protocol: UDP, port: 53, endPort: 54}]}]`))
	end := int32(54)
	want(t, policy.Policy{
		Kind: policy.KubernetesNetworkPolicy, Namespace: "a", Name: "k", UID: "u", Generation: 3,
		AppliedTo:   []policy.AppliedTo{{PodSelector: &policy.Selector{}}},
		PolicyTypes: []policy.Direction{policy.Ingress, policy.Egress},
		Ingress: []policy.Rule{{
			Peers: []policy.Peer{{NamespaceSelector: &policy.Selector{}}, {IPBlock: &policy.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}}}},
			Ports: []policy.Port{
				{Protocol: policy.TCP, Port: &policy.PortRef{Name: "http"}}, {Protocol: policy.UDP, Port: &policy.PortRef{Number: 53}, EndPort: &end},
			},
		}},
	}, got)
}

// TestKubernetesSourceUsesScratchAgain: whatever was made in the scratch before, the policy is the
// same.
func TestKubernetesSourceUsesScratchAgain(t *testing.T) {
	var list []*networkingv1.NetworkPolicy
	for _, spec := range []string{
		`{podSelector: {}}`,
		`{podSelector: {matchExpressions: [{key: a, operator: In, values: [x, y]}, {key: b, operator: Exists}]}, policyTypes: [Egress, Ingress],
		  ingress: [{from: [{podSelector: {matchLabels: {a: b}}, namespaceSelector: {matchExpressions: [{key: c, operator: Exists}]}}, {ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 1}, {port: x, protocol: UDP}]},
		            {from: [{podSelector: {}}], ports: [{port: 2, endPort: 3}]}],
		  egress: [{to: [{namespaceSelector: {}}]}, {}, {}]}`,
		`{podSelector: {matchLabels: {c: d}}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}, {podSelector: {}}]}], egress: [{ports: [{}]}]}`,
		`{podSelector: {matchExpressions: [{key: z, operator: DoesNotExist}]}, ingress: [{}], policyTypes: [Ingress]}`,
	} {
		list = append(list, decode[networkingv1.NetworkPolicy](t, "{metadata: {name: k, namespace: a, uid: u}, spec: "+spec+"}"))
	}
	var scratch policy.Policy
	for i := range list {
		for j := range list {
			(*KubernetesSource)(list[i]).Policy(&scratch)
			got := (*KubernetesSource)(list[j]).Policy(&scratch)
			if diff := cmp.Diff(KubernetesNetworkPolicy(list[j]), *got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%d after %d\n%s", j, i, diff)
			}
		}
	}
}

// TestAddressesHaveSixteenBytes: agents tell members apart by these bytes.
func TestAddressesHaveSixteenBytes(t *testing.T) {
	m := GroupMember(policy.AddressGroup, &policy.Member{EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "n", Name: "p"}, IPs: addresses("10.0.0.1", "2001:db8::1")})
	v4 := v1beta2.IPAddress{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}
	want(t, v4, m.IPs[0])
	want(t, 16, len(m.IPs[1]))
	p := ComputedPolicy(&policy.ComputedPolicy{Rules: []policy.ComputedRule{policy.NewRule(policy.RuleContent{Direction: policy.Ingress}, policy.ComputedPeer{
		IPBlocks: []policy.CIDRBlock{{CIDR: netip.MustParsePrefix("10.0.0.5/24")}},
	}, nil)}})
	block := p.Rules[0].From.IPBlocks[0].CIDR
	want(t, int32(24), block.PrefixLength)
	want(t, byte(5), block.IP[15])
	if p.Rules[0].Action != nil {
		t.Error("a rule without action has one on the wire")
	}
}

// TestHostOfAnotherNamespace: a user with the right to write ExternalEntities in a Namespace must
// not reach the agents of others.
func TestHostOfAnotherNamespace(t *testing.T) {
	for host, want1 := range map[string]string{"b/web": "", "cloud/ns/account": "cloud/ns/account", "a/web": "a/web", "web": "web", "/web": "", "": ""} {
		e, errs := ExternalEntity(&v1alpha2.ExternalEntity{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "e"}, Spec: v1alpha2.ExternalEntitySpec{ExternalNode: host}})
		want(t, want1, e.Host)
		if refused := len(errs) == 1 && errs[0].Field == "spec.externalNode" && errs[0].Value == host; refused != (host != want1) {
			t.Errorf("%q: %v", host, errs)
		}
	}
}
