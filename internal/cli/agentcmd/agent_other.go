//go:build !linux

package agentcmd

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/cli/terminal"
)

// Commands are none where there is no nftables.
func Commands(string) []*cobra.Command { return nil }

// Sealing is nothing where there is no agent.
type Sealing any

// Program is of no use where there is no nftables.
func Program(terminal.Build, Sealing) *cobra.Command {
	return &cobra.Command{Use: "nephele-agent", SilenceUsage: true, SilenceErrors: true, RunE: func(*cobra.Command, []string) error {
		return errors.New("the agent needs nftables, which Linux has")
	}}
}
