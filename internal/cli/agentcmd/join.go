package agentcmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/spf13/cobra"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/enroll/identity"
)

// defaultAgentKubeconfig is where the package for hosts looks for the credentials.
const defaultAgentKubeconfig = "/etc/nephele/kubeconfig"

func newEnrollTokenCommand(n Needs) *cobra.Command {
	cluster := n.Cluster()
	var lifetime time.Duration
	var account string
	cmd := &cobra.Command{
		Use:   "enroll-token {NAMESPACE/NAME | --account NAMESPACE/NAME}",
		Short: "Make a token by which the host of an ExternalNode, or the VMs of an account, can enroll",
		Long: `Make a token by which the host of an ExternalNode can enroll with the server of computed policies, once. It replaces one that was made before.
The host gets a certificate of its own, which lasts a week and which its agent renews. It needs no account of the cluster, and does not reach
the Kubernetes API. The certificate ends with the ExternalNode, by "nephele enroll --revoke", and when the host enrolls again.

With --account it is for all VMs of a CloudProviderAccount that selectors hand to their agents. Each can enroll once, and proves which one it is by
what its cloud has signed (spec.hostIdentity of the account).

The cluster stores a hash of the token. Who makes one needs the right to patch the ExternalNode or account, and to read the ConfigMap antrea-ca in
kube-system.`,
		Example: `  nephele enroll-token vms/web-1 --for 15m
  nephele enroll-token vms/web-1 | ssh root@web-1 nephele agent enroll --server https://10.0.0.10:10349 -
  nephele enroll-token --account cloud/prod --for 168h`,
		Args: func(cmd *cobra.Command, args []string) error {
			if account != "" {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			invite := enroll.InviteAll
			if account == "" {
				invite, account = enroll.Invite, args[0]
			}
			whom, err := enroll.ParseHost(account)
			if err != nil {
				return err
			}
			_, c, err := n.reach(cluster)
			if err != nil {
				return err
			}
			i, end, err := invite(cmd.Context(), c, whom, lifetime, time.Now())
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
	f.StringVar(&account, "account", "", "the CloudProviderAccount NAMESPACE/NAME whose VMs the token is for, in the place of an ExternalNode")
	return cmd
}

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
			papers, err := join(cmd.Context(), server, i, key, wait)
			if err != nil {
				return err
			}
			host, ok := enroll.ParseCertificate([]byte(papers.Certificate))
			if !ok || i.Host != (enroll.Host{}) && host.Host != i.Host {
				return errors.New("the certificate is not one of this host")
			}
			kubeconfig, err := hostKubeconfig(host.Host,
				&clientcmdapi.Cluster{Server: server, TLSServerName: enroll.ServerName, CertificateAuthorityData: []byte(papers.Authority)},
				&clientcmdapi.AuthInfo{ClientCertificateData: []byte(papers.Certificate), ClientKeyData: key.Private})
			if err != nil {
				return err
			}
			if err := writePrivate(output, kubeconfig); err != nil {
				return fmt.Errorf("keep the credentials of the host; make a new token: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "This host is %s; its credentials are in %s.\n", host.Host, output)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&server, "server", "", "URL by which this host reaches the server of computed policies")
	f.StringVarP(&output, "output", "o", defaultAgentKubeconfig, "file for the kubeconfig, of mode 0600")
	f.DurationVar(&wait, "wait", 5*time.Minute, "how long to ask again while the server does not know this VM yet, with a token of an account")
	_ = cmd.MarkFlagRequired("server") // the flag is there
	return cmd
}

// askAgain is how often a host asks that is not known yet.
const askAgain = 5 * time.Second

// join uses an invitation. That of an account may be too early, because clouds are read from time
// to time.
func join(ctx context.Context, server string, i enroll.Invitation, key enroll.Key, wait time.Duration) (enroll.Papers, error) {
	if i.Account == (enroll.Host{}) {
		return enroll.Join(ctx, server, i, nil, key)
	}
	end := time.NewTimer(wait)
	defer end.Stop()
	for {
		papers, err := show(ctx, server, i, key)
		if !errors.Is(err, enroll.ErrNotYet) {
			return papers, err
		}
		select {
		case <-ctx.Done():
			return enroll.Papers{}, errors.Join(err, ctx.Err())
		case <-end.C:
			return enroll.Papers{}, err
		case <-time.After(askAgain):
		}
	}
}

// show uses the invitation of an account once, with what the cloud signs now.
func show(ctx context.Context, server string, i enroll.Invitation, key enroll.Key) (enroll.Papers, error) {
	sign := signedByAWS
	if i.Azure {
		sign = func(ctx context.Context) (identity.Proof, error) { return attestedByAzure(ctx, i.Nonce(key)) }
	}
	signed, err := sign(ctx)
	if err != nil {
		return enroll.Papers{}, err
	}
	return enroll.Join(ctx, server, i, &signed, key)
}

// mostSigned bounds what is read of each answer of the metadata service, in bytes; metadataLimit
// how long they may take.
const (
	mostSigned    = 16 << 10
	metadataLimit = 10 * time.Second
)

// signedByAWS asks the metadata service of AWS who this machine is, by its version 2.
func signedByAWS(ctx context.Context) (out identity.Proof, err error) {
	ctx, cancel := context.WithTimeout(ctx, metadataLimit)
	defer cancel()
	c := imds.New(imds.Options{EnableFallback: aws.FalseTernary})
	for _, part := range []struct {
		name string
		into *string
	}{{"rsa2048", &out.PKCS7}, {"document", &out.Document}, {"signature", &out.Signature}} {
		answer, err := c.GetDynamicData(ctx, &imds.GetDynamicDataInput{Path: "instance-identity/" + part.name})
		if err != nil {
			return out, fmt.Errorf("ask the metadata service for the %s of this VM: %w", part.name, err)
		}
		text, err := io.ReadAll(io.LimitReader(answer.Content, mostSigned))
		if err = errors.Join(err, answer.Content.Close()); err != nil {
			return out, fmt.Errorf("ask the metadata service for the %s of this VM: %w", part.name, err)
		}
		*part.into = string(text)
	}
	return out, nil
}

// attestedURL is where Azure attests what it knows of this machine.
const attestedURL = "http://169.254.169.254/metadata/attested/document?api-version=2021-02-01&nonce="

// attestedByAzure asks the metadata service of Azure who this machine is, for one use.
func attestedByAzure(ctx context.Context, nonce string) (identity.Proof, error) {
	fail := func(err error) (identity.Proof, error) {
		return identity.Proof{}, fmt.Errorf("ask the metadata service to attest this VM: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, metadataLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, attestedURL+nonce, nil)
	if err != nil {
		return fail(err)
	}
	r.Header.Set("Metadata", "true")
	// It is in the host, behind no proxy, and nobody else answers for it.
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := c.Do(r)
	if err != nil {
		return fail(err)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostSigned))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return fail(err)
	}
	switch code := answer.StatusCode; {
	case code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
		return fail(fmt.Errorf("%w: it answers %s", enroll.ErrNotYet, answer.Status))
	case code != http.StatusOK:
		return fail(fmt.Errorf("it answers %s: %.200s", answer.Status, text))
	}
	var said struct{ Encoding, Signature string }
	if err := json.Unmarshal(text, &said); err != nil || said.Encoding != "pkcs7" || said.Signature == "" {
		return fail(errors.New("its answer is no signature of the encoding pkcs7, of 16 KiB at most"))
	}
	return identity.Proof{Attested: said.Signature}, nil
}
