package nodecmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

var now = time.Unix(1e9, 0)

// cluster has a Node that is well, one that has trouble, one whose network another plugin makes,
// one whose agent says nothing any more, and one without an agent.
func cluster(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	var all []client.Object
	add := func(name string, s *network.Status, heard time.Time) {
		all = append(all, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		info := &v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: name}, NodeRef: v1beta1.ObjectReference{Kind: "Node", Name: name}, LocalPodNum: 2,
			AgentConditions: []v1beta1.AgentCondition{{Type: v1beta1.AgentHealthy, Status: metav1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(heard)}}}
		if s != nil {
			text, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			info.Annotations = map[string]string{cloudv1.AnnotationNetwork: string(text)}
		}
		all = append(all, info)
	}
	usage := func(used int) []network.Usage {
		return []network.Usage{{Range: netip.MustParsePrefix("10.244.1.0/24"), Used: used, Addresses: 254}}
	}
	add("well", &network.Status{Mode: network.Encap, MTU: 1450, Tunnels: 3, Ranges: usage(2)}, now)
	add("sealed", &network.Status{Mode: network.PolicyOnly, MTU: 1440, Encrypted: &network.Encrypted{Encryption: network.ByWireGuard, Nodes: 3, Port: 51820, InAgent: true}}, now)
	add("ill", &network.Status{Mode: network.Hybrid, MTU: 1450, Direct: 1, Ranges: usage(40), Problems: []string{"somebody else routes 10.0.0.0/8"}, Error: "the kernel has no VXLAN"}, now)
	add("beside", nil, now)
	add("silent", nil, now.Add(-time.Hour))
	all = append(all, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bare"}})
	for _, name := range []string{"a", "b"} {
		all = append(all, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Spec: corev1.PodSpec{NodeName: "well"},
			Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.244.1.7"}}}})
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
}

func run(t *testing.T, c client.Client, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := Command(Needs{Register: func(*pflag.FlagSet) {}, Client: func() (client.Client, error) { return c, nil }, Now: func() time.Time { return now }})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestList(t *testing.T) {
	got, err := run(t, cluster(t), "list")
	want := `NODE    MODE               MTU   VXLAN  DIRECT  ENCRYPTED  PODS  ADDRESSES  HEALTH
beside  networkPolicyOnly  -     -      -       -          2     -          ok
ill     hybrid             1450  0      1       -          2     40/254     somebody else routes 10.0.0.0/8 (and 1 more: nephele node check ill)
sealed  networkPolicyOnly  1440  0      0       3          2     -          ok
silent  networkPolicyOnly  -     -      -       -          2     -          its agent has said nothing for 1h0m0s
well    encap              1450  3      0       -          2     2/254      ok
`
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	var list []Node
	if got, err := run(t, cluster(t), "list", "-o", "json"); err != nil || json.Unmarshal([]byte(got), &list) != nil || len(list) != 5 || list[4].Network.MTU != 1450 {
		t.Errorf("%v %s", err, got)
	}
}

func TestCheck(t *testing.T) {
	for node, c := range map[string]struct {
		wrong bool
		want  []string
	}{
		"well":   {false, []string{"ok    mode encap, MTU of Pods 1450, 3 Nodes by VXLAN", "ok    10.244.1.0/24: 2 addresses are used, and 2 Pods have one"}},
		"ill":    {true, []string{"FAIL  somebody else routes", "FAIL  the kernel has no VXLAN", "FAIL  10.244.1.0/24: 40 addresses are used, and 0 Pods have one"}},
		"sealed": {false, []string{"ok    another CNI plugin", "ok    3 Nodes are reached by WireGuard (wireguard), UDP port 51820; encrypted by the agent, because the kernel has no WireGuard"}},
		"beside": {false, []string{"ok    another CNI plugin"}},
		"silent": {true, []string{"FAIL  its agent has said nothing for 1h0m0s"}},
		"bare":   {true, []string{"FAIL  no agent has told anything of Node bare"}},
	} {
		got, err := run(t, cluster(t), "check", node)
		if errors.Is(err, terminal.ErrNo) != c.wrong {
			t.Errorf("%s: %v\n%s", node, err, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not in\n%s", node, want, got)
			}
		}
	}
	if _, err := run(t, cluster(t), "check", "nobody"); err == nil || errors.Is(err, terminal.ErrNo) {
		t.Errorf("of a Node that is not there: %v", err)
	}
}

// TestParse: an agent is believed what can be.
func TestParse(t *testing.T) {
	for _, text := range []string{"", "{}", `{"mode":"geneve"}`, `{"mode":7}`, strings.Repeat(" ", statusLimit+1)} {
		if err := parse(text, &network.Status{}); err == nil {
			t.Errorf("%.20q is taken", text)
		}
	}
	if err := parse(`{"mode":"encap","later":1}`, &network.Status{}); err != nil {
		t.Error(err)
	}
}
