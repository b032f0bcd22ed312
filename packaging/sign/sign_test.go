package sign

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"testing"
)

// password opens testdata/cosign.key, which "cosign generate-key-pair" made for these tests.
const password = "a-test-and-no-secret"

func cosignKey(t *testing.T) (key *Key, private, public []byte) {
	t.Helper()
	private, err1 := os.ReadFile("testdata/cosign.key")
	public, err2 := os.ReadFile("testdata/cosign.pub")
	key, err3 := ParseKey(private, []byte(password))
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	return key, private, public
}

// TestKeys: keys of cosign and of openssl are read; others, with a wrong password, or that would
// take much memory, are refused.
func TestKeys(t *testing.T) {
	t.Parallel()
	key, private, public := cosignKey(t)
	if got, err := key.Public(); err != nil || !bytes.Equal(got, public) {
		t.Errorf("the public key is\n%s%v\nwant\n%s", got, err, public)
	}
	own, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	form := func(kind string, der []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	pkcs8, err1 := x509.MarshalPKCS8PrivateKey(own)
	sec1, err2 := x509.MarshalECPrivateKey(own)
	other, err3 := x509.MarshalPKCS8PrivateKey(foreign)
	block, _ := pem.Decode(private)
	changed := func(from, to string) []byte {
		if !bytes.Contains(block.Bytes, []byte(from)) {
			t.Fatalf("there is no %s", from)
		}
		return form(block.Type, bytes.Replace(block.Bytes, []byte(from), []byte(to), 1), nil)
	}
	for what, c := range map[string]struct {
		text     []byte
		password string
		want     string
	}{
		"cosign":             {private, password, ""},
		"PKCS #8":            {form("PRIVATE KEY", pkcs8, err1), "", ""},
		"SEC 1":              {form("EC PRIVATE KEY", sec1, err2), "", ""},
		"RSA":                {form("PRIVATE KEY", other, err3), "", "want ECDSA"},
		"a wrong password":   {private, "x", "the password is wrong"},
		"no password":        {private, "", "the password is wrong"},
		"a public key":       {public, "", "want a key of cosign"},
		"no PEM":             {[]byte("x"), "", "no PEM"},
		"much memory":        {changed(`"N":65536`, `"N":1073741824`), password, "too much or too little"},
		"no memory":          {changed(`"N":65536`, `"N":1`), password, "too much or too little"},
		"a negative r":       {changed(`"r":8`, `"r":-8`), password, "too much or too little"},
		"another cipher":     {changed(`nacl/secretbox`, `none`), password, "want scrypt and nacl/secretbox"},
		"another derivation": {changed(`scrypt`, `pbkdf2`), password, "want scrypt and nacl/secretbox"},
		"a broken one":       {form(block.Type, []byte("{"), nil), password, "read the encrypted key"},
	} {
		_, err := ParseKey(c.text, []byte(c.password))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

// holds checks a signature with the standard library.
func holds(t *testing.T, public, content, signature []byte) bool {
	t.Helper()
	block, _ := pem.Decode(public)
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return ecdsa.VerifyASN1(key.(*ecdsa.PublicKey), sum[:], signature)
}

// TestStatement: the envelope is that of DSSE, its signature is about what DSSE says, and the same
// statement is signed with the same bytes.
func TestStatement(t *testing.T) {
	t.Parallel()
	key, _, public := cosignKey(t)
	statement, err := Provenance(Source{"https://example.com/r", strings.Repeat("0a", 20), "v1.2.3"}, map[string]string{"b": "22", "a": "11"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := key.Statement(statement)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := key.Statement(statement); err != nil || !bytes.Equal(raw, again) {
		t.Error("signed twice it differs")
	}
	var e struct {
		PayloadType, Payload string
		Signatures           []struct{ Sig string }
	}
	if err := json.Unmarshal(raw, &e); err != nil || len(e.Signatures) != 1 {
		t.Fatal(err, string(raw))
	}
	payload, err1 := base64.StdEncoding.DecodeString(e.Payload)
	signature, err2 := base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	signed := fmt.Sprintf("DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(payload), payload)
	if e.PayloadType != "application/vnd.in-toto+json" || !holds(t, public, []byte(signed), signature) || holds(t, public, payload, signature) {
		t.Errorf("the envelope does not hold: %s", raw)
	}
	var s struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct {
					URI    string
					Digest map[string]string
				}
			}
		}
	}
	if err := json.Unmarshal(payload, &s); err != nil {
		t.Fatal(err)
	}
	if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://slsa.dev/provenance/v1" || fmt.Sprint(s.Subject) != "[{a map[sha256:11]} {b map[sha256:22]}]" ||
		s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"] != strings.Repeat("0a", 20) {
		t.Errorf("the statement is %s", payload)
	}
}
