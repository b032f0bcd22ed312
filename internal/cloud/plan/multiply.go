package plan

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// manyRules is how many rules by address for the same traffic want a reason.
const manyRules = 4

// fewExceptions is how many exceptions of a block that is taken out are named.
const fewExceptions = 3

// multiplied says why there are more rules by address than policies ask for: what another policy
// takes out of a block leaves pieces, each of which needs a rule. It is nil if there is no such
// reason.
func (e *emitter) multiplied(c *form.Class, rules []cloud.Rule) *reason.Reason {
	count := map[traffic]int{}
	for _, r := range rules {
		if r.Peer.CIDR.IsValid() {
			count[trafficOf(r)]++
		}
	}
	for _, r := range rules { // in their order, so that the same is said always
		what := trafficOf(r)
		n := count[what]
		delete(count, what)
		if n < manyRules {
			continue
		}
		asked, allowed := 0, addrset.Set{}
		for _, b := range saying(c, intent.Allow, what) {
			addrs := e.r.region.PeerAddrs(b, c.Network)
			asked, allowed = asked+len(addrs.Prefixes()), allowed.Union(addrs)
		}
		if n <= asked {
			continue
		}
		for _, b := range saying(c, intent.Drop, what) {
			taken := e.r.region.PeerAddrs(b, c.Network).Intersect(allowed)
			if taken.Empty() {
				continue
			}
			objects := []string{r.Match.String(), b.Policy.Ref.Short()}
			for _, b := range taken.Blocks() {
				objects = append(objects, b.Text(fewExceptions))
			}
			return reason.Why(reason.TakenApart, objects...).Counting(n)
		}
	}
	return nil
}

// traffic is what a rule of a security group matches, without its peer.
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
