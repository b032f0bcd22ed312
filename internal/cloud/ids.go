package cloud

import (
	"fmt"
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

// viewSign begins the part of a group's id that tells apart what one group of the cloud means to
// several interfaces. See Group.
const viewSign = "@"

// GroupObject is the cloud's own id of a group, without what an adapter has added to tell apart
// what it means to several interfaces; empty for a group that stands for none.
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
