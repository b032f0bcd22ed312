package enrollcmd

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

func newEnrollTokenCommand(to connect) *cobra.Command {
	var cluster terminal.Cluster
	var lifetime time.Duration
	var account, server string
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
  nephele enroll-token vms/web-1 --server 10.0.0.10:10349 | ssh root@web-1 nephele-agent enroll -
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
			whom, err := credential.ParseHost(account)
			if err != nil {
				return err
			}
			cfg, c, err := to.reach(&cluster)
			if err != nil {
				return err
			}
			at, note, err := serverOf(cmd.Context(), c, cfg.Host, server)
			if err != nil {
				return err
			}
			i, end, err := invite(cmd.Context(), c, whom, lifetime, time.Now())
			if err != nil {
				return err
			}
			i.Server = at
			flag := ""
			if at == "" {
				flag = "--server https://HOST:PORT "
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Until %s, on the host: nephele-agent enroll %sTOKEN\n%s", end.UTC().Format(time.RFC3339), flag, note)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), i)
			return err
		},
	}
	f := cmd.Flags()
	cluster.Register(f)
	f.DurationVar(&lifetime, "for", time.Hour, fmt.Sprintf("how long the token can be used, from %s to %s", enroll.ShortestInvitation, enroll.LongestInvitation))
	f.StringVar(&server, "server", "", "HOST:PORT by which hosts reach the server of computed policies, for the token to name (default: what nephele up says)")
	f.StringVar(&account, "account", "", "the CloudProviderAccount NAMESPACE/NAME whose VMs the token is for, in the place of an ExternalNode")
	return cmd
}

// serverOf is the HOST:PORT that a token names: what is given, or what the server has published,
// completed by the host of the API server's URL. It is empty if nothing is known. The note says for
// which hosts it is not usable.
func serverOf(ctx context.Context, c client.Client, apiServer, given string) (at, note string, err error) {
	if given != "" {
		at = strings.TrimPrefix(given, "https://")
		if host, _, err := net.SplitHostPort(at); err != nil || host == "" {
			return "", "", fmt.Errorf("--server %q: want HOST:PORT", given)
		}
		return at, "", nil
	}
	if at, err = enroll.PublishedServer(ctx, c); err != nil || at == "" {
		return "", "", err
	}
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return "", "", nil // a later version may write it otherwise
	}
	if u, err := url.Parse(apiServer); err == nil && host == "" && !loopback(u.Hostname()) {
		host = u.Hostname()
	}
	switch {
	case host == "":
		return "", "The server listens on port " + port + " of all addresses of its machine.\n", nil
	case loopback(host):
		note = "The server listens on this machine only: for other hosts start nephele up with --api-listen HOST:PORT.\n"
	}
	return net.JoinHostPort(host, port), note, nil
}

// loopback reports whether a host is the machine itself.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
