package imds

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"time"

	"github.com/smallstep/pkcs7"
)

const (
	// attestedLife is how long what is attested lasts, as it says itself.
	attestedLife = 6 * time.Hour
	// attestedTime is how it writes times.
	attestedTime = "01/02/06 15:04:05 -0700"
	// longestNonce is in bytes.
	longestNonce = 32
)

// Attested is the attested document of a virtual machine.
type Attested struct {
	LicenseType    string            `json:"licenseType"`
	Nonce          string            `json:"nonce"`
	Plan           map[string]string `json:"plan"`
	SKU            string            `json:"sku"`
	SubscriptionID string            `json:"subscriptionId"`
	TimeStamp      AttestedTime      `json:"timeStamp"`
	VMID           string            `json:"vmId"`
}

// AttestedTime is when a document was made, and its end.
type AttestedTime struct {
	CreatedOn string `json:"createdOn"`
	ExpiresOn string `json:"expiresOn"`
}

// At is the time of a document that is made then.
func At(now time.Time) AttestedTime {
	return AttestedTime{now.UTC().Format(attestedTime), now.Add(attestedLife).UTC().Format(attestedTime)}
}

// Attester signs documents as Azure does, by a certificate that an authority has issued.
type Attester struct {
	key             *rsa.PrivateKey
	cert, authority *x509.Certificate
}

// NewAttester makes an authority and a certificate for the metadata service, which is valid for a
// year around now. change is done to what the certificate is made from.
func NewAttester(now time.Time, change ...func(*x509.Certificate)) (*Attester, error) {
	root, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Simulated Azure TLS issuing CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: now.AddDate(-10, 0, 0), NotAfter: now.AddDate(10, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, root.Public(), root)
	if err != nil {
		return nil, err
	}
	a := &Attester{}
	if a.authority, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	if a.key, err = rsa.GenerateKey(rand.Reader, keyBits); err != nil {
		return nil, err
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "metadata.azure.com"},
		DNSNames: []string{"metadata.azure.com", "westeurope.metadata.azure.com"}, NotBefore: now.AddDate(0, -6, 0), NotAfter: now.AddDate(0, 6, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	for _, f := range change {
		f(cert)
	}
	if der, err = x509.CreateCertificate(rand.Reader, cert, a.authority, a.key.Public(), root); err != nil {
		return nil, err
	}
	a.cert, err = x509.ParseCertificate(der)
	return a, err
}

// AuthorityPEM is the certificate of the authority, which is published.
func (a *Attester) AuthorityPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.authority.Raw})
}

// Sign is a document with its signature, in Base64. Of the certificates only that which signs is in
// it.
func (a *Attester) Sign(d Attested) (string, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	signed, err := pkcs7.NewSignedData(raw)
	if err != nil {
		return "", err
	}
	signed.SetDigestAlgorithm(pkcs7.OIDDigestAlgorithmSHA256)
	signed.SetEncryptionAlgorithm(pkcs7.OIDEncryptionAlgorithmRSA)
	if err := signed.SignWithoutAttr(a.cert, a.key, pkcs7.SignerInfoConfig{}); err != nil {
		return "", err
	}
	der, err := signed.Finish()
	return base64.StdEncoding.EncodeToString(der), err
}

// Handler is the metadata service of one virtual machine. It asks for the document with every
// request, and adds nonce and times; false is for a machine that does not run.
func (a *Attester) Handler(document func() (Attested, bool), now func() time.Time) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metadata/attested/document", func(w http.ResponseWriter, r *http.Request) {
		nonce := r.FormValue("nonce")
		if r.Header.Get("Metadata") != "true" || r.Header.Get("X-Forwarded-For") != "" || r.FormValue("api-version") == "" || len(nonce) > longestNonce {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error": "Bad request. The header Metadata and a good api-version and nonce are needed"}`)) // an error means that the client is gone
			return
		}
		d, ok := document()
		if !ok {
			http.NotFound(w, r)
			return
		}
		d.TimeStamp, d.Nonce = At(now()), nonce
		if nonce == "" {
			d.Nonce = now().UTC().Format("20060102-150405")
		}
		text, err := a.Sign(d)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_ = json.NewEncoder(w).Encode(map[string]string{"encoding": "pkcs7", "signature": text}) // an error means that the client is gone
	})
	return mux
}
