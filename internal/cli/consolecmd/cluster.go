package consolecmd

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/nephele-io/nephele/internal/console"
)

// clusterMode are the flags of a console for every person who may log in.
type clusterMode struct {
	url                     string
	server, serverCA        string
	tlsDir                  string
	issuer, client          string
	secretFile, authorities string
	scopes                  []string
	tokens                  bool
}

func (m *clusterMode) register(f *pflag.FlagSet) {
	f.StringVar(&m.url, "url", "", "https://HOST under which browsers reach this console. It makes it a console for all users who may log in, on any address")
	f.StringVar(&m.server, "api-server", "", "with --url: address of the API server, in place of the one of the kubeconfig")
	f.StringVar(&m.serverCA, "api-server-ca", "", "with --api-server: PEM file with its authorities")
	f.StringVar(&m.tlsDir, "tls-dir", "", "with --url: directory of tls.crt and tls.key, which are read again when they change; empty for a certificate that "+
		"this process makes, for what stands in front of it")
	f.BoolVar(&m.tokens, "token-login", true, "with --url: let people log in with a token of the cluster that they paste")
	f.StringVar(&m.issuer, "oidc-issuer", "", "with --url: https://... of an OpenID provider to log in at, the one from which the API server takes tokens")
	f.StringVar(&m.client, "oidc-client-id", "", "name of the client at the provider, the one for which the API server takes tokens")
	f.StringVar(&m.secretFile, "oidc-client-secret-file", "", "file with the client's secret; empty for a public client")
	f.StringSliceVar(&m.scopes, "oidc-scopes", []string{"email", "profile"}, "what to ask the provider for besides openid; offline_access renews tokens that end")
	f.StringVar(&m.authorities, "oidc-ca", "", "PEM file with the authorities of the provider; empty for the system's")
}

// misplaced names a flag that says nothing without --url.
func (m *clusterMode) misplaced(f *pflag.FlagSet) error {
	var err error
	f.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "api-server", "api-server-ca", "tls-dir", "token-login", "oidc-issuer", "oidc-client-id", "oidc-client-secret-file", "oidc-scopes", "oidc-ca":
			err = fmt.Errorf("--%s is for a console for all users who may log in: give --url as well", f.Name)
		}
	})
	return err
}

// cluster is how the API server is reached, without credentials.
func (m *clusterMode) cluster(fallback func() (*rest.Config, string, error)) (*rest.Config, string, error) {
	if m.server != "" {
		u, err := url.Parse(m.server)
		if err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, "", fmt.Errorf("--api-server %q: want https://HOST:PORT", m.server)
		}
		return &rest.Config{Host: m.server, TLSClientConfig: rest.TLSClientConfig{CAFile: m.serverCA}}, u.Hostname(), nil
	}
	if m.serverCA != "" {
		return nil, "", errors.New("--api-server-ca needs --api-server")
	}
	return fallback()
}

func (m *clusterMode) openID() (*console.OpenID, error) {
	if m.issuer == "" {
		if m.client != "" || m.secretFile != "" || m.authorities != "" {
			return nil, errors.New("--oidc-client-id, --oidc-client-secret-file and --oidc-ca need --oidc-issuer")
		}
		return nil, nil
	}
	o := &console.OpenID{Issuer: m.issuer, ClientID: m.client, Scopes: m.scopes}
	if m.secretFile != "" {
		raw, err := os.ReadFile(m.secretFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-client-secret-file: %w", err)
		}
		o.ClientSecret = strings.TrimSpace(string(raw))
	}
	if m.authorities != "" {
		raw, err := os.ReadFile(m.authorities)
		if err != nil {
			return nil, fmt.Errorf("--oidc-ca: %w", err)
		}
		o.Authorities = x509.NewCertPool()
		if !o.Authorities.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("--oidc-ca %s: there is no certificate in it", m.authorities)
		}
	}
	return o, nil
}

// certificate returns the certificate to answer with; follow sees to it until its context ends.
func (m *clusterMode) certificate() (c *tls.Config, follow func(context.Context) error, err error) {
	c = &tls.Config{MinVersion: tls.VersionTLS12}
	if m.tlsDir == "" {
		u, err := url.Parse(m.url)
		if err != nil {
			return nil, nil, fmt.Errorf("--url: %w", err)
		}
		cert, key, err := certutil.GenerateSelfSignedCertKey(u.Hostname(), nil, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("make a certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, nil, fmt.Errorf("make a certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
		return c, func(context.Context) error { return nil }, nil
	}
	w, err := certwatcher.New(filepath.Join(m.tlsDir, "tls.crt"), filepath.Join(m.tlsDir, "tls.key"))
	if err != nil {
		return nil, nil, fmt.Errorf("--tls-dir: %w", err)
	}
	c.GetCertificate = w.GetCertificate
	return c, w.Start, nil
}

// run serves until ctx ends. Ready is called with the address to visit.
func (m *clusterMode) run(ctx context.Context, address string, o console.Options, fallback func() (*rest.Config, string, error), ready func(string)) error {
	var err error
	if o.Cluster, o.Name, err = m.cluster(fallback); err != nil {
		return err
	}
	if o.OpenID, err = m.openID(); err != nil {
		return err
	}
	var follow func(context.Context) error
	if o.TLS, follow, err = m.certificate(); err != nil {
		return err
	}
	o.Mode, o.Origins, o.Tokens, o.Now, o.Random = console.Cluster, []string{m.url}, m.tokens, time.Now, rand.Reader
	s, err := console.New(o)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("the console: %w", err)
	}
	ctx, end := context.WithCancel(ctx)
	followed := make(chan error, 1)
	go func() { followed <- follow(ctx) }()
	ready(m.url)
	err = s.Serve(ctx, l)
	end()
	return errors.Join(err, <-followed)
}
