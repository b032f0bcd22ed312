package cli

import (
	"bytes"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/cli/checkcmd"
	"github.com/nephele-io/nephele/internal/cli/consolecmd"
	"github.com/nephele-io/nephele/internal/cli/historycmd"
	"github.com/nephele-io/nephele/internal/cli/nodecmd"
	"github.com/nephele-io/nephele/internal/cli/releasecmd"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/platform/egress"
)

// This file gives the commands that are packages what they take from the others.

// consoleNeeds are the cluster and the log of "console".
func consoleNeeds() consolecmd.Needs {
	var f clusterFlags
	var format terminal.LogFormat
	return consolecmd.Needs{
		Register: func(flags *pflag.FlagSet) {
			f.Register(flags)
			terminal.RegisterLogFormat(flags, "log-format", &format)
		},
		Cluster: func() (*rest.Config, string, error) { return f.Named() }, Version: Version(),
		Log: func(cmd *cobra.Command) logr.Logger {
			log, _ := format.New(cmd.ErrOrStderr(), false)
			return log
		},
	}
}

func releaseNeeds() releasecmd.Needs {
	var f clusterFlags
	return releasecmd.Needs{Register: f.Register, Client: func() (client.Client, error) { return f.client() }, Printable: terminal.Printable, Now: time.Now}
}

func nodeNeeds() nodecmd.Needs {
	var f clusterFlags
	return nodecmd.Needs{Register: f.Register, Client: func() (client.Client, error) { return f.client() }, Now: time.Now}
}

func checkNeeds() checkcmd.Needs {
	var f clusterFlags
	var access AccessFlags
	return checkcmd.Needs{
		Register: func(flags *pflag.FlagSet) {
			f.Register(flags)
			access.Register(flags, egress.Loopback)
		},
		Config: func() (*rest.Config, error) { return f.Config() }, Access: access.Access,
	}
}

// Client returns a client that reads the cluster as it is now.
func (f *clusterFlags) Client() (client.Client, error) { return f.reading() }

func historyNeeds() historycmd.Needs {
	return historycmd.Needs{
		Cluster: func() historycmd.Cluster { return &clusterFlags{} },
		Plan:    func() historycmd.Planner { return &historyPlanner{} },
	}
}

// historyPlanner plans for the cluster with one more manifest.
type historyPlanner struct {
	clusterFlags
	access AccessFlags
	all    bool
}

// Register adds the flags.
func (p *historyPlanner) Register(flags *pflag.FlagSet) {
	p.clusterFlags.Register(flags)
	p.access.Register(flags, egress.Loopback)
	flags.BoolVar(&p.all, "all", false, "name all that is changed, in place of some and a number")
}

// Plan is "nephele plan -f -".
func (p *historyPlanner) Plan(cmd *cobra.Command, manifest []byte) error {
	sub := &cobra.Command{Use: cmd.Use}
	sub.SetContext(cmd.Context())
	sub.SetIn(bytes.NewReader(manifest))
	sub.SetOut(cmd.OutOrStdout())
	sub.SetErr(cmd.ErrOrStderr())
	return runPlan(sub, &planFlags{files: []string{"-"}, cluster: p.clusterFlags, access: p.access, all: p.all})
}
