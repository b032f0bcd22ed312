package agentcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/enroll/identity"
)

// defaultAgentKubeconfig is where the package for hosts looks for the credentials.
const defaultAgentKubeconfig = "/etc/nephele/kubeconfig"

func newAgentEnrollCommand() *cobra.Command {
	var server, output string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "enroll TOKEN",
		Short: "Enroll this host with a token of nephele enroll-token",
		Long: `Enroll this host with a token of nephele enroll-token: make a key, have it certified, and write both into a kubeconfig for the agent. The
server has to prove first that the token is from it. TOKEN "-" reads the token from standard input, where other users of the host do not see it.

With a token of an account the host also shows what the cloud signs about it (169.254.169.254: the identity document of AWS, the attested document
of Azure), and waits until the server knows this VM.`,
		Example: `  nephele agent enroll -
  nephele agent enroll --server https://10.0.0.10:10349 -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := args[0]
			if text == "-" {
				line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
				if err != nil && line == "" {
					return fmt.Errorf("read the token: %w", err)
				}
				text = line
			}
			i, err := credential.ParseInvitation(text)
			if err != nil {
				return err
			}
			if server == "" && i.Server == "" {
				return errors.New("the token does not name the server: give --server https://HOST:PORT")
			}
			if server == "" {
				server = "https://" + i.Server
			}
			// Before the token is used up.
			if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
				return err
			}
			key, err := credential.NewKey()
			if err != nil {
				return err
			}
			papers, err := join(cmd.Context(), server, i, key, wait)
			if err != nil {
				return err
			}
			host, ok := credential.ParseCertificate([]byte(papers.Certificate))
			if !ok || i.Host != (credential.Host{}) && host.Host != i.Host {
				return errors.New("the certificate is not one of this host")
			}
			kubeconfig, err := credential.Kubeconfig(host.Host,
				&clientcmdapi.Cluster{Server: server, TLSServerName: credential.ServerName, CertificateAuthorityData: []byte(papers.Authority)},
				&clientcmdapi.AuthInfo{ClientCertificateData: []byte(papers.Certificate), ClientKeyData: key.Private})
			if err != nil {
				return err
			}
			if err := credential.WritePrivate(output, kubeconfig); err != nil {
				return fmt.Errorf("keep the credentials of the host; make a new token: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "This host is %s; its credentials are in %s.\n", host.Host, output)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&server, "server", "", "URL by which this host reaches the server of computed policies (default: what the token names)")
	f.StringVarP(&output, "output", "o", defaultAgentKubeconfig, "file for the kubeconfig, of mode 0600")
	f.DurationVar(&wait, "wait", 5*time.Minute, "how long to ask again while the server does not know this VM yet, with a token of an account")
	return cmd
}

// askAgain is how often a host asks that is not known yet.
const askAgain = 5 * time.Second

// join uses an invitation. That of an account may be too early, because clouds are read from time
// to time.
func join(ctx context.Context, server string, i credential.Invitation, key credential.Key, wait time.Duration) (credential.Papers, error) {
	if i.Account == (credential.Host{}) {
		return credential.Join(ctx, server, i, nil, key)
	}
	end := time.NewTimer(wait)
	defer end.Stop()
	for {
		papers, err := show(ctx, server, i, key)
		if !errors.Is(err, credential.ErrNotYet) {
			return papers, err
		}
		select {
		case <-ctx.Done():
			return credential.Papers{}, errors.Join(err, ctx.Err())
		case <-end.C:
			return credential.Papers{}, err
		case <-time.After(askAgain):
		}
	}
}

// show uses the invitation of an account once, with what the cloud signs now.
func show(ctx context.Context, server string, i credential.Invitation, key credential.Key) (credential.Papers, error) {
	sign := signedByAWS
	if i.Azure {
		sign = func(ctx context.Context) (identity.Proof, error) { return attestedByAzure(ctx, i.Nonce(key)) }
	}
	signed, err := sign(ctx)
	if err != nil {
		return credential.Papers{}, err
	}
	return credential.Join(ctx, server, i, &signed, key)
}
