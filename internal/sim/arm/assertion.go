package arm

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure"
)

// exchangeAudience is what federated tokens are for unless the principal says otherwise.
const exchangeAudience = "api://AzureADTokenExchange"

// skew is how far the clocks of clients may be off.
const skew = 5 * time.Minute

// assertion is a JSON web token that a client proves itself with.
type assertion struct {
	algorithm string
	signed    string
	signature []byte

	Issuer    string `json:"iss"`
	Subject   string `json:"sub"`
	Audience  any    `json:"aud"` // a string or a list
	NotBefore int64  `json:"nbf"`
	Expires   int64  `json:"exp"`
}

func readAssertion(token string) (assertion, bool) {
	var a assertion
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return a, false
	}
	head, err1 := encoding.DecodeString(parts[0])
	body, err2 := encoding.DecodeString(parts[1])
	signature, err3 := encoding.DecodeString(parts[2])
	var header struct {
		Algorithm string `json:"alg"`
	}
	if err1 != nil || err2 != nil || err3 != nil || json.Unmarshal(head, &header) != nil || json.Unmarshal(body, &a) != nil {
		return a, false
	}
	a.algorithm, a.signed, a.signature = header.Algorithm, parts[0]+"."+parts[1], signature
	return a, true
}

func (a *assertion) isFor(audience string) bool {
	switch v := a.Audience.(type) {
	case string:
		return v == audience
	case []any:
		return slices.Contains(v, any(audience))
	}
	return false
}

// signedBy verifies the signature.
func (a *assertion) signedBy(key any) bool {
	sum := sha256.Sum256([]byte(a.signed))
	switch k := key.(type) {
	case *rsa.PublicKey:
		switch a.algorithm {
		case "RS256":
			return rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], a.signature) == nil
		case "PS256":
			return rsa.VerifyPSS(k, crypto.SHA256, sum[:], a.signature, nil) == nil
		}
	case *ecdsa.PublicKey:
		if a.algorithm == "ES256" && len(a.signature) == 64 {
			return ecdsa.Verify(k, sum[:], new(big.Int).SetBytes(a.signature[:32]), new(big.Int).SetBytes(a.signature[32:]))
		}
	}
	return false
}

// publicKey reads a public key or a certificate in PEM; nil if it is neither.
func publicKey(text string) any {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil
	}
	if block.Type == "CERTIFICATE" {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			return c.PublicKey
		}
		return nil
	}
	if key, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
		return key
	}
	return nil
}

// checkAssertion refuses an assertion that is not one of the principal: signed with one of its
// certificates, or a token of an issuer that it is federated with.
func (l login) checkAssertion(req *request, p azure.Principal, t azure.Tenant, token string) error {
	a, ok := readAssertion(token)
	if !ok {
		return loginf(http.StatusUnauthorized, "invalid_client", 50027, "JWT token is invalid or malformed.")
	}
	now := l.h.cfg.WallClock()
	if now.After(time.Unix(a.Expires, 0).Add(skew)) || now.Add(skew).Before(time.Unix(a.NotBefore, 0)) {
		return loginf(http.StatusUnauthorized, "invalid_client", 700024, "Client assertion is not within its valid time range.")
	}
	if strings.EqualFold(a.Issuer, p.ClientID) {
		if !strings.EqualFold(a.Subject, p.ClientID) || !a.isFor("https://"+req.Host+"/"+t.ID+"/oauth2/v2.0/token") {
			return loginf(http.StatusUnauthorized, "invalid_client", 700023, "Client assertion audience claim does not match Realm issuer.")
		}
		for _, c := range p.Certificates {
			if a.signedBy(publicKey(c)) {
				return nil
			}
		}
		return loginf(http.StatusUnauthorized, "invalid_client", 700027, "The certificate with identifier used to sign the client assertion is not registered on application.")
	}
	for _, f := range p.Federated {
		audience := f.Audience
		if audience == "" {
			audience = exchangeAudience
		}
		if f.Issuer == a.Issuer && f.Subject == a.Subject && a.isFor(audience) {
			if !a.signedBy(publicKey(f.Key)) {
				return loginf(http.StatusUnauthorized, "invalid_client", 50013, "Assertion failed signature validation.")
			}
			return nil
		}
	}
	return loginf(http.StatusUnauthorized, "invalid_client", 700213, "No matching federated identity record found for presented assertion subject '"+a.Subject+"'.")
}
