package agentcmd

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/cni"
)

const (
	defaultCNIConfDir = "/etc/cni/net.d"
	defaultCNIBinDir  = "/opt/cni/bin"
	// chainInterval is how often it is looked whether the plugin is still chained: other plugins
	// write their lists anew when they start.
	chainInterval = 5 * time.Second
	// provideInterval is how soon it is tried again to write a list of our own: the Node is not
	// ready before.
	provideInterval = time.Second
)

// cniFlags are the flags of the CNI plugin.
type cniFlags struct {
	confDir, binDir, program string
	whenAway                 string
	essential                []string
}

func (f *cniFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.confDir, "cni-conf-dir", "", "with --node, the folder with the configuration of the Node's CNI plugins, such as "+defaultCNIConfDir+
		": nephele-cni is chained into it and kept there, so that new Pods are closed until their policies are in force. Empty: it is not")
	flags.StringVar(&f.binDir, "cni-bin-dir", defaultCNIBinDir, "folder with the programs of the Node's CNI plugins, into which nephele-cni is copied")
	flags.StringVar(&f.program, "cni-plugin", "", "the program nephele-cni (default: the one beside this program)")
	flags.StringVar(&f.whenAway, "when-agent-is-away", string(cni.Close), `what becomes of new Pods while no agent runs: "close", they do not start, or "open"`)
	flags.StringArrayVar(&f.essential, "essential-namespace", []string{"kube-system"}, "namespace whose new Pods do not wait for a controller that does not answer; may be repeated. That of the controller must be one")
}

// chaining keeps the plugin chained; nil if it is not to be.
func (f *cniFlags) chaining(socket string, log logr.Logger) (*chaining, error) {
	away := cni.WhenAway(f.whenAway)
	if err := away.Check(); err != nil {
		return nil, fmt.Errorf("--when-agent-is-away: %w", err)
	}
	if f.confDir == "" {
		return nil, nil
	}
	program := f.program
	if program == "" {
		own, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("--cni-plugin: %w", err)
		}
		program = filepath.Join(filepath.Dir(own), cni.Type)
	}
	return &chaining{log: log.WithName("cni"), to: cni.Installation{
		ConfDir: f.confDir, BinDir: f.binDir, Program: program, Entry: cni.Entry{Type: cni.Type, Socket: socket, WhenAgentIsAway: away},
	}}, nil
}

// chaining keeps the plugin in the list of the Node's plugins, or in one of its own.
type chaining struct {
	to  cni.Installation
	log logr.Logger
	// ready returns why the plugin is not to be used yet. Nil: it is.
	ready func() error

	mu     sync.Mutex
	failed string
	// out tells that somebody has taken the plugin out while this agent runs.
	out bool
}

// leave leaves the plugin out of the list until the agent starts again.
func (c *chaining) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out, c.failed = true, "it was taken out by nephele-agent unchain, and stays out until the agent starts again"
}

// trouble is why the plugin is not chained; empty if it is.
func (c *chaining) trouble() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

func (c *chaining) run(ctx context.Context) {
	for {
		c.once()
		wait := chainInterval
		if c.to.Entry.Network && c.trouble() != "" {
			wait = provideInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (c *chaining) once() {
	c.mu.Lock()
	out := c.out
	c.mu.Unlock()
	if out {
		return
	}
	list, changed, err := c.install()
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.mu.Lock()
	if c.out { // meanwhile
		c.mu.Unlock()
		if _, err := cni.Remove(c.to.ConfDir); err != nil {
			c.log.Error(err, "The CNI plugin was put in while it was taken out")
		}
		return
	}
	news := text != c.failed
	c.failed = text
	c.mu.Unlock()
	switch {
	case err != nil && news:
		c.log.Error(err, "New Pods are not told to the agent")
	case err == nil && (changed || news):
		c.log.Info("New Pods are closed until their policies are in force", "list", list)
	}
}

// install brings the plugin to where it belongs. A runtime takes a Node for ready when it finds a
// list, so there is none of our own before Pods can have addresses.
func (c *chaining) install() (list string, changed bool, err error) {
	if !c.to.Entry.Network {
		return c.to.Install()
	}
	if _, err := os.Stat(filepath.Join(c.to.ConfDir, cni.ListName)); err != nil && c.ready != nil {
		if err := c.ready(); err != nil {
			return "", false, fmt.Errorf("no list of CNI plugins is written yet: %w", err)
		}
	}
	return c.to.Provide()
}

func newAgentUnchainCommand(socket *string) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "unchain",
		Short: "Take nephele-cni out of the configuration of a Node's CNI plugins",
		Long: `Take nephele-cni out of the configuration of a Node's CNI plugins, so that new Pods start without an agent. The program stays,
because runtimes may call it for Pods that end. An agent that runs leaves it out until it starts again.`,
		Example: "  nephele agent unchain --cni-conf-dir " + defaultCNIConfDir,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s agent.Status
			if _, err := os.Stat(*socket); err == nil {
				if err := askAgent(cmd.Context(), *socket, http.MethodPost, "/unchain", nil, &s); err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "An agent that runs may put it back: %v\n", err)
				}
			}
			lists, err := cni.Remove(dir)
			if err != nil {
				return err
			}
			if len(lists) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "nephele-cni is in no list of "+dir)
				return nil
			}
			fmt.Fprintln(cmd.OutOrStdout(), "nephele-cni was taken out of "+strings.Join(lists, ", "))
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "cni-conf-dir", defaultCNIConfDir, "folder with the configuration of the Node's CNI plugins")
	return cmd
}
