package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Ambient is the identity of the process. It is immutable; many accounts may share it.
type Ambient struct {
	// tokenFile is the file with the federated token of a workload identity; empty where the
	// process has a managed identity.
	tokenFile        string
	tenant, client   string
	managedTransport policy.Transporter
}

// LoadAmbient finds the identity of the process: a workload identity, if the environment names its
// token file, else the managed identity of the machine. Nothing in it depends on an account, and
// nothing is called. managed sends the requests to the metadata service; nil means as usual.
func LoadAmbient(managed policy.Transporter) *Ambient {
	return &Ambient{
		tokenFile: os.Getenv("AZURE_FEDERATED_TOKEN_FILE"), tenant: os.Getenv("AZURE_TENANT_ID"), client: os.Getenv("AZURE_CLIENT_ID"), managedTransport: managed,
	}
}

// credential is the identity of the process, as an account uses it: the account may name which of
// several identities, for it is granted all of them.
func (a *Ambient) credential(cfg Config, options policy.ClientOptions) (azcore.TokenCredential, error) {
	client := cmp.Or(cfg.Credential.ClientID, a.client)
	if a.tokenFile != "" {
		return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
			ClientOptions: options, TenantID: cmp.Or(cfg.Credential.TenantID, a.tenant), ClientID: client, TokenFilePath: a.tokenFile,
		})
	}
	o := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: policy.ClientOptions{Transport: a.managedTransport, Retry: options.Retry}}
	if client != "" {
		o.ID = azidentity.ClientID(client)
	}
	return azidentity.NewManagedIdentityCredential(o)
}

// ambient reports whether the account is served with the identity of the process.
func (c Config) ambient() bool {
	k := c.Credential
	return k.ClientKey == "" && k.ClientCertificate == "" && k.SessionToken == ""
}

// checkIdentity refuses an account that would be served with the identity of the process and must
// not be, before anything is called.
func checkIdentity(cfg Config) error {
	if !cfg.ambient() {
		return nil
	}
	namespace, _, _ := strings.Cut(cfg.Account, "/")
	switch {
	case cfg.Cloud != nil:
		return &cloud.NotGrantedError{Message: "the controller's own identity is never shown to a configured cloud: remove azureConfig.cloud, or put clientKey, " +
			"clientCertificate or sessionToken into the Secret"}
	case cfg.Ambient == nil:
		return &cloud.NotGrantedError{Message: fmt.Sprintf("the subscription would be worked on with the controller's own identity, which the namespace %s may not use: "+
			"put clientKey, clientCertificate or sessionToken into the Secret, or have the controller started with --ambient-identity-namespaces %[1]s", namespace)}
	}
	return nil
}

// newCredential makes the credential of an account.
func newCredential(cfg Config, options policy.ClientOptions) (azcore.TokenCredential, error) {
	k := cfg.Credential
	// Asking a public host whether a private cloud is one would tell it of that cloud.
	private := cfg.Cloud != nil
	switch {
	case k.SessionToken != "":
		return azidentity.NewClientAssertionCredential(k.TenantID, k.ClientID, func(context.Context) (string, error) { return k.SessionToken, nil },
			&azidentity.ClientAssertionCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: private})
	case k.ClientCertificate != "":
		certificates, key, err := azidentity.ParseCertificates([]byte(k.ClientCertificate), nil)
		if err != nil {
			return nil, errors.New("clientCertificate of the Secret is not a certificate with its private key, in PEM")
		}
		return azidentity.NewClientCertificateCredential(k.TenantID, k.ClientID, certificates, key,
			&azidentity.ClientCertificateCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: private})
	case k.ClientKey != "":
		return azidentity.NewClientSecretCredential(k.TenantID, k.ClientID, k.ClientKey,
			&azidentity.ClientSecretCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: private})
	}
	return cfg.Ambient.credential(cfg, options)
}

// noRedirect keeps answers from sending a token elsewhere.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
