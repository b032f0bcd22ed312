package credential

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/internal/enroll/identity"
)

// Where a server of hosts answers: for tokens, for certificates, and for what agents tell about
// themselves, with the name of the host behind it.
const (
	JoinPath  = "/nephele/hosts/join"
	RenewPath = "/nephele/hosts/renew"
	// FeedPath is where members of the set and their hub tell each other what they have.
	FeedPath  = "/nephele/set/feed"
	InfosPath = "/apis/crd.antrea.io/v1beta1/antreaagentinfos/"
)

const (
	// joinLimit bounds a request for a certificate, dialLimit the wait for a connection, so that
	// one of several addresses does not use up all of it, and maxAnswer what is read of its
	// answer, in bytes.
	joinLimit = 30 * time.Second
	dialLimit = 10 * time.Second
	maxAnswer = 64 << 10
)

// ErrNotYet is wrapped by errors of requests that may succeed later as they are.
var ErrNotYet = errors.New("not yet")

// Asked is a request for a certificate. With a certificate only the key is needed; else a secret,
// of a host or a cluster, or of an account together with what the cloud has signed.
type Asked struct {
	Host    string          `json:"host,omitempty"`
	Cluster string          `json:"cluster,omitempty"`
	Account string          `json:"account,omitempty"`
	Secret  string          `json:"secret,omitempty"`
	Signed  *identity.Proof `json:"signed,omitempty"`
	// Request is a certificate request in PEM. Only its key counts.
	Request string `json:"request"`
}

// Key is a new key of a host, in PEM, with the request for a certificate.
type Key struct{ Private, Request []byte }

// NewKey makes a key.
func NewKey() (Key, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Key{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Key{}, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	return Key{
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
	}, err
}

// Papers are what a host proves itself with, and by what it knows the server, in PEM.
type Papers struct {
	Certificate string `json:"certificate"`
	Authority   string `json:"authority"`
}

// Join uses an invitation at the server with a URL, which has to prove first that it is the one
// that the invitation is from. The token of a host is then used up, also if the answer is lost.
// signed is needed for the invitation of an account.
func Join(ctx context.Context, server string, i Invitation, signed *identity.Proof, key Key) (Papers, error) {
	dial := (&net.Dialer{Timeout: dialLimit}).DialContext
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial, TLSHandshakeTimeout: dialLimit, TLSClientConfig: &tls.Config{
		ServerName: ServerName, MinVersion: tls.VersionTLS12,
		// What is shown is checked below, against the hash.
		InsecureSkipVerify: true,
		VerifyConnection:   func(s tls.ConnectionState) error { return proven(s.PeerCertificates, i.Authority, time.Now()) },
	}}}
	asked := Asked{Secret: i.Secret, Request: string(key.Request)}
	switch {
	case i.Account != (Host{}):
		asked.Account, asked.Signed = i.Account.String(), signed
	case i.Host.IsCluster():
		asked.Cluster = i.Host.Name
	default:
		asked.Host = i.Host.String()
	}
	return ask(ctx, c, server, JoinPath, asked)
}

// Nonce is what Azure is to sign with what it says about this machine, so that it counts for this
// key and invitation only.
func (i Invitation) Nonce(key Key) string {
	return identity.Nonce(i.Account.String(), i.Secret, string(key.Request))
}

// Renewal asks for the next certificate, with a client that shows the one there is.
func Renewal(ctx context.Context, c *http.Client, server string, key Key) (Papers, error) {
	return ask(ctx, c, server, RenewPath, Asked{Request: string(key.Request)})
}

// proven fails unless a server shows the authority with this hash, and a certificate that it has
// signed for servers of hosts.
func proven(chain []*x509.Certificate, hash string, now time.Time) error {
	roots := x509.NewCertPool()
	found := false
	for _, c := range chain {
		if Fingerprint(c) == hash {
			roots.AddCert(c)
			found = true
		}
	}
	if !found {
		return errors.New("this is not the server that the token is from: it does not show the authority that the token names")
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: ServerName, CurrentTime: now}); err != nil {
		return fmt.Errorf("this is not the server that the token is from: %w", err)
	}
	return nil
}

func ask(ctx context.Context, c *http.Client, server, path string, asked Asked) (Papers, error) {
	at, err := url.Parse(server)
	if err != nil || at.Scheme != "https" || at.Host == "" {
		return Papers{}, fmt.Errorf("the server %q: want https://HOST:PORT", server)
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return Papers{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return Papers{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := c.Do(r)
	if err != nil {
		return Papers{}, fmt.Errorf("ask for a certificate: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return Papers{}, fmt.Errorf("ask for a certificate: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		var s metav1.Status
		if json.Unmarshal(text, &s) != nil || s.Message == "" {
			s.Message = strings.TrimSpace(string(text))
		}
		err := fmt.Errorf("the server gives no certificate (%s): %s", response.Status, s.Message)
		if response.StatusCode == http.StatusServiceUnavailable || response.StatusCode == http.StatusTooManyRequests {
			err = fmt.Errorf("%w: %w", ErrNotYet, err)
		}
		return Papers{}, err
	}
	var papers Papers
	if err := json.Unmarshal(text, &papers); err != nil || papers.Certificate == "" || papers.Authority == "" {
		return Papers{}, errors.New("the server's answer holds no certificate")
	}
	return papers, nil
}
