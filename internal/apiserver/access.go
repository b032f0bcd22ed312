package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	apiserverconfig "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// Where kube-apiserver publishes how to recognize the callers that it forwards, and holders of
// client certificates.
const (
	authNamespace = "kube-system"
	authConfigMap = "extension-apiserver-authentication"
)

// Access authenticates and authorizes callers.
type Access struct {
	Authenticator authenticator.Request
	Authorizer    authorizer.Authorizer
	// ClientCA are the authorities of the client certificates that the Authenticator understands;
	// nil if it knows none.
	ClientCA dynamiccertificates.CAContentProvider
	// AsksWebhooks recognizes the callers that may ask the webhooks; nil allows all.
	AsksWebhooks func(user.Info) bool
	// Own recognizes the callers of the server's own process, and OwnRequest their requests; they
	// may be nil.
	Own        func(user.Info) bool
	OwnRequest func(*http.Request) bool
	// Ready says what is missing until all callers are recognized; it may be nil.
	Ready func() error
}

// healthPaths are open to every caller, because kubelets cannot authenticate. The paths of single
// checks, which reveal more, are not among them.
var healthPaths = []string{"/healthz", "/livez", "/readyz"}

// Delegated asks the cluster about everything: callers are recognized by kube-apiserver's word when
// it forwards them, by client certificates of the cluster, or by tokens through TokenReview;
// SubjectAccessReview says what they may do. Only health is told to everybody. The client needs
// create on both reviews, and to read and watch the ConfigMap
// kube-system/extension-apiserver-authentication, which is followed. Until it has been read, client
// certificates are not understood, and Ready says so.
func Delegated(ctx context.Context, client kubernetes.Interface) (Access, error) {
	clientCA, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", authNamespace, authConfigMap, "client-ca-file", client)
	if err != nil {
		return Access{}, fmt.Errorf("follow the cluster's client authority: %w", err)
	}
	proxy, err := newFrontProxy(ctx, client)
	if err != nil {
		return Access{}, err
	}
	backoff := &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
	authn, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:               &apiserverconfig.AnonymousAuthConfig{Enabled: true},
		TokenAccessReviewClient: client.AuthenticationV1(), TokenAccessReviewTimeout: 10 * time.Second,
		WebhookRetryBackoff: backoff, CacheTTL: 10 * time.Second,
		ClientCertificateCAContentProvider: clientCA,
		RequestHeaderConfig: &authenticatorfactory.RequestHeaderConfig{
			CAContentProvider: proxy, AllowedClientNames: headerrequest.StringSliceProviderFunc(proxy.AllowedClientNames),
			UsernameHeaders:     headerrequest.StringSliceProviderFunc(proxy.UsernameHeaders),
			UIDHeaders:          headerrequest.StringSliceProviderFunc(proxy.UIDHeaders),
			GroupHeaders:        headerrequest.StringSliceProviderFunc(proxy.GroupHeaders),
			ExtraHeaderPrefixes: headerrequest.StringSliceProviderFunc(proxy.ExtraHeaderPrefixes),
		},
	}.New()
	if err != nil {
		return Access{}, fmt.Errorf("set up delegated authentication: %w", err)
	}
	reviews, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(), AllowCacheTTL: 10 * time.Second, DenyCacheTTL: 10 * time.Second,
		WebhookRetryBackoff: backoff,
	}.New()
	if err != nil {
		return Access{}, fmt.Errorf("set up delegated authorization: %w", err)
	}
	health, err := path.NewAuthorizer(healthPaths)
	if err != nil {
		return Access{}, fmt.Errorf("set up delegated authorization: %w", err)
	}
	return Access{
		// A kube-apiserver lets these do everything, whatever its rules are. Its aggregator is one
		// of them, and asks again and again.
		Authenticator: authn, Authorizer: union.New(health, authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup), reviews),
		ClientCA: dynamiccertificates.NewUnionCAContentProvider(clientCA, proxy),
		Ready: func() error {
			if len(clientCA.CurrentCABundleContent()) == 0 || len(proxy.CurrentCABundleContent()) == 0 {
				return fmt.Errorf("the authorities of client certificates have not been read from ConfigMap %s/%s", authNamespace, authConfigMap)
			}
			return nil
		},
	}, nil
}

// frontProxy knows how kube-apiserver proves itself when it forwards a caller, and which headers
// name the caller.
type frontProxy struct {
	*dynamiccertificates.ConfigMapCAController
	*headerrequest.RequestHeaderAuthRequestController
}

func newFrontProxy(ctx context.Context, client kubernetes.Interface) (*frontProxy, error) {
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController("front-proxy-ca", authNamespace, authConfigMap, "requestheader-client-ca-file", client)
	if err != nil {
		return nil, fmt.Errorf("follow the authority of kube-apiserver's proxy: %w", err)
	}
	p := &frontProxy{ca, headerrequest.NewRequestHeaderAuthRequestController(authConfigMap, authNamespace, client,
		"requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers",
		"requestheader-extra-headers-prefix", "requestheader-allowed-names")}
	// The headers must be known before the authorities are, or a caller who is forwarded is taken
	// for an anonymous one.
	if err := p.RunOnce(ctx); err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", authNamespace, authConfigMap, err)
	}
	return p, nil
}

// RunOnce implements dynamiccertificates.ControllerRunner.
func (p *frontProxy) RunOnce(ctx context.Context) error {
	return errors.Join(p.ConfigMapCAController.RunOnce(ctx), p.RequestHeaderAuthRequestController.RunOnce(ctx))
}

// Run implements dynamiccertificates.ControllerRunner.
func (p *frontProxy) Run(ctx context.Context, workers int) {
	go p.ConfigMapCAController.Run(ctx, workers)
	go p.RequestHeaderAuthRequestController.Run(ctx, workers)
	<-ctx.Done()
}
