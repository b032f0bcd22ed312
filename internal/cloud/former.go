package cloud

import (
	"slices"
	"strconv"
	"strings"
)

// FormerGroups returns the groups that an interface had before it was taken over, sorted, as its
// tags record them; nil without record.
func FormerGroups(tags map[string]string) []string {
	value, ok := tags[TagFormer]
	if !ok {
		return nil
	}
	for i := 1; ; i++ {
		more, ok := tags[TagFormer+"."+strconv.Itoa(i)]
		if !ok {
			break
		}
		value += more
	}
	out := strings.Fields(value)
	slices.Sort(out)
	return slices.Compact(out)
}
