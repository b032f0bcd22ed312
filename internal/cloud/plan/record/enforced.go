package record

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// A policy that does not fit any more stays in force as it was last realized; one that never was in
// force is left out. Which of the two it is cannot be told from rules: the members of groups and
// the policies may have changed since they were written. So the group of a class names, in its
// tags, the policies that are in force on the interfaces that hold it. A new group gets them with
// its creation; a group in use costs a call only if its class comes under other policies.

const (
	// shortUID is the length of the name of a policy in a tag: the beginning of the hash of its
	// UID.
	shortUID = 8
	// policiesPerTag is how many names a tag value holds.
	policiesPerTag = (formerTagSize - 1) / shortUID
	// enforcedTags bounds the tags for it. Of a class under more policies nothing is remembered,
	// and then all of them count as in force.
	enforcedTags = 16
)

// Shortened is the name of a policy in a tag.
func Shortened(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return base64.URLEncoding.EncodeToString(sum[:shortUID/4*3])
}

// Enforcement is what is remembered of the policies that are in force; nil if nothing is known.
type Enforcement map[string]bool

// EnforcementOf reads it from the tags of a group of ours. What is not whole says nothing.
func EnforcementOf(tags map[string]string) Enforcement {
	out := Enforcement{}
	value, ok := tags[cloud.TagPolicies]
	for i := 1; ok; i++ {
		if len(value)%shortUID != 0 {
			return nil
		}
		for part := range slices.Chunk([]byte(value), shortUID) {
			out[string(part)] = true
		}
		if value, ok = tags[numbered(cloud.TagPolicies, i)]; !ok {
			return out
		}
	}
	return nil
}

// Tags are those that remember it.
func (e Enforcement) Tags() map[string]string {
	out := map[string]string{}
	if e == nil || len(e) > enforcedTags*policiesPerTag {
		return out
	}
	out[cloud.TagPolicies] = ""
	i := 0
	for part := range slices.Chunk(slices.Sorted(maps.Keys(e)), policiesPerTag) {
		out[numbered(cloud.TagPolicies, i)] = strings.Join(part, "")
		i++
	}
	return out
}
