package cli

import "github.com/spf13/cobra"

func newExplainCommand() *cobra.Command { return &cobra.Command{Use: "explain"} }
