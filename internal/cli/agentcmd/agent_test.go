//go:build linux

package agentcmd

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

func TestAgentQuestion(t *testing.T) {
	q, err := agentQuestion("", "2001:db8::1", "icmp", 0)
	if err != nil || !q.Egress || q.Protocol != 58 || q.Type != 128 || !q.Local.Is6() {
		t.Errorf("%+v, %v", q, err)
	}
	for _, bad := range [][3]string{{"", "", "tcp"}, {"10.0.0.1", "10.0.0.2", "tcp"}, {"web", "", "tcp"}, {"10.0.0.1", "", "gre"}, {"10.0.0.1", "", "tcp"}} {
		if q, err := agentQuestion(bad[0], bad[1], bad[2], 0); err == nil {
			t.Errorf("%q is taken for %+v", bad, q)
		}
	}
}

func TestAgentFlagsRefused(t *testing.T) {
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"--external-node":    {"agent", "--state-dir", dir},
		"NAMESPACE/NAME":     {"agent", "load", "--state-dir", dir, "--external-node", "a/b/c"},
		"failsafe flow":      {"agent", "load", "--state-dir", dir, "--external-node", "a/b", "--failsafe", "in tcp ssh ::/0"},
		"may not be running": {"agent", "status", "--socket", filepath.Join(dir, "none")},
		"--for":              {"agent", "release"},
		"unknown command":    {"agent", "stop"},
		"and not both":       {"agent", "load", "--state-dir", dir, "--external-node", "a/b", "--node", "w"},
		"name of a Node":     {"agent", "load", "--state-dir", dir, "--node", "a/b"},
	} {
		root := &cobra.Command{Use: "nephele", SilenceUsage: true, SilenceErrors: true}
		root.AddCommand(Commands("v1")...)
		root.SetArgs(args)
		if err := root.ExecuteContext(t.Context()); err == nil || errors.Is(err, terminal.ErrNo) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want something about %s", args, err, want)
		}
	}
}

func TestAgentStatusAndInfo(t *testing.T) {
	ssh, err := agent.ParseFailsafe("in tcp 22 10.0.0.0/8,fd00::/8")
	if err != nil {
		t.Fatal(err)
	}
	dhcp := nft.Failsafe{Name: "DHCP", Protocol: ruleset.UDP, SourcePort: 67, Port: 68, CIDRs: ssh.CIDRs}
	s := &agent.Status{Key: "vms/web", State: agent.StateFailing, Kernel: agent.KernelStatus{Error: "no room"}, Host: agent.HostStatus{Failsafe: []nft.Failsafe{ssh, dhcp}, Foreign: []string{"ufw"}}, Policies: []agent.PolicyState{
		{Policy: v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "vms", Name: "p"}, Generation: 2, Message: "because"},
	}}
	var b strings.Builder
	printAgentStatus(&b, s, terminal.Printable)
	for _, want := range []string{"vms/web: Failing", "vms/p generation 2: NOT enforced because", "trouble with kernel: no room", "failsafe, ingress: in tcp 22"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	info, now := &v1beta1.AntreaAgentInfo{APIPort: 7}, metav1.NewTime(time.Unix(1, 0))
	fillAgentInfo(info, s, "vms", "web", now)
	if c := info.AgentConditions[0]; c.Type != v1beta1.AgentHealthy || c.Status != metav1.ConditionFalse || c.Reason != "Failing" || c.LastHeartbeatTime != now {
		t.Errorf("%+v", c)
	}
	wantFlows := `[{"direction":"Ingress","protocol":"TCP","port":22,"cidrs":["10.0.0.0/8","fd00::/8"]}]`
	if a := info.Annotations; a[cloudv1alpha1.AnnotationHostFailsafe] != wantFlows || a[cloudv1alpha1.AnnotationForeignFilters] != "ufw" {
		t.Errorf("%q", a)
	}
	if info.APIPort != 7 || info.NodeRef.Name != "web" || info.NetworkPolicyControllerInfo.NetworkPolicyNum != 1 {
		t.Errorf("%+v", info)
	}
}

// TestAgentInfoTellsWhatIsPartial: what bears on enforcement is in the info, and where Pods evade
// policies the agent is not healthy.
func TestAgentInfoTellsWhatIsPartial(t *testing.T) {
	told := func(s *agent.Status, namespace string) (*v1beta1.AntreaAgentInfo, v1beta1.AgentCondition) {
		info := &v1beta1.AntreaAgentInfo{}
		fillAgentInfo(info, s, namespace, "web", metav1.Now())
		return info, info.AgentConditions[0]
	}
	info, c := told(&agent.Status{State: agent.StateKept, Host: agent.HostStatus{Forwards: []string{"IPv4", "IPv6"}, Foreign: []string{"ufw; what none of them decides it drops"}, ClockError: "late"}, Faults: agent.Faults{Store: "full"}}, "vms")
	for _, want := range []string{"the controller is away", "routes IPv4 and IPv6", "1 filters of others", "1 of them drop", "trouble with the clock", "trouble with disk"} {
		if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, want) {
			t.Errorf("%q is not in %+v", want, c)
		}
	}
	if got := info.Annotations[cloudv1alpha1.AnnotationForwards]; got != "IPv4,IPv6" {
		t.Errorf("forwards %q", got)
	}
	info, c = told(&agent.Status{State: agent.StateEnforcing, Host: agent.HostStatus{Evaded: 2, Foreign: []string{"ufw"}}, Pods: &agent.PodsStatus{NotEnforceable: []string{"n/p: a bridge"}}}, "")
	if c.Status != metav1.ConditionFalse || c.Reason != cloudv1alpha1.ReasonPartial || !strings.Contains(c.Message, "n/p: a bridge") {
		t.Errorf("%+v", c)
	}
	if got := info.Annotations[cloudv1alpha1.AnnotationForeignFilters]; got != "ufw" {
		t.Errorf("on a Node the filters of others are told as %q", got)
	}
}

// TestClocksThatDiffer: answers say by how much the host's clock is before the controller's.
func TestClocksThatDiffer(t *testing.T) {
	ahead := time.Now().Add(-time.Hour)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", ahead.UTC().Format(http.TimeFormat))
	}))
	defer server.Close()
	var s skew
	answer, err := (&http.Client{Transport: s.over(http.DefaultTransport)}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if got := s.get(); got < 50*time.Minute || got > 70*time.Minute {
		t.Errorf("%s", got)
	}
	s.heard(time.Now(), time.Now(), "yesterday")
	if got := s.get(); got < 50*time.Minute {
		t.Errorf("what is no time counts: %s", got)
	}
}

// TestAgentFindsTheServerBehindItsService: on a Node the failsafe flows lead to where the API
// server is, and not only to the address of its Service.
func TestAgentFindsTheServerBehindItsService(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{"name":"kubernetes"},"addressType":"IPv6","ports":[{"port":6443}],
			"endpoints":[{"addresses":["2001:db8::1"]},{"addresses":["2001:db8::2"]}]}`))
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '" + server.URL + "'}}]\ncontexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := agentFlags{kubeNode: "w", cluster: terminal.Cluster{Kubeconfig: kubeconfig}}
	got, err := f.servers()
	if want := []string{server.URL, server.URL, "https://[2001:db8::1]:6443", "https://[2001:db8::2]:6443"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	f.kubeNode = ""
	if got, err := f.servers(); err != nil || len(got) != 2 {
		t.Errorf("on a VM: %q, %v", got, err)
	}
}
