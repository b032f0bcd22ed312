package plan

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// manyRules is how many rules by address for the same traffic want a reason.
const manyRules = 4

// multiplied says why there are more rules by address than policies ask for: what another policy
// takes out of a block leaves pieces, each of which needs a rule. It is nil if there is no such
// reason.
func (e *emitter) multiplied(c *form.Class, rules []cloud.Rule) *intent.Reason {
	if c.NICs[0].VM == nil {
		return nil
	}
	type traffic struct {
		direction cloud.Direction
		match     cloud.Match
	}
	count := map[traffic]int{}
	for _, r := range rules {
		if r.Peer.CIDR.IsValid() {
			count[traffic{r.Direction, r.Match}]++
		}
	}
	for _, r := range rules { // in their order, so that the same is said always
		what := traffic{r.Direction, r.Match}
		n := count[what]
		delete(count, what)
		if n < manyRules {
			continue
		}
		service := flow.ServiceOf(r.Match)
		asked, allowed := 0, addrset.Set{}
		for _, b := range c.NICs[0].VM.Effective {
			if b.Direction == r.Direction && (b.Verdict == intent.Allow || b.Verdict == intent.Grant) && b.Concerns(service) {
				addrs := e.PeerAddrs(b, c.Network)
				asked, allowed = asked+len(addrs.Prefixes()), allowed.Union(addrs)
			}
		}
		if n <= asked {
			continue
		}
		for _, b := range c.NICs[0].VM.Effective {
			taken := e.PeerAddrs(b, c.Network).Intersect(allowed)
			if b.Direction != r.Direction || b.Verdict != intent.Drop || !b.Concerns(service) || taken.Empty() {
				continue
			}
			var blocks []string
			for _, p := range taken.Prefixes() {
				if p.IsSingleIP() {
					blocks = append(blocks, p.Addr().String())
					continue
				}
				blocks = append(blocks, p.String())
			}
			return intent.Why(intent.TakenApart, append([]string{r.Match.String(), b.Policy.Ref.Short()}, blocks...)...).Counting(n)
		}
	}
	return nil
}
