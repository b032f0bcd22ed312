package compute

import (
	"crypto/sha1"
	"encoding/hex"
)

// groupNamespace is the UUID in which the names of groups are made.
var groupNamespace = [16]byte{0xe4, 0xf2, 0x4a, 0x48, 0xca, 0x1f, 0x4d, 0x5b, 0x81, 0x9c, 0xea, 0x76, 0x32, 0xb2, 0x21, 0x15}

// groupUUID returns the UUIDv5 of a normalized name: the name of the group on the wire.
func groupUUID(normalized string) string {
	name := uuidOf(append(groupNamespace[:len(groupNamespace):len(groupNamespace)], normalized...))
	return string(name[:])
}

// uuidOf returns the UUIDv5 of a name with the UUID of its namespace in front of it.
func uuidOf(name []byte) [36]byte {
	sum := sha1.Sum(name)
	u := sum[:16]
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	var out [36]byte
	hex.Encode(out[0:8], u[0:4])
	hex.Encode(out[9:13], u[4:6])
	hex.Encode(out[14:18], u[6:8])
	hex.Encode(out[19:23], u[8:10])
	hex.Encode(out[24:36], u[10:16])
	out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	return out
}
