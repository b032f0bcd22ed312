package demo

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// calls counts calls to the cloud, by action.
type calls struct{ reads, writes map[string]int }

// count sorts calls into those that only read and those that change something.
func count(all []ec2.Call) calls {
	c := calls{reads: map[string]int{}, writes: map[string]int{}}
	for _, call := range all {
		into := c.writes
		if read, _ := azureCall(call.Action); read {
			into = c.reads
		}
		for _, prefix := range []string{"Describe", "Get", "List", "AssumeRole"} {
			if strings.HasPrefix(call.Action, prefix) {
				into = c.reads
			}
		}
		_, name := azureCall(call.Action)
		into[name]++
	}
	return c
}

// azureCall reports a call of Azure whether it only reads, and shortens its name; others keep
// theirs.
func azureCall(action string) (read bool, name string) {
	provider, short, ok := strings.Cut(action, "/")
	if !ok {
		return false, action
	}
	return strings.HasSuffix(short, "/read") || provider == "login", short
}

func total(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}

// String says how many calls changed something, and which, and how many only read.
func (c calls) String() string {
	var which []string
	for _, action := range slices.Sorted(maps.Keys(c.writes)) {
		which = append(which, fmt.Sprintf("%d %s", c.writes[action], action))
	}
	text := numbered(total(c.writes), "changing call")
	if len(which) > 0 {
		text += " (" + strings.Join(which, ", ") + ")"
	}
	return text + " and " + numbered(total(c.reads), "reading call")
}

// numbered is "1 VM", "2 VMs".
func numbered(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
