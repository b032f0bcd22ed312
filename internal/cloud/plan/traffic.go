package plan

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// traffic is what a rule of a security group matches, whoever its peer is.
type traffic struct {
	direction cloud.Direction
	match     cloud.Match
}

func trafficOf(r cloud.Rule) traffic { return traffic{r.Direction, r.Match} }

// saying returns the rules of policies that allow, or drop, some traffic of a class, in the order
// of evaluation.
func saying(c *form.Class, verdict intent.Verdict, about traffic) (out []*intent.Bound) {
	if c.NICs[0].VM == nil {
		return nil
	}
	service := flow.ServiceOf(about.match)
	for _, b := range c.NICs[0].VM.Effective {
		says := b.Verdict == verdict || b.Verdict == intent.Grant && verdict == intent.Allow
		if says && b.Direction == about.direction && b.Concerns(service) {
			out = append(out, b)
		}
	}
	return out
}
