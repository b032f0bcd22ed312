package azure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/platform/egress"
)

// publicHosts are where the requests of an account without azureConfig.cloud go.
func publicHosts() []string { return []string{"login.microsoftonline.com", "management.azure.com"} }

// The bounds of answers.
const (
	headerBytes = 256 << 10
	errorBytes  = 256 << 10
)

// newClient returns the client of an account. It goes to the hosts of its cloud only, or to the
// others that are given in their place. It follows no redirect, and ends answers at the bound.
func newClient(cfg Config, others ...string) (*http.Client, error) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		base = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	t := base.Clone()
	t.MaxResponseHeaderBytes = headerBytes
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	hosts := publicHosts()
	if c := cfg.Cloud; c != nil {
		hosts = nil
		for _, text := range []string{c.Authority, c.ResourceManager} {
			u, err := url.Parse(text)
			if err != nil || u.Host == "" || u.Scheme != "https" {
				return nil, fmt.Errorf("azureConfig.cloud names %q, which is not an https URL with a host", text)
			}
			if cfg.Allowed != nil {
				if err := cfg.Allowed.Check(u); err != nil {
					return nil, &cloud.NotGrantedError{Err: err, Message: fmt.Sprintf("%s of azureConfig.cloud is not allowed: %v; the controller allows %s by "+
						"--allowed-endpoints, besides the services of Azure", u.Host, err, cfg.Allowed)}
				}
			}
			hosts = append(hosts, strings.ToLower(u.Host))
		}
		if cfg.Allowed != nil {
			t.Proxy, t.DialContext = nil, cfg.Allowed.Dial(&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second})
		}
		if c.CABundle != "" {
			t.TLSClientConfig.RootCAs = x509.NewCertPool()
			if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(c.CABundle)) {
				return nil, errors.New("azureConfig.cloud.caBundle holds no certificate in PEM")
			}
		}
	}
	if len(others) > 0 {
		hosts = others
	}
	t.DialContext = egress.GatedDial(t.DialContext, cfg.Gate)
	var next http.RoundTripper = t
	if cfg.Transport != nil {
		next = cfg.Transport
	}
	next = egress.Gated(next, cfg.Gate)
	return &http.Client{Transport: gate{next: next, hosts: hosts, bytes: cfg.Bounds.AnswerBytes}, Timeout: cfg.AttemptTimeout, CheckRedirect: noRedirect}, nil
}

// gate lets requests to the hosts of the cloud pass, and ends their answers. Pages and operations
// are links in answers: a hostile one leads nowhere.
type gate struct {
	next  http.RoundTripper
	hosts []string
	bytes int64
}

// RoundTrip implements http.RoundTripper.
func (g gate) RoundTrip(r *http.Request) (*http.Response, error) {
	allowed := false
	for _, h := range g.hosts {
		allowed = allowed || r.URL.Scheme == "https" && strings.EqualFold(r.URL.Host, h)
	}
	if !allowed {
		return nil, &cloud.NotGrantedError{Message: fmt.Sprintf("%s is not a host of the account's cloud", r.URL.Host)}
	}
	resp, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	most := g.bytes
	if resp.StatusCode >= 300 {
		most = min(most, errorBytes)
	}
	resp.Body = &answer{ReadCloser: resp.Body, left: most, most: most}
	return resp, nil
}

// answer is a body that ends in an error at the bound.
type answer struct {
	io.ReadCloser
	left, most int64
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	if a.left < 0 {
		return 0, &cloud.BoundError{What: "the answer takes", Bound: a.most, Unit: "bytes", Flag: "--max-answer-bytes"}
	}
	n, err := a.ReadCloser.Read(p)
	if a.left -= int64(n); a.left < 0 {
		return 0, &cloud.BoundError{What: "the answer takes", Bound: a.most, Unit: "bytes", Flag: "--max-answer-bytes"}
	}
	return n, err
}
