package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/status"
)

// statusPoll is how often --wait looks.
const statusPoll = 2 * time.Second

// statusFlags are what the command status is asked for.
type statusFlags struct {
	output   string
	wait     bool
	clusters bool
	policies []string
	timeout  time.Duration
}

func newStatusCommand() *cobra.Command {
	var cluster source.ClusterFlags
	var flags statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show on one screen how everything is",
		Long: `Show on one screen how everything is: who works on the cluster, accounts and the age of what is known of them, virtual
machines by mode, policies by phase, and what needs a person, such as refusals, changes that wait for a confirmation, and
break-glass. It reads objects of the cluster only, with the rights of the role nephele-auditor.

In the hub of a set --clusters shows each member, with how far the policies are there.

With --wait it comes back when everything is well, or when the policies named are realized on all that they apply to.

Exit codes: 0 everything is well, or is under way without anything being wrong; 1 something needs attention, or --wait
has run out; 2 the cluster cannot be read, or the input is wrong.`,
		Example: `  nephele status
  nephele status --clusters
  nephele status --wait --timeout 5m
  nephele status --wait --for-policies shop/db-from-app,default-deny -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case flags.output != "" && flags.output != "json":
				return fmt.Errorf("--output %q: want json, or nothing for text", flags.output)
			case len(flags.policies) > 0 && !flags.wait:
				return fmt.Errorf("--for-policies says what --wait waits for: give --wait too")
			}
			c, err := cluster.Client()
			if err != nil {
				return err
			}
			return showStatus(cmd.Context(), c, clock.RealClock{}, flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	cluster.Register(f)
	f.StringVarP(&flags.output, "output", "o", "", "json, or nothing for text")
	f.BoolVar(&flags.clusters, "clusters", false, "in the hub of a set: show each member, with how far the policies are there")
	f.BoolVar(&flags.wait, "wait", false, "wait until everything is well")
	f.StringSliceVar(&flags.policies, "for-policies", nil, "with --wait: wait only until these policies are realized, NAMESPACE/NAME or NAME")
	f.DurationVar(&flags.timeout, "timeout", 2*time.Minute, "how long --wait waits")
	return cmd
}

// showStatus prints a report, with --wait the last one.
func showStatus(ctx context.Context, c client.Reader, clk clock.Clock, flags statusFlags, out, progress io.Writer) error {
	deadline := clk.Now().Add(flags.timeout)
	for told := ""; ; {
		report, err := status.Collect(ctx, c, clk.Now, flags.policies...)
		if err != nil {
			return err
		}
		if !flags.wait {
			return printStatus(out, report, flags, report.State != status.Attention)
		}
		done, missing := report.Settled()
		if done || !clk.Now().Before(deadline) {
			if !done {
				fmt.Fprintf(progress, "still waiting after %s: %s\n", flags.timeout, terminal.Printable(missing))
			}
			return printStatus(out, report, flags, done)
		}
		if missing != told {
			told = missing
			fmt.Fprintf(progress, "waiting: %s\n", terminal.Printable(missing))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-clk.After(min(statusPoll, deadline.Sub(clk.Now()))):
		}
	}
}

func printStatus(out io.Writer, r *status.Report, flags statusFlags, fine bool) error {
	if flags.output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(r); err != nil {
			return err
		}
	} else if _, err := io.WriteString(out, show.Status(r, flags.clusters, Version())); err != nil {
		return err
	}
	if !fine {
		return terminal.ErrNo
	}
	return nil
}
