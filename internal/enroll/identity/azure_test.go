package identity

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/imds"
)

const metadataName = "metadata.azure.com"

var attested = imds.Attested{Nonce: "N1", SubscriptionID: "AAAAAAAA-0000-4000-8000-000000000001", VMID: "BBBBBBBB-0000-4000-8000-000000000002", TimeStamp: imds.At(now)}

func attest(t *testing.T, d imds.Attested, change ...func(*x509.Certificate)) (text string, authorities []*x509.Certificate) {
	t.Helper()
	a, err := imds.NewAttester(now, change...)
	if err != nil {
		t.Fatal(err)
	}
	text, err = a.Sign(d)
	if err != nil {
		t.Fatal(err)
	}
	authorities, err = ParseCertificates(string(a.AuthorityPEM()))
	if err != nil {
		t.Fatal(err)
	}
	return text, authorities
}

// TestAzure believes what a certificate for the metadata service signs, that one of the authorities
// has issued.
func TestAzure(t *testing.T) {
	text, own := attest(t, attested)
	_, others := attest(t, attested)
	got, err := Azure(text+"\n", metadataName, append(others, own...), now)
	want := Attested{strings.ToLower(attested.SubscriptionID), strings.ToLower(attested.VMID), "N1", now, now.Add(6 * time.Hour)}
	if err != nil || got.Subscription != want.Subscription || got.VM != want.VM || got.Nonce != want.Nonce || !got.Created.Equal(want.Created) || !got.Expires.Equal(want.Expires) {
		t.Errorf("%+v %v", got, err)
	}
	below, belows := attest(t, attested, func(c *x509.Certificate) { c.DNSNames = []string{"*.metadata.azure.com"} })
	if _, err := Azure(below, metadataName, belows, now); err != nil {
		t.Error(err)
	}
	for what, c := range map[string]struct {
		text, name  string
		authorities []*x509.Certificate
		at          time.Time
		want        string
	}{
		"another authority": {text, metadataName, others, now, "unknown authority"},
		"no authority":      {text, metadataName, nil, now, "unknown authority"},
		"another cloud":     {text, "metadata.azure.us", own, now, "not for metadata.azure.us"},
		"too early":         {text, metadataName, own, now.AddDate(0, -7, 0), "not yet valid"},
		"too late":          {text, metadataName, own, now.AddDate(0, 7, 0), "expired"},
		"oversize":          {text + strings.Repeat("A", maxSigned), metadataName, own, now, "want 16384 at most"},
		"nothing":           {"", metadataName, own, now, ""},
		"not Base64":        {"#", metadataName, own, now, ""},
		"nested deeply":     {base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x30\x80", 6000))), metadataName, own, now, ""},
		"a document of AWS": {ofAWS(t), metadataName, own, now, "not for metadata.azure.com"},
	} {
		if got, err := Azure(c.text, c.name, c.authorities, c.at); !errors.Is(err, ErrForged) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v %v, want %q", what, got, err, c.want)
		}
	}
}

// ofAWS is what AWS signs.
func ofAWS(t *testing.T) string {
	p, _ := sign(t)
	return p.PKCS7
}

// TestAzureCertificates shows certificates that the authority has issued for something else.
func TestAzureCertificates(t *testing.T) {
	for what, change := range map[string]func(*x509.Certificate){
		"a name that ends alike": func(c *x509.Certificate) { c.DNSNames = []string{"evilmetadata.azure.com"} },
		"a name above":           func(c *x509.Certificate) { c.DNSNames = []string{"azure.com", "*.azure.com"} },
		"a name that goes on":    func(c *x509.Certificate) { c.DNSNames = []string{"metadata.azure.com.example.org"} },
		"only a subject":         func(c *x509.Certificate) { c.DNSNames = nil },
		"for people":             func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection} },
		"an authority": func(c *x509.Certificate) {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
		},
	} {
		text, own := attest(t, attested, change)
		if got, err := Azure(text, metadataName, own, now); !errors.Is(err, ErrForged) {
			t.Errorf("%s: %+v %v", what, got, err)
		}
	}
}

// TestAzureForged changes each byte of what was signed. Nothing else is ever believed than what
// was.
func TestAzureForged(t *testing.T) {
	text, own := attest(t, attested)
	want, err := Azure(text, metadataName, own, now)
	if err != nil {
		t.Fatal(err)
	}
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i := range der {
		for _, by := range []byte{1, 0x80} {
			der[i] ^= by
			got, err := Azure(base64.StdEncoding.EncodeToString(der), metadataName, own, now)
			der[i] ^= by
			switch {
			case err != nil:
				refused++
			case got != want:
				t.Fatalf("%+v is believed", got)
			}
		}
	}
	if refused < len(der) {
		t.Errorf("of %d bytes, %d changes are noticed", len(der), refused)
	}
}

// TestAzureDocuments signs what is no document of a machine.
func TestAzureDocuments(t *testing.T) {
	for want, change := range map[string]func(*imds.Attested){
		"does not say": func(d *imds.Attested) { d.VMID = "" },
		"vmId and sub": func(d *imds.Attested) { d.SubscriptionID = "" },
		"the times":    func(d *imds.Attested) { d.TimeStamp.ExpiresOn = "" },
		"month out of": func(d *imds.Attested) { d.TimeStamp.CreatedOn = "2030-01-02T03:04:05Z" },
	} {
		d := attested
		change(&d)
		text, own := attest(t, d)
		if got, err := Azure(text, metadataName, own, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v %v, want %q", got, err, want)
		}
	}
}

// TestNonce is another for all that it is made from, also where parts seem to be others.
func TestNonce(t *testing.T) {
	seen := map[string]bool{}
	for _, parts := range [][3]string{{"a/b", "s", "r"}, {"a/c", "s", "r"}, {"a/b", "t", "r"}, {"a/b", "s", "q"}, {"a/b\n1 s", "", "r"}, {"", "a/bs", "r"}} {
		n := Nonce(parts[0], parts[1], parts[2])
		if len(n) != nonceLength || strings.Trim(n, "0123456789abcdef") != "" || seen[n] || n != Nonce(parts[0], parts[1], parts[2]) {
			t.Errorf("%q: %s", parts, n)
		}
		seen[n] = true
	}
}
