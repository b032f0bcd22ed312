package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/cli/agentcmd"
	"github.com/nephele-io/nephele/internal/cli/consolecmd"
	"github.com/nephele-io/nephele/internal/cli/releasecmd"
	"github.com/nephele-io/nephele/internal/cli/rolecmd"
)

// The exit codes.
const (
	ExitDone = 0
	// ExitNo: the answer is "no", or the state differs from the wanted one.
	ExitNo = 1
	// ExitBadInput: the input is wrong, or the command could not be carried out.
	ExitBadInput = 2
)

// ErrNo is what a command returns when it has printed its answer and the answer is "no". Nothing
// more is printed.
var ErrNo = errors.New("the answer is no")

// errRefused is what a command returns when it has printed its answer and said on standard error
// what was wrong.
var errRefused = errors.New("some of the input was refused")

// Streams are what a command reads from and prints to.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Main runs the command line and returns the exit code. The extra commands are added to those of
// NewRoot.
func Main(ctx context.Context, args []string, s Streams, extra ...*cobra.Command) int {
	root := NewRoot(extra...)
	root.SetArgs(calledBy(os.Args[0], root, args))
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, ErrNo):
		return ExitNo
	case errors.Is(err, errRefused):
		return ExitBadInput
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		fmt.Fprintf(s.Err, "error: %s\n", printable(line))
	}
	return ExitBadInput
}

// NewRoot returns the root command with the commands that need no more than this package, and the
// extra ones.
func NewRoot(extra ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "nephele",
		Short: "One policy language for everything that has an IP address",
		Long: `Nephele enforces Antrea and Kubernetes network policies where the workload lives: on cloud VMs through the security
groups of the cloud, with no agent.

Exit codes: 0 done; 1 the answer is "no", or something differs; 2 bad input or failure.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       buildVersion().String(),
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(noSuchFlag)
	root.SetVersionTemplate("{{.Version}}\n")
	policy := &cobra.Command{
		Use:   "policy",
		Short: "Work with policies offline",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	policy.AddCommand(newComputeCommand(), newFromGroupsCommand())
	root.AddCommand(
		policy,
		newExplainCommand(),
		newReachCommand(),
		newRulesCommand(),
		newTestCommand(),
		newPlanCommand(),
		NewControllerCommand(),
		NewSimCommand(),
		newTakeOverCommand(),
		newVersionCommand(),
	)
	root.AddCommand(newStatusCommand(), newCheckCommand(), newUninstallCommand(), newSupportCommand(), newPluginCommand(), newHistoryCommand())
	root.AddCommand(consolecmd.Command(consoleNeeds()), releasecmd.Command(releaseNeeds()))
	root.AddCommand(rolecmd.Commands(notes)...)
	root.AddCommand(agentcmd.Commands(agentNeeds())...)
	root.AddCommand(extra...)
	completeValues(root)
	return root
}

// noSuchCommand refuses arguments of a command that only has commands below it, and says which of
// these may have been meant.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return errors.New(text)
}

// notes prints remarks for people to standard error.
func notes(cmd *cobra.Command, lines []string) {
	for _, n := range lines {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", printableLines(n))
	}
}
