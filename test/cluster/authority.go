package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs certificates for a cluster that lives for a day at most.
type authority struct {
	dir, name string
	cert      *x509.Certificate
	key       crypto.Signer
}

func newAuthority(dir, name string) (*authority, error) {
	a := &authority{dir: dir, name: name}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	return a, a.sign(name, template)
}

// issue writes dir/FILE.crt and dir/FILE.key, for a client and for servers at addresses and names.
func (a *authority) issue(file, user string, groups []string, addresses []net.IP, names []string) error {
	return a.sign(file, &x509.Certificate{
		Subject: pkix.Name{CommonName: user, Organization: groups}, IPAddresses: addresses, DNSNames: names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	})
}

func (a *authority) sign(file string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return err
	}
	if a.cert == nil {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			return err
		}
		a.key = key
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(a.dir, file+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.dir, file+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
}
