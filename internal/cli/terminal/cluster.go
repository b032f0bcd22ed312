package terminal

import (
	"errors"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster are the flags that say which cluster a command is about.
type Cluster struct{ Kubeconfig, Context string }

// Register adds the flags.
func (c *Cluster) Register(flags *pflag.FlagSet) {
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster (default: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&c.Context, "context", "", "context of the kubeconfig file to use")
}

// Config is what the flags lead to, read anew each time.
func (c *Cluster) Config() (*rest.Config, error) {
	cfg, _, err := c.Named()
	return cfg, err
}

// Named returns the configuration with the name of its context.
func (c *Cluster) Named() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	found := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.Context})
	cfg, err := found.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", errors.New("no kubeconfig is found: give --kubeconfig FILE or set KUBECONFIG (\"nephele up\" writes kubeconfig into its data directory)")
	}
	name := c.Context
	if raw, err := found.RawConfig(); err == nil && name == "" {
		name = raw.CurrentContext
	}
	return cfg, name, err
}
