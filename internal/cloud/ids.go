package cloud

import (
	"fmt"
	"regexp"
	"strings"
)

// ObjectName is the name of the Kubernetes object for a VM or network with this id: the id itself,
// where it is a word (AWS). Where it is a path (Azure) it is what comes last, and the sum of the
// characters of the whole, as Nephe has it.
func ObjectName(id string) string {
	id = strings.ToLower(id)
	at := strings.LastIndexByte(id, '/')
	if at < 0 {
		return id
	}
	sum := 0
	for _, r := range id {
		sum += int(r)
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, id[at+1:])
	return strings.Trim(fmt.Sprintf("%s-%d", name, sum), "-.")
}

// SameID reports whether two ids mean the same object. Paths (Azure) are written in any case.
func SameID(a, b string) bool {
	return a == b || strings.Contains(a, "/") && strings.EqualFold(a, b)
}

// paths are the ids of Azure in a text: the resource group, and what follows the provider.
var paths = regexp.MustCompile(`(?i)/subscriptions/[^/\s,;"']+/resourceGroups/([^/\s,;"']+)/providers/[^/\s,;"']+((?:/[^/\s,;"':()]+/[^/\s,;"':()]+)+)`)

// ShortIDs writes the ids in a text so that people can read them: of a path (Azure) the resource
// group and the names, without what kind each is. It is for sentences, and nothing is found by it.
func ShortIDs(text string) string {
	if !strings.Contains(text, "/") {
		return text
	}
	return paths.ReplaceAllStringFunc(text, func(path string) string {
		m := paths.FindStringSubmatch(path)
		out := m[1]
		for i, part := range strings.Split(strings.TrimPrefix(m[2], "/"), "/") {
			if i%2 == 1 {
				out += "/" + part
			}
		}
		return out
	})
}

// AndMore says how many names are left out of a sentence, and what shows them all; empty if none
// are.
func AndMore(n int, command string) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("and %d more (%s names all)", n, command)
}

// Some are the first of texts, and then how many more there are and what shows them all.
func Some(texts []string, most int, command string) []string {
	if more := AndMore(len(texts)-most, command); more != "" {
		return append(texts[:most:most], more)
	}
	return texts
}

// viewSign begins the part of a group's id that tells apart what one group of the cloud means to
// several interfaces. See Group.
const viewSign = "@"

// GroupObject is the cloud's own id of a group, without what an adapter has added to tell apart
// what it means to several interfaces; empty for a group that represents none.
func GroupObject(id string) string {
	object, _, view := strings.Cut(id, viewSign)
	if view && !strings.Contains(object, "/") {
		return ""
	}
	return object
}

// GroupObjects are the ids of groups as their cloud has them.
func GroupObjects(ids []string) []string {
	var out []string
	for _, id := range ids {
		if object := GroupObject(id); object != "" {
			out = append(out, object)
		}
	}
	return out
}
