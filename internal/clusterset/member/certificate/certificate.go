// Package certificate keeps what a member of a set proves itself with to its hub.
//
// It owns the Secret CredentialsName: the token of an invitation until that is used, and then the
// certificate, its key and the authority of the hub. It promises:
//
//   - A token is used once. What it has brought is stored before anything is done with it.
//   - A certificate is renewed before it ends, also while a stream to the hub lasts. One that cannot
//     be renewed is used until it ends.
//   - The hub is known by the authority that the token named, and by nothing else.
//
// All methods of a Keeper may be called from anywhere. It holds its lock for no call to others.
package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/enroll/credential"
)

// CredentialsName is the name of the Secret with what this cluster proves itself with.
const CredentialsName = "nephele-membership"

// What the Secret holds: the token, until it is used, and then the rest.
const (
	KeyToken     = "token"
	keyCert      = "tls.crt"
	keyPrivate   = "tls.key"
	keyAuthority = "ca.crt"
)

const (
	// openLimit bounds the wait for the hub's first word; dialLimit is how long one of several
	// addresses may keep the next one waiting.
	openLimit, dialLimit = 20 * time.Second, 5 * time.Second
	// renewPause is how often it is looked whether the certificate is due to be renewed.
	renewPause = 10 * time.Minute
)

// ErrRefused is what is wrong when trying again does not help.
var ErrRefused = errors.New("the hub refuses this cluster")

// Options are what a Keeper needs. All are required.
type Options struct {
	// Client reads Secrets from the API server, and writes them.
	Client client.Client
	// Namespace is that of the Secret.
	Namespace string
	Clock     clock.WithTicker
	Log       logr.Logger
}

// Keeper keeps the certificate. See the package comment; use New.
type Keeper struct {
	Options
	mu    sync.Mutex
	state State
}

// State is what is known of the certificate.
type State struct {
	// Joined tells that there is one, Why what is wrong if there is none. Before either is known
	// Why is empty.
	Joined bool
	Why    string
	// Authority is the fingerprint of the hub's authority, Ends when the certificate ends.
	Authority string
	Ends      time.Time
}

// New returns a Keeper that has not looked at the Secret yet.
func New(o Options) *Keeper { return &Keeper{Options: o} }

// State returns what is known of the certificate.
func (k *Keeper) State() State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// Ready returns a certificate that is not due to be renewed, if it can be renewed. It uses the
// token if there is one.
func (k *Keeper) Ready(ctx context.Context, server string) (*Proof, error) {
	var secret corev1.Secret
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: CredentialsName}, &secret)
	if err != nil {
		k.unjoined("the Secret " + k.Namespace + "/" + CredentialsName + " cannot be read: " + err.Error())
		return nil, fmt.Errorf("read Secret %s/%s: %w", k.Namespace, CredentialsName, err)
	}
	if token := string(secret.Data[KeyToken]); token != "" {
		if err := k.join(ctx, &secret, token, server); err != nil {
			k.unjoined(err.Error())
			return nil, err
		}
	}
	cert, ok := credential.ParseCertificate(secret.Data[keyCert])
	if !ok {
		k.unjoined("the Secret " + k.Namespace + "/" + CredentialsName + " holds no certificate: join again")
		return nil, errors.New("there is no certificate; join again")
	}
	now := k.Clock.Now()
	if !now.Before(cert.Expires) {
		k.unjoined("the certificate ended at " + cert.Expires.UTC().Format(time.RFC3339) + ": join again")
		return nil, fmt.Errorf("%w: the certificate ended at %s; join again", ErrRefused, cert.Expires.UTC().Format(time.RFC3339))
	}
	if cert.Due(now) {
		if err := k.renew(ctx, &secret, server); err != nil {
			k.Log.Info("The certificate was not renewed, trying again with the next connection", "ends", cert.Expires, "reason", err.Error())
		} else if cert, ok = credential.ParseCertificate(secret.Data[keyCert]); !ok {
			return nil, errors.New("the hub has given a certificate that is none")
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.Joined, k.state.Why, k.state.Ends = true, "", cert.Expires
	if block, _ := pem.Decode(secret.Data[keyAuthority]); block != nil {
		if authority, err := x509.ParseCertificate(block.Bytes); err == nil {
			k.state.Authority = credential.Fingerprint(authority)
		}
	}
	return &Proof{secret: &secret, now: k.Clock.Now}, nil
}

// StayKnown renews the certificate while a stream lasts, however long that is: it would be too late
// when the stream has ended, because one that has ended renews nothing.
func (k *Keeper) StayKnown(ctx context.Context, server string) {
	ticker := k.Clock.NewTicker(renewPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		if _, err := k.Ready(ctx, server); err != nil && ctx.Err() == nil {
			k.Log.Info("The certificate could not be looked at", "reason", err.Error())
		}
	}
}

func (k *Keeper) unjoined(why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.Joined, k.state.Why = false, why
}

// join uses the token.
func (k *Keeper) join(ctx context.Context, secret *corev1.Secret, token, server string) error {
	invitation, err := credential.ParseClusterInvitation(token)
	if err != nil {
		return err
	}
	key, err := credential.NewKey()
	if err != nil {
		return err
	}
	papers, err := credential.Join(ctx, server, invitation, nil, key)
	if err != nil {
		return err
	}
	delete(secret.Data, KeyToken)
	return k.keep(ctx, secret, papers, key)
}

func (k *Keeper) renew(ctx context.Context, secret *corev1.Secret, server string) error {
	transport, err := (&Proof{secret: secret, now: k.Clock.Now}).Transport()
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	key, err := credential.NewKey()
	if err != nil {
		return err
	}
	papers, err := credential.Renewal(ctx, &http.Client{Transport: transport}, server, key)
	if err != nil {
		return err
	}
	return k.keep(ctx, secret, papers, key)
}

// keep stores a certificate with its key.
func (k *Keeper) keep(ctx context.Context, secret *corev1.Secret, papers credential.Papers, key credential.Key) error {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[keyCert], secret.Data[keyPrivate], secret.Data[keyAuthority] = []byte(papers.Certificate), key.Private, []byte(papers.Authority)
	if err := k.Client.Update(ctx, secret); err != nil {
		return fmt.Errorf("keep the certificate: %w", err)
	}
	return nil
}

// Proof is a certificate with its key, and the authority of the hub. It never changes.
type Proof struct {
	secret *corev1.Secret
	now    func() time.Time
}

// Transport proves itself with the certificate, and knows the hub by its authority.
func (p *Proof) Transport() (*http.Transport, error) {
	pair, err := tls.X509KeyPair(p.secret.Data[keyCert], p.secret.Data[keyPrivate])
	if err != nil {
		return nil, fmt.Errorf("the certificate and its key: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(p.secret.Data[keyAuthority]) {
		return nil, errors.New("the authority of the hub is no certificate")
	}
	return &http.Transport{
		ForceAttemptHTTP2: true, DialContext: (&net.Dialer{Timeout: dialLimit}).DialContext, TLSHandshakeTimeout: dialLimit, ResponseHeaderTimeout: openLimit,
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: credential.ServerName, MinVersion: tls.VersionTLS12, Time: p.now},
	}, nil
}
