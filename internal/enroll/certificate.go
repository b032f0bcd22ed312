package enroll

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"time"

	"github.com/nephele-io/nephele/internal/enroll/credential"
)

const (
	// CertificateLife is how long a certificate of a host lasts.
	CertificateLife = 7 * 24 * time.Hour
	// servingLife is how long the certificate of the server of hosts lasts, and servingRenew how
	// long before its end it is replaced.
	servingLife, servingRenew = 365 * 24 * time.Hour, 90 * 24 * time.Hour
	// authorityLife is how long the authority lasts that signs them.
	authorityLife = 10 * 365 * 24 * time.Hour
	// clockSlack is by how much the clocks of two servers may differ.
	clockSlack = 5 * time.Minute
)

// Authority signs the certificates of hosts, and that of the server which they connect to.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer // nil if it only verifies any more
}

// newAuthority makes an authority.
func newAuthority(random io.Reader, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
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

// material is the authority as a key of a list.
func (a *Authority) material() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	return append(a.CertPEM(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...), err
}

// CertPEM is the certificate of the authority.
func (a *Authority) CertPEM() []byte { return certPEM(a.cert) }

// serving makes a certificate and a key, both in PEM, for a server of hosts. The authority's own
// certificate comes with it, because a host that enrolls knows only its hash.
func (a *Authority) serving(now time.Time) (cert, key []byte, err error) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	made, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: credential.ServerName}, DNSNames: []string{credential.ServerName}, NotBefore: now.Add(-clockSlack), NotAfter: a.until(now, servingLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}, a.cert, own.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(own)
	return append(certPEM(made), a.CertPEM()...), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// until is when certificates end that are made now for a time.
func (a *Authority) until(now time.Time, life time.Duration) time.Time {
	if end := now.Add(life); end.Before(a.cert.NotAfter) {
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
		Subject: pkix.Name{CommonName: "nephele host"}, URIs: []*url.URL{id.URI()}, NotBefore: now.Add(-clockSlack), NotAfter: a.until(now, CertificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}, a.cert, key, a.key)
	if err != nil {
		return nil, err
	}
	return certPEM(made), nil
}

// ikePurpose is that of certificates for IPsec (RFC 4945). No host and no server proves itself by
// such a one.
var ikePurpose = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 17}

// certifyNode signs for the key of a request that it is that of a Node.
func (a *Authority) certifyNode(identity string, request []byte, now time.Time) ([]byte, error) {
	key, err := requestedKey(request)
	if err != nil {
		return nil, err
	}
	made, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "nephele node"}, DNSNames: []string{identity}, NotBefore: now.Add(-clockSlack), NotAfter: a.until(now, CertificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, UnknownExtKeyUsage: []asn1.ObjectIdentifier{ikePurpose}, BasicConstraintsValid: true,
	}, a.cert, key, a.key)
	if err != nil {
		return nil, err
	}
	return certPEM(made), nil
}

// requestedKey returns the public key of a request, if the requester has proven that it has the
// private one.
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
