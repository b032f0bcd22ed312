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
)

const (
	authorityLife    = 10 * 365 * 24 * time.Hour
	certificateLife  = 365 * 24 * time.Hour
	authorityRenew   = 365 * 24 * time.Hour
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

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// CertPEM is the certificate of the authority, for those who verify.
func (a *Authority) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

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

// Authority returns the self-signed authority called name. A new one is made if there is none, or
// if the one there lasts less than a year; every certificate signed by the former is then replaced
// when it is next asked for.
func (s *Store) Authority(name string) (*Authority, error) {
	cert, key, err := s.load(name)
	if err != nil {
		return nil, err
	}
	if cert != nil && cert.IsCA && s.lasts(cert, authorityRenew) {
		return &Authority{cert: cert, key: key}, nil
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	cert, key, err = s.create(name, template, nil, authorityLife)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key}, nil
}

// Certificate makes sure that the certificate called name exists, is signed by a, fits p and lasts
// for more than 90 days. It reports whether the files have changed.
func (s *Store) Certificate(name string, a *Authority, p Profile) (changed bool, err error) {
	cert, _, err := s.load(name)
	if err != nil {
		return false, err
	}
	if cert != nil && s.lasts(cert, certificateRenew) && cert.CheckSignatureFrom(a.cert) == nil && p.fits(cert) {
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
	if _, _, err := s.create(name, template, a, certificateLife); err != nil {
		return false, err
	}
	return true, nil
}

// SigningKey makes sure that a private key called name exists and returns its path.
func (s *Store) SigningKey(name string) (string, error) {
	key, err := readKey(s.KeyFile(name))
	if err != nil {
		return "", err
	}
	if key != nil {
		return s.KeyFile(name), nil
	}
	_, err = s.createKey(name)
	return s.KeyFile(name), err
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

// create makes a key and a certificate from template, signed by a or by itself, and writes both.
func (s *Store) create(name string, template *x509.Certificate, a *Authority, life time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := s.createKey(name)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = s.now().Add(-backdate)
	template.NotAfter = s.now().Add(life)
	parent, signer := template, crypto.Signer(key)
	if a != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate %s: %w", name, err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := WriteFile(s.CertFile(name), block, 0o644); err != nil {
		return nil, nil, err
	}
	return cert, key, nil
}

func (s *Store) createKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key %s: %w", name, err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return key, WriteFile(s.KeyFile(name), block, 0o600)
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
