package agentcmd

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// agentConfig is what a file says in the place of flags.
type agentConfig struct {
	ExternalNode     string   `json:"externalNode,omitempty"`
	Node             string   `json:"node,omitempty"`
	PodCIDRs         []string `json:"podCIDRs,omitempty"`
	Kubeconfig       string   `json:"kubeconfig,omitempty"`
	PolicyKubeconfig string   `json:"policyKubeconfig,omitempty"`
	StateDir         string   `json:"stateDir,omitempty"`
	Failsafe         []string `json:"failsafe,omitempty"`
	Probes           []string `json:"probes,omitempty"`
	Resolvers        []string `json:"resolvers,omitempty"`
	DNSService       *string  `json:"dnsService,omitempty"`
	KeepEstablished  *bool    `json:"keepEstablished,omitempty"`
	LogFile          *string  `json:"logFile,omitempty"`
	LogFormat        string   `json:"logFormat,omitempty"`
	Metrics          string   `json:"metrics,omitempty"`
	Flows            *bool    `json:"flows,omitempty"`
	Forwarded        *bool    `json:"forwarded,omitempty"`
}

// readConfig takes from the file what no flag says. What a command has no flag for does not concern
// it.
func (f *agentFlags) readConfig(flags *pflag.FlagSet) error {
	if f.config == "" {
		return nil
	}
	text, err := os.ReadFile(f.config)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	var c agentConfig
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return fmt.Errorf("--config %s: %w", f.config, err)
	}
	for _, t := range []struct {
		flag, value string
		into        *string
	}{
		{"external-node", c.ExternalNode, &f.node}, {"node", c.Node, &f.kubeNode}, {"kubeconfig", c.Kubeconfig, &f.cluster.Kubeconfig}, {"policy-kubeconfig", c.PolicyKubeconfig, &f.server},
		{"state-dir", c.StateDir, &f.stateDir}, {"log-format", c.LogFormat, &f.logFormat}, {"metrics", c.Metrics, &f.metrics},
	} {
		if t.value != "" && !flags.Changed(t.flag) {
			*t.into = t.value
		}
	}
	if c.LogFile != nil && !flags.Changed("log-file") {
		f.logFile = *c.LogFile
	}
	if c.DNSService != nil && !flags.Changed("dns-service") {
		f.dnsService = *c.DNSService
	}
	if c.KeepEstablished != nil && !flags.Changed("keep-established") {
		f.keepEstablished = *c.KeepEstablished
	}
	if c.Forwarded != nil && !flags.Changed("forwarded") {
		f.forwarded = *c.Forwarded
	}
	if c.Flows != nil && !flags.Changed("flows") {
		f.recordFlows = *c.Flows
	}
	if !flags.Changed("pod-cidr") {
		f.podRanges = c.PodCIDRs
	}
	if !flags.Changed("failsafe") {
		f.failsafe = c.Failsafe
	}
	if !flags.Changed("resolver") {
		f.resolvers = c.Resolvers
	}
	if !flags.Changed("probe") {
		f.probes = c.Probes
	}
	return nil
}
