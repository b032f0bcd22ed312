package sharing

import (
	"crypto/sha256"
	"encoding/binary"
)

// ShardOf is the shard of a key among n, from 0.
func ShardOf(key string, n int) int {
	return int(digest("key", key) % uint64(n))
}

// Assign returns the seat that is to hold each of n shards: the one with the highest hash together
// with the shard. The order of seats does not matter; without seats the names are empty.
func Assign(n int, slots []string) []string {
	out := make([]string, n)
	for shard := range out {
		var best uint64
		for _, slot := range slots {
			h := digest("seat", slot, string(binary.BigEndian.AppendUint64(nil, uint64(shard))))
			if out[shard] == "" || h > best || h == best && slot < out[shard] {
				out[shard], best = slot, h
			}
		}
	}
	return out
}

// digest is the same in every process and version.
func digest(parts ...string) uint64 {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}
