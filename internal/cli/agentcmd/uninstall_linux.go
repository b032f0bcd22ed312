package agentcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/enforcer"
)

const (
	// defaultAgentConfig is the file that a package installs.
	defaultAgentConfig = "/etc/nephele/agent.yaml"
	// farewellLimit bounds the time in which the controller is informed that nothing is enforced
	// any more.
	farewellLimit = 10 * time.Second
	// stateUninstalled is what the controller is reported.
	stateUninstalled agent.State = "Uninstalled"
	// uninstalledText is the message that goes with it.
	uninstalledText = "uninstalled from the host: nothing is enforced there"
)

func newAgentUninstallCommand(version string) *cobra.Command {
	f := agentFlags{version: version}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the rules and what was kept; nothing is enforced on this host from then on",
		Long: `Remove the rules and what was kept; nothing is enforced on this host from then on. The controller is told so, as a failure
of every policy, if it can be reached within ten seconds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := os.Stat(defaultAgentConfig); err == nil && f.config == "" {
				f.config = defaultAgentConfig
			}
			if err := f.readConfig(cmd.Flags()); err != nil {
				return err
			}
			unlock, err := lockState(f.stateDir)
			if err != nil {
				return fmt.Errorf("%w: stop it first", err)
			}
			defer unlock()
			table, err := kernel.Open(kernel.DefaultTable)
			if err != nil {
				return err
			}
			if err := table.Delete(); errors.Is(err, kernel.ErrOwned) {
				return fmt.Errorf("%w: stop it first", err)
			} else if err != nil {
				return err
			}
			store, err := disk.Open(f.stateDir)
			if err != nil {
				return err
			}
			kept, err := store.Load()
			if err == nil && kept != nil {
				err = f.farewell(cmd.Context(), kept)
			}
			if err != nil { // it is uninstalled all the same
				fmt.Fprintf(cmd.ErrOrStderr(), "The controller does not know that nothing is enforced here any more, until it misses signs of life: %v\n", err)
			}
			return store.Remove()
		},
	}
	f.cluster.Register(cmd.Flags())
	cmd.Flags().StringVar(&f.server, "policy-kubeconfig", "", "kubeconfig file that leads to the server of computed policies, if that is not the cluster's own API server")
	cmd.Flags().StringVar(&f.config, "config", "", "YAML file of the agent (default: "+defaultAgentConfig+", if it is there)")
	cmd.Flags().StringVar(&f.stateDir, "state-dir", defaultAgentState, "directory for what was enforced last")
	return cmd
}

// farewell tells the controller that what was kept is not enforced any more.
func (f *agentFlags) farewell(ctx context.Context, kept *disk.State) error {
	ctx, cancel := context.WithTimeout(ctx, farewellLimit)
	defer cancel()
	policies, err := enforcer.NewClient(enforcer.ClientOptions{Config: f.policies})
	if err != nil {
		return err
	}
	if f.node, f.kubeNode = kept.Key, ""; !strings.Contains(kept.Key, "/") {
		f.node, f.kubeNode = "", kept.Key
	}
	var told skew
	err = agentInfo(f, &told)(ctx, &agent.Status{Key: kept.Key, State: stateUninstalled, Kernel: agent.KernelStatus{Error: uninstalledText}})
	if errors.Is(err, agent.ErrNoInfo) {
		err = nil
	}
	if kept.Computed == nil {
		return err
	}
	for _, p := range kept.Computed.Policies {
		n := v1beta2.NetworkPolicyNodeStatus{NodeName: kept.Key, Generation: p.Generation, RealizationFailure: true, Message: uninstalledText}
		said := policies.Report(ctx, &v1beta2.NetworkPolicyStatus{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Nodes: []v1beta2.NetworkPolicyNodeStatus{n}})
		if err = cmp.Or(err, said); ctx.Err() != nil {
			return err
		}
	}
	return err
}
