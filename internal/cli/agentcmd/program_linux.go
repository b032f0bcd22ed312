package agentcmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/cli/terminal"
)

// ProgramName is that of the program for hosts.
const ProgramName = "nephele-agent"

// Commands are the commands of hosts as commands of nephele of a version.
func Commands(version string) []*cobra.Command { return []*cobra.Command{agentCommand(version)} }

// Program is the agent as a program of its own: "nephele-agent status" is "nephele agent status".
func Program(v terminal.Build) *cobra.Command {
	root := agentCommand(v.Version)
	root.Use = ProgramName
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(terminal.NoSuchFlag)
	root.AddCommand(terminal.NewVersionCommand(ProgramName, v))
	for _, cmd := range append(root.Commands(), root) {
		cmd.Long, cmd.Example = named(cmd.Long), named(cmd.Example)
	}
	return root
}

// named makes a text about the commands of nephele one about those of the program.
func named(text string) string { return strings.ReplaceAll(text, "nephele agent", ProgramName) }
