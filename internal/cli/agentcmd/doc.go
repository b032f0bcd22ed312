// Package agentcmd are the commands about hosts with an agent: "nephele agent" and what is below
// it, which run on the host, and "nephele enroll" and "nephele enroll-token", which give a host an
// identity of its own.
//
// It owns their flags, the configuration file of the agent, what the agent prints, and the
// kubeconfig of a host with its credentials. What is enforced and how belongs to package agent,
// identities to package enroll. A command runs once.
package agentcmd

import (
	"io"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster are flags that say which cluster it is.
type Cluster struct {
	// Register adds the flags. Config is what they lead to, read anew each time.
	Register func(*pflag.FlagSet)
	Config   func() (*rest.Config, error)
	// Kubeconfig is the file that the flags name, empty for the usual one.
	Kubeconfig *string
}

// Needs are what the commands take from the others.
type Needs struct {
	// Cluster returns flags of one command.
	Cluster func() Cluster
	// Client reaches a cluster by a configuration.
	Client func(*rest.Config) (client.Client, error)
	Log    func(w io.Writer, verbose bool) logr.Logger
	// Printable makes text that came from elsewhere fit for a terminal.
	Printable func(string) string
	// NoSuchCommand refuses arguments of a command that only has commands below it.
	NoSuchCommand cobra.PositionalArgs
	// No is the error of a question whose answer is no.
	No error
	// Version is that of this binary.
	Version string
}

// Commands are all commands of the package.
func Commands(n Needs) []*cobra.Command {
	return append(agentCommands(n), newEnrollCommand(n), newEnrollTokenCommand(n))
}
