package agentcmd

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/agent/network/links"
	"github.com/nephele-io/nephele/internal/agent/nodenetwork"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

// ProgramName is that of the program for hosts.
const ProgramName = "nephele-agent"

// Sealing opens what encrypts packets between Nodes.
type Sealing struct {
	// WireGuard opens the keys of the Node, in a directory, and its device in a kernel.
	WireGuard func(stateDir string, kernel *links.Kernel, log logr.Logger) (nodenetwork.Keys, links.Sealer, error)
	// IPsec opens what talks to charon.
	IPsec func(o IPsecOptions) (nodenetwork.IPsec, links.Sealer, error)
	// LeaveIPsec makes the charon at a socket forget what an agent has told it.
	LeaveIPsec func(socket string) error
}

// IPsecOptions are what IPsec needs.
type IPsecOptions struct {
	// StateDir has the certificate of the Node, and charon answers at Socket.
	StateDir, Socket string
	Kernel           *links.Kernel
	// Certify has the controller sign a request for a certificate.
	Certify func(ctx context.Context, request string) (certificate, authorities string, err error)
	Log     logr.Logger
}

// Commands returns the commands of hosts as commands of nephele of a version, which cannot encrypt.
func Commands(version string) []*cobra.Command { return []*cobra.Command{agentCommand(version, nil)} }

// Program is the agent as a program of its own: "nephele-agent status" is "nephele agent status".
func Program(v terminal.Build, seal *Sealing) *cobra.Command {
	root := agentCommand(v.Version, seal)
	root.Use = ProgramName
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(terminal.NoSuchFlag)
	root.AddCommand(terminal.NewVersionCommand(ProgramName, v))
	for _, cmd := range append(root.Commands(), root) {
		cmd.Long, cmd.Example = named(cmd.Long), named(cmd.Example)
	}
	return root
}

func newAgentRenewKeyCommand(socket *string) *cobra.Command {
	return &cobra.Command{
		Use:   "renew-key",
		Short: "Give this Node a new key of WireGuard",
		Long: `Give this Node a new key of WireGuard. It counts as soon as the other Nodes were told of it, within seconds; what is sent while not all of
them have heard may be lost.`,
		Example: "  nephele agent renew-key",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var answer struct{ Key string }
			if err := askAgent(cmd.Context(), *socket, http.MethodPost, "/renew-key", nil, &answer); err != nil {
				return err
			}
			cmd.Printf("the key of this Node will be %s; \"nephele agent status\" shows the one in use\n", terminal.Printable(answer.Key))
			return nil
		},
	}
}

// named turns a text about the commands of nephele into one about the commands of the program.
func named(text string) string { return strings.ReplaceAll(text, "nephele agent", ProgramName) }
