package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nephele-io/nephele/internal/console"
)

// contextName is the name of the context that is used, for people.
func (f clusterFlags) contextName() string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	raw, err := rules.Load()
	switch {
	case f.context != "":
		return f.context
	case err != nil:
		return ""
	}
	return raw.CurrentContext
}

// LocalConsole opens the console of the person whose configuration of a client cfg is, on an
// address of this machine. Serve answers until its context ends; link is where to go, once.
func LocalConsole(cfg *rest.Config, address string, o console.Options) (link string, serve func(context.Context) error, err error) {
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
	o.Mode, o.Cluster, o.Version, o.Now, o.Random = console.Local, cfg, Version(), time.Now, rand.Reader
	s, err := console.New(o)
	if err != nil {
		return "", nil, err
	}
	if link, err = s.Link(); err != nil {
		return "", nil, err
	}
	return link, func(ctx context.Context) error { return s.Serve(ctx, l) }, nil
}

// DefaultConsole is where the console of one person listens: on a free port of this machine.
const DefaultConsole = "127.0.0.1:0"

func newConsoleCommand() *cobra.Command {
	var cluster clusterFlags
	var listen string
	var edit bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "See, ask, plan and change policies in a browser",
		Long: `See, ask, plan and change policies in a browser.

Prints a link that works once. What the browser may see and do is what you may, with the credentials of your kubeconfig, and
nothing is changed without --allow-edit. The console listens on this machine only.`,
		Example: `  nephele console
  nephele console --context production
  nephele console --allow-edit --listen 127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := cluster.config()
			if err != nil {
				return err
			}
			link, serve, err := LocalConsole(cfg, listen, console.Options{
				Edit: edit, Name: cluster.contextName(), Log: NewLogger(cmd.ErrOrStderr(), false),
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Open this link; it works once:\n\n  %s\n\nCtrl-C ends the console.\n", link)
			err = serve(cmd.Context())
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
	cluster.register(cmd.Flags())
	cmd.Flags().StringVar(&listen, "listen", DefaultConsole, "HOST:PORT of the console, on this machine; port 0 takes a free one")
	cmd.Flags().BoolVar(&edit, "allow-edit", false, "let changes pass, as far as you may make them; without it the console only reads")
	return cmd
}
