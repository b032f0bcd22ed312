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
	// Bound is what an interface can be allowed at most, whatever the form of its rules. What
	// exceeds it is refused without a try, so it must never be too low.
	Bound(q Quota) Bound
	// Uses counts what rules take of each limit that holds for one group. A limit that the rules do
	// not use may be left out.
	Uses(rules []cloud.Rule, q Quota) []Use
}

// Bound is what no rules of an interface can exceed.
type Bound struct {
	// Blocks bounds the blocks of addresses that the rules of one direction and family name.
	Blocks int
	// Groups bounds the groups that the rules of one direction name.
	Groups int
	// BlocksOf and GroupsOf name the limits that these come from, ingress first.
	BlocksOf [2]string
	GroupsOf string
}

// Use is how much rules take of a limit that holds for one group.
type Use struct {
	// Name says what is counted, for people, and Where which rules are meant if not all.
	Name, Where string
	Used, Limit int
}

// Quota is what bounds the rules of an interface.
type Quota struct {
	cloud.Limits
	// Lists are the prefix lists of the region by ID, whose size counts.
	Lists map[string]*cloud.PrefixList
}

// Shortage is a quota that a set of rules exceeds.
type Shortage struct {
	// Quota names the limit: one of those that a reason.Lack can be about.
	Quota     string
	Direction cloud.Direction
	// Family is "IPv4" or "IPv6".
	Family string
	// Needed and Available count rules of one interface in that direction and family, or whatever
	// else the quota counts.
	Needed, Available int
	// AtLeast is true if so much is needed that the exact number was not looked for: Needed is not
	// more than that.
	AtLeast bool
}

// QuotaOf is what bounds the rules of an interface of the region.
func QuotaOf(r *intent.Region) Quota { return Quota{r.Limits, r.Lists} }
