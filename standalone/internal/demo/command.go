package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/platform/progress"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/estate/source"
	"github.com/nephele-io/nephele/standalone/internal/up"
)

// Preview computes what policies in manifest files, on top of what is in the cluster, would change
// in an account. It changes nothing.
type Preview func(ctx context.Context, cfg *rest.Config, account types.NamespacedName, files []string) (*plan.Result, error)

// Parts are what the demonstration is made of. All must be set.
type Parts struct {
	// CRDs are the CustomResourceDefinitions to install, one per file.
	CRDs fs.FS
	// Controller is what the story demonstrates. Its log is a file in the data directory: the
	// terminal belongs to the story.
	Controller up.LoggingController
	// Preview computes the plan that is shown before anything is enforced.
	Preview Preview
	// Version is reported in the console.
	Version string
	// No is the error that the command returns when a check of the story did not hold and this has
	// been printed.
	No error
}

// flags are the flags of the command.
type flags struct {
	once, clusters  bool
	dataDir, listen string
	timeout         time.Duration
	console         up.Console
}

// NewCommand returns the command "demo". It ends in order when the context that the command is
// executed with ends.
func NewCommand(p Parts) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Tell a story: simulated accounts of AWS and Azure, their VMs, and what policies do to them",
		Long: `Tell a story: simulated accounts of AWS and Azure, their VMs, and what policies do to them.

Runs everything in one process (etcd, the Kubernetes API server, the controller, a simulated AWS account made from the
description of a real one, and a simulated subscription of Azure), imports the account's VMs, shows the plan for two policies,
applies them, and shows who can reach whom before and after. Then it takes a database tier on Azure under the same policies,
and enforces one policy across both clouds. Every result is checked against what the story expects.

After the story everything goes on running for you to try things by hand and in the console, whose link is printed, until Ctrl-C. With --data-dir the state is kept, and
the next start goes on from it. Nothing outside this machine is called.

With --clusters it is another story, of a hub and two clusters that join it by the printed lines: a policy of the hub that names the workloads of both, the hub killed
and brought back. Each is a process of its own.

Exit codes: 0 all checks held; 1 a check did not hold, or the story was interrupted; 2 bad input or failure.`,
		Example: `  nephele demo
  nephele demo --once
  nephele demo --clusters
  nephele demo --data-dir ./demo-data`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.timeout <= 0 {
				return fmt.Errorf("--timeout is %s, expected a duration above zero, such as 2m", f.timeout)
			}
			if f.clusters {
				return runClusters(cmd.Context(), p, f, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return run(cmd.Context(), p, f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&f.once, "once", false, "end after the story, with everything restored")
	cmd.Flags().StringVar(&f.dataDir, "data-dir", "", "directory for all data; default: a temporary one, removed at the end")
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultLimit, "how long to wait for each step of the story before it has failed")
	f.console = up.Console{Edit: true, Demo: true, Version: p.Version} // nothing here is real
	f.console.AddFlags(cmd)
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:0", "HOST:PORT of the API server; port 0 takes a free one")
	cmd.Flags().BoolVar(&f.clusters, "clusters", false, "tell the story of a hub and two clusters, on new data and free ports")
	for _, other := range []string{"data-dir", "listen", "console"} {
		cmd.MarkFlagsMutuallyExclusive("clusters", other)
	}
	return cmd
}

// run prepares the data directory, runs everything, and cleans up.
func run(ctx context.Context, p Parts, f flags, out, errOut io.Writer) error {
	temporary := f.dataDir == ""
	if temporary {
		dir, err := os.MkdirTemp("", "nephele-demo-")
		if err != nil {
			return err
		}
		f.dataDir = dir
	}
	d := demonstration{Parts: p, flags: f, temporary: temporary, teller: &teller{out: out, screen: screenOf(out, os.Getenv, ctx.Done())}}
	cfg := up.Config{
		DataDir: f.dataDir, Listen: f.listen, CRDs: p.CRDs, Controller: up.WithLogFile(f.dataDir, p.Controller),
		Progress: errOut, Terminal: up.IsTerminal(errOut),
	}
	d.steps = progress.New(errOut, cfg.Terminal)
	d.say("Starting etcd, the Kubernetes API server, the controller and the simulated clouds: some seconds.")
	err := up.Run(ctx, cfg, d.during)
	d.steps.Close()
	if d.server != nil {
		err = errors.Join(err, d.server.Close())
	}
	if err == nil && !d.over {
		d.say("Interrupted before the end of the story.")
	}
	if temporary {
		if err == nil && d.over && !d.held {
			d.say("The data directory is kept for you to look into, with the logs: %s", f.dataDir)
		} else {
			err = errors.Join(err, os.RemoveAll(f.dataDir))
		}
	}
	if err == nil && !d.held {
		return p.No
	}
	return err
}

