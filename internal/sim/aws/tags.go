package aws

import (
	"slices"
	"strings"
)

// Tags are the tags of one resource: key to value. A nil map is an untagged resource.
type Tags map[string]string

// Keys returns the tag keys in order.
func (t Tags) Keys() []string {
	keys := make([]string, 0, len(t))
	for k := range t {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// ResourceTag is one answer row of DescribeTags.
type ResourceTag struct {
	ResourceID   string
	ResourceType string
	Key          string
	Value        string
}

// Tag is one tag of a CreateTags request.
type Tag struct{ Key, Value string }

// TagKey names a tag to delete: the one with this key, and if Value is not nil only while it has
// that value.
type TagKey struct {
	Key   string
	Value *string
}

// CheckTag refuses a tag that no resource can have.
func CheckTag(key, value string) error {
	switch {
	case key == "" || len([]rune(key)) > 127:
		return InvalidValue("Tag key must be between 1 and 127 characters long")
	case len([]rune(value)) > 255:
		return InvalidValue("Tag value exceeds the maximum length of 255 characters")
	case strings.HasPrefix(strings.ToLower(key), "aws:"):
		return InvalidValue("Tag keys starting with 'aws:' are reserved for internal use")
	}
	return nil
}
