package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview"
)

// worldFlags say what questions about everybody are answered from.
type worldFlags struct {
	files      []string
	snapshot   string
	asEnforced bool
	staged     stagedFlags
	cluster    clusterFlags
}

func (f *worldFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "file or directory with manifests, or - for the standard input; may be repeated")
	flags.StringVar(&f.snapshot, "snapshot", "", "with -f: file or folder that describes the cloud account; machines and their own security groups are read from it")
	flags.BoolVar(&f.asEnforced, "as-enforced", false, "answer as if policies were enforced on all machines, whatever their mode")
	f.staged.register(flags)
	f.cluster.Register(flags)
	f.cluster.registerLocal(flags)
}

// world reads and computes.
func (f *worldFlags) world(cmd *cobra.Command) (*explain.World, error) {
	in, err := f.read(cmd)
	if err != nil {
		return nil, err
	}
	in.Objects.WithStaged = f.staged.with
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
		client, err := f.cluster.client()
		if err != nil {
			return nil, err
		}
		return readInputs(cmd.Context(), client)
	}
	in, err := preview.LoadInputs(f.files, cmd.InOrStdin())
	if err != nil || f.snapshot == "" {
		return in, err
	}
	return in, readSnapshot(cmd, in, f.snapshot)
}

// readSnapshot adds the accounts in a snapshot, and what the selectors make of them.
func readSnapshot(cmd *cobra.Command, in *preview.Inputs, path string) error {
	open, stop, err := simulate(cmd.Context(), in, path)
	if err != nil {
		return err
	}
	defer stop()
	if len(in.Objects.Accounts) == 0 {
		return errors.New("there is no CloudProviderAccount: it says which account and regions of the snapshot are meant")
	}
	p := &preview.Planner{In: in, ClusterID: preview.OfflineCluster, Lowerers: controller.LowererOf, Open: open, Close: stop}
	var read preview.ObservedAccounts
	for _, a := range in.Objects.Accounts {
		o, err := p.Observe(cmd.Context(), a)
		if err != nil {
			return err
		}
		if len(o.Missing) > 0 {
			return errors.Join(o.Missing...)
		}
		in.ImportEntities(a, o)
		read = append(read, o)
	}
	in.KnowClouds(read)
	return nil
}
