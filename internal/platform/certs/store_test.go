package certs

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/platform/keyring"
)

// world is a store whose clock the test moves.
type world struct {
	t     *testing.T
	store *Store
	now   time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	store, err := Open(filepath.Join(t.TempDir(), "pki"), func() time.Time { return w.now })
	if err != nil {
		t.Fatal(err)
	}
	w.store = store
	return w
}

func (w *world) authority() *Authority {
	w.t.Helper()
	a, err := w.store.Authority("ca")
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) ensure(a *Authority, p Profile) (changed bool) {
	w.t.Helper()
	changed, err := w.store.Certificate("leaf", a, p)
	if err != nil {
		w.t.Fatal(err)
	}
	w.verify(a, p)
	return changed
}

// verify checks the files as a peer would: the pair loads, chains to the authority, and holds for
// each name.
func (w *world) verify(a *Authority, p Profile) {
	w.t.Helper()
	pair, err := tls.LoadX509KeyPair(w.store.CertFile("leaf"), w.store.KeyFile("leaf"))
	if err != nil {
		w.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(a.CertPEM()) {
		w.t.Fatal("the authority's PEM holds no certificate")
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		w.t.Fatal(err)
	}
	names := append([]string{""}, p.DNSNames...)
	for _, ip := range p.IPs {
		names = append(names, "["+ip.String()+"]")
	}
	for _, name := range names {
		opts := x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: w.now, KeyUsages: p.usages()}
		if _, err := leaf.Verify(opts); err != nil {
			w.t.Errorf("verify for %q: %v", name, err)
		}
	}
	info, err := os.Stat(w.store.KeyFile("leaf"))
	if err != nil {
		w.t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		w.t.Errorf("key file mode = %o, want 600", mode)
	}
}

var server = Profile{
	CommonName: "apiserver", DNSNames: []string{"localhost"}, IPs: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("::1")}, Server: true,
}

func TestCertificateIsKeptWhileItFits(t *testing.T) {
	w := newWorld(t)
	if !w.ensure(w.authority(), server) {
		t.Error("first call: not changed")
	}
	if w.ensure(w.authority(), server) {
		t.Error("second call: changed")
	}
	fewer := server
	fewer.IPs = server.IPs[:1]
	if w.ensure(w.authority(), fewer) {
		t.Error("fewer addresses: changed")
	}
}

func TestCertificateIsReplaced(t *testing.T) {
	client := Profile{CommonName: "admin", Organizations: []string{"system:masters"}, Client: true}
	more := server
	more.IPs = append([]net.IP{net.ParseIP("192.0.2.7")}, server.IPs...)
	tests := map[string]func(w *world) Profile{
		"another address":    func(*world) Profile { return more },
		"another purpose":    func(*world) Profile { return client },
		"near its end":       func(w *world) Profile { w.now = w.now.Add(280 * 24 * time.Hour); return server },
		"clock set back":     func(w *world) Profile { w.now = w.now.Add(-48 * time.Hour); return server },
		"authority near end": func(w *world) Profile { w.now = w.now.Add(9*365*24*time.Hour + time.Hour); return server },
		"authority removed": func(w *world) Profile {
			w.remove(w.store.KeyFile("ca"))
			w.remove(w.store.CertFile("ca"))
			return server
		},
		"killed between key and certificate": func(w *world) Profile {
			other, err := keyring.Signing().New(rand.Reader, w.now)
			if err != nil {
				w.t.Fatal(err)
			}
			w.write(w.store.KeyFile("leaf"), string(other))
			return server
		},
		"certificate damaged": func(w *world) Profile { w.write(w.store.CertFile("leaf"), "not PEM"); return server },
		"key damaged":         func(w *world) Profile { w.write(w.store.KeyFile("leaf"), "not PEM"); return server },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ensure(w.authority(), server)
			p := change(w)
			if !w.ensure(w.authority(), p) {
				t.Error("not changed")
			}
			if w.ensure(w.authority(), p) {
				t.Error("changed again by a second call")
			}
		})
	}
}

func TestSigningKeyIsKept(t *testing.T) {
	w := newWorld(t)
	path, err := w.store.SigningKey("sa")
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A copy restored from a backup with loose permissions is closed again.
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.SigningKey("sa"); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Error("the signing key has changed")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v (error %v), want 600", info.Mode(), err)
	}
}

func TestUnreadableFileIsAnError(t *testing.T) {
	w := newWorld(t)
	a := w.authority()
	// A directory in the place of the file cannot be read by any user.
	if err := os.Mkdir(w.store.KeyFile("leaf"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Certificate("leaf", a, server); err == nil {
		t.Error("no error for a key that cannot be read")
	}
}

func TestWriteFileReplacesWhatAKilledWriterLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path+".tmp", []byte("half a se"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "secret" {
		t.Errorf("content = %q, error %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, error %v", info.Mode(), err)
	}
	if _, err := os.Stat(path + ".tmp"); !os.IsNotExist(err) {
		t.Errorf("temporary file left behind (error %v)", err)
	}
}

func (w *world) remove(path string) {
	w.t.Helper()
	if err := os.Remove(path); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) write(path, text string) {
	w.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}
