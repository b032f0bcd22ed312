package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview"
)

// worldFlags say what questions about everybody are answered from.
type worldFlags struct {
	files      []string
	snapshot   string
	asEnforced bool
	staged     source.StagedFlags
	cluster    source.ClusterFlags
}

func (f *worldFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "file or directory with manifests, or - for the standard input; may be repeated")
	flags.StringVar(&f.snapshot, "snapshot", "", "with -f: file or folder that describes the cloud account; machines and their own security groups are read from it")
	flags.BoolVar(&f.asEnforced, "as-enforced", false, "answer as if policies were enforced on all machines, whatever their mode")
	f.staged.Register(flags)
	f.cluster.Register(flags)
	f.cluster.RegisterLocal(flags)
}

// world reads and computes.
func (f *worldFlags) world(cmd *cobra.Command) (*explain.World, error) {
	in, err := f.read(cmd)
	if err != nil {
		return nil, err
	}
	in.Objects.WithStaged = f.staged.With
	c := preview.Compute(in)
	if len(f.files) == 0 {
		for _, r := range in.Refused {
			in.Notes = append(in.Notes, "left out, as by the controller: "+r.String())
		}
		in.Refused = nil
	}
	terminal.Notes(cmd, in.Notes)
	if err := terminal.Refused(cmd, in.Refused); err != nil {
		return nil, err
	}
	return c.Computed.World(f.asEnforced), nil
}

func (f *worldFlags) read(cmd *cobra.Command) (*preview.Inputs, error) {
	if len(f.files) == 0 {
		if f.snapshot != "" {
			return nil, errors.New("--snapshot needs -f: want the manifests of the account, the selectors and the policies")
		}
		client, err := f.cluster.ClientOrFiles()
		if err != nil {
			return nil, err
		}
		return source.Inputs(cmd.Context(), client)
	}
	in, err := preview.LoadInputs(f.files, cmd.InOrStdin())
	if err != nil || f.snapshot == "" {
		return in, err
	}
	return in, source.AddSnapshot(cmd, in, f.snapshot)
}

// asksController reports whether the question is one about the cluster as it is.
func (f *worldFlags) asksController() bool {
	return len(f.files) == 0 && f.snapshot == "" && !f.asEnforced && !f.staged.With && !f.cluster.Local
}
