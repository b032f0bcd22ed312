package aws

import (
	"crypto/sha256"
	"encoding/hex"
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

// hash is a digest of s, for ids that must depend on s alone.
func hash(s string) [sha256.Size]byte { return sha256.Sum256([]byte(s)) }

// ARN returns the Amazon resource name of an EC2 resource.
func ARN(region, account, id string) string {
	return "arn:aws:ec2:" + region + ":" + account + ":" + ResourceType(id) + "/" + id
}

// ShortHash is 17 hexadecimal digits that depend on s alone.
func ShortHash(s string) string {
	d := hash(s)
	return hex.EncodeToString(d[:9])[:17]
}
