package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/internal/cloud"
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
	in, clouds, err := f.read(cmd)
	if err != nil {
		return nil, err
	}
	in.WithStaged = f.staged.with
	c := preview.Compute(in)
	if len(f.files) == 0 {
		for _, r := range in.Refused {
			in.Notes = append(in.Notes, "left out, as by the controller: "+r.String())
		}
		in.Refused = nil
	}
	notes(cmd, in.Notes)
	if err := reportRefused(cmd, in.Refused); err != nil {
		return nil, err
	}
	return c.World(clouds, f.asEnforced), nil
}

func (f *worldFlags) read(cmd *cobra.Command) (*preview.Inputs, explain.Clouds, error) {
	if len(f.files) == 0 {
		if f.snapshot != "" {
			return nil, explain.Clouds{}, errors.New("--snapshot needs -f: want the manifests of the account, the selectors and the policies")
		}
		client, err := f.cluster.client()
		if err != nil {
			return nil, explain.Clouds{}, err
		}
		in, err := readInputs(cmd.Context(), client)
		return in, explain.Clouds{}, err
	}
	in, err := preview.LoadInputs(f.files, cmd.InOrStdin())
	if err != nil || f.snapshot == "" {
		return in, explain.Clouds{}, err
	}
	clouds, err := readSnapshot(cmd, in, f.snapshot)
	return in, clouds, err
}

// readSnapshot adds what the selectors make of the accounts in a snapshot, and returns the clouds.
func readSnapshot(cmd *cobra.Command, in *preview.Inputs, path string) (explain.Clouds, error) {
	open, stop, err := simulate(cmd.Context(), in, path)
	if err != nil {
		return explain.Clouds{}, err
	}
	defer stop()
	if len(in.Accounts) == 0 {
		return explain.Clouds{}, errors.New("there is no CloudProviderAccount: it says which account and regions of the snapshot are meant")
	}
	p := &preview.Planner{In: in, ClusterID: preview.OfflineCluster, Lowerers: controller.LowererOf, Open: open, Close: stop}
	out := explain.Clouds{VMs: map[types.NamespacedName]explain.CloudVM{}}
	for _, a := range in.Accounts {
		o, err := p.Observe(cmd.Context(), a)
		if err != nil {
			return explain.Clouds{}, err
		}
		if len(o.Missing) > 0 {
			return explain.Clouds{}, errors.Join(o.Missing...)
		}
		in.ImportEntities(a, o)
		for _, r := range o.Regions {
			out.Snapshots = append(out.Snapshots, r.Snapshot)
			if ours := oursIn(r.Snapshot); ours > 0 {
				in.Notes = append(
					in.Notes,
					fmt.Sprintf("account %s, region %s: %d groups carry tags of Nephele: what machines with them had before is not in the snapshot, and told as Native",
						o.Key, r.Snapshot.Region, ours),
				)
			}
		}
		for name, ref := range o.Preview.Refs {
			vm := explain.CloudVM{ID: ref.VMID}
			if ref.Mode != "" {
				vm.Suspended = fmt.Sprintf("mode %s (%s)", ref.Mode, ref.ModeReason)
			}
			out.VMs[name] = vm
		}
	}
	return out, nil
}

// oursIn counts the groups of a snapshot that say they are ours.
func oursIn(s *cloud.Snapshot) int {
	n := 0
	for i := range s.Groups {
		if s.Groups[i].Tags[cloud.TagKind] != "" {
			n++
		}
	}
	return n
}
