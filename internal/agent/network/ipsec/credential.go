package ipsec

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/platform/certs"
)

const (
	// credentialFile has the certificates of the Node and of authorities, and the key, in PEM.
	credentialFile = "ipsec.pem"
	// credentialLimit bounds what is read of the file, and of an answer.
	credentialLimit = 1 << 17

	pemCertificate, pemKey, pemRequest = "CERTIFICATE", "PRIVATE KEY", "CERTIFICATE REQUEST"
)

// Credential is the certificate of a Node with its key, and the authorities that it believes. It is
// safe for concurrent use.
type Credential struct {
	dir string

	mu  sync.Mutex
	now credential
}

// credential is what a Node proves itself by; the zero ones for none.
type credential struct {
	identity    string
	certificate *x509.Certificate
	authorities []*x509.Certificate
	// key is in PEM.
	key []byte
}

// OpenCredential reads the credential in a directory. There need not be one.
func OpenCredential(dir string) (*Credential, error) {
	p := &Credential{dir: dir}
	path := filepath.Join(dir, credentialFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		p.now, err = parseCredential(text)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate for IPsec: %s: %w; remove it, and the Node gets a new one", path, err)
	}
	return p, nil
}

// parseCredential reads the certificate of a Node, then certificates of authorities, and a key.
func parseCredential(text []byte) (credential, error) {
	var out credential
	if len(text) > credentialLimit {
		return credential{}, fmt.Errorf("%d bytes: want at most %d", len(text), credentialLimit)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case pemKey:
			out.key = pem.EncodeToMemory(block)
		case pemCertificate:
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return credential{}, err
			}
			if out.certificate == nil {
				out.certificate = c
			} else {
				out.authorities = append(out.authorities, c)
			}
		}
	}
	if out.certificate == nil || len(out.authorities) == 0 || out.key == nil {
		return credential{}, errors.New("want a certificate, the authority that has signed it, and a key, in PEM")
	}
	if names := out.certificate.DNSNames; len(names) == 1 && cloudv1alpha1.IsIPsecIdentity(names[0]) {
		out.identity = names[0]
	} else {
		return credential{}, fmt.Errorf("the certificate is of %q: want the identity of one Node", names)
	}
	block, _ := pem.Decode(out.key)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return credential{}, err
	}
	if own, ok := key.(*ecdsa.PrivateKey); !ok || !own.PublicKey.Equal(out.certificate.PublicKey) {
		return credential{}, errors.New("the certificate is of another key")
	}
	return out, nil
}

func (p *Credential) get() credential {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// Identity is what the certificate says; empty if there is none, or it has ended.
func (p *Credential) Identity() string { return p.get().identity }

// due reports whether a certificate is to be asked for: there is none, it is of another Node than
// is wanted, or two thirds of its life are over.
func (p *Credential) due(wanted string, now time.Time) bool {
	c := p.get()
	if c.certificate == nil || wanted != "" && c.identity != wanted {
		return true
	}
	life := c.certificate.NotAfter.Sub(c.certificate.NotBefore)
	return now.After(c.certificate.NotBefore.Add(life*2/3)) || now.Before(c.certificate.NotBefore)
}

// request makes a key and a request for a certificate, in PEM.
func request() (key, csr []byte, err error) {
	own, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return nil, nil, err
	}
	asked, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, own)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: pemRequest, Bytes: asked}), nil
}

// keep makes a certificate count, and writes it down.
func (p *Credential) keep(key []byte, certificate, authorities string) error {
	text := bytes.Join([][]byte{[]byte(certificate), []byte(authorities), key}, []byte("\n"))
	now, err := parseCredential(text)
	if err != nil {
		return fmt.Errorf("the certificate that the controller has given: %w", err)
	}
	if err := certs.WriteFile(filepath.Join(p.dir, credentialFile), text, 0o600); err != nil {
		return fmt.Errorf("certificate for IPsec: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = now
	return nil
}
