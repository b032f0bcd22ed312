// Command nephele, standalone build: all commands of the slim binary, and those that run a
// Kubernetes control plane in the process.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/api/generated/crd"
	"github.com/nephele-io/nephele/internal/cli"
	"github.com/nephele-io/nephele/internal/cli/backupcmd"
	"github.com/nephele-io/nephele/internal/cli/plancmd"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/controller/traffic"
	"github.com/nephele-io/nephele/internal/history"
	"github.com/nephele-io/nephele/standalone/internal/controlplane"
	"github.com/nephele-io/nephele/standalone/internal/demo"
	"github.com/nephele-io/nephele/standalone/internal/up"
)

func main() { os.Exit(run()) }

func run() int {
	// The first signal asks for an orderly end; after it the second one has its default effect and
	// kills the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	// Kubernetes libraries put flags of their own into this set, and cobra offers the set with
	// every command.
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError)

	streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	own := cli.NewBackupCommands(&backupcmd.Local{Data: controlplane.DataFormat, Restore: controlplane.Restore,
		Backup: func(ctx context.Context, dataDir, into string) error {
			return errors.Join(controlplane.Quiet(), controlplane.Backup(ctx, dataDir, into))
		}})
	own = append(own, upCommand(), cli.NewKeysCommand(up.Keys), up.NewHubCommand(terminal.ErrNo),
		demo.NewCommand(demo.Parts{CRDs: crd.FS(), Controller: runController, Preview: plancmd.Preview, Version: cli.Version(), No: terminal.ErrNo}))
	return cli.Main(ctx, os.Args[1:], streams, own...)
}

// upCommand is "up" with a choice of the controller that computes the policies.
func upCommand() *cobra.Command {
	var antrea cli.AntreaFlags
	var api controller.APIOptions
	var accessFlags source.AccessFlags
	var metrics string
	var access clouds.Access
	var instance controller.InstanceOptions
	var propagation time.Duration
	var flows traffic.Options
	var audit string
	var past cli.HistoryFlags
	var kept history.Bounds
	var cmd *cobra.Command
	cmd = up.NewCommand(crd.FS(), func(ctx context.Context, cfg *rest.Config, home up.Home) error {
		foreign, err := antrea.Config(cfg)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("audit-log") {
			home.Audit = audit
		}
		if !cmd.Flags().Changed("flow-dir") {
			flows.Dir = home.Flows
		}
		log, level := terminal.NewLeveledLogger(home.Log, false)
		o := controller.Options{
			Log:            log,
			LogLevel:       level,
			Process:        processName,
			Ready:          home.Ready,
			Access:         access,
			MetricsAddress: metrics,
			AuditLog:       home.Audit,
			Version:        cli.Version(),
			Instance:       instance,
			Propagation:    propagation,
			Flows:          flows,
			History:        kept,
			Lease:          lease(),
		}
		if api.Host != "" { // others may lead, and this one stands by
			o.Lease = controller.LeaseOptions{Waits: func(holder string) {
				fmt.Fprintf(os.Stderr, "Another member of the hub leads: %s. This one stands by.\n", holder)
				home.Ready()
			}}
		}
		if foreign == nil {
			return serve(ctx, cfg, home, api, o)
		}
		o.Antrea, o.AntreaMember = foreign, antrea.Member()
		return controller.Run(ctx, cfg, o)
	}, antrea.SharedGroups, cli.Version())
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if kept, err = past.Bounds(); err != nil {
			return err
		}
		if peer := cmd.Flags().Lookup("peer-listen").Value.String(); peer != "" {
			if api.Host, err = memberHost(api.Address); err != nil {
				return err
			}
		}
		access, err = accessFlags.Access() // before anything starts
		return err
	}
	cmd.Flags().StringVar(&api.Address, "api-listen", anyLocalPort, "HOST:PORT of the server of computed policies, which hosts with an agent reach; port 0 takes a free one")
	cmd.Flags().StringVar(&metrics, "metrics", "", "HOST:PORT for Prometheus metrics; empty for none")
	cli.RegisterAuditLog(cmd.Flags(), &audit)
	cmd.Flags().Lookup("audit-log").DefValue = "logs/audit.log in the data directory"
	antrea.Register(cmd.Flags())
	cli.RegisterEnforcers(cmd.Flags(), &api)
	accessFlags.Register(cmd.Flags())
	cli.RegisterInstance(cmd.Flags(), &instance)
	cli.RegisterPropagation(cmd.Flags(), &propagation)
	cli.RegisterFlows(cmd.Flags(), &flows)
	cmd.Flags().Lookup("flow-dir").DefValue = "flows in the data directory"
	past.Register(cmd.Flags())
	return cmd
}

// memberHost is by what address the other members of a hub reach what this one serves.
func memberHost(listen string) (string, error) {
	at, err := netip.ParseAddrPort(listen)
	// The name that represents it in the API cannot be an address of version 6.
	if err != nil || !at.Addr().Is4() || at.Addr().IsUnspecified() || at.Port() == 0 {
		return "", fmt.Errorf("--api-listen %q: want IP:PORT with --peer-listen, of version 4, by which the other members and the clusters of the set reach this one", listen)
	}
	return at.Addr().String(), nil
}

// anyLocalPort is where computed policies are served if no other machine is to reach them.
const anyLocalPort = "127.0.0.1:0"

// processName represents the Pod of the controller in the API.
const processName = "nephele-up"

// lease is that of a process that is the only one on its data directory: the next one need not wait
// for the lease of one that was killed.
func lease() controller.LeaseOptions {
	return controller.LeaseOptions{Holder: "nephele up", Waits: func(holder string) {
		fmt.Fprintf(os.Stderr, "Another controller works on this cluster: %s. This one waits until it ends.\n", holder)
	}}
}

// runController is serve with the usual options.
func runController(ctx context.Context, cfg *rest.Config, home up.Home) error {
	log, level := terminal.NewLeveledLogger(home.Log, false)
	o := controller.Options{
		Log:      log,
		LogLevel: level,
		Process:  processName,
		Ready:    home.Ready,
		Access:   clouds.LocalAccess(),
		AuditLog: home.Audit,
		Version:  cli.Version(),
		History:  history.DefaultBounds(),
		Lease:    lease(),
	}
	return serve(ctx, cfg, home, controller.APIOptions{}, o)
}

// serve runs the loops of the controller in this process, and serves what they compute on this
// machine.
func serve(ctx context.Context, cfg *rest.Config, home up.Home, api controller.APIOptions, o controller.Options) error {
	if api.Address == "" {
		api.Address = anyLocalPort
	}
	o.LogDir = home.LogDir
	api.CertDir, api.Local, api.WebhookClientCA = home.Certificates, true, home.WebhookClientCA
	o.API = &api
	return controller.Run(ctx, cfg, o)
}
