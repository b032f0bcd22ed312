package up

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/cli/consolecmd"
	"github.com/nephele-io/nephele/internal/console"
)

// NoConsole is the address of a console that is not wanted.
const NoConsole = "off"

// Console says where the console is, and what it may do.
type Console struct {
	// Address is HOST:PORT on this machine, or NoConsole.
	Address string
	// Edit lets changes pass, Demo says on the page that nothing is real.
	Edit, Demo bool
	Version    string
}

// AddFlags adds the flag of the address.
func (c *Console) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.Address, "console", consolecmd.DefaultListen,
		"HOST:PORT of the console in the browser, on this machine; port 0 takes a free one, \""+NoConsole+"\" opens none")
}

// Open opens the console of the administrator of a session until ctx ends; the returned function
// waits for its end. The link is empty if no console is wanted.
func (c Console) Open(ctx context.Context, s Session) (link string, wait func() error, err error) {
	if c.Address == NoConsole {
		return "", func() error { return nil }, nil
	}
	link, serve, err := consolecmd.Open(c.Address, console.Options{
		Cluster: s.RestConfig, Edit: c.Edit, Demo: c.Demo, Name: "nephele", Version: c.Version, Log: logr.Discard(),
	})
	if err != nil {
		return "", nil, err
	}
	var served sync.WaitGroup
	served.Go(func() { err = serve(ctx) })
	return link, func() error { served.Wait(); return err }, nil
}
