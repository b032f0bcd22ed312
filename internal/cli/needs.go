package cli

import (
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
	"github.com/nephele-io/nephele/internal/cli/plancmd"
	"github.com/nephele-io/nephele/internal/cli/releasecmd"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/platform/egress"
)

// This file gives the commands that are packages what they take from the others.

// consoleNeeds are the cluster and the log of "console".
func consoleNeeds() consolecmd.Needs {
	var f source.ClusterFlags
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
	var f source.ClusterFlags
	return releasecmd.Needs{Register: f.Register, Client: func() (client.Client, error) { return f.Client() }, Printable: terminal.Printable, Now: time.Now}
}

func nodeNeeds() nodecmd.Needs {
	var f source.ClusterFlags
	return nodecmd.Needs{Register: f.Register, Client: func() (client.Client, error) { return f.Client() }, Now: time.Now}
}

func checkNeeds() checkcmd.Needs {
	var f source.ClusterFlags
	var access source.AccessFlags
	return checkcmd.Needs{
		Register: func(flags *pflag.FlagSet) {
			f.Register(flags)
			access.Register(flags, egress.Loopback)
		},
		Config: func() (*rest.Config, error) { return f.Config() }, Access: access.Access,
	}
}

func historyNeeds() historycmd.Needs {
	return historycmd.Needs{
		Cluster: func() historycmd.Cluster { return &source.ClusterFlags{} },
		Plan:    func() historycmd.Planner { return &plancmd.HistoryPlanner{} },
	}
}
