package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/adopt"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/reach"
)

func newFromGroupsCommand() *cobra.Command {
	var f struct {
		files    []string
		snapshot string
		of       string
		priority float64
	}
	c := &cobra.Command{
		Use:   "from-groups -f FILE_OR_DIR... --snapshot FILE_OR_DIR [--of WHO]",
		Short: "Write the security groups that machines have as policies to start from",
		Long: `From-groups writes the security groups of virtual machines as policies that allow the same: one for the machines of a
namespace with the same groups, in which members of groups become selectors where that means the same. The manifests hold
the account and the selectors that import the machines; the snapshot describes the account as "nephele sim" takes it.

What a policy cannot say is left out, never widened, and told on the standard error. Before you apply the policies, see
with "nephele plan" that no flow opens or closes.

The exit code is 0 if the policies say all that the groups do, 1 if something is left out, 2 if they cannot be made.`,
		Example: "  nephele policy from-groups -f account.yaml --snapshot ./my-account > policies.yaml\n  nephele policy from-groups -f account.yaml --snapshot ./my-account --of shop/app=db",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(f.files) == 0 || f.snapshot == "" {
				return errors.New("-f and --snapshot are both needed: want the manifests of the account and the selectors, and the description of the account")
			}
			if f.priority < 1 || f.priority > 10000 {
				return fmt.Errorf("--priority %g: want a number from 1 to 10000", f.priority)
			}
			in, err := preview.LoadInputs(f.files, cmd.InOrStdin())
			if err != nil {
				return err
			}
			if err := source.AddSnapshot(cmd, in, f.snapshot); err != nil {
				return err
			}
			computed := preview.Compute(in)
			terminal.Notes(cmd, in.Notes)
			if err := terminal.Refused(cmd, in.Refused); err != nil {
				return err
			}
			chosen, err := chosenMachines(computed.Computed.World(true), f.of)
			if err != nil {
				return err
			}
			return printAdopted(cmd, adopted(in.Objects.Observed, chosen, f.priority))
		},
	}
	c.Flags().StringArrayVarP(&f.files, "filename", "f", nil, "file or directory with manifests, or - for the standard input; may be repeated")
	c.Flags().StringVar(&f.snapshot, "snapshot", "", "file or folder that describes the cloud account")
	c.Flags().StringVar(&f.of, "of", "any", "the machines to make policies for, as --to of reach")
	c.Flags().Float64Var(&f.priority, "priority", 100, "priority of the policies, in the tier application")
	return c
}

// chosenMachines are those that a text means.
func chosenMachines(w *explain.World, of string) (func(adopt.Machine) bool, error) {
	p, err := w.Party("of", of)
	if err != nil {
		return nil, source.AboutFlag(err)
	}
	return func(m adopt.Machine) bool {
		return slices.ContainsFunc(w.Endpoints, func(e reach.Endpoint) bool {
			return e.Kind == policy.KindExternalEntity && e.Namespace == m.Entity.Namespace && e.EntityRef.Name == m.Entity.Name && p.Chosen != nil && p.Chosen(&e)
		})
	}, nil
}

// adopted makes the policies of all regions.
func adopted(accounts []input.Account, chosen func(adopt.Machine) bool, priority float64) adopt.Result {
	var out adopt.Result
	for _, a := range accounts {
		for _, s := range a.Snapshots {
			r := adopt.Groups(s, machinesIn(s, accounts), chosen, priority)
			out.Policies, out.LeftOut = append(out.Policies, r.Policies...), append(out.LeftOut, r.LeftOut...)
		}
	}
	return out
}

// machinesIn are the machines of a snapshot that entities stand for, sorted.
func machinesIn(s *cloud.Snapshot, accounts []input.Account) []adopt.Machine {
	here := map[string]bool{}
	for i := range s.VMs {
		here[s.VMs[i].ID] = true
	}
	var out []adopt.Machine
	for _, a := range accounts {
		for name, vm := range a.VMs {
			if here[vm.VMID] {
				out = append(out, adopt.Machine{Entity: name, ID: vm.VMID})
			}
		}
	}
	slices.SortFunc(out, func(a, b adopt.Machine) int { return strings.Compare(a.Entity.String(), b.Entity.String()) })
	return out
}

// printAdopted prints the policies, and on the standard error what they lack.
func printAdopted(cmd *cobra.Command, r adopt.Result) error {
	for _, left := range r.LeftOut {
		fmt.Fprintf(cmd.ErrOrStderr(), "left out: %s\n", terminal.Printable(left.String()))
	}
	for _, p := range r.Policies {
		if err := printManifest(cmd.OutOrStdout(), p); err != nil {
			return err
		}
	}
	if len(r.LeftOut) > 0 {
		return terminal.ErrNo
	}
	return nil
}

// printManifest prints a policy as people write it: without a status.
func printManifest(out io.Writer, p *v1beta1.NetworkPolicy) error {
	raw, err := yaml.Marshal(struct {
		APIVersion string                    `json:"apiVersion"`
		Kind       string                    `json:"kind"`
		Metadata   map[string]string         `json:"metadata"`
		Spec       v1beta1.NetworkPolicySpec `json:"spec"`
	}{p.APIVersion, p.Kind, map[string]string{"name": p.Name, "namespace": p.Namespace}, p.Spec})
	if err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	_, err = fmt.Fprintf(out, "---\n%s", raw)
	return err
}
