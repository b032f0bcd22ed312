// Package identity checks what a cloud has signed about one of its virtual machines, and says which
// one that is.
//
// It is pure. It promises that an Instance is only what a configured certificate has signed, and
// nothing of the rest of a Proof. It does not know whether the machine is still there, nor who
// shows the proof: every process in the machine can read it, and it names nobody it is for.
package identity

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/smallstep/pkcs7"
)

// leastBits is the size of the smallest RSA key that is believed. AWS signs the form that is not
// PKCS #7 with 1024 bits in older regions.
const leastBits = 2048

// Proof is what the metadata service of AWS tells about the machine that asks it.
type Proof struct {
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

// AWS returns the machine that a proof is about, if one of the certificates has signed it and is
// valid now.
func AWS(p Proof, certificates []*x509.Certificate, now time.Time) (Instance, error) {
	var trusted []*x509.Certificate
	for _, c := range certificates {
		if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() >= leastBits && !now.Before(c.NotBefore) && !now.After(c.NotAfter) {
			trusted = append(trusted, c)
		}
	}
	var content []byte
	var err error
	if p.PKCS7 != "" {
		content, err = signedContent(p.PKCS7, trusted)
	} else {
		content, err = signedDocument(p, trusted)
	}
	if err != nil {
		return Instance{}, err
	}
	return parseAWS(content)
}

// signedContent returns what one of the certificates has signed. Those that come with it are not
// looked at.
func signedContent(text string, trusted []*x509.Certificate) ([]byte, error) {
	der, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text)) // which leaves out ends of lines
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForged, err)
	}
	signed, err := pkcs7.Parse(der)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForged, err)
	}
	signed.Certificates = trusted
	switch {
	case len(signed.Signers) != 1:
		return nil, fmt.Errorf("%w: %d signatures, want one", ErrForged, len(signed.Signers))
	case signed.Signers[0].DigestAlgorithm.Algorithm.Equal(pkcs7.OIDDigestAlgorithmSHA1):
		return nil, fmt.Errorf("%w: signed with SHA-1", ErrForged)
	}
	if err := signed.Verify(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForged, err)
	}
	return signed.Content, nil
}

func signedDocument(p Proof, trusted []*x509.Certificate) ([]byte, error) {
	signature, err := base64.StdEncoding.DecodeString(strings.TrimSpace(p.Signature))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForged, err)
	}
	for _, c := range trusted {
		if c.CheckSignature(x509.SHA256WithRSA, []byte(p.Document), signature) == nil {
			return []byte(p.Document), nil
		}
	}
	return nil, ErrForged
}

// parseAWS reads a document. It is believed by now.
func parseAWS(content []byte) (Instance, error) {
	var d struct {
		AccountID   string    `json:"accountId"`
		Region      string    `json:"region"`
		InstanceID  string    `json:"instanceId"`
		PrivateIP   string    `json:"privateIp"`
		PendingTime time.Time `json:"pendingTime"`
	}
	if err := json.Unmarshal(content, &d); err != nil {
		return Instance{}, fmt.Errorf("the identity document: %w", err)
	}
	if d.AccountID == "" || d.Region == "" || d.InstanceID == "" || d.PendingTime.IsZero() {
		return Instance{}, errors.New("the identity document does not say account, region, instance and when that was launched")
	}
	address, _ := netip.ParseAddr(d.PrivateIP) // invalid if it says none
	return Instance{d.AccountID, d.Region, d.InstanceID, address, d.PendingTime}, nil
}
