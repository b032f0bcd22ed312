package apiserver

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/platform/certs"
)

const (
	// authorityName and servingName are what the files in the directory are called.
	authorityName = "nephele-ca"
	servingName   = "nephele-apiserver"
	// renewalCheck is how often the end of the certificates' life is looked at.
	renewalCheck = time.Hour
)

// Certificate is what a server proves itself with: a certificate of our own, and the authority that has signed it. Both are
// kept in a directory and renewed before they end.
type Certificate struct {
	dir     *certs.Store
	profile certs.Profile
	clock   clock.WithTicker
	pair    *dynamiccertificates.DynamicCertKeyPairContent

	mu     sync.Mutex
	bundle []byte
}

// OpenCertificate makes sure that the directory, which nobody else may use, has a certificate for a server that is reached by the
// given names and addresses.
func OpenCertificate(dir *certs.Store, names []string, ips []net.IP, clk clock.WithTicker) (*Certificate, error) {
	c := &Certificate{
		dir: dir, clock: clk,
		profile: certs.Profile{CommonName: servingName, DNSNames: names, IPs: ips, Server: true},
	}
	if err := c.renew(); err != nil {
		return nil, err
	}
	pair, err := dynamiccertificates.NewDynamicServingContentFromFiles("serving-cert", dir.CertFile(servingName), dir.KeyFile(servingName))
	if err != nil {
		return nil, fmt.Errorf("load the serving certificate: %w", err)
	}
	c.pair = pair
	return c, nil
}

// CABundle is the certificate of the authority in PEM, for those who verify the server.
func (c *Certificate) CABundle() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.bundle)
}

// renew replaces what ends soon.
func (c *Certificate) renew() error {
	authority, err := c.dir.Authority(authorityName)
	if err != nil {
		return fmt.Errorf("make the authority: %w", err)
	}
	if _, err := c.dir.Certificate(servingName, authority, c.profile); err != nil {
		return fmt.Errorf("make the serving certificate: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bundle = authority.CertPEM()
	return nil
}

// keep renews until ctx ends. The server notices changed files by itself; failed tells about errors, which are tried again.
func (c *Certificate) keep(ctx context.Context, failed func(error)) {
	ticker := c.clock.NewTicker(renewalCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
		err := c.renew()
		if err == nil {
			err = c.pair.RunOnce(ctx)
		}
		if err != nil {
			failed(err)
		}
	}
}
