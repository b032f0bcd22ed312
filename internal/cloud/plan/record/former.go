package record

import (
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// formerTagSize is the length of a tag value in AWS, the shortest among the clouds.
const formerTagSize = 256

// Former returns the groups that an interface had before it was taken over, sorted, as its tags
// record them; nil without record.
func Former(n *cloud.Interface) []string { return cloud.FormerGroups(n.Tags) }

// FormerTagKey is the key of the i-th tag of the record of former groups.
func FormerTagKey(i int) string { return numbered(cloud.TagFormer, i) }

// numbered is the key of a tag's i-th continuation.
func numbered(key string, i int) string {
	if i == 0 {
		return key
	}
	return key + "." + strconv.Itoa(i)
}

// FormerTags are the tags that record the groups; there is at least one.
func FormerTags(groups []string) map[string]string {
	out := map[string]string{}
	value := strings.Join(groups, " ")
	for i := 0; i == 0 || value != ""; i++ {
		part := value[:min(len(value), formerTagSize-1)]
		if cut := strings.LastIndexByte(part, ' '); len(part) < len(value) && cut > 0 {
			part = part[:cut+1]
		}
		// Clouds may trim tag values, so the separator goes to the front of the next part.
		value = value[len(part):]
		if trimmed := strings.TrimRight(part, " "); trimmed != part {
			part, value = trimmed, " "+value
		}
		out[FormerTagKey(i)] = part
	}
	return out
}
