package aws

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// WellFormed reports whether id is prefix, a dash and 8 or 17 lower-case hexadecimal digits.
func WellFormed(prefix, id string) bool {
	hexes, ok := strings.CutPrefix(id, prefix+"-")
	if !ok || len(hexes) != 8 && len(hexes) != 17 {
		return false
	}
	for _, c := range hexes {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// ResourceType names the kind of resource that an id denotes by its prefix (instance,
// security-group, ...), or "".
func ResourceType(id string) string {
	for _, k := range kinds {
		if strings.HasPrefix(id, k.prefix+"-") {
			return k.resource
		}
	}
	return ""
}

// digest returns the next pseudo-random bytes: a hash of seed and counter, so that a restart goes
// on where it stopped.
func (w *World) digest() [sha256.Size]byte {
	w.counter++
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], w.seed)
	binary.BigEndian.PutUint64(b[8:], w.counter)
	return sha256.Sum256(b[:])
}

// newID returns a fresh id: prefix, a dash and 17 hexadecimal digits.
func (w *World) newID(prefix string) string {
	d := w.digest()
	return prefix + "-" + hex.EncodeToString(d[:9])[:17]
}

// newMAC returns a locally administered unicast MAC address.
func (w *World) newMAC() string {
	d := w.digest()
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", d[0], d[1], d[2], d[3], d[4])
}

// hash is a digest of s, for ids that must depend on s alone.
func hash(s string) [sha256.Size]byte { return sha256.Sum256([]byte(s)) }
