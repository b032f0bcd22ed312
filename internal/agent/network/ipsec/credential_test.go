package ipsec

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certified makes a certificate of names for a request, and that of its authority.
func certified(t *testing.T, csr []byte, from, until time.Time, names ...string) (certificate, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(csr)
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	make := func(template *x509.Certificate, parent *x509.Certificate, public any) string {
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), from, until
		der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der}))
	}
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true}
	authority = make(ca, ca, key.Public())
	return make(&x509.Certificate{DNSNames: names}, ca, asked.PublicKey), authority
}

// TestCredential: a certificate is kept with its key, only for root, if it is of one Node and of
// that key; it is asked for anew after two thirds of its life, and for another Node at once.
func TestCredential(t *testing.T) {
	const own = "n1.uid.nodes.nephele.io"
	dir, start := t.TempDir(), time.Unix(1e9, 0)
	c, err := OpenCredential(dir)
	if err != nil || c.Identity() != "" || !c.due(own, start) {
		t.Fatalf("%v %q", err, c.Identity())
	}
	key, csr, err := request()
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := request()
	if err != nil {
		t.Fatal(err)
	}
	end := start.Add(9 * time.Hour)
	good, authority := certified(t, csr, start, end, own)
	host, _ := certified(t, csr, start, end, "nephele-hosts")
	two, _ := certified(t, csr, start, end, own, "n2.uid.nodes.nephele.io")
	for what, err := range map[string]error{
		"another key": c.keep(other, good, authority), "no Node": c.keep(key, host, authority), "two Nodes": c.keep(key, two, authority),
		"no authority": c.keep(key, good, ""), "no certificate": c.keep(key, "", ""), "too much": c.keep(key, good, strings.Repeat(authority, 1000)),
	} {
		if err == nil || c.Identity() != "" {
			t.Errorf("%s is taken", what)
		}
	}
	if err := c.keep(key, good, authority); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, credentialFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if c, err = OpenCredential(dir); err != nil || c.Identity() != own {
		t.Errorf("%v %q", err, c.Identity())
	}
	for at, want := range map[time.Duration]bool{time.Hour: false, 5 * time.Hour: false, 7 * time.Hour: true, -time.Hour: true} {
		if c.due(own, start.Add(at)) != want || c.due("", start.Add(at)) != want || !c.due("n1.new.nodes.nephele.io", start.Add(at)) {
			t.Errorf("after %s: %t", at, !want)
		}
	}
	if err := os.WriteFile(path, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCredential(dir); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("rubbish: %v", err)
	}
}
