package identity

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/smallstep/pkcs7"
)

// AWS returns the machine that a proof is about, if one of the certificates has signed it and is
// valid now.
func AWS(p Proof, certificates []*x509.Certificate, now time.Time) (Instance, error) {
	var trusted []*x509.Certificate
	for _, c := range certificates {
		if strong(c) && !now.Before(c.NotBefore) && !now.After(c.NotAfter) {
			trusted = append(trusted, c)
		}
	}
	var content []byte
	var err error
	if p.PKCS7 != "" {
		var signed *pkcs7.PKCS7
		if signed, err = parse(p.PKCS7); err == nil {
			content, err = signedBy(signed, trusted)
		}
	} else {
		content, err = signedDocument(p, trusted)
	}
	if err != nil {
		return Instance{}, err
	}
	return parseAWS(content)
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
