package agentcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/enroll"
)

// renewInterval is how often an agent looks whether its credentials are to be renewed.
const renewInterval = time.Minute

func newEnrollCommand(n Needs) *cobra.Command {
	cluster := n.Cluster()
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
			host, err := enroll.ParseHost(args[0])
			if err != nil {
				return err
			}
			cfg, c, err := n.reach(cluster)
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
			to, err := sameServer(cfg, server, serverName)
			if err != nil {
				return err
			}
			text, err := hostKubeconfig(host, to, &clientcmdapi.AuthInfo{Token: token})
			if err != nil {
				return err
			}
			if output == "" {
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			return writePrivate(output, text)
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
func (n Needs) reach(cluster Cluster) (*rest.Config, client.Client, error) {
	cfg, err := cluster.Config()
	if err != nil {
		return nil, nil, err
	}
	c, err := n.Client(cfg)
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

// hostKubeconfig is a kubeconfig for a host, by which it proves itself to a server.
func hostKubeconfig(host enroll.Host, server *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) ([]byte, error) {
	out, name := clientcmdapi.NewConfig(), host.Namespace+"-"+host.Name
	out.Clusters["nephele"], out.AuthInfos[name] = server, user
	out.Contexts[name] = &clientcmdapi.Context{Cluster: "nephele", AuthInfo: name, Namespace: host.Namespace}
	out.CurrentContext = name
	return clientcmd.Write(*out)
}

// writePrivate puts a whole new file, for its owner only, in the place of an old one.
func writePrivate(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// renewer renews the credentials of an enrolled host in its kubeconfig.
type renewer struct {
	path   string
	client func(*rest.Config) (client.Client, error)
}

// renew renews what is due. A kubeconfig with credentials of another kind is left alone.
func (r renewer) renew(ctx context.Context, now time.Time) (renewed bool, err error) {
	file, err := clientcmd.LoadFromFile(r.path)
	if err != nil {
		return false, fmt.Errorf("renew the credentials of the host: %w", err)
	}
	at := file.Contexts[file.CurrentContext]
	if at == nil || file.AuthInfos[at.AuthInfo] == nil || file.Clusters[at.Cluster] == nil {
		return false, nil
	}
	user := file.AuthInfos[at.AuthInfo]
	claims, hasToken := enroll.ParseToken(user.Token)
	held, hasCertificate := enroll.ParseCertificate(user.ClientCertificateData)
	switch {
	case hasCertificate && held.Due(now), !hasCertificate && hasToken && claims.Due(now):
	default:
		return false, nil
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
	if err != nil {
		return false, fmt.Errorf("renew the credentials of the host: %w", err)
	}
	if hasCertificate {
		err = renewCertificate(ctx, cfg, file.Clusters[at.Cluster], user)
	} else {
		err = r.renewToken(ctx, cfg, claims, user)
	}
	if err != nil {
		return false, fmt.Errorf("renew the credentials of the host: %w", err)
	}
	text, err := clientcmd.Write(*file)
	if err == nil {
		err = writePrivate(r.path, text)
	}
	if err != nil {
		return false, fmt.Errorf("keep the new credentials of the host: %w", err)
	}
	return true, nil
}

func (r renewer) renewToken(ctx context.Context, cfg *rest.Config, claims enroll.Claims, user *clientcmdapi.AuthInfo) error {
	c, err := r.client(cfg)
	if err != nil {
		return err
	}
	user.Token, err = enroll.Renew(ctx, c, claims)
	return err
}

func renewCertificate(ctx context.Context, cfg *rest.Config, server *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	key, err := enroll.NewKey()
	if err != nil {
		return err
	}
	papers, err := enroll.Renewal(ctx, c, server.Server, key)
	if err != nil {
		return err
	}
	user.ClientCertificateData, user.ClientKeyData = []byte(papers.Certificate), key.Private
	server.CertificateAuthorityData = []byte(papers.Authority)
	return nil
}

// keepEnrolled renews the credentials of the host until ctx ends.
func keepEnrolled(ctx context.Context, r renewer, c clock.Clock, log logr.Logger) {
	for {
		limited, cancel := context.WithTimeout(ctx, 30*time.Second)
		renewed, err := r.renew(limited, c.Now())
		cancel()
		switch {
		case err != nil && ctx.Err() == nil:
			log.Error(err, "The credentials of this host could not be renewed, trying again")
		case renewed:
			log.Info("The credentials of this host were renewed")
		}
		select {
		case <-ctx.Done():
			return
		case <-c.After(renewInterval):
		}
	}
}
