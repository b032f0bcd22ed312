package keyring

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"time"
)

// Authority is what the material of a certificate authority says: a certificate and, unless it only
// verifies any more, its key.
type Authority struct {
	Cert *x509.Certificate
	// Key is nil for an authority that signs nothing any more.
	Key crypto.Signer
}

// CertPEM is the certificate in PEM.
func (a Authority) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Cert.Raw})
}

// ID is how an authority is called: the beginning of the SHA-256 of its certificate.
func (a Authority) ID() string {
	sum := sha256.Sum256(a.Cert.Raw)
	return hex.EncodeToString(sum[:8])
}

// ParseAuthority reads a certificate and a key in PEM, one after the other. The key may be missing;
// one that is not that of the certificate is an error.
func ParseAuthority(material []byte) (Authority, error) {
	var out Authority
	for block, rest := pem.Decode(material); block != nil; block, rest = pem.Decode(rest) {
		var err error
		switch {
		case block.Type == "CERTIFICATE" && out.Cert == nil:
			out.Cert, err = x509.ParseCertificate(block.Bytes)
		case (block.Type == "EC PRIVATE KEY" || block.Type == "PRIVATE KEY") && out.Key == nil:
			out.Key, err = parseKey(block)
		}
		if err != nil {
			return Authority{}, err
		}
	}
	if out.Cert == nil || !out.Cert.IsCA {
		return Authority{}, errors.New("want the certificate of an authority and its key in PEM")
	}
	if own, ok := out.Cert.PublicKey.(*ecdsa.PublicKey); out.Key != nil && (!ok || !own.Equal(out.Key.Public())) {
		return Authority{}, errors.New("the key is not that of the authority")
	}
	return out, nil
}

func parseKey(block *pem.Block) (crypto.Signer, error) {
	if block.Type == "EC PRIVATE KEY" {
		return x509.ParseECPrivateKey(block.Bytes)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	own, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("want an ECDSA key")
	}
	return own, nil
}

// PrivateOf is the key of an authority in PEM.
func PrivateOf(a Authority) ([]byte, error) {
	key, ok := a.Key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the authority has no key")
	}
	der, err := x509.MarshalECPrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
}

// VerifyingOnly is the material of an authority without its key.
func VerifyingOnly(material []byte) ([]byte, error) {
	a, err := ParseAuthority(material)
	if err != nil {
		return nil, err
	}
	return a.CertPEM(), nil
}

// Authorities is the kind of certificate authorities. Make returns the material of a new one.
func Authorities(made func(random io.Reader, now time.Time) ([]byte, error)) Kind {
	return Kind{
		New: made,
		ID: func(material []byte) (string, error) {
			a, err := ParseAuthority(material)
			if err != nil {
				return "", err
			}
			return a.ID(), nil
		},
		Since: func(material []byte) time.Time {
			a, err := ParseAuthority(material)
			if err != nil {
				return time.Time{}
			}
			return a.Cert.NotBefore
		},
	}
}

// Signing is the kind of ECDSA keys on P-256 that sign without a certificate, in PEM. One of which
// only the public half is left verifies.
func Signing() Kind {
	return Kind{
		New: func(random io.Reader, _ time.Time) ([]byte, error) {
			key, err := ecdsa.GenerateKey(elliptic.P256(), random)
			if err != nil {
				return nil, err
			}
			der, err := x509.MarshalECPrivateKey(key)
			return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
		},
		ID: func(material []byte) (string, error) {
			public, err := PublicKey(material)
			if err != nil {
				return "", err
			}
			der, err := x509.MarshalPKIXPublicKey(public)
			if err != nil {
				return "", err
			}
			sum := sha256.Sum256(der)
			return hex.EncodeToString(sum[:8]), nil
		},
	}
}

// PrivateKey is the key in the material of a Signing key; an error if only the public half is
// there.
func PrivateKey(material []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(material)
	if block == nil || block.Type != "EC PRIVATE KEY" {
		return nil, errors.New("want an EC PRIVATE KEY in PEM")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

// PublicKey is the public half of a Signing key.
func PublicKey(material []byte) (*ecdsa.PublicKey, error) {
	block, _ := pem.Decode(material)
	if block == nil {
		return nil, errors.New("want a key in PEM")
	}
	if block.Type != "PUBLIC KEY" {
		key, err := PrivateKey(material)
		if err != nil {
			return nil, err
		}
		return &key.PublicKey, nil
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("a public key: %w", err)
	}
	public, ok := key.(*ecdsa.PublicKey)
	if !ok {
		return nil, errors.New("want a public ECDSA key")
	}
	return public, nil
}

// PublicOnly is the public half of the material of a Signing key, in PEM.
func PublicOnly(material []byte) ([]byte, error) {
	key, err := PublicKey(material)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), err
}

// Bundle joins what is left of each key of a ring, such as its certificate.
func (r Ring) Bundle(part func(material []byte) ([]byte, error)) ([]byte, error) {
	var out bytes.Buffer
	for _, k := range r {
		text, err := part(k.Material)
		if err != nil {
			return nil, err
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}
