package consolecmd

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/internal/console"
)

// DefaultListen is where the console of one person listens: on a free port of this machine.
const DefaultListen = "127.0.0.1:0"

// Needs are what the command takes from the others.
type Needs struct {
	// Register adds the flags that say which cluster it is, and Cluster returns it with the name of
	// the context. It is called when the flags are known.
	Register func(*pflag.FlagSet)
	Cluster  func() (cfg *rest.Config, name string, err error)
	// Log returns the log of a command.
	Log     func(*cobra.Command) logr.Logger
	Version string
}

// Open opens the console of the person whose configuration of a client is Cluster of the options,
// on an address of this machine. Serve answers until its context ends; link is where to go, once.
func Open(address string, o console.Options) (link string, serve func(context.Context) error, err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("the console: %w", err)
	}
	defer func() {
		if err != nil {
			_ = l.Close()
		}
	}()
	if o.Origins, err = console.LocalOrigins(l.Addr()); err != nil {
		return "", nil, err
	}
	o.Mode, o.Now, o.Random = console.Local, time.Now, rand.Reader
	s, err := console.New(o)
	if err != nil {
		return "", nil, err
	}
	if link, err = s.Link(); err != nil {
		return "", nil, err
	}
	return link, func(ctx context.Context) error { return s.Serve(ctx, l) }, nil
}

// Command returns the command.
func Command(n Needs) *cobra.Command {
	var listen string
	var edit bool
	var all clusterMode
	cmd := &cobra.Command{
		Use:   "console",
		Short: "See, ask, plan and change policies in a browser",
		Long: `See, ask, plan and change policies in a browser.

Prints a link that works once. What the browser may see and do is what you may, with the credentials of your kubeconfig, and
nothing is changed without --allow-edit. The console listens on this machine only.

With --url it is a console for all who may log in, as the chart installs it: with a token of the cluster, or at an OpenID provider.
What each of them may see and do is what the cluster lets him. The console has no rights of its own, and uses no credentials of
the kubeconfig then.`,
		Example: `  nephele console
  nephele console --context production
  nephele console --allow-edit --listen 127.0.0.1:8080
  nephele console --url https://nephele.example.com --listen :8443 --tls-dir /etc/nephele/console`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all.url != "" {
				o := console.Options{Edit: edit, Version: n.Version, Log: n.Log(cmd)}
				return all.run(cmd.Context(), listen, o, n.Cluster, func(url string) {
					fmt.Fprintf(cmd.OutOrStdout(), "The console answers for %s.\n", url)
				})
			}
			if err := all.misplaced(cmd.Flags()); err != nil {
				return err
			}
			cfg, name, err := n.Cluster()
			if err != nil {
				return err
			}
			link, serve, err := Open(listen, console.Options{Cluster: cfg, Edit: edit, Name: name, Version: n.Version, Log: n.Log(cmd)})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Open this link; it works once:\n\n  %s\n\nCtrl-C ends the console.\n", link)
			return serve(cmd.Context())
		},
	}
	n.Register(cmd.Flags())
	cmd.Flags().StringVar(&listen, "listen", DefaultListen, "HOST:PORT of the console, on this machine unless --url is given; port 0 takes a free one")
	all.register(cmd.Flags())
	cmd.Flags().BoolVar(&edit, "allow-edit", false, "let changes pass, as far as you may make them; without it the console only reads")
	return cmd
}
