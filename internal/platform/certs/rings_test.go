package certs

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/platform/keyring"
)

var caller = Profile{CommonName: "admin", Client: true}

// rotate makes another authority the current one, as the command does. It returns the IDs.
func (w *world) rotate() []string {
	w.t.Helper()
	kind := AuthorityKind("ca")
	ring, err := w.store.Ring("ca", kind)
	if err != nil {
		w.t.Fatal(err)
	}
	made, err := kind.Make(rand.Reader, w.now)
	if err == nil {
		ring, err = NextAuthorities(ring, made, w.now)
	}
	if err == nil {
		err = w.store.SetRing("ca", ring)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return ring.IDs()
}

// leaf makes sure of a certificate and returns it.
func (w *world) leaf(name string, p Profile) *x509.Certificate {
	w.t.Helper()
	if _, err := w.store.Certificate(name, w.authority(), p); err != nil {
		w.t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(w.store.CertFile(name), w.store.KeyFile(name))
	if err != nil {
		w.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return cert
}

// believed reports whether a bundle verifies a certificate.
func (w *world) believed(bundle []byte, cert *x509.Certificate) bool {
	w.t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		w.t.Fatal("no certificate")
	}
	_, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: w.now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

// TestAuthoritiesRotate: a client with the former authority trusts servers for the time Beside, and
// servers trust it as long as its certificate lasts.
func TestAuthoritiesRotate(t *testing.T) {
	w := newWorld(t)
	w.now = w.now.Add(30 * 24 * time.Hour)
	former := w.authority().CertPEM()
	client := w.leaf("admin", caller)
	served := w.leaf("leaf", server)
	w.now = w.now.Add(30 * 24 * time.Hour)
	w.rotate()
	a := w.authority()
	if got := w.leaf("leaf", server); !got.Equal(served) {
		t.Error("the certificate of the server was replaced at once")
	}
	again := w.leaf("admin", caller)
	if again.Equal(client) || w.believed(former, again) || !w.believed(a.CertPEM(), again) || !w.believed(a.CertPEM(), client) {
		t.Error("clients are not certified by the new authority, or the former one is not believed")
	}
	if !strings.HasSuffix(string(a.CertPEM()), string(former)) || strings.Count(string(a.CertPEM()), "BEGIN") != 2 {
		t.Errorf("%s", a.CertPEM())
	}
	w.now = w.now.Add(Beside)
	if got := w.leaf("leaf", server); w.believed(former, got) || !w.believed(a.CertPEM(), got) {
		t.Error("servers still prove themselves by the former authority")
	}
	if text, err := os.ReadFile(w.store.RingFile("ca")); err != nil || strings.Count(string(text), "material") != 2 {
		t.Fatal(err)
	}
	ring, err := w.store.Ring("ca", AuthorityKind("ca"))
	if err != nil || strings.Contains(string(ring[1].Material), "PRIVATE") || !strings.Contains(string(ring[0].Material), "PRIVATE") {
		t.Error("the key of the former authority is kept", err)
	}
	w.now = w.now.Add(certificateLife)
	if b := w.authority().CertPEM(); strings.Contains(string(b), string(former)) {
		t.Error("the former authority is believed for ever")
	}
}

// TestRotationCutShort: whatever was written when a rotation, or what follows it, was cut short,
// the next start ends with the old order or the new one, and nobody believed before is refused.
func TestRotationCutShort(t *testing.T) {
	for written := range 4 {
		w := newWorld(t)
		client, former := w.leaf("admin", caller), w.authority().CertPEM()
		w.leaf("leaf", server)
		files := []string{w.store.RingFile("ca"), w.store.KeyFile("ca"), w.store.CertFile("ca")}
		var old [][]byte
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			old = append(old, text)
		}
		ids := w.rotate()
		w.authority()
		for i, f := range files {
			if i >= written {
				w.write(f, string(old[i]))
			}
		}
		w.write(w.store.RingFile("ca")+".tmp", "half a li")
		bundle := w.authority().CertPEM()
		served := w.leaf("leaf", server)
		if !w.believed(bundle, client) || !w.believed(former, served) || !w.believed(bundle, served) || !w.believed(bundle, w.leaf("admin", caller)) {
			t.Errorf("%d files written: somebody is not believed", written)
		}
		ring, err := w.store.Ring("ca", AuthorityKind("ca"))
		if want := map[bool][]string{true: ids, false: ids[1:]}[written > 0]; err != nil || !slices.Equal(ring.IDs(), want) {
			t.Errorf("%d files written: %v, want %v (%v)", written, ring, want, err)
		}
	}
}

// TestListsAreAdopted: files from before there were lists become a list of one, byte for byte what
// they were; older programs find them where they were.
func TestListsAreAdopted(t *testing.T) {
	w := newWorld(t)
	w.authority()
	if _, err := w.store.SigningKey("sa"); err != nil {
		t.Fatal(err)
	}
	read := func() (out []string) {
		for _, f := range []string{w.store.CertFile("ca"), w.store.KeyFile("ca"), w.store.KeyFile("sa")} {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(text))
		}
		return out
	}
	before := read()
	w.remove(w.store.RingFile("ca"))
	w.remove(w.store.RingFile("sa"))
	w.authority()
	if _, err := w.store.SigningKey("sa"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before, read()) {
		t.Error("a key has changed")
	}
	// A damaged list is not replaced in silence: everybody would have to be told of new keys.
	w.write(w.store.RingFile("ca"), "[]")
	if _, err := w.store.Authority("ca"); err == nil || !strings.Contains(err.Error(), filepath.Base(w.store.RingFile("ca"))) {
		t.Error(err)
	}
}

// TestSigningKeysRotate: the first signs, all verify, and of former ones only the public half is
// kept.
func TestSigningKeysRotate(t *testing.T) {
	w := newWorld(t)
	path, err := w.store.SigningKey("sa")
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := w.store.Ring("sa", keyring.Signing())
	if err != nil {
		t.Fatal(err)
	}
	made, err := keyring.Signing().Make(rand.Reader, w.now)
	if err == nil {
		ring, err = NextSigning(ring, made, w.now)
	}
	if err == nil {
		err = w.store.SetRing("sa", ring)
	}
	if err == nil {
		_, err = w.store.SigningKey("sa")
	}
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) == string(before) {
		t.Error("the key has not changed", err)
	}
	public, err := os.ReadFile(w.store.VerifyingFile("sa"))
	if err != nil || strings.Contains(string(public), "PRIVATE") {
		t.Error(err)
	}
	for i, want := range [][]byte{after, before} {
		half, err := keyring.PublicOnly(want)
		block, rest := pem.Decode(public)
		if err != nil || block == nil || string(pem.EncodeToMemory(block)) != string(half) {
			t.Errorf("key %d does not verify: %v", i, err)
		}
		public = rest
	}
	if text, err := os.ReadFile(w.store.RingFile("sa")); err != nil || strings.Contains(string(text), string(before)) {
		t.Error("the former private key is kept", err)
	}
}
