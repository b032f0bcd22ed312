package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
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
	denied := joined(o.Denied)
	for _, g := range denied {
		service := g.Service.String()
		if g.Service == flow.Any() && len(denied) > 1 {
			service = "any other protocol"
		}
		for _, b := range g.All.Blocks() {
			flows = append(flows, fmt.Sprintf("%s %s %s", service, toFrom, b.Text(mostExceptions)))
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
	filter, subnet := cloud.Words(cmp.Or(o.Name, o.ACL)), o.Subnet[strings.LastIndexByte(o.Subnet, '/')+1:]
	return fmt.Sprintf("%s %s %s %s, and %s of %s %s not let it %s the subnet %s; Nephele does not change what filters a subnet",
		cloud.Listed(policies, false), allow, o.Direction, cloud.Listed(flows, false), by, filter, let, side, subnet)
}

// joined puts services together that follow one another and are denied to the same addresses, and
// leaves out protocols that are denied as all others are. The last of the grants may be about all
// protocols that none of them names.
func joined(grants []flow.Grant) (out []flow.Grant) {
	for _, g := range grants {
		if n := len(out) - 1; n >= 0 && out[n].Service.Protocol == g.Service.Protocol && int(out[n].Service.To)+1 == int(g.Service.From) && out[n].All.Equal(g.All) {
			out[n].Service.To = g.Service.To
			continue
		}
		out = append(out, g)
	}
	if n := len(out) - 1; n > 0 && out[n].Service == flow.Any() {
		others := out[n].All
		out = slices.DeleteFunc(out, func(g flow.Grant) bool {
			p := g.Service.Protocol
			return p != cloud.AnyProtocol && g.Service == flow.Whole(p) && g.All.Equal(others.Intersect(flow.Family(p)))
		})
	}
	return out
}

// Obstructions says it of several, in one text.
func Obstructions(all []plan.Obstruction) string {
	texts := make([]string, len(all))
	for i, o := range all {
		texts[i] = Obstruction(o)
	}
	return strings.Join(texts, "; ")
}
