package keyring

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"
)

// Random is the kind of keys that are so many random bytes. The purpose makes IDs of different
// lists differ, and must never change.
func Random(size int, purpose string) Kind {
	return Kind{
		New: func(random io.Reader, _ time.Time) ([]byte, error) {
			material := make([]byte, size)
			_, err := io.ReadFull(random, material)
			return material, err
		},
		ID: func(material []byte) (string, error) {
			if len(material) != size {
				return "", fmt.Errorf("a key of %d bytes, want %d random ones", len(material), size)
			}
			sum := sha256.Sum256(append([]byte(purpose+" "), material...))
			return hex.EncodeToString(sum[:8]), nil
		},
	}
}
