package wireguard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/agent/network"
)

// TestKeys: a key stays over restarts, also the next one that others may have been told of, and
// nobody but root reads it.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	open := func() *Keys {
		t.Helper()
		k, err := OpenKeys(dir)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := open()
	if again := open(); again.Public() != first.Public() || again.Next() != (network.PublicKey{}) {
		t.Errorf("the key is another one after a restart")
	}
	next, err := first.Renew()
	if err != nil || next == first.Public() || first.Next() != next {
		t.Fatalf("%v %v", next, err)
	}
	if twice, err := first.Renew(); err != nil || twice != next {
		t.Errorf("a second one was made: %v %v", twice, err)
	}
	second := open()
	if second.Next() != next || second.Public() != first.Public() {
		t.Errorf("the next key is lost by a restart")
	}
	if err := second.Change(first.Public()); err != nil || second.Public() != first.Public() {
		t.Errorf("another key than the next one counts: %v", err)
	}
	if err := second.Change(next); err != nil || second.Public() != next || second.Next() != (network.PublicKey{}) {
		t.Errorf("%v", err)
	}
	if third := open(); third.Public() != next {
		t.Errorf("the new key is lost by a restart")
	}
	path := filepath.Join(dir, keyFile)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	for _, text := range []string{"", "x", strings.Repeat("A", 200)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenKeys(dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q is a key: %v", text, err)
		}
	}
}
