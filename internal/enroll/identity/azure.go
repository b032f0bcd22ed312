package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// nonceLength is that of the longest nonce that Azure takes, in letters and digits.
const nonceLength = 32

// azureTime is how Azure writes times.
const azureTime = "01/02/06 15:04:05 -0700"

// Attested is what Azure has signed about a virtual machine.
type Attested struct {
	// Subscription and VM, its vmId, are in lower case.
	Subscription, VM string
	// Nonce is the value that the requester has chosen.
	Nonce            string
	Created, Expires time.Time
}

// Nonce binds what Azure signs to one request for a certificate: to its key, and to the token that
// is shown with it. No other client can use what was signed for it. Without the token, a client
// cannot make a machine sign anything useful.
func Nonce(account, secret, request string) string {
	h := sha256.New()
	for _, part := range []string{"nephele host nonce", account, secret, request} {
		fmt.Fprintf(h, "%d %s\n", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))[:nonceLength]
}

// Azure returns what an attested document says, if it is signed by a certificate for the name of a
// metadata service, or one below it, that one of the authorities has issued and that is valid now.
// Whether the document is, too, is for the caller to decide.
func Azure(text, name string, authorities []*x509.Certificate, now time.Time) (Attested, error) {
	signed, err := parse(text)
	if err != nil {
		return Attested{}, err
	}
	signer := signed.GetOnlySigner()
	if signer == nil {
		return Attested{}, fmt.Errorf("%w: it comes without the certificate of its signer", ErrForged)
	}
	if err := mayAttest(signer, signed.Certificates, name, authorities, now); err != nil {
		return Attested{}, err
	}
	content, err := signedBy(signed, []*x509.Certificate{signer})
	if err != nil {
		return Attested{}, err
	}
	return parseAzure(content)
}

// mayAttest fails unless the authorities say that a certificate is that of a metadata service.
// Certificates that came with it can be links to them.
func mayAttest(signer *x509.Certificate, links []*x509.Certificate, name string, authorities []*x509.Certificate, now time.Time) error {
	if !slices.ContainsFunc(signer.DNSNames, func(n string) bool { return n == name || strings.HasSuffix(n, "."+name) }) {
		return fmt.Errorf("%w: the certificate of its signer is for %.100q, not for %s", ErrForged, signer.DNSNames, name)
	}
	o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: now}
	for _, c := range authorities {
		o.Roots.AddCert(c)
	}
	for _, c := range links {
		o.Intermediates.AddCert(c)
	}
	chains, err := signer.Verify(o)
	if err != nil {
		return fmt.Errorf("%w: the certificate of its signer, issued by %.100q: %w", ErrForged, signer.Issuer.CommonName, err)
	}
	if signer.IsCA || !slices.ContainsFunc(chains, func(chain []*x509.Certificate) bool {
		return !slices.ContainsFunc(chain, func(c *x509.Certificate) bool { return !strong(c) })
	}) {
		return fmt.Errorf("%w: the certificate of its signer is that of an authority, or a key is too short", ErrForged)
	}
	return nil
}

// parseAzure reads a document. It is believed by now.
func parseAzure(content []byte) (Attested, error) {
	var d struct {
		VMID           string `json:"vmId"`
		SubscriptionID string `json:"subscriptionId"`
		Nonce          string `json:"nonce"`
		TimeStamp      struct {
			CreatedOn string `json:"createdOn"`
			ExpiresOn string `json:"expiresOn"`
		} `json:"timeStamp"`
	}
	if err := json.Unmarshal(content, &d); err != nil {
		return Attested{}, fmt.Errorf("the attested document: %w", err)
	}
	created, err := time.Parse(azureTime, d.TimeStamp.CreatedOn)
	expires, err2 := time.Parse(azureTime, d.TimeStamp.ExpiresOn)
	if err := errors.Join(err, err2); err != nil {
		return Attested{}, fmt.Errorf("the times of the attested document: %w", err)
	}
	if d.VMID == "" || d.SubscriptionID == "" {
		return Attested{}, errors.New("the attested document does not say vmId and subscriptionId")
	}
	return Attested{strings.ToLower(d.SubscriptionID), strings.ToLower(d.VMID), d.Nonce, created, expires}, nil
}