// demonstration is one run of the command.
type demonstration struct {
	Parts
	flags
	*teller
	temporary bool
	steps     *progress.Reporter
	server    *sim.Server
	// over means that the story has been told to its end, held that every check held.
	over, held bool
}

// during runs while everything is up.
func (d *demonstration) during(ctx context.Context, session up.Session) error {
	err := d.present(ctx, session)
	if ctx.Err() != nil {
		// Whatever was under way then failed because of it.
		return context.Cause(ctx)
	}
	return err
}

// present starts the simulator and tells the story.
func (d *demonstration) present(ctx context.Context, session up.Session) error {
	state, report, err := estate.HybridCloud()
	if err != nil {
		return err
	}
	dataTier(&state)
	file, err := filepath.Abs(filepath.Join(d.dataDir, "sim.json"))
	if err != nil {
		return err
	}
	// The simulator goes on until the controller has ended; the interrupt must not cut calls off.
	d.server, err = sim.Start(context.WithoutCancel(ctx), sim.Options{State: state, StateFile: file, Seed: 1})
	if err != nil {
		return err
	}
	c, err := newCluster(session.RestConfig)
	if err != nil {
		return err
	}
	s := &story{
		teller: d.teller, limit: d.timeout, steps: d.steps, session: session, cluster: c, account: account{d.server}, preview: d.Preview,
		dir: filepath.Join(filepath.Dir(file), "story"),
	}
	pristine, err := regionOf(state)
	if err != nil {
		return err
	}
	s.pristine, s.untouched, s.pristineAzure = objects(pristine), bystanders(pristine), azureObjects(s.account.azureState())
	if d.once {
		d.console.Address = up.NoConsole
	}
	open, shut := context.WithCancel(ctx)
	link, closed, err := d.console.Open(open, session)
	if err != nil {
		shut()
		return err
	}
	d.introduce(session, report, pristine, link)
	err = d.story(ctx, s)
	shut()
	return errors.Join(err, closed())
}

// story tells the story or goes on from a former one, and then waits for the user.
func (d *demonstration) story(ctx context.Context, s *story) error {
	former, err := s.cluster.policiesExist(ctx)
	if err != nil {
		return err
	}
	l, err := loginOf(d.server.URL(), d.server.World().State())
	if err != nil {
		return err
	}
	l = azureLogin(l, d.server)
	goOn := former && !d.once
	if err := writeManifests(s.dir, l, goOn); err != nil {
		return err
	}
	switch {
	case goOn:
		if err := s.goOn(ctx); err != nil {
			return err
		}
		d.over, d.held = true, true
		s.byHand(l)
		return s.watch(ctx)
	case former:
		if err = s.reset(ctx); err == nil {
			err = s.tell(ctx)
		}
	default:
		err = s.tell(ctx)
	}
	if err == nil && d.once {
		err = s.restore(ctx)
	}
	var late *timeout
	if err != nil && !errors.As(err, &late) {
		return err
	}
	d.over, d.held = true, s.sum(err)
	if d.once || err != nil {
		return nil
	}
	s.byHand(l)
	return s.watch(ctx)
}

func regionOf(s aws.State) (aws.RegionState, error) {
	for _, r := range s.Regions {
		if r.Name == region {
			return r, nil
		}
	}
	return aws.RegionState{}, fmt.Errorf("the built-in account has nothing in %s", region)
}

// introduce says what runs.
func (d *demonstration) introduce(session up.Session, report source.Report, r aws.RegionState, link string) {
	d.heading("What runs")
	d.say("Everything runs in this process, on this machine only. It was ready after %s.", session.StartUp.Round(100*time.Millisecond))
	d.item("the Kubernetes API server with etcd: %s", session.URL)
	d.item("the Nephele controller")
	d.item("a simulated AWS account, EC2 and STS: %s. It is a real account (%s), published by the Batfish project: %s, %s, %s "+
		"and %s in %s.", d.server.URL(), r.Account, numbered(len(r.VPCs), "VPC"), numbered(len(r.Instances), "VM"),
		numbered(len(r.NetworkInterfaces), "network interface"), numbered(len(r.SecurityGroups), "security group"), r.Name)
	d.item("a simulated subscription of Azure, login and Resource Manager: %s, with %s", d.server.AzureURL(), numbered(len(databases()), "VM"))
	if link != "" {
		d.item("the console, in which the story can be followed; the link works once: %s", link)
	}
	if len(report.Warnings) > 0 {
		d.say("The published description has gaps and contradictions; %s were needed to make an account of it (docs/simulator.md).",
			numbered(len(report.Warnings), "repair"))
	}
	if d.temporary {
		d.say("All data is in %s, which is removed at the end (--data-dir keeps it).", d.dataDir)
	} else {
		d.say("All data is in %s and is kept; the next start goes on from it.", d.dataDir)
	}
}
