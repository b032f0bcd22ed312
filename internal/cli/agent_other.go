//go:build !linux

package cli

import "github.com/spf13/cobra"

// agentCommands are none where there is no nftables.
func agentCommands() []*cobra.Command { return nil }
