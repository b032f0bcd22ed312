//go:build linux

package agentcmd

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/network"
)

// TestUnchainedStaysOut: a running agent does not put back a plugin that was taken out.
func TestUnchainedStaysOut(t *testing.T) {
	dir := t.TempDir()
	list, program := filepath.Join(dir, "10-net.conflist"), filepath.Join(dir, "program")
	for path, text := range map[string]string{list: `{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"}]}`, program: "x"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	in := func() bool {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), cni.Type)
	}
	c := &chaining{log: logr.Discard(), to: cni.Installation{ConfDir: dir, BinDir: t.TempDir(), Program: program, Entry: cni.Entry{Type: cni.Type, Socket: "/s", WhenAgentIsAway: cni.Close}}}
	if c.once(); !in() || c.trouble() != "" {
		t.Fatalf("it is not chained: %s", c.trouble())
	}
	c.leave()
	if _, err := cni.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if c.once(); in() || !strings.Contains(c.trouble(), "taken out") {
			t.Errorf("it is put back, or nothing is told: %q", c.trouble())
		}
	}
}

// TestListOfItsOwn: the list with which the plugin makes the network is written when Pods can have
// addresses, kept as it is, told of where the runtime uses another one, and gone when it is taken
// out.
func TestListOfItsOwn(t *testing.T) {
	dir, program := t.TempDir(), filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, cni.ListName)
	notYet := errors.New("the Node has no podCIDR")
	c := &chaining{log: logr.Discard(), ready: func() error { return notYet }, to: cni.Installation{ConfDir: dir, BinDir: t.TempDir(), Program: program,
		Entry: cni.Entry{Type: cni.Type, Socket: "/s", WhenAgentIsAway: cni.Close, Network: true}}}
	if c.once(); !strings.Contains(c.trouble(), "no podCIDR") {
		t.Errorf("before there are addresses: %q", c.trouble())
	}
	if _, err := os.Stat(own); err == nil {
		t.Error("the Node is ready, and Pods have no addresses")
	}
	notYet = nil
	c.once()
	written, err := os.ReadFile(own)
	if err != nil || c.trouble() != "" || !strings.Contains(string(written), `"network": true`) {
		t.Fatalf("%s %v %q", written, err, c.trouble())
	}
	notYet = errors.New("the API server is away") // later the list stays
	for _, change := range []string{"", "{}"} {
		if err := os.WriteFile(own, []byte(change), 0o600); err != nil {
			t.Fatal(err)
		}
		c.once()
		if text, err := os.ReadFile(own); err != nil || string(text) != string(written) {
			t.Errorf("somebody has written %q, and it stays so: %s %v", change, text, err)
		}
	}
	other := filepath.Join(dir, "00-other.conflist")
	if err := os.WriteFile(other, []byte(`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if c.once(); !strings.Contains(c.trouble(), "two lists of CNI plugins") || !strings.Contains(c.trouble(), other) {
		t.Errorf("beside another list: %q", c.trouble())
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	if c.once(); c.trouble() != "" {
		t.Errorf("after the other one has gone: %q", c.trouble())
	}
	lists, err := cni.Remove(dir)
	if _, there := os.Stat(own); err != nil || len(lists) != 1 || there == nil {
		t.Errorf("taken out of %q, %v", lists, err)
	}
}

// TestNetworkFlags: what does not go together is refused before anything is done.
func TestNetworkFlags(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "--network-mode=encap": "", "--network-mode=noEncap --network-services=nephele --network-snat-except=10.0.0.0/8": "",
		"--network-mode=geneve":                             "geneve",
		"--network-mode=encap --network-mtu=10":             "MTU 10",
		"--network-services=nephele":                        "needs a --network-mode",
		"--network-mode=encap --network-services=ipvs":      "ipvs",
		"--network-mode=encap --network-snat-except=10.0.0": "snat-except",
	} {
		var f networkFlags
		flags := pflag.NewFlagSet("agent", pflag.ContinueOnError)
		f.register(flags)
		if err := flags.Parse(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.config(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// TestInfoTellsOfTheNetwork: the AntreaAgentInfo has the fields that Antrea's agents fill in, and
// what is wrong in its message.
func TestInfoTellsOfTheNetwork(t *testing.T) {
	info := &v1beta1.AntreaAgentInfo{}
	s := &agent.Status{State: agent.StateEnforcing, Server: agent.ServerStatus{Connected: true}, Pods: &agent.PodsStatus{Known: 7, Ranges: []string{"10.244.1.0/24"}},
		Network: &network.Status{Mode: network.Encap, MTU: 1450, Links: []network.Hop{{Link: "eth1", MTU: 1500}}, Local: netip.MustParseAddr("192.0.2.1"), Problems: []string{"podCIDR overlaps"}}}
	fillAgentInfo(info, s, "", "worker", metav1.Now())
	want := v1beta1.NetworkInfo{TransportInterface: "eth1", TransportInterfaceMTU: 1500, PodMTU: 1450, TransportInterfaceIPs: []string{"192.0.2.1"}}
	if info.LocalPodNum != 7 || len(info.NodeSubnets) != 1 || !reflect.DeepEqual(info.NetworkInfo, want) || !strings.Contains(info.Annotations[cloudv1alpha1.AnnotationNetwork], `"mode":"encap"`) {
		t.Errorf("%+v", info)
	}
	if c := info.AgentConditions[0]; c.Status != metav1.ConditionTrue || !strings.HasPrefix(c.Message, "the network of the Node: podCIDR overlaps; ") {
		t.Errorf("%+v", c)
	}
	// Also what is wrong with the plugin: another list, or a plugin of another version.
	s.Faults.Plugin = "there are two lists of CNI plugins"
	fillAgentInfo(info, s, "", "worker", metav1.Now())
	if text := info.Annotations[cloudv1alpha1.AnnotationNetwork]; !strings.Contains(text, "the CNI plugin: there are two lists") || !strings.Contains(info.AgentConditions[0].Message, "podCIDR overlaps; the CNI plugin: there are two lists") || len(s.Network.Problems) != 1 {
		t.Errorf("%s, %+v", text, info.AgentConditions[0])
	}
	s.Network = nil
	if fillAgentInfo(info, s, "", "worker", metav1.Now()); !reflect.DeepEqual(info.NetworkInfo, v1beta1.NetworkInfo{}) || info.Annotations[cloudv1alpha1.AnnotationNetwork] != "" {
		t.Errorf("of a network that is another plugin's: %+v", info)
	}
}
