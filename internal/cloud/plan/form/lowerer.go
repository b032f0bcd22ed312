package form

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// Lowerer is the part of the compilation that depends on the cloud. All methods are pure.
type Lowerer interface {
	// Unsupported says why the cloud cannot hold rules for the service exactly; empty if it can.
	Unsupported(s flow.Service) string
	// Lower returns the rules that allow exactly the traffic, sorted by cloud.Rule.Compare and
	// without duplicates.
	Lower(t flow.Traffic) []cloud.Rule
	// Pack distributes the wanted rules over groups within the quota. held[i] are the rules of the
	// class's i-th group as it is now; wanted rules that are in it stay there if possible. It
	// returns at least one group. A shortage is described by a non-nil *Shortage, and then the
	// groups are nil; whether there is one does not depend on held.
	Pack(wanted []cloud.Rule, held [][]cloud.Rule, q Quota) ([][]cloud.Rule, *Shortage)
	// Fits reports whether one group can hold the rules within the quota.
	Fits(rules []cloud.Rule, q Quota) bool
}

// Quota is what bounds the rules of an interface.
type Quota struct {
	cloud.Limits
	// Lists are the prefix lists of the region by ID, whose size counts.
	Lists map[string]*cloud.PrefixList
}

// Shortage is a quota that a set of rules exceeds.
type Shortage struct {
	Direction cloud.Direction
	// Family is "IPv4" or "IPv6".
	Family string
	// Needed and Available count rules of one interface in that direction and family.
	Needed, Available int
	// RulesPerGroup is the smallest quota "rules per group" that would do, other quotas unchanged.
	RulesPerGroup int
	// AtLeast is true if so much is needed that the exact number was not looked for: Needed and
	// RulesPerGroup are not more than that.
	AtLeast bool
}

// QuotaOf is what bounds the rules of an interface of the region.
func QuotaOf(r *intent.Region) Quota { return Quota{r.Limits, r.Lists} }
