// Package serving has the certificate that a server proves itself with.
//
// It owns its life: it makes one of our own, with the authority that signs it, and renews both
// before they end, or it reads one that another program keeps. A Certificate may be used from
// anywhere.
package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/platform/certs"
)

const (
	// AuthorityName and servingName are what the files in the directory are called.
	AuthorityName = "nephele-ca"
	servingName   = "nephele-apiserver"
	// renewalCheck is how often the end of the certificates' life is looked at, mountCheck how
	// often a directory that somebody else fills is read.
	renewalCheck = time.Hour
	mountCheck   = 5 * time.Second
	// mountedCert, mountedKey and mountedCA are the files in such a directory, as in a Secret of
	// type kubernetes.io/tls.
	mountedCert, mountedKey, mountedCA = "tls.crt", "tls.key", "ca.crt"
)

// Certificate is what a server proves itself with: a certificate of our own and the authority that
// has signed it, both kept in a directory and renewed before they end, or a pair that another
// program keeps in a directory.
type Certificate struct {
	// profile says what the certificate is for; of one that somebody else makes, only the name is
	// known.
	profile certs.Profile
	clock   clock.WithTicker
	every   time.Duration
	refresh func() (bundle []byte, err error)
	pair    *dynamiccertificates.DynamicCertKeyPairContent
	changed chan struct{}

	mu     sync.Mutex
	bundle []byte
}

// Open makes sure that the directory, which no one else may use, has a certificate for a server
// that is reached by the given names and addresses.
func Open(dir *certs.Store, names []string, ips []net.IP, clk clock.WithTicker) (*Certificate, error) {
	profile := certs.Profile{CommonName: servingName, DNSNames: names, IPs: ips, Server: true}
	c := &Certificate{profile: profile, clock: clk, every: renewalCheck, refresh: func() ([]byte, error) {
		authority, err := dir.Authority(AuthorityName)
		if err != nil {
			return nil, fmt.Errorf("make the authority: %w", err)
		}
		if _, err := dir.Certificate(servingName, authority, profile); err != nil {
			return nil, fmt.Errorf("make the serving certificate: %w", err)
		}
		return authority.CertPEM(), nil
	}}
	if err := c.open(dir.CertFile(servingName), dir.KeyFile(servingName)); err != nil {
		return nil, err
	}
	return c, nil
}

// Mounted uses the files tls.crt, tls.key and ca.crt of a directory that somebody else
// fills and renews, such as the mounted Secret of a cert-manager Certificate. The certificate must
// be signed by an authority in ca.crt and be valid for name.
func Mounted(dir, name string, clk clock.WithTicker) (*Certificate, error) {
	c := &Certificate{profile: certs.Profile{DNSNames: []string{name}}, clock: clk, every: mountCheck, refresh: func() ([]byte, error) {
		bundle, err := os.ReadFile(filepath.Join(dir, mountedCA))
		if err != nil {
			return nil, fmt.Errorf("read the authority: %w", err)
		}
		if err := verifyMounted(filepath.Join(dir, mountedCert), bundle, name, clk.Now()); err != nil {
			return nil, err
		}
		return bundle, nil
	}}
	if err := c.open(filepath.Join(dir, mountedCert), filepath.Join(dir, mountedKey)); err != nil {
		return nil, err
	}
	return c, nil
}

// verifyMounted says whether clients that have the bundle will trust the certificate.
func verifyMounted(file string, bundle []byte, name string, now time.Time) error {
	chain, err := cert.CertsFromFile(file)
	if err != nil {
		return fmt.Errorf("read the serving certificate: %w", err)
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return fmt.Errorf("%s beside %s holds no certificate in PEM", mountedCA, file)
	}
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: intermediates, DNSName: name, CurrentTime: now}
	if _, err := chain[0].Verify(options); err != nil {
		return fmt.Errorf("%s is not trusted by clients that have %s: %w", file, mountedCA, err)
	}
	return nil
}

// open reads everything for the first time.
func (c *Certificate) open(certFile, keyFile string) error {
	c.changed = make(chan struct{}, 1)
	if err := c.renew(); err != nil {
		return err
	}
	pair, err := dynamiccertificates.NewDynamicServingContentFromFiles("serving-cert", certFile, keyFile)
	if err != nil {
		return fmt.Errorf("load the serving certificate: %w", err)
	}
	c.pair = pair
	return nil
}

// Clock is the clock by which it is renewed.
func (c *Certificate) Clock() clock.WithTicker { return c.clock }

// Pair is what a server of k8s.io/apiserver is given: it shows the certificate as it is now.
func (c *Certificate) Pair() *dynamiccertificates.DynamicCertKeyPairContent { return c.pair }

// CABundle is the certificate of the authority in PEM, for clients that verify the server.
func (c *Certificate) CABundle() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.bundle)
}

// Current is what to serve with now, for other servers of the process.
func (c *Certificate) Current() (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(c.pair.CurrentCertKeyContent())
	if err != nil {
		return nil, fmt.Errorf("load the serving certificate: %w", err)
	}
	return &pair, nil
}

// Changed receives when the CA bundle has changed; several changes may show as one.
func (c *Certificate) Changed() <-chan struct{} { return c.changed }

// renew replaces what ends soon.
func (c *Certificate) renew() error {
	bundle, err := c.refresh()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bundle != nil && !bytes.Equal(c.bundle, bundle) {
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
	c.bundle = bundle
	return nil
}

// Keep renews until ctx ends. The server notices changed files by itself as well; failed tells
// about errors, which are tried again. Files that do not belong together, because they are just
// being replaced, leave what is served as it is.
func (c *Certificate) Keep(ctx context.Context, failed func(error)) {
	ticker := c.clock.NewTicker(c.every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
		if err := errors.Join(c.renew(), c.pair.RunOnce(ctx)); err != nil {
			failed(err)
		}
	}
}
