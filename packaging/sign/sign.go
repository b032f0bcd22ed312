// Package sign makes what proves a release, in the formats that cosign and the verifiers of SLSA
// read: signatures of files and images, and a signed statement of what was made of what.
//
// It owns these formats, and reading the key that the releaser gives. It promises that the same key
// and content make the same bytes: signatures are ECDSA with the nonce of RFC 6979. It keeps no key
// and asks no service: there is no entry in a transparency log, and verifiers are told so. It is
// safe for concurrent use.
package sign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"
)

// Key signs.
type Key struct{ private *ecdsa.PrivateKey }

// ParseKey reads a private key in PEM: one that "cosign generate-key-pair" wrote, of which the
// password is given, or an ECDSA key in PKCS #8 or SEC 1, as openssl writes it.
func ParseKey(text, password []byte) (*Key, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("there is no PEM in it")
	}
	der := block.Bytes
	var parsed any
	var err error
	switch block.Type {
	case "ENCRYPTED COSIGN PRIVATE KEY", "ENCRYPTED SIGSTORE PRIVATE KEY":
		if der, err = decrypt(block.Bytes, password); err != nil {
			return nil, err
		}
		parsed, err = x509.ParsePKCS8PrivateKey(der)
	case "PRIVATE KEY":
		parsed, err = x509.ParsePKCS8PrivateKey(der)
	case "EC PRIVATE KEY":
		parsed, err = x509.ParseECPrivateKey(der)
	default:
		return nil, fmt.Errorf("it is a %q: want a key of cosign, or PRIVATE KEY or EC PRIVATE KEY", block.Type)
	}
	if err != nil {
		return nil, err
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("it is a key of the kind %T: want ECDSA", parsed)
	}
	return &Key{private}, nil
}

// sealed is how cosign keeps a private key: the JSON of go-securesystemslib's package encrypted.
type sealed struct {
	KDF struct {
		Name   string
		Params struct{ N, R, P int }
		Salt   []byte
	}
	Cipher struct {
		Name  string
		Nonce []byte
	}
	Ciphertext []byte
}

// maxMemory bounds what scrypt is asked to take: 128 * N * r bytes.
const maxMemory = 1 << 30

func decrypt(text, password []byte) ([]byte, error) {
	var s sealed
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read the encrypted key: %w", err)
	}
	p := s.KDF.Params
	if s.KDF.Name != "scrypt" || s.Cipher.Name != "nacl/secretbox" || len(s.Cipher.Nonce) != 24 {
		return nil, fmt.Errorf("the key is encrypted with %.20q and %.20q: want scrypt and nacl/secretbox", s.KDF.Name, s.Cipher.Name)
	}
	if p.N < 2 || p.R < 1 || p.P < 1 || p.P > 16 || p.N > maxMemory/128/p.R {
		return nil, fmt.Errorf("the key is encrypted with N=%d, r=%d, p=%d, which is too much or too little", p.N, p.R, p.P)
	}
	derived, err := scrypt.Key(password, s.KDF.Salt, p.N, p.R, p.P, 32)
	if err != nil {
		return nil, err
	}
	out, ok := secretbox.Open(nil, s.Ciphertext, (*[24]byte)(s.Cipher.Nonce), (*[32]byte)(derived))
	if !ok {
		return nil, errors.New("the password is wrong, or the key is broken")
	}
	return out, nil
}

// Public is the public key in PEM, as "cosign verify --key" and openssl take it.
func (k *Key) Public() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(&k.private.PublicKey)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// Blob signs bytes as "cosign sign-blob" does: ECDSA over their SHA-256, in ASN.1.
func (k *Key) Blob(content []byte) ([]byte, error) {
	sum := sha256.Sum256(content)
	// Without randomness the nonce is that of RFC 6979.
	return k.private.Sign(nil, sum[:], crypto.SHA256)
}

// Base64 is a signature as cosign writes it.
func Base64(signature []byte) string { return base64.StdEncoding.EncodeToString(signature) }

// statementType is what an envelope of DSSE says that it holds.
const statementType = "application/vnd.in-toto+json"

// Envelope is a signed statement (DSSE).
type Envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     string              `json:"payload"`
	Signatures  []EnvelopeSignature `json:"signatures"`
}

// EnvelopeSignature is one signature of an Envelope.
type EnvelopeSignature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// Statement signs a statement of in-toto.
func (k *Key) Statement(statement []byte) ([]byte, error) {
	signature, err := k.Blob(authenticated(statementType, statement))
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(Envelope{
		PayloadType: statementType, Payload: Base64(statement), Signatures: []EnvelopeSignature{{Sig: Base64(signature)}},
	})
	return append(out, '\n'), err
}

// authenticated is what is signed of an envelope: DSSE's PAE.
func authenticated(kind string, payload []byte) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "DSSEv1 %d %s %d ", len(kind), kind, len(payload))
	out.Write(payload)
	return out.Bytes()
}

// simpleSigning is what cosign signs of an image.
type simpleSigning struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]string `json:"optional"`
}

// imageClaim is what is said of an image, in the bytes that are signed.
func imageClaim(reference, digest string) ([]byte, error) {
	var s simpleSigning
	s.Critical.Identity.Reference, s.Critical.Image.Digest, s.Critical.Type = reference, digest, "cosign container image signature"
	return json.Marshal(s)
}
