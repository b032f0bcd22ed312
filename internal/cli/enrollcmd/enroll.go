// Package enrollcmd holds the commands that give a host with an agent an identity of its own, and
// take it back: "nephele enroll" and "nephele enroll-token".
//
// It owns their flags and what they print. Identities belong to package enroll. A command runs
// once.
package enrollcmd

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

// connect reaches a cluster by a configuration.
type connect func(*rest.Config) (client.Client, error)

// Commands are all commands of the package. They reach a cluster by what is given.
func Commands(to func(*rest.Config) (client.Client, error)) []*cobra.Command {
	return []*cobra.Command{newEnrollCommand(to), newEnrollTokenCommand(to)}
}

func newEnrollCommand(to connect) *cobra.Command {
	var cluster terminal.Cluster
	var lifetime time.Duration
	var server, serverName, output string
	var revoke bool
	cmd := &cobra.Command{
		Use:   "enroll NAMESPACE/NAME",
		Short: "Give the host of an ExternalNode credentials of its own, or take them back",
		Long: `Give the host of an ExternalNode credentials of its own: a kubeconfig for its agent, with the rights of this one host and no others.

This is for hosts that reach the API server of the cluster. Others enroll with "nephele enroll-token".

The token in it is short-lived. The agent renews it as soon as it runs, and long before it ends; keep the file on the host for root only. --revoke
takes the credentials back: every token and every certificate of the host ends at once.`,
		Example: `  nephele enroll vms/web-1 --output web-1.kubeconfig
  nephele enroll vms/web-1 --server https://10.0.0.10:6443 | ssh root@web-1 'umask 077; cat > /etc/nephele/kubeconfig'
  nephele enroll vms/web-1 --revoke`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			host, err := credential.ParseHost(args[0])
			if err != nil {
				return err
			}
			cfg, c, err := to.reach(&cluster)
			if err != nil {
				return err
			}
			if revoke {
				if err := enroll.Revoke(cmd.Context(), c, host); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "The host %s has no credentials any more. What it enforces stays in force until it is released on the host.\n", args[0])
				return nil
			}
			token, err := enroll.Token(cmd.Context(), c, host, lifetime)
			if err != nil {
				return err
			}
			at, err := sameServer(cfg, server, serverName)
			if err != nil {
				return err
			}
			text, err := credential.Kubeconfig(host, at, &clientcmdapi.AuthInfo{Token: token})
			if err != nil {
				return err
			}
			if output == "" {
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			return credential.WritePrivate(output, text)
		},
	}
	f := cmd.Flags()
	cluster.Register(f)
	f.DurationVar(&lifetime, "for", time.Hour, "how long the first token lasts, at least 10m: the time to bring it to the host")
	f.StringVar(&server, "server", "", "URL by which the host reaches the API server (default: that of the kubeconfig in use)")
	f.StringVar(&serverName, "tls-server-name", "", "name in the certificate of the API server, if the host reaches it by another")
	f.StringVarP(&output, "output", "o", "", "file for the kubeconfig, of mode 0600 (default: standard output)")
	f.BoolVar(&revoke, "revoke", false, "take the host's credentials back")
	return cmd
}

// reach returns the configuration that the flags lead to, and a client.
func (to connect) reach(cluster *terminal.Cluster) (*rest.Config, client.Client, error) {
	cfg, err := cluster.Config()
	if err != nil {
		return nil, nil, err
	}
	c, err := to(cfg)
	return cfg, c, err
}

// sameServer is the server of a configuration, as a host reaches it.
func sameServer(cfg *rest.Config, server, serverName string) (*clientcmdapi.Cluster, error) {
	to := clientcmdapi.NewCluster()
	to.Server, to.TLSServerName, to.InsecureSkipTLSVerify = cmp.Or(server, cfg.Host), cmp.Or(serverName, cfg.ServerName), cfg.Insecure
	to.CertificateAuthorityData = cfg.CAData
	if len(cfg.CAData) == 0 && cfg.CAFile != "" {
		data, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("the CA of the kubeconfig in use: %w", err)
		}
		to.CertificateAuthorityData = data
	}
	return to, nil
}
