package identity

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/imds"
)

var (
	now      = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	document = imds.Document{AccountID: "111122223333", Region: "us-west-2", InstanceID: "i-1", PrivateIP: "10.1.0.7", PendingTime: now.Add(-time.Minute)}
)

func sign(t *testing.T) (p Proof, certificates []*x509.Certificate) {
	t.Helper()
	s, err := imds.NewSigner(now)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	p.Document = string(raw)
	var errs [2]error
	p.PKCS7, errs[0] = s.PKCS7(raw)
	p.Signature, errs[1] = s.Signature(raw)
	certificates, err = ParseCertificates(string(s.CertificatePEM()))
	if err := errors.Join(errs[0], errs[1], err); err != nil {
		t.Fatal(err)
	}
	return p, certificates
}

// TestAWS reads both forms, and neither by the certificate of somebody else or at another time.
func TestAWS(t *testing.T) {
	p, own := sign(t)
	other, others := sign(t)
	for form, proof := range map[string]Proof{
		"PKCS #7": {PKCS7: p.PKCS7}, "in lines": {PKCS7: p.PKCS7[:64] + "\n" + p.PKCS7[64:] + "\n"}, "signature": {Document: p.Document, Signature: p.Signature + "\n"}, "all": p,
	} {
		got, err := AWS(proof, append(others, own...), now)
		if err != nil || got.Account != "111122223333" || got.Region != "us-west-2" || got.ID != "i-1" || got.Address.String() != "10.1.0.7" || !got.Launched.Equal(document.PendingTime) {
			t.Errorf("%s: %+v %v", form, got, err)
		}
		for what, c := range map[string]struct {
			certificates []*x509.Certificate
			at           time.Time
		}{"another's": {others, now}, "none": {nil, now}, "too early": {own, now.AddDate(-21, 0, 0)}, "too late": {own, now.AddDate(101, 0, 0)}} {
			if got, err := AWS(proof, c.certificates, c.at); !errors.Is(err, ErrForged) {
				t.Errorf("%s, %s: %+v %v", form, what, got, err)
			}
		}
	}
	// What is beside PKCS #7 does not count, and its certificates do not either.
	if got, err := AWS(Proof{PKCS7: other.PKCS7, Document: p.Document, Signature: p.Signature}, own, now); !errors.Is(err, ErrForged) {
		t.Errorf("%+v %v", got, err)
	}
}

// TestForged changes each byte of what was signed. Nothing else is ever believed than what was.
func TestForged(t *testing.T) {
	p, own := sign(t)
	want, err := AWS(p, own, now)
	if err != nil {
		t.Fatal(err)
	}
	der, err := base64.StdEncoding.DecodeString(p.PKCS7)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	try := func(der []byte) {
		switch got, err := AWS(Proof{PKCS7: base64.StdEncoding.EncodeToString(der)}, own, now); {
		case err != nil:
			refused++
		case got != want:
			t.Fatalf("%+v is believed", got)
		}
	}
	for i := range der {
		for _, by := range []byte{1, 0x20, 0x80, 0xff} {
			changed := bytes.Clone(der)
			changed[i] ^= by
			try(changed)
		}
		try(der[:i])
	}
	if refused < len(der)*2 {
		t.Errorf("of %d bytes, %d changes are noticed", len(der), refused)
	}
	for _, text := range []string{strings.Replace(p.Document, "i-1", "i-2", 1), ""} {
		if got, err := AWS(Proof{Document: text, Signature: p.Signature}, own, now); !errors.Is(err, ErrForged) {
			t.Errorf("%+v %v", got, err)
		}
	}
	// Deep nesting is no way to keep the server busy.
	for _, deep := range []string{strings.Repeat("\x30\x80", 8000), strings.Repeat("\x24\x80", 8000)} {
		if got, err := AWS(Proof{PKCS7: base64.StdEncoding.EncodeToString([]byte(deep))}, own, now); !errors.Is(err, ErrForged) {
			t.Errorf("%+v %v", got, err)
		}
	}
}

func TestParseCertificates(t *testing.T) {
	s, err := imds.NewSigner(now)
	if err != nil {
		t.Fatal(err)
	}
	one := string(s.CertificatePEM())
	if got, err := ParseCertificates("\n" + one + "\n" + one); err != nil || len(got) != 2 {
		t.Errorf("%d %v", len(got), err)
	}
	for _, text := range []string{"", "x", one + "x", strings.ReplaceAll(one, "CERTIFICATE", "PRIVATE KEY"), strings.Replace(one, "MII", "AAA", 1)} {
		if got, err := ParseCertificates(text); err == nil {
			t.Errorf("%q: %d certificates", text, len(got))
		}
	}
}
