package agentcmd

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nephele-io/nephele/internal/enroll"
)

// defaultAgentKubeconfig is where the package for hosts looks for the credentials.
const defaultAgentKubeconfig = "/etc/nephele/kubeconfig"

func newEnrollTokenCommand(n Needs) *cobra.Command {
	cluster := n.Cluster()
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "enroll-token NAMESPACE/NAME",
		Short: "Make a token by which the host of an ExternalNode can enroll, once",
		Long: `Make a token by which the host of an ExternalNode can enroll with the server of computed policies, once. It replaces one that was made before.
The host gets a certificate of its own, which lasts a week and which its agent renews. It needs no account of the cluster, and does not reach
the Kubernetes API. The certificate ends with the ExternalNode, by "nephele enroll --revoke", and when the host enrolls again.

The cluster stores a hash of the token. Who makes one needs the right to patch the ExternalNode, and to read the ConfigMap antrea-ca in kube-system.`,
		Example: `  nephele enroll-token vms/web-1 --for 15m
  nephele enroll-token vms/web-1 | ssh root@web-1 nephele agent enroll --server https://10.0.0.10:10349 -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			host, err := enroll.ParseHost(args[0])
			if err != nil {
				return err
			}
			cfg, err := cluster.Config()
			if err != nil {
				return err
			}
			c, err := n.Client(cfg)
			if err != nil {
				return err
			}
			i, end, err := enroll.Invite(cmd.Context(), c, host, lifetime, time.Now())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Until %s, on the host: nephele agent enroll --server https://HOST:PORT TOKEN\n", end.UTC().Format(time.RFC3339))
			_, err = fmt.Fprintln(cmd.OutOrStdout(), i)
			return err
		},
	}
	f := cmd.Flags()
	cluster.Register(f)
	f.DurationVar(&lifetime, "for", time.Hour, fmt.Sprintf("how long the token can be used, from %s to %s", enroll.ShortestInvitation, enroll.LongestInvitation))
	return cmd
}

func newAgentEnrollCommand() *cobra.Command {
	var server, output string
	cmd := &cobra.Command{
		Use:   "enroll TOKEN",
		Short: "Enroll this host with a token of nephele enroll-token",
		Long: `Enroll this host with a token of nephele enroll-token: make a key, have it certified, and write both into a kubeconfig for the agent. The
server has to prove first that the token is from it. TOKEN "-" reads the token from standard input, where other users of the host do not see it.`,
		Example: `  nephele agent enroll --server https://10.0.0.10:10349 -`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := args[0]
			if text == "-" {
				line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
				if err != nil && line == "" {
					return fmt.Errorf("read the token: %w", err)
				}
				text = line
			}
			i, err := enroll.ParseInvitation(text)
			if err != nil {
				return err
			}
			// Before the token is used up.
			if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
				return err
			}
			key, err := enroll.NewKey()
			if err != nil {
				return err
			}
			papers, err := enroll.Join(cmd.Context(), server, i, key)
			if err != nil {
				return err
			}
			kubeconfig, err := clientcmd.Write(*certifiedKubeconfig(server, i.Host, papers, key))
			if err != nil {
				return err
			}
			if err := writePrivate(output, kubeconfig); err != nil {
				return fmt.Errorf("keep the credentials of the host; make a new token: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "This host is %s; its credentials are in %s.\n", i.Host, output)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&server, "server", "", "URL by which this host reaches the server of computed policies")
	f.StringVarP(&output, "output", "o", defaultAgentKubeconfig, "file for the kubeconfig, of mode 0600")
	_ = cmd.MarkFlagRequired("server") // the flag is there
	return cmd
}

// certifiedKubeconfig is a kubeconfig with the certificate of a host.
func certifiedKubeconfig(server string, host enroll.Host, papers enroll.Papers, key enroll.Key) *clientcmdapi.Config {
	out, name := clientcmdapi.NewConfig(), host.Namespace+"-"+host.Name
	out.Clusters["nephele"] = &clientcmdapi.Cluster{Server: server, TLSServerName: enroll.ServerName, CertificateAuthorityData: []byte(papers.Authority)}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte(papers.Certificate), ClientKeyData: key.Private}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: "nephele", AuthInfo: name, Namespace: host.Namespace}
	out.CurrentContext = name
	return out
}
