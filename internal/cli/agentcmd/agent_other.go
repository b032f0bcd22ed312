//go:build !linux

package agentcmd

import "github.com/spf13/cobra"

// agentCommands are none where there is no nftables.
func agentCommands(Needs) []*cobra.Command { return nil }
