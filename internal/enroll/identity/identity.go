// Package identity checks what a cloud has signed about one of its virtual machines, and returns
// which machine that is.
//
// It is pure. It promises that an Instance or Attested holds only what a configured certificate has
// signed, and nothing of the rest of a Proof. It does not know whether the machine still exists,
// nor which process shows the proof: every process in the machine can obtain one. A proof of AWS
// names no recipient; a proof of Azure has a nonce, which binds it to one purpose.
package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/smallstep/pkcs7"
)

// The sizes of the smallest keys that are believed. AWS signs the form that is not PKCS #7 with
// 1024 bits in older regions.
const (
	minBits      = 2048 // RSA
	minCurveBits = 256
)

// maxSigned bounds what is read as a signature, in bytes. Signatures of the clouds have 4,000 at
// most.
const maxSigned = 16 << 10

// Proof is what the metadata service of a cloud tells about the machine that asks it.
type Proof struct {
	// Attested is the attested document of Azure with its signature, in Base64. The rest is of AWS.
	Attested string `json:"attested,omitempty"`
	// PKCS7 is the identity document with its signature, in Base64, as rsa2048 has it.
	PKCS7 string `json:"pkcs7,omitempty"`
	// Document is the identity document, and Signature an RSA signature of its SHA-256 in Base64.
	// They count where there is no PKCS7.
	Document  string `json:"document,omitempty"`
	Signature string `json:"signature,omitempty"`
}

// Instance is a virtual machine, in the words of the cloud.
type Instance struct {
	Account, Region, ID string
	// Address is its first private one; invalid if it is not said.
	Address netip.Addr
	// Launched is when it was started last.
	Launched time.Time
}

// ErrForged is wrapped by errors that say that no certificate has signed a proof.
var ErrForged = errors.New("no certificate of the account has signed this")

// ParseCertificates reads certificates in PEM. There must be one at least, and nothing else.
func ParseCertificates(text string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	rest := []byte(text)
	for {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("a %s is among the certificates", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(out)+1, err)
		}
		out = append(out, c)
	}
	if len(out) == 0 || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("want certificates in PEM, and nothing else")
	}
	return out, nil
}

// parse reads one signature in PKCS #7, as text in Base64. It is not checked yet.
func parse(text string) (*pkcs7.PKCS7, error) {
	if len(text) > maxSigned {
		return nil, fmt.Errorf("%w: %d bytes, want %d at most", ErrForged, len(text), maxSigned)
	}
	der, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text)) // which leaves out ends of lines
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForged, err)
	}
	signed, err := pkcs7.Parse(der)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForged, err)
	}
	switch {
	case len(signed.Signers) != 1:
		return nil, fmt.Errorf("%w: %d signatures, want one", ErrForged, len(signed.Signers))
	case signed.Signers[0].DigestAlgorithm.Algorithm.Equal(pkcs7.OIDDigestAlgorithmSHA1):
		return nil, fmt.Errorf("%w: signed with SHA-1", ErrForged)
	}
	return signed, nil
}

// signedBy returns what one of the certificates has signed. Certificates that come with it do not
// count.
func signedBy(signed *pkcs7.PKCS7, certificates []*x509.Certificate) ([]byte, error) {
	signed.Certificates = certificates
	if err := signed.Verify(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForged, err)
	}
	return signed.Content, nil
}

// strong reports whether the key of a certificate is none that can be found out.
func strong(c *x509.Certificate) bool {
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= minBits
	case *ecdsa.PublicKey:
		return key.Curve.Params().BitSize >= minCurveBits
	}
	return false
}
