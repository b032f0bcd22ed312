package enroll

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"github.com/nephele-io/nephele/internal/enroll/credential"
)

const (
	// CertificateLife is how long a certificate of a host lasts.
	CertificateLife = 7 * 24 * time.Hour
	// authorityLife is how long the authority lasts that signs them.
	authorityLife = 10 * 365 * 24 * time.Hour
	// clockSlack is by how much the clocks of two servers may differ.
	clockSlack = 5 * time.Minute
)

// Authority signs the certificates of hosts, and that of the server which they connect to.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "nephele authority for hosts"}, NotBefore: now.Add(-clockSlack), NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	cert, err := sign(template, template, key.Public(), key)
	return &Authority{cert, key}, err
}

// CertPEM is the certificate of the authority.
func (a *Authority) CertPEM() []byte { return certPEM(a.cert) }

func (a *Authority) keyPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// parseAuthority reads an authority. A key that is not that of the certificate is an error.
func parseAuthority(certText, keyText []byte) (*Authority, error) {
	certBlock, _ := pem.Decode(certText)
	keyBlock, _ := pem.Decode(keyText)
	if certBlock == nil || keyBlock == nil {
		return nil, errors.New("want a certificate and a key in PEM")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok || !signer.PublicKey.Equal(cert.PublicKey) || !cert.IsCA {
		return nil, errors.New("the key is not that of the authority")
	}
	return &Authority{cert, signer}, nil
}

// serving makes a certificate and a key, both in PEM, for a server of hosts. The authority's own
// certificate comes with it, because a host that enrolls knows only its hash.
func (a *Authority) serving(now time.Time) (cert, key []byte, err error) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	made, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: credential.ServerName}, DNSNames: []string{credential.ServerName}, NotBefore: now.Add(-clockSlack), NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}, a.cert, own.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(own)
	return append(certPEM(made), a.CertPEM()...), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// until is when certificates of hosts end that are made now.
func (a *Authority) until(now time.Time) time.Time {
	if end := now.Add(CertificateLife); end.Before(a.cert.NotAfter) {
		return end
	}
	return a.cert.NotAfter
}

// certify signs for the key of a request, whatever else that says.
func (a *Authority) certify(id credential.Identity, request []byte, now time.Time) ([]byte, error) {
	key, err := requestedKey(request)
	if err != nil {
		return nil, err
	}
	made, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "nephele host"}, URIs: []*url.URL{id.URI()}, NotBefore: now.Add(-clockSlack), NotAfter: a.until(now),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}, a.cert, key, a.key)
	if err != nil {
		return nil, err
	}
	return certPEM(made), nil
}

// requestedKey returns the public key of a request, if who made it has the private one.
func requestedKey(request []byte) (crypto.PublicKey, error) {
	block, _ := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("want a certificate request in PEM")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the certificate request: %w", err)
	}
	if err := r.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the certificate request: %w", err)
	}
	switch k := r.PublicKey.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return k, nil
	}
	return nil, errors.New("the key of the certificate request is of no kind that is taken: ECDSA or Ed25519")
}

// verify returns what a certificate of a host says. ours tells that this authority claims to have
// signed it, so that nobody else needs to look at it.
func (a *Authority) verify(cert *x509.Certificate, now time.Time) (id credential.Identity, ours bool, err error) {
	if !bytes.Equal(cert.RawIssuer, a.cert.RawSubject) {
		return credential.Identity{}, false, nil
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return credential.Identity{}, true, fmt.Errorf("the certificate of the host: %w", err)
	}
	id, err = credential.IdentityOf(cert)
	return id, true, err
}

func sign(template, parent *x509.Certificate, key crypto.PublicKey, signer crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, signer)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

func certPEM(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}
