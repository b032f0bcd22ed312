package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/cli/agentcmd"
	"github.com/nephele-io/nephele/internal/cli/auditcmd"
	"github.com/nephele-io/nephele/internal/cli/backupcmd"
	"github.com/nephele-io/nephele/internal/cli/checkcmd"
	"github.com/nephele-io/nephele/internal/cli/clustercmd"
	"github.com/nephele-io/nephele/internal/cli/computecmd"
	"github.com/nephele-io/nephele/internal/cli/consolecmd"
	"github.com/nephele-io/nephele/internal/cli/enrollcmd"
	"github.com/nephele-io/nephele/internal/cli/explaincmd"
	"github.com/nephele-io/nephele/internal/cli/flowscmd"
	"github.com/nephele-io/nephele/internal/cli/historycmd"
	"github.com/nephele-io/nephele/internal/cli/keyscmd"
	"github.com/nephele-io/nephele/internal/cli/nodecmd"
	"github.com/nephele-io/nephele/internal/cli/plancmd"
	"github.com/nephele-io/nephele/internal/cli/releasecmd"
	"github.com/nephele-io/nephele/internal/cli/rolecmd"
	"github.com/nephele-io/nephele/internal/cli/simcmd"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

// The exit codes.
const (
	ExitDone     = terminal.ExitDone
	ExitNo       = terminal.ExitNo
	ExitBadInput = terminal.ExitBadInput
)

// Streams are what a command reads from and prints to.
type Streams = terminal.Streams

// Main runs the command line and returns the exit code. The extra commands are added to the
// commands of NewRoot.
func Main(ctx context.Context, args []string, s Streams, extra ...*cobra.Command) int {
	root := NewRoot(extra...)
	return terminal.Run(ctx, root, calledBy(os.Args[0], root, args), s)
}

// NewRoot returns the root command with the commands that need no more than this package, and the
// extra ones, each in the place of one of the same name.
func NewRoot(extra ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "nephele",
		Short: "One policy language for everything that has an IP address",
		Long: `Nephele enforces Antrea and Kubernetes network policies where the workload lives: on cloud VMs through the security
groups of the cloud, with no agent.

Exit codes: 0 done; 1 the answer is "no", or something differs; 2 bad input or failure.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          terminal.NoSuchCommand,
	}
	// A flag of our own instead of cobra's: the template of that one keeps the linker from leaving
	// out methods that nothing calls.
	version := root.Flags().BoolP("version", "v", false, "version for nephele")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), built().Line("nephele"))
			return err
		}
		return cmd.Help()
	}
	root.SetFlagErrorFunc(terminal.NoSuchFlag)
	policy := &cobra.Command{
		Use:   "policy",
		Short: "Work with policies offline",
		Args:  terminal.NoSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	policy.AddCommand(computecmd.Command(), newFromGroupsCommand())
	root.AddCommand(
		policy,
		explaincmd.Command(),
		newReachCommand(),
		newRulesCommand(),
		newTestCommand(),
		plancmd.Command(),
		NewControllerCommand(),
		simcmd.Command(),
		newTakeOverCommand(),
		terminal.NewVersionCommand("nephele", built()),
	)
	root.AddCommand(newStatusCommand(), checkcmd.Command(checkNeeds()), newUninstallCommand(), newSupportCommand(), newPluginCommand(), historycmd.Command(historyNeeds()))
	root.AddCommand(flowscmd.Command(explaincmd.FlowsNeeds()), flowscmd.RecommendCommand(explaincmd.FlowsNeeds()))
	root.AddCommand(consolecmd.Command(consoleNeeds()), releasecmd.Command(releaseNeeds()))
	root.AddCommand(nodecmd.Command(nodeNeeds()), nodecmd.TraceCommand(nodeNeeds()), auditcmd.Command())
	root.AddCommand(rolecmd.Commands(terminal.Notes)...)
	root.AddCommand(agentcmd.Commands(Version())...)
	root.AddCommand(enrollcmd.Commands(source.NewClient)...)
	root.AddCommand(NewKeysCommand(nil))
	root.AddCommand(NewBackupCommands(nil)...)
	root.AddCommand(clustercmd.Commands(source.NewClient)...)
	for _, more := range extra { // in the place of one of the same name
		if of, _, err := root.Find([]string{more.Name()}); err == nil && of != root {
			root.RemoveCommand(of)
		}
		root.AddCommand(more)
	}
	completeValues(root)
	return root
}

// NewKeysCommand returns "keys". directory are the lists of keys in a data directory; nil if there
// are none.
func NewKeysCommand(directory func(dir string) ([]keyscmd.List, error)) *cobra.Command {
	return keyscmd.Command(keyscmd.Needs{Client: source.NewClient, Directory: directory, Now: time.Now})
}

// NewBackupCommands returns "backup" and "restore". With local they work on data directories, too.
func NewBackupCommands(local *backupcmd.Local) []*cobra.Command {
	return backupcmd.Commands(backupcmd.Needs{Client: source.NewClient, Version: Version(), Local: local})
}
