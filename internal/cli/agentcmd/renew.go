package agentcmd

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/enroll/credential"
)

// renewInterval is how often an agent looks whether its credentials are to be renewed.
const renewInterval = time.Minute

// renewer renews the credentials of an enrolled host in its kubeconfig.
type renewer struct{ path string }

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
	claims, hasToken := credential.ParseToken(user.Token)
	held, hasCertificate := credential.ParseCertificate(user.ClientCertificateData)
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
		if user.Token, err = credential.RenewToken(ctx, cfg, claims); err == nil {
			r.relearn(ctx, cfg, file.Clusters[at.Cluster])
		}
	}
	if err != nil {
		return false, fmt.Errorf("renew the credentials of the host: %w", err)
	}
	text, err := clientcmd.Write(*file)
	if err == nil {
		err = credential.WritePrivate(r.path, text)
	}
	if err != nil {
		return false, fmt.Errorf("keep the new credentials of the host: %w", err)
	}
	return true, nil
}

// relearn takes over by what authorities the API server is known now, so that another one reaches
// the host before the server proves itself by it. Where that cannot be read the host goes on with
// those it knows.
func (r renewer) relearn(ctx context.Context, cfg *rest.Config, server *clientcmdapi.Cluster) {
	published, err := credential.ClusterAuthorities(ctx, cfg)
	if err == nil && credential.Succeeds(published, server.CertificateAuthorityData) {
		server.CertificateAuthorityData = published
	}
}

func renewCertificate(ctx context.Context, cfg *rest.Config, server *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	key, err := credential.NewKey()
	if err != nil {
		return err
	}
	papers, err := credential.Renewal(ctx, c, server.Server, key)
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
