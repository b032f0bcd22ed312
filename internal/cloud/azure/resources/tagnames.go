package resources

import (
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Names of tags cannot contain a slash on Azure, and are compared without regard to case. Ours are
// written with the other sign, with a mark before what is a capital letter; no others are touched.
const (
	ourTags   = "nephele.io/"
	tagPrefix = "nephele.io_"
	capital   = '~'
)

// TagName is how Azure has the name of a tag of the port.
func TagName(name string) string {
	if rest, ours := strings.CutPrefix(name, ourTags); ours {
		var b strings.Builder
		for _, r := range rest {
			if r >= 'A' && r <= 'Z' {
				b.WriteRune(capital)
				r += 'a' - 'A'
			}
			b.WriteRune(r)
		}
		return tagPrefix + b.String()
	}
	return name
}

// portName is the port's name of a tag of ours, from what comes after azureTags.
func portName(rest string) string {
	var b strings.Builder
	after := false
	for _, r := range strings.ToLower(rest) {
		switch {
		case r == capital && !after:
			after = true
			continue
		case after && r >= 'a' && r <= 'z':
			r -= 'a' - 'A'
		}
		after = false
		b.WriteRune(r)
	}
	return ourTags + b.String()
}

// PortTags are tags as the port has them.
func PortTags(tags map[string]*string) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	out := make(map[string]string, len(tags))
	for name, value := range tags {
		if len(name) > len(tagPrefix) && strings.EqualFold(name[:len(tagPrefix)], tagPrefix) {
			name = portName(name[len(tagPrefix):])
		}
		text := ""
		if value != nil {
			text = *value
		}
		if name == cloud.TagFormer || strings.HasPrefix(name, cloud.TagFormer+".") {
			text = strings.ToLower(text) // see spellings
		}
		out[name] = text
	}
	return out
}

// SpelledGroups are the ids of network security groups that an interface remembers, as they are
// written in its tags.
func SpelledGroups(tags map[string]*string) []string {
	raw := map[string]string{}
	for name, value := range tags {
		if value != nil && len(name) > len(tagPrefix) && strings.EqualFold(name[:len(tagPrefix)], tagPrefix) {
			raw[portName(name[len(tagPrefix):])] = *value
		}
	}
	var out []string
	for _, id := range cloud.FormerGroups(raw) {
		if group, ok := GroupOfView(id); ok && group != "" {
			out = append(out, group)
		}
	}
	return out
}

// TagDescription holds the description of a group: network security groups have none.
const TagDescription = "nephele.io/description"
