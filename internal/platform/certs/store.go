package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/platform/keyring"
)

const (
	authorityLife    = 10 * 365 * 24 * time.Hour
	certificateLife  = 365 * 24 * time.Hour
	authorityRenew   = certificateLife
	certificateRenew = 90 * 24 * time.Hour

	// backdate lets a peer whose clock is slightly behind accept a certificate made a moment ago.
	backdate = time.Hour
)

// Store is a directory of keys and certificates.
type Store struct {
	dir string
	now func() time.Time
}

// Open returns the store in dir and creates the directory, readable by its owner only, if it does
// not exist. The clock now decides what is near its end.
func Open(dir string, now func() time.Time) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// MkdirAll leaves an existing directory as it is.
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	return &Store{dir: dir, now: now}, nil
}

// CertFile is the path of the certificate called name, in PEM.
func (s *Store) CertFile(name string) string { return filepath.Join(s.dir, name+".crt") }

// KeyFile is the path of the private key called name, in PEM ("EC PRIVATE KEY").
func (s *Store) KeyFile(name string) string { return filepath.Join(s.dir, name+".key") }

// Made returns when the certificate called name was made, by the clock of that moment; the zero
// time if there is none.
func (s *Store) Made(name string) (time.Time, error) {
	cert, _, err := s.load(name)
	if err != nil || cert == nil {
		return time.Time{}, err
	}
	return cert.NotBefore.Add(backdate), nil
}

// Profile says what a certificate is for.
type Profile struct {
	// CommonName and Organizations are the subject. Kubernetes reads them as user name and groups.
	CommonName    string
	Organizations []string
	// DNSNames and IPs are what a server is reached by.
	DNSNames []string
	IPs      []net.IP
	// Server and Client are the allowed uses.
	Server bool
	Client bool
}

// Certificate makes sure that the certificate called name exists, is signed by a, fits p and lasts
// for more than 90 days. That of a server is signed by the authority that everybody knows already.
// It reports whether the files have changed.
func (s *Store) Certificate(name string, a *Authority, p Profile) (changed bool, err error) {
	cert, _, err := s.load(name)
	if err != nil {
		return false, err
	}
	signer := a.signing
	if p.Server {
		signer = a.proving
	}
	if cert != nil && s.lasts(cert, certificateRenew) && cert.CheckSignatureFrom(signer.Cert) == nil && p.fits(cert) {
		return false, nil
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: p.CommonName, Organization: p.Organizations},
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           p.usages(),
		BasicConstraintsValid: true,
		DNSNames:              p.DNSNames,
		IPAddresses:           p.IPs,
	}
	der, key, err := issue(template, &signer, s.now(), certificateLife)
	if err != nil {
		return false, fmt.Errorf("make certificate %s: %w", name, err)
	}
	return true, s.writePair(name, certPEM(der), key)
}

func (s *Store) lasts(cert *x509.Certificate, atLeast time.Duration) bool {
	now := s.now()
	return !now.Before(cert.NotBefore) && now.Add(atLeast).Before(cert.NotAfter)
}

func (p Profile) usages() []x509.ExtKeyUsage {
	var u []x509.ExtKeyUsage
	if p.Server {
		u = append(u, x509.ExtKeyUsageServerAuth)
	}
	if p.Client {
		u = append(u, x509.ExtKeyUsageClientAuth)
	}
	return u
}

// fits says whether cert has the subject and the uses of p and at least its names and addresses.
func (p Profile) fits(cert *x509.Certificate) bool {
	if cert.Subject.CommonName != p.CommonName || !slices.Equal(cert.Subject.Organization, p.Organizations) {
		return false
	}
	if !slices.Equal(cert.ExtKeyUsage, p.usages()) {
		return false
	}
	for _, name := range p.DNSNames {
		if !slices.Contains(cert.DNSNames, name) {
			return false
		}
	}
	for _, ip := range p.IPs {
		if !slices.ContainsFunc(cert.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

// issue makes a key and a certificate from template, signed by a or by itself.
func issue(template *x509.Certificate, a *keyring.Authority, now time.Time, life time.Duration) (der []byte, key *ecdsa.PrivateKey, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	template.NotBefore, template.NotAfter = now.Add(-backdate), now.Add(life)
	parent, signer := template, crypto.Signer(key)
	if a != nil {
		parent, signer = a.Cert, a.Key
	}
	der, err = x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	return der, key, err
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
}

// writePair writes a key, and then its certificate.
func (s *Store) writePair(name string, cert []byte, key *ecdsa.PrivateKey) error {
	text, err := keyPEM(key)
	if err != nil {
		return fmt.Errorf("encode key %s: %w", name, err)
	}
	if err := WriteFile(s.KeyFile(name), text, 0o600); err != nil {
		return err
	}
	return WriteFile(s.CertFile(name), cert, 0o644)
}

// load reads a pair. It returns nils if a part is missing or damaged, or if the two do not belong
// together; such a pair is replaced. A file that exists and cannot be read is an error.
func (s *Store) load(name string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := readKey(s.KeyFile(name))
	if err != nil || key == nil {
		return nil, nil, err
	}
	data, err := os.ReadFile(s.CertFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, nil, nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, nil
	}
	return cert, key, nil
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, nil
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, nil
	}
	// A key whose mode was loosened by hand or by a copy is closed again.
	return key, os.Chmod(path, 0o600)
}
