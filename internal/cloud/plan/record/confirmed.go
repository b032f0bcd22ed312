package record

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// mostConfirmed bounds how many interfaces an annotation may name.
const mostConfirmed = 5000

// cloudID is what IDs of interfaces and groups look like. One that is a path is the same in any
// case.
var cloudID = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9_-]{0,127}|/[A-Za-z0-9_./()-]{1,511})$`)

func canonical(id string) string {
	if id = strings.TrimSpace(id); strings.HasPrefix(id, "/") {
		return strings.ToLower(id)
	}
	return id
}

// ParseConfirmed reads the annotation v1alpha1.AnnotationFormerGroups: the former groups by
// interface, sorted. What cannot be read is left out, and the first of it is the problem.
func ParseConfirmed(text string) (confirmed map[string][]string, problem string) {
	wrong := func(format string, args ...any) {
		if problem == "" {
			problem = cloud.Words(fmt.Sprintf(format, args...))
		}
	}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		id, list, found := strings.Cut(part, "=")
		id = canonical(id)
		groups := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
		for i := range groups {
			groups[i] = canonical(groups[i])
		}
		bad := slices.IndexFunc(append([]string{id}, groups...), func(s string) bool { return !cloudID.MatchString(s) })
		switch {
		case !found || bad >= 0 || len(groups) == 0:
			wrong("%q is not INTERFACE=GROUP,GROUP", part)
		case confirmed[id] != nil:
			wrong("the interface %s is named twice", id)
			confirmed[id] = []string{} // neither counts
		case len(confirmed) == mostConfirmed:
			wrong("more than %d interfaces are named", mostConfirmed)
		default:
			if confirmed == nil {
				confirmed = map[string][]string{}
			}
			slices.Sort(groups)
			confirmed[id] = slices.Compact(groups)
		}
	}
	return confirmed, problem
}
