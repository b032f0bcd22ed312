package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/nephele-io/nephele/standalone/internal/controlplane"
)

// DefaultDataDir is where data is kept unless told otherwise, below the working directory.
const DefaultDataDir = "nephele-data"

// NewCommand returns the command "up". It ends in order when the context that the command is
// executed with ends. Shared is Config.Shared; it is asked when the flags are known. The version is
// reported in the console.
func NewCommand(crds fs.FS, controller LoggingController, shared func() []string, version string) *cobra.Command {
	cfg := Config{CRDs: crds, Shared: shared}
	browser := Console{Version: version}
	var peers controlplane.Peers
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything in one process: etcd, the Kubernetes API server and the controller",
		Long: `Run everything in one process: etcd, the Kubernetes API server and the controller.

All state is in the data directory and survives restarts, also after a crash. The API server listens on this machine only
unless --listen says otherwise. Callers need the client certificate in the kubeconfig written to the data directory, or a
ServiceAccount token; RBAC decides what they may do, and admission policies ask it about the accounts, Secrets and tiers that objects
name. These policies, and roles to give, are installed at every start: what was changed or deleted of them is put back.

The link of the console works once; "nephele console" gives another one at any time.`,
		Example: `  nephele up
  nephele up --data-dir /var/lib/nephele --listen 127.0.0.1:7443
  kubectl --kubeconfig nephele-data/kubeconfig get cpa,ces,vpc,vm,ee -A`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case peers.Listen != "":
				cfg.Peers = &peers
			case peers.JoinFile != "":
				return errors.New("--join needs --peer-listen, the address that the member was added with")
			}
			cfg.Controller = WithLogFile(cfg.DataDir, controller)
			cfg.Progress, cfg.Terminal = cmd.ErrOrStderr(), IsTerminal(cmd.ErrOrStderr())
			return Run(cmd.Context(), cfg, func(ctx context.Context, s Session) error {
				link, closed, err := browser.Open(ctx, s)
				if err != nil {
					return err
				}
				explain(cmd.OutOrStdout(), cfg, s, link)
				<-ctx.Done()
				fmt.Fprintln(cmd.OutOrStdout(), "Stopping. Ctrl-C again ends at once; nothing is lost.")
				return closed()
			})
		},
	}
	AddFlags(cmd, &cfg)
	cmd.Flags().StringVar(&peers.Listen, "peer-listen", "", "IP:PORT by which the other members of a hub of several reach this one (see nephele hub); needs --api-listen")
	cmd.Flags().StringVar(&peers.JoinFile, "join", "", "file from \"nephele hub add\", for a new data directory: become a member of that hub")
	browser.AddFlags(cmd)
	cmd.Flags().BoolVar(&browser.Edit, "console-allow-edit", false, "let the console change what you may change; without it it only reads")
	return cmd
}

// AddFlags adds --data-dir and --listen to cmd, for every command that runs a control plane.
func AddFlags(cmd *cobra.Command, cfg *Config) {
	cmd.Flags().StringVar(&cfg.DataDir, "data-dir", DefaultDataDir, "directory for all data; created if missing")
	cmd.Flags().StringVar(&cfg.Listen, "listen", controlplane.DefaultListen, "HOST:PORT of the API server; port 0 takes a free one")
}

// IsTerminal says whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// explain says what runs and how to go on.
func explain(out io.Writer, cfg Config, s Session, link string) {
	if link == "" {
		link = NoConsole
	}
	fmt.Fprintf(out, `Nephele is ready after %s.

  API server  %s
  kubeconfig  %s
  logs        %s
  console     %s

In another terminal:

  export KUBECONFIG=%s
  kubectl get cpa,ces,vpc,vm,ee -A      # accounts, selectors and what they have found
  kubectl apply -f FILE.yaml            # an account, a selector, a policy
  kubectl get annp,acnp,cnp -A          # policies and their status

Ctrl-C stops; the data stays in %s.
`, s.StartUp.Round(100*time.Millisecond), s.URL, s.Kubeconfig, s.LogDir, link, quote(s.Kubeconfig), cfg.DataDir)
}
