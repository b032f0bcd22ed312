package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/generated/crd"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/uninstall"
)

func newUninstallCommand() *cobra.Command {
	var cluster source.ClusterFlags
	var o uninstall.Options
	var yes bool
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Give everything back, then remove Nephele from the cluster",
		Long: `Give everything back, then remove Nephele from the cluster, in this order: every account is released, so that all VMs have their
own security groups again and nothing of Nephele is left in the cloud; the controller is stopped; webhooks and API registrations,
admission policies, definitions with their objects, and at last roles and the like are removed.

It stops when an account is not released, and says which and why; nothing else is removed then. What was interrupted goes on when it
is run again. Definitions of policies (crd.antrea.io) and the policies stay unless --policies is given: Antrea uses the same.

Without --yes it only says what it would do.

Exit codes: 0 done, or shown; 1 somebody has to do something first; 2 bad input or failure.`,
		Example: `  nephele uninstall
  nephele uninstall --yes
  nephele uninstall --yes --policies`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if yes && o.DryRun {
				return errors.New("--dry-run and --yes: give one of them")
			}
			names, err := definitionNames()
			if err != nil {
				return err
			}
			if o.Client, err = cluster.Client(); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			o.Clock, o.Definitions, o.DryRun = clock.RealClock{}, names, !yes
			o.Tell = func(format string, args ...any) { fmt.Fprintln(out, terminal.Printable(fmt.Sprintf(format, args...))) }
			if o.DryRun {
				fmt.Fprintln(out, "This would be done, in this order:")
			}
			err = uninstall.Run(cmd.Context(), o)
			var stuck *uninstall.Stuck
			switch {
			case errors.As(err, &stuck):
				fmt.Fprintln(out, terminal.Folded("stopped: ", "  ", terminal.Printable(stuck.Reason)))
				fmt.Fprintln(out, terminal.Folded("to do: ", "  ", terminal.Printable(stuck.Do)))
				return terminal.ErrNo
			case errors.Is(err, uninstall.ErrAllInOne):
				fmt.Fprintln(out, "all else is in the data directory of nephele up, and goes with it: stop that (Ctrl-C), and remove the directory")
				if o.DryRun {
					fmt.Fprintln(out, "\nNothing was changed. To do it: nephele uninstall --yes")
				}
			case err != nil:
				return err
			case o.DryRun:
				fmt.Fprintln(out, "\nNothing was changed. To do it: nephele uninstall --yes")
			case o.ReleaseOnly:
				fmt.Fprintln(out, "\nEvery account is released. Nothing was removed from the cluster but the accounts.")
			default:
				fmt.Fprintln(out, "\nNephele is removed.")
			}
			return nil
		},
	}
	f := cmd.Flags()
	cluster.Register(f)
	f.BoolVar(&o.DryRun, "dry-run", false, "only say what would be done, which is what happens without --yes too")
	f.BoolVar(&yes, "yes", false, "do it")
	f.BoolVar(&o.ReleaseOnly, "release-only", false, "only release every account, and leave the rest to others, as \"helm uninstall\" does")
	f.BoolVar(&o.Policies, "policies", false, "remove the definitions of policies, tiers, groups and external entities too, with all such objects")
	f.DurationVar(&o.Timeout, "timeout", 10*time.Minute, "how long to wait for each step")
	return cmd
}

// definitionNames are the names of the CustomResourceDefinitions of this version: PLURAL.GROUP.
func definitionNames() ([]string, error) {
	files, err := fs.Glob(crd.FS(), "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list the definitions: %w", err)
	}
	var out []string
	for _, f := range files { // GROUP_PLURAL.yaml
		if group, plural, ok := strings.Cut(strings.TrimSuffix(f, ".yaml"), "_"); ok {
			out = append(out, plural+"."+group)
		}
	}
	return out, nil
}
