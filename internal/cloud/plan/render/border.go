package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// mostExceptions is how many exceptions of a block are named.
const mostExceptions = 3

// Obstruction says what the filter of a subnet denies.
func Obstruction(o plan.Obstruction) string {
	toFrom, side := "from", "into"
	if o.Direction == cloud.Egress {
		toFrom, side = "to", "out of"
	}
	var flows []string
	for _, g := range o.Denied {
		for _, b := range g.All.Blocks() {
			flows = append(flows, fmt.Sprintf("%s %s %s", g.Service, toFrom, b.Text(mostExceptions)))
		}
	}
	var policies []string
	for _, p := range o.Policies {
		policies = append(policies, p.String())
	}
	allow, by, let := "allow", "the end", "does"
	if len(policies) == 1 {
		allow = "allows"
	}
	switch len(o.Entries) {
	case 0: // what no entry is about is denied
	case 1:
		by = "rule " + o.Entries[0]
	default:
		by, let = "rules "+cloud.Listed(o.Entries, false), "do"
	}
	return fmt.Sprintf("%s %s %s %s, and %s of %s %s not let it %s the subnet %s; Nephele does not change what filters a subnet",
		cloud.Listed(policies, false), allow, o.Direction, cloud.Listed(flows, false), by, cloud.Words(cmp.Or(o.Name, o.ACL)), let, side, o.Subnet[strings.LastIndexByte(o.Subnet, '/')+1:])
}

// Obstructions says it of several, in one text.
func Obstructions(all []plan.Obstruction) string {
	texts := make([]string, len(all))
	for i, o := range all {
		texts[i] = Obstruction(o)
	}
	return strings.Join(texts, "; ")
}
