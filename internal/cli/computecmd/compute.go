package computecmd

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/preview"
)

// Command is "policy compute".
func Command() *cobra.Command {
	var files []string
	var key, output string
	c := &cobra.Command{
		Use:   "compute -f FILE_OR_DIR... [--node KEY] [-o json|yaml]",
		Short: "Compute policies from manifests, as enforcers would receive them",
		Long: `Compute reads Namespaces, Pods, Nodes, ExternalEntities, groups, tiers and policies from manifests and prints the policies
and groups that the controller would compute from them, and what it would refuse.

The part "span" has an entry for every enforcer key (the Node of a Pod, the externalNode of an ExternalEntity). Without
--node it holds what a LIST with that key returns, which like that of the Antrea Controller is everything. With --node KEY
the lists of policies and groups are what a WATCH with that key is given, and "span" has that key only. A policy that
concerns the key is there whole, so are the address groups that it refers to, with all their members; of its applied-to
groups those that have members of the key are there, with these members only. What was refused is listed whole, also where
it would not concern the key.

Manifests are taken as if they were applied in their order, with two exceptions: a policy may come before its Tier, and
Namespaces that no manifest defines are supposed to exist. Applied for real, a policy whose Tier does not exist yet is refused.

The exit code is 2 if an object was refused; the rest is computed and printed all the same.`,
		Example: "  nephele policy compute -f policies/ -f inventory.yaml -o json\n  nephele policy compute -f all.yaml --node cloud/prod/aws-main -o yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return fmt.Errorf("-f is missing: want a file or directory with manifests, or - for the standard input")
			}
			if output != "json" && output != "yaml" {
				return fmt.Errorf("--output %q: want json or yaml", output)
			}
			in, err := preview.LoadInputs(files, cmd.InOrStdin())
			if err != nil {
				return err
			}
			out, err := computeOutput(preview.Compute(in), key)
			terminal.Notes(cmd, in.Notes)
			if err != nil {
				return err
			}
			if err := terminal.PrintValue(cmd.OutOrStdout(), output, out); err != nil {
				return err
			}
			return terminal.Refused(cmd, in.Refused)
		},
	}
	c.Flags().StringArrayVarP(&files, "filename", "f", nil, "file or directory with manifests, or - for the standard input; may be repeated")
	c.Flags().StringVar(&key, "node", "", "enforcer key: print what a watch with this key is given")
	c.Flags().StringVarP(&output, "output", "o", "json", "json or yaml")
	return c
}

// computeOutput publishes what was computed and reads it back as enforcers do.
func computeOutput(c *preview.Computation, key string) (computedOutput, error) {
	store := watchstore.New(watchstore.Options{})
	store.Publish(convert.Delta(c.Computed.Delta))
	v, err := preview.ViewOf(store, key)
	if err != nil {
		return computedOutput{}, err
	}
	out := outputOf(v, c.In.Refused)
	if key != "" {
		out.Span[key] = spanOf(v)
		return out, nil
	}
	for _, k := range keysOf(c) {
		out.Span[k] = spanOf(v)
	}
	return out, nil
}

// keys are the enforcers of the entities.
func keysOf(c *preview.Computation) []string {
	var keys []string
	for _, e := range c.Computed.Ends {
		if e.Host != "" {
			keys = append(keys, e.Host)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
