// Package imds is the metadata service of the simulated clouds, as a host meets it at
// 169.254.169.254: of AWS sessions of version 2, and the identity document with its signatures; of
// Azure the attested document.
//
// It owns the keys that sign, which are made anew for every Signer and Attester. A handler answers
// for one machine. All of it may be called concurrently.
package imds

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/smallstep/pkcs7"
)

// keyBits is the size of the key. AWS has it, too.
const keyBits = 2048

// longestSession is the longest life of a session, in seconds.
const longestSession = 21600

// Document is the identity document of an instance, with the fields that matter here.
type Document struct {
	AccountID        string    `json:"accountId"`
	Architecture     string    `json:"architecture"`
	AvailabilityZone string    `json:"availabilityZone"`
	ImageID          string    `json:"imageId"`
	InstanceID       string    `json:"instanceId"`
	InstanceType     string    `json:"instanceType"`
	PendingTime      time.Time `json:"pendingTime"`
	PrivateIP        string    `json:"privateIp"`
	Region           string    `json:"region"`
	Version          string    `json:"version"`
}

// Signer signs documents as a region does.
type Signer struct {
	key  *rsa.PrivateKey
	cert *x509.Certificate
}

// NewSigner makes a key, and a certificate for it that is valid from 20 years before now to 100
// after, as old and as lasting as at AWS.
func NewSigner(now time.Time) (*Signer, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 63))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{Organization: []string{"Simulated AWS"}}, NotBefore: now.AddDate(-20, 0, 0), NotAfter: now.AddDate(100, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Signer{key, cert}, err
}

// CertificatePEM is what a cloud publishes.
func (s *Signer) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.cert.Raw})
}

// Signature is the RSA signature of the SHA-256 of a document, in Base64.
func (s *Signer) Signature(document []byte) (string, error) {
	sum := sha256.Sum256(document)
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA256, sum[:])
	return base64.StdEncoding.EncodeToString(signature), err
}

// PKCS7 is a document with its signature, in Base64.
func (s *Signer) PKCS7(document []byte) (string, error) {
	signed, err := pkcs7.NewSignedData(document)
	if err != nil {
		return "", err
	}
	signed.SetDigestAlgorithm(pkcs7.OIDDigestAlgorithmSHA256)
	if err := signed.AddSigner(s.cert, s.key, pkcs7.SignerInfoConfig{}); err != nil {
		return "", err
	}
	der, err := signed.Finish()
	return base64.StdEncoding.EncodeToString(der), err
}

// Handler is the metadata service of one instance. It asks for the document with every request;
// false is for an instance that does not run.
func (s *Signer) Handler(document func() (Document, bool), now func() time.Time) http.Handler {
	v := &service{signer: s, document: document, now: now, sessions: map[string]time.Time{}}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /latest/api/token", v.open)
	mux.HandleFunc("GET /latest/dynamic/instance-identity/document", v.answer(func(d []byte) (string, error) { return string(d), nil }))
	mux.HandleFunc("GET /latest/dynamic/instance-identity/signature", v.answer(s.Signature))
	mux.HandleFunc("GET /latest/dynamic/instance-identity/rsa2048", v.answer(s.PKCS7))
	return mux
}

type service struct {
	signer   *Signer
	document func() (Document, bool)
	now      func() time.Time

	mu       sync.Mutex
	sessions map[string]time.Time // their ends
}

// open begins a session.
func (v *service) open(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds"))
	if err != nil || seconds < 1 || seconds > longestSession || r.Header.Get("X-Forwarded-For") != "" {
		http.Error(w, "Bad Request", http.StatusBadRequest)
		return
	}
	token := rand.Text()
	v.mu.Lock()
	v.sessions[token] = v.now().Add(time.Duration(seconds) * time.Second)
	v.mu.Unlock()
	w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", strconv.Itoa(seconds))
	_, _ = io.WriteString(w, token) // an error means that the client is gone
}

// answer serves clients that have a session what form makes of the document.
func (v *service) answer(form func([]byte) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		end, ok := v.sessions[r.Header.Get("X-aws-ec2-metadata-token")]
		v.mu.Unlock()
		if !ok || v.now().After(end) {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		d, ok := v.document()
		if !ok {
			http.NotFound(w, r)
			return
		}
		raw, err := json.MarshalIndent(d, "", "  ")
		text := ""
		if err == nil {
			text, err = form(raw)
		}
		if err != nil {
			http.Error(w, fmt.Sprint(err), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, text) // an error means that the client is gone
	}
}
