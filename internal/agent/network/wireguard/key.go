package wireguard

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/platform/certs"
)

const (
	// keyFile has the private key in base64, and nextFile the one that counts when others know it.
	keyFile, nextFile = "wireguard-key", "wireguard-key.next"
	// keyLimit bounds what is read of a file.
	keyLimit = 100
)

// Keys are the key of a Node, and the next one.
type Keys struct {
	dir string

	mu        sync.Mutex
	own, next *ecdh.PrivateKey
}

// OpenKeys reads the keys in a directory, and makes one if there is none.
func OpenKeys(dir string) (*Keys, error) {
	k := &Keys{dir: dir}
	var err error
	if k.own, err = readKey(filepath.Join(dir, keyFile)); errors.Is(err, fs.ErrNotExist) {
		k.own, err = k.make(keyFile)
	}
	if err != nil {
		return nil, fmt.Errorf("key of WireGuard: %w", err)
	}
	if k.next, err = readKey(filepath.Join(dir, nextFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("next key of WireGuard: %w", err)
	}
	return k, nil
}

func readKey(path string) (*ecdh.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text[:min(len(text), keyLimit)])))
	if err != nil || len(raw) != len(network.PublicKey{}) {
		return nil, fmt.Errorf("%s holds no private key of WireGuard: want 32 bytes in base64; remove it, and the Node gets a new key", path)
	}
	return ecdh.X25519().NewPrivateKey(raw)
}

func (k *Keys) make(name string) (*ecdh.PrivateKey, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return key, certs.WriteFile(filepath.Join(k.dir, name), []byte(base64.StdEncoding.EncodeToString(key.Bytes())+"\n"), 0o600)
}

func public(key *ecdh.PrivateKey) network.PublicKey {
	return network.PublicKey(key.PublicKey().Bytes())
}

// Public is the public half of the key that counts, Next that of the one that is to count when
// others were told of it; the zero one for none.
func (k *Keys) Public() network.PublicKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return public(k.own)
}

// Next is the public half of the key that is to count next; the zero one for none.
func (k *Keys) Next() network.PublicKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next == nil {
		return network.PublicKey{}
	}
	return public(k.next)
}

// Renew makes the next key, unless there is one.
func (k *Keys) Renew() (network.PublicKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next == nil {
		next, err := k.make(nextFile)
		if err != nil {
			return network.PublicKey{}, fmt.Errorf("next key of WireGuard: %w", err)
		}
		k.next = next
	}
	return public(k.next), nil
}

// Change makes the next key count, if it is this one.
func (k *Keys) Change(to network.PublicKey) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next == nil || public(k.next) != to {
		return nil
	}
	if err := os.Rename(filepath.Join(k.dir, nextFile), filepath.Join(k.dir, keyFile)); err != nil {
		return fmt.Errorf("next key of WireGuard: %w", err)
	}
	k.own, k.next = k.next, nil
	return nil
}

func (k *Keys) private() [32]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return [32]byte(k.own.Bytes())
}

// publicOf is the public half of a private key; the zero one for none.
func publicOf(private []byte) network.PublicKey {
	key, err := ecdh.X25519().NewPrivateKey(private)
	if err != nil || [32]byte(private) == [32]byte{} {
		return network.PublicKey{}
	}
	return public(key)
}
