package simcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// simFlags are the flags of nephele sim.
type simFlags struct {
	estate, listen, state   string
	throttle, noAuth, quiet bool
	throttleSpeed           float64
	visibility, transition  time.Duration
	latency, eventDelay     time.Duration
	effects                 effect.Delay
	eventQueue              string
	azure                   simAzureFlags
}

// Command is "sim": the cloud simulator alone.
func Command() *cobra.Command {
	var f simFlags
	cmd := &cobra.Command{
		Use:   "sim [--estate FILE_OR_DIR]",
		Short: "Run the cloud simulator: EC2, STS and SQS for any client, from a description of an account",
		Long: `Run a simulated AWS account on this machine. It speaks the EC2 and STS query protocols (signatures, errors, pages, quotas)
well enough for any EC2 client that keeps to the actions listed in docs/simulator.md.

An estate is a folder of describe answers as the aws command line prints them, a collector dump, or a short YAML file of
our own (docs/simulator.md). Without --estate it is the real account that the demonstration uses.

With --azure there is an Azure subscription beside it, from answers of Resource Manager or Resource Graph: login, Resource Manager and Resource Graph
are at an address of their own, with TLS.

Below /_sim/ it answers, to callers on this machine only, what no cloud answers: who reaches whom, which calls came in,
and which of them shall fail. The command runs until it is interrupted.`,
		Example: `  # The built-in account:
  nephele sim

  # Your own account, kept over restarts, with the rate limits and the delays of the real cloud:
  nephele sim --estate ./my-account --state ./sim.json --throttle --visibility-delay 2s

  # Who reaches whom:
  curl 'http://127.0.0.1:8555/_sim/allowed?src=i-0a1b2c3d4e5f60718&dst=10.0.0.7&proto=tcp&port=443'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSim(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.estate, "estate", "", "file or folder that describes the account (default: a built-in account)")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8555", "address to serve on; port 0 takes a free one")
	flags.StringVar(&f.state, "state", "", "file that keeps the state; when it exists, it is used instead of the estate")
	flags.BoolVar(&f.throttle, "throttle", false, "limit the rate of calls as EC2 does")
	flags.Float64Var(&f.throttleSpeed, "throttle-speed", 1, "how many times as fast as in EC2 the rate limits recover")
	flags.DurationVar(&f.visibility, "visibility-delay", 0, "how long a new object is not found yet")
	flags.DurationVar(&f.transition, "transition-delay", 0, "how long states such as pending and stopping last")
	flags.DurationVar(&f.effects.Bound, "effect-delay", 0, "how long at most an edit of rules or groups takes to an interface")
	flags.Uint64Var(&f.effects.Seed, "effect-seed", 0, "seed of the delays of edits")
	flags.DurationVar(&f.latency, "latency", 0, "how long each call takes")
	flags.StringVar(&f.eventQueue, "event-queue", "", "name of an SQS queue that every region has from the start and puts events into")
	flags.DurationVar(&f.eventDelay, "event-delay", 0, "how long an event takes to its queue")
	flags.BoolVar(&f.noAuth, "no-auth", false, "accept any key and any signature")
	f.azure.register(flags)
	flags.BoolVar(&f.quiet, "quiet", false, "print the endpoint only")
	return cmd
}

func (f simFlags) check() error {
	for name, d := range map[string]time.Duration{
		"visibility-delay": f.visibility, "transition-delay": f.transition, "latency": f.latency,
	} {
		if d < 0 {
			return fmt.Errorf("--%s is %s, expected a duration of zero or more", name, d)
		}
	}
	if err := f.effects.Check(); err != nil {
		return fmt.Errorf("--effect-delay: %w", err)
	}
	if f.throttleSpeed <= 0 {
		return fmt.Errorf("--throttle-speed is %v, expected a number above zero", f.throttleSpeed)
	}
	return nil
}

func runSim(cmd *cobra.Command, f simFlags) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := f.check(); err != nil {
		return err
	}
	if err := f.azure.check(); err != nil {
		return err
	}
	state, source, err := loadEstate(cmd, f)
	if err != nil {
		return err
	}
	if err := f.azure.load(cmd, &state, f.quiet); err != nil {
		return err
	}
	// The interrupt ends the server through Close below, not by cutting its calls off.
	server, err := sim.Start(context.WithoutCancel(ctx), sim.Options{
		State: state, StateFile: f.state, Listen: f.listen, VisibilityDelay: f.visibility, TransitionDelay: f.transition, Effects: f.effects,
		NoAuth: f.noAuth, Latency: f.latency, Throttle: f.throttle, ThrottleSpeed: f.throttleSpeed,
		Events: sim.EventOptions{Queue: f.eventQueue, Delay: f.eventDelay}, Azure: f.azure.options(),
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--listen %s or --azure-listen %s: the address is in use by another program; name another port, or 0 for a free one", f.listen, f.azure.listen)
	}
	if err != nil {
		return err
	}
	if f.quiet {
		fmt.Fprintln(cmd.OutOrStdout(), server.URL())
	} else {
		announce(cmd.OutOrStdout(), server, source)
	}
	select {
	case <-ctx.Done():
	case <-server.Done():
	}
	if err := server.Close(); err != nil {
		return err
	}
	if !f.quiet {
		fmt.Fprintf(cmd.OutOrStdout(), "\nStopped after %d calls.\n", server.Journal().Total())
	}
	return nil
}

// loadEstate returns the state to start from, and where it comes from in words. A state file that
// exists is left to the server.
func loadEstate(cmd *cobra.Command, f simFlags) (aws.State, string, error) {
	if f.state != "" {
		_, err := os.Stat(f.state)
		if err == nil {
			return aws.State{}, "the state kept in " + f.state, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return aws.State{}, "", fmt.Errorf("--state: %w", err)
		}
	}
	if f.estate == "" {
		state, report, err := estate.HybridCloud()
		return state, "the built-in account (" + report.Format + ")", err
	}
	state, report, err := estate.Load(f.estate)
	if err != nil {
		return aws.State{}, "", fmt.Errorf("--estate: %w", err)
	}
	if !f.quiet {
		lines := make([]string, 0, len(report.Warnings))
		for _, w := range report.Warnings {
			lines = append(lines, w.String())
		}
		const most = 10
		if more := len(lines) - most; more > 0 {
			lines = append(lines[:most], fmt.Sprintf("and %d more repairs of the description", more))
		}
		terminal.Notes(cmd, lines)
	}
	return state, f.estate + " (" + report.Format + ")", nil
}

// announce prints what a person needs to use the simulator.
func announce(out io.Writer, server *sim.Server, source string) {
	state := server.World().State()
	fmt.Fprintf(out, "Simulated AWS from %s\n\n", source)
	fmt.Fprintf(out, "  endpoint  %s (EC2, STS and SQS, every region)\n", server.URL())
	for _, a := range state.Accounts {
		announceAccount(out, state, a)
	}
	for _, ref := range server.Queues().Refs() {
		fmt.Fprintf(out, "  events    %s%s (%s)\n", server.URL(), ref.Path(), ref.Region)
	}
	i := slices.IndexFunc(state.Credentials, func(c aws.Credential) bool { return c.SessionToken == "" })
	if i >= 0 {
		key := state.Credentials[i]
		// Version 1 of the command line and old SDKs do not know AWS_REGION; the others do not look
		// at AWS_DEFAULT_REGION.
		fmt.Fprintf(out, `
Point a client at it:

  export AWS_ENDPOINT_URL=%[1]s AWS_REGION=%[2]s AWS_DEFAULT_REGION=%[2]s
  export AWS_ACCESS_KEY_ID=%[3]s AWS_SECRET_ACCESS_KEY=%[4]s
  aws ec2 describe-instances

A client that does not know AWS_ENDPOINT_URL (before version 2.13 or 1.29 of the command line) is told each time:

  aws --endpoint-url %[1]s ec2 describe-instances
`, server.URL(), firstRegion(state, key.Account), key.AccessKeyID, key.Secret)
	}
	announceAzure(out, server)
	fmt.Fprintf(out, "\nLook behind it: curl %s/_sim/ (docs/simulator.md). Ctrl-C stops it.\n", server.URL())
}

func announceAccount(out io.Writer, state aws.State, a aws.Account) {
	alias := ""
	if a.Alias != "" {
		alias = " (" + a.Alias + ")"
	}
	fmt.Fprintf(out, "  account   %s%s\n", a.ID, alias)
	for _, r := range state.Regions {
		if r.Account == a.ID {
			fmt.Fprintf(out, "    region  %s: %s\n", r.Name, census(r))
		}
	}
	for _, c := range state.Credentials {
		if c.Account == a.ID && c.SessionToken == "" {
			fmt.Fprintf(out, "    key     %s, secret %s\n", c.AccessKeyID, c.Secret)
		}
	}
	for _, r := range state.Roles {
		external := ""
		if r.ExternalID != "" {
			external = ", external id " + r.ExternalID
		}
		if r.Account == a.ID {
			fmt.Fprintf(out, "    role    %s, trusts %s%s\n", r.ARN(), strings.Join(r.Trusted, " "), external)
		}
	}
}

// firstRegion is the first region of the account that holds something, or just its first one.
func firstRegion(state aws.State, account string) string {
	first := ""
	for _, r := range state.Regions {
		if r.Account != account {
			continue
		}
		if len(r.VPCs) > 0 {
			return r.Name
		}
		if first == "" {
			first = r.Name
		}
	}
	return first
}

func census(r aws.RegionState) string {
	var parts []string
	for _, p := range []struct {
		n    int
		noun string
	}{
		{len(r.VPCs), "VPC"}, {len(r.Instances), "instance"}, {len(r.NetworkInterfaces), "network interface"},
		{len(r.SecurityGroups), "security group"},
	} {
		plural := "s"
		if p.n == 1 {
			plural = ""
		}
		parts = append(parts, fmt.Sprintf("%d %s%s", p.n, p.noun, plural))
	}
	return strings.Join(parts, ", ")
}
