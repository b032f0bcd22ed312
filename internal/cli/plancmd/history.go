package plancmd

import (
	"bytes"

	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/platform/egress"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// HistoryPlanner plans for the cluster with one more manifest.
type HistoryPlanner struct {
	source.ClusterFlags
	access source.AccessFlags
	all    bool
}

// Register adds the flags.
func (p *HistoryPlanner) Register(flags *pflag.FlagSet) {
	p.ClusterFlags.Register(flags)
	p.access.Register(flags, egress.Loopback)
	flags.BoolVar(&p.all, "all", false, "name all that is changed, in place of some and a number")
}

// Plan is "nephele plan -f -".
func (p *HistoryPlanner) Plan(cmd *cobra.Command, manifest []byte) error {
	sub := &cobra.Command{Use: cmd.Use}
	sub.SetContext(cmd.Context())
	sub.SetIn(bytes.NewReader(manifest))
	sub.SetOut(cmd.OutOrStdout())
	sub.SetErr(cmd.ErrOrStderr())
	return runPlan(sub, &planFlags{files: []string{"-"}, cluster: p.ClusterFlags, access: p.access, all: p.all})
}
