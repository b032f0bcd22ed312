//go:build linux

package agentcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/internal/cli/terminal"
)

// TestAgentConfig reads the file that the package for hosts installs, and others.
func TestAgentConfig(t *testing.T) {
	shipped, err := os.ReadFile("../../../packaging/agent/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text  string
		flags []string
		want  agentFlags
		// kubeconfig is the cluster's.
		kubeconfig string
		wrong      string
	}{
		"as shipped": {text: string(shipped), kubeconfig: defaultAgentKubeconfig, want: agentFlags{stateDir: defaultAgentState, logFile: defaultAgentLog,
			logFormat: "json", metrics: defaultAgentMetrics, dnsService: defaultDNSService, recordFlows: true, failsafe: []string{}, probes: []string{}}},
		"a Node": {text: "node: w\npodCIDRs: [10.0.0.0/24]\n", flags: []string{"--pod-cidr", "10.1.0.0/24"},
			want: agentFlags{kubeNode: "w", podRanges: []string{"10.1.0.0/24"}, stateDir: defaultAgentState, logFile: defaultAgentLog, logFormat: "json", metrics: defaultAgentMetrics, dnsService: defaultDNSService, recordFlows: true}},
		"all of it": {text: "externalNode: vms/web\nkubeconfig: a\npolicyKubeconfig: b\nstateDir: c\nfailsafe: [in tcp 22 10.0.0.0/8]\nprobes: [tcp 10.0.0.1:1]\nkeepEstablished: true\nresolvers: [10.0.0.53]\ndnsService: dns/dns\nlogFile: ''\nlogFormat: antrea\nmetrics: '0'\nflows: false\n",
			kubeconfig: "a", want: agentFlags{node: "vms/web", server: "b", stateDir: "c", failsafe: []string{"in tcp 22 10.0.0.0/8"}, probes: []string{"tcp 10.0.0.1:1"}, resolvers: []string{"10.0.0.53"},
				keepEstablished: true, logFormat: "antrea", metrics: "0", dnsService: "dns/dns"}},
		"flags count before it": {text: "externalNode: vms/web\nfailsafe: [in tcp 22 10.0.0.0/8]\nlogFile: x\n", flags: []string{"--external-node", "vms/db", "--failsafe", "in udp 1 0.0.0.0/0", "--log-file", "y"},
			want: agentFlags{node: "vms/db", stateDir: defaultAgentState, failsafe: []string{"in udp 1 0.0.0.0/0"}, logFile: "y", logFormat: "json", metrics: defaultAgentMetrics, dnsService: defaultDNSService, recordFlows: true}},
		"a word that is none": {text: "externalnodes: vms/web\n", wrong: "externalnodes"},
		"a wrong type":        {text: "failsafe: yes\n", wrong: "failsafe"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "agent.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			f := agentFlags{}
			flags := pflag.NewFlagSet("agent", pflag.ContinueOnError)
			f.register(flags)
			if err := flags.Parse(append(c.flags, "--config", file)); err != nil {
				t.Fatal(err)
			}
			err := f.readConfig(flags)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), file) {
					t.Errorf("got %v, want an error that names the file and %s", err, c.wrong)
				}
				return
			}
			if f.config = ""; f.cluster.Kubeconfig != c.kubeconfig {
				t.Errorf("the kubeconfig is %q", f.cluster.Kubeconfig)
			}
			if d := cmp.Diff(c.want, f, cmp.AllowUnexported(agentFlags{}), cmpopts.IgnoreFields(agentFlags{}, "cluster", "cni", "network", "ownLogFormat")); err != nil || d != "" {
				t.Error(err, d)
			}
		})
	}
}

// TestUnits: what the units of the package for hosts start is a command with these flags, and the
// folders that it writes are those that they leave writable.
func TestUnits(t *testing.T) {
	for unit, use := range map[string]string{"nephele-agent.service": ProgramName, "nephele-agent-boot.service": "load"} {
		text, err := os.ReadFile("../../../packaging/agent/" + unit)
		if err != nil {
			t.Fatal(err)
		}
		_, line, found := strings.Cut(string(text), "ExecStart=/usr/bin/nephele-agent ")
		line, _, _ = strings.Cut(line, "\n")
		if !found {
			t.Fatalf("%s starts nothing", unit)
		}
		words := strings.Fields(line)
		cmd, rest, err := Program(terminal.Build{Version: "v1"}, nil).Find(words)
		if err != nil || cmd.Name() != use {
			t.Fatalf("%s: %q is %v, %v", unit, line, cmd, err)
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", unit, err)
		}
		if strings.Contains(string(text), "ProtectSystem=strict") {
			for directory, path := range map[string]string{"StateDirectory=nephele/agent": defaultAgentState, "LogsDirectory=nephele": filepath.Dir(defaultAgentLog), "RuntimeDirectory=nephele": filepath.Dir(defaultAgentSocket)} {
				if !strings.Contains(string(text), directory+"\n") || !strings.HasSuffix(path, strings.SplitN(directory, "=", 2)[1]) {
					t.Errorf("%s must leave %s writable by %s", unit, path, directory)
				}
			}
		}
	}
}
