package agentcmd

import (
	"errors"
	"io"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errNo = errors.New("no")

// testNeeds are what the commands get in tests: the cluster is what --kubeconfig leads to.
func testNeeds() Needs {
	return Needs{
		Cluster: func() Cluster {
			file := new(string)
			return Cluster{
				Register:   func(f *pflag.FlagSet) { f.StringVar(file, "kubeconfig", "", "") },
				Config:     func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", *file) },
				Kubeconfig: file,
			}
		},
		Client: func(cfg *rest.Config) (client.Client, error) { return client.New(cfg, client.Options{}) },
		Log:    func(io.Writer, bool) logr.Logger { return logr.Discard() },
		Printable: func(text string) string {
			return strings.ToValidUTF8(text, "?")
		},
		NoSuchCommand: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return errors.New("unknown command " + args[0] + " for " + cmd.Name())
			}
			return nil
		},
		No: errNo, Version: "v1",
	}
}
